"""Writes down which files of ours run, in each process that imports it; a copy is put on its path.

A byte in the file ``phase`` of its folder says what the session does at the moment. The file ``log``
gets one line, ``phase what file``, for the first function of a file that is called in a phase, and one
for every call of a function in a codec, also of each step of a generator. Importing a module does not
count as running it.
"""

import mmap
import os
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

UNTRACED = "HOUSE_UNTRACED"
"""Environment variable of a process that does not matter for the trace."""

RUN, CALL, TERMS = "run", "call", "terms"
"""Kinds of lines: a file runs, a codec's function is called, a codec made a message of terms."""

Ended = Callable[[FrameType, str, Any], None]

_IDLE = ord("-")
"""The phase that belongs to no call."""

_OPTIMISED = 0x1
"""Flag of the code of a function; that of a module or a class lacks it."""


def start(folder: str, codecs: frozenset[str]) -> None:
    """Trace this process and all threads that it starts from now on, unless UNTRACED is set.

    Args:
        codecs: Files whose calls are counted.
    """
    if os.environ.get(UNTRACED):
        return
    with open(os.path.join(folder, "phase"), "rb") as file:
        phase = mmap.mmap(file.fileno(), 1, access=mmap.ACCESS_READ)
    log = os.open(os.path.join(folder, "log"), os.O_WRONLY | os.O_APPEND)
    seen: set[tuple[int, str]] = set()
    made = threading.local()

    def write(now: int, what: str, file: str) -> None:
        os.write(log, f"{chr(now)} {what} {file}\n".encode())

    def ended(frame: FrameType, event: str, result: Any) -> None:
        """A message that a function got from another one and returns as it is counts once."""
        if event == "return" and type(result).__name__ == "Terms" and hasattr(result, "DESCRIPTOR"):
            if result is not getattr(made, "last", None):
                write(phase[0], TERMS, frame.f_code.co_filename)
            made.last = result

    def trace(frame: FrameType, _event: str, _argument: Any) -> Ended | None:
        """Called when a function begins; without an answer, the function is not followed."""
        now, file = phase[0], frame.f_code.co_filename
        if now == _IDLE or not frame.f_code.co_flags & _OPTIMISED:
            return None
        if (now, file) not in seen:
            seen.add((now, file))
            write(now, RUN, file)
        if file not in codecs:
            return None
        write(now, CALL, file)
        frame.f_trace_lines = False
        return ended

    # Not setprofile, which is also called for every return and every function in C.
    threading.settrace(trace)
    sys.settrace(trace)
