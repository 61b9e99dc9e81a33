"""Writes down which files of ours run, in each process that imports it; a copy is put on its path.

A byte in the file ``phase`` of its folder says what the session does at the moment, and the file
``log`` gets one line, ``phase file``, for the first function of a file that is called in a phase.
Importing a module does not count as running it.
"""

import mmap
import os
import sys
import threading
from types import FrameType

_OPTIMISED = 0x1
"""Flag of the code of a function; that of a module or a class lacks it."""


def start(folder: str) -> None:
    """Trace this process and all threads that it starts from now on."""
    with open(os.path.join(folder, "phase"), "rb") as file:
        phase = mmap.mmap(file.fileno(), 1, access=mmap.ACCESS_READ)
    log = os.open(os.path.join(folder, "log"), os.O_WRONLY | os.O_APPEND)
    seen: set[tuple[int, str]] = set()

    def trace(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_flags & _OPTIMISED:
            return
        key = (phase[0], code.co_filename)
        if key not in seen:
            seen.add(key)
            os.write(log, f"{chr(key[0])} {key[1]}\n".encode())

    threading.setprofile(trace)
    sys.setprofile(trace)
