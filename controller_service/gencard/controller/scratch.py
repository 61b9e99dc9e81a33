"""A private folder for work in progress, gone when the work is."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gencard.core.errors import InvalidInputError, StorageError


@contextmanager
def claimed(work: Path) -> Iterator[None]:
    """The work is this process's alone: another that began there would throw it away.

    Raises:
        InvalidInputError: Another process has claimed it, and lives.
        StorageError: It cannot be claimed.
    """
    descriptor = _opened(work.with_name(f"{work.name}.lock"))
    try:
        if not _locked(descriptor):
            problem = "is claimed: another controller serves from it"
            raise InvalidInputError(field="state.folder", problem=problem)
        yield
    finally:
        os.close(descriptor)  # the claim ends with it, or with the process


def clear(work: Path) -> None:
    """Throw away what a crash left there; what is begun again makes its folder anew."""
    shutil.rmtree(work, ignore_errors=True)


@contextmanager
def scratch_folder(work: Path, name: str) -> Iterator[Path]:
    """A new folder, readable by its owner alone.

    Raises:
        StorageError: It cannot be made.
    """
    folder = work / name.replace("/", "-")
    if not _made(folder):
        raise StorageError
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _opened(file: Path) -> int:
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        pass
    raise StorageError


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _made(folder: Path) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(mode=0o700, parents=True)
    except OSError:
        return False
    return True
