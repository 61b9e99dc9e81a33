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

UNTRACED = "HOUSE_UNTRACED"
"""Environment variable of a process that does not matter for the trace."""

_IDLE = ord("-")
"""The phase that belongs to no call."""

_OPTIMISED = 0x1
"""Flag of the code of a function; that of a module or a class lacks it."""


def start(folder: str) -> None:
    """Trace this process and all threads that it starts from now on, unless UNTRACED is set."""
    if os.environ.get(UNTRACED):
        return
    with open(os.path.join(folder, "phase"), "rb") as file:
        phase = mmap.mmap(file.fileno(), 1, access=mmap.ACCESS_READ)
    log = os.open(os.path.join(folder, "log"), os.O_WRONLY | os.O_APPEND)
    seen: set[tuple[int, str]] = set()

    def trace(frame: FrameType, _event: str, _argument: object) -> None:
        """Called when a function begins; returns None, so that no line of it is traced."""
        now = phase[0]
        if now == _IDLE or (now, frame.f_code.co_filename) in seen:
            return
        if frame.f_code.co_flags & _OPTIMISED:
            seen.add((now, frame.f_code.co_filename))
            os.write(log, f"{chr(now)} {frame.f_code.co_filename}\n".encode())

    # Not setprofile, which is also called for every return and every function in C.
    threading.settrace(trace)
    sys.settrace(trace)
