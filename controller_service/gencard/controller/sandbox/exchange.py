"""A request into a process and its answer out, in bounds of time and length."""

import os
import select
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import IO

from gencard.core.errors import BlackBoxError, JobLimitError

_AT_ONCE = 1 << 18


def exchange(
    into: IO[bytes], out: IO[bytes], request: bytes, *, most: int, seconds: float
) -> Iterator[bytes]:
    """Yield the answer as it comes, until the other side closes its output.

    Args:
        most: Bytes that the answer may have.
        seconds: From now until all of it must be there.

    Raises:
        BlackBoxError: The answer is longer.
        JobLimitError: It takes longer.
    """
    end = time.monotonic() + seconds
    threading.Thread(target=_write, args=(into, request), daemon=True).start()
    while data := _next(out, end, min(_AT_ONCE, most + 1)):
        most -= len(data)
        if most < 0:
            raise BlackBoxError(problem="its answer is too long")
        yield data


def _next(out: IO[bytes], end: float, at_once: int) -> bytes:
    ready = select.poll()
    ready.register(out, select.POLLIN)
    if not ready.poll(1_000 * max(0.0, end - time.monotonic())):
        raise JobLimitError(what="time for one run of a black box")
    return os.read(out.fileno(), at_once)


def _write(into: IO[bytes], request: bytes) -> None:
    """Whoever does not read it all is not made to."""
    with suppress(OSError, ValueError), into:
        into.write(request)
