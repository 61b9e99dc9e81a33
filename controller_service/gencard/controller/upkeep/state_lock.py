"""One service at a time on one state: two would each clear and take up the other's work."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gencard.core.errors import InvalidInputError, StorageError

PATIENCE = 2.0
"""Seconds that a service which was killed may take until all its threads are gone."""


@contextmanager
def state_lock(folder: Path) -> Iterator[None]:
    """Hold the state's folder alone; the system lets go of it too when the process dies.

    Raises:
        InvalidInputError: Another service holds it.
        StorageError: The folder cannot be written.
    """
    lock = _opened(folder / "lock")
    try:
        if not _taken(lock):
            raise InvalidInputError(field="state.folder", problem="is in use by another service")
        yield
    finally:
        os.close(lock)


def _opened(path: Path) -> int:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        pass
    raise StorageError


def _taken(lock: int) -> bool:
    end = time.monotonic() + PATIENCE
    while not (taken := _took(lock)) and time.monotonic() < end:
        time.sleep(0.05)
    return taken


def _took(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
