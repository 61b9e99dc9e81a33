"""A private folder for work in progress, gone when the work is."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gencard.core.errors import StorageError


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


def _made(folder: Path) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(mode=0o700, parents=True)
    except OSError:
        return False
    return True
