"""Files and folders that are there whole or not at all, and on the disk.

Workers write files too: nothing here takes long to import.
"""

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gencard.core.errors import InvalidInputError, StorageError


def write_whole(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Put bytes there, over what was there, and on the disk before this returns.

    Raises:
        StorageError: They cannot be written; what was there stays.
    """
    draft: Path | None = None
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".")
        draft = Path(name)
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        return
    except OSError:
        with suppress(OSError):
            if draft:
                draft.unlink()
    raise StorageError


def flush_folder(folder: Path) -> None:
    """Have the disk know the folder's present entries, before the state names one of them."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_new(folder: Path) -> None:
    """Raises InvalidInputError where a folder holds something already, or is none."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInputError(field="folder", problem="is not empty, and no file is overwritten")


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A draft, beside the folder that it becomes once the block has filled it; raises OSError."""
    place = folder.absolute()
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name}."))
    try:
        yield draft
        draft.rename(place)
        flush_folder(place.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
