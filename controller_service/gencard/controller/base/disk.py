"""Files and folders that are there whole or not at all, and on the disk.

Workers write files too: nothing here takes long to import.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gencard.core.errors import InvalidInputError, StorageError, StorageReserveError

if TYPE_CHECKING:
    from sqlalchemy import Connection


def write_whole(path: Path, parts: Iterable[bytes | memoryview], *, lasting: bool = True) -> None:
    """Write a file whole, in place of an earlier one, which stays if StorageError is raised.

    It is synced to disk before the return, unless ``lasting`` is False: a file of no use after a
    failure.
    """
    draft: Path | None = None
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".")
        draft = Path(name)
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(parts)
            file.flush()
            if lasting:
                os.fsync(file.fileno())
        draft.replace(path)
        return
    except OSError:
        with suppress(OSError):
            if draft:
                draft.unlink()
    raise StorageError


def free_bytes(folder: Path) -> int:
    """Free space of the file system that holds a folder, in bytes."""
    return shutil.disk_usage(folder).free


def check_space(folder: Path, reserve_mib: int, free: Callable[[Path], int] = free_bytes) -> None:
    """Raise StorageReserveError if only ledger and log may still write."""
    if free(folder) < reserve_mib << 20:
        raise StorageReserveError(reserve=reserve_mib)


def reserve_warning(folder: Path, reserve_mib: int) -> str:
    """Return the sentence for a steward where space is below the reserve; empty above it."""
    try:
        check_space(folder, reserve_mib)
    except StorageReserveError as error:
        return f"{error.message} Until then, no card, offer or operation can start. {error.advice}"
    return ""


def flush_folder(folder: Path) -> None:
    """Sync a folder's entries to disk, before the state names one of them."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_new(folder: Path) -> None:
    """Raise InvalidInputError if the path is no folder, or the folder is not empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        problem = "is not empty, and no file is overwritten; choose another folder"
        raise InvalidInputError(field="folder", problem=problem)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Yield a draft folder that is renamed to ``folder`` after the block; raises OSError."""
    place = folder.absolute()
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name}."))
    try:
        yield draft
        draft.rename(place)
        flush_folder(place.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


IN_FORCE = "in_force.json"
"""Statement of the running service about its settings, in the state's folder; no part of the state."""

ROWS, KEPT, JOURNALS = "releases", "kept", "journals"
"""Folders of the state: rows of releases, files that black boxes left, journals of unfinished audits."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file whose bytes are in a database that controllers share."""

    name: str
    digest: str
    size: int


class StateFiles:
    """Files of the state by name, such as ``releases/1a2b.rows``, in the state's folder alone.

    If controllers share a database, ``SharedFiles`` stores the files there too.
    """

    shared = False
    """Whether other controllers may read the files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        """Folder in which files are written, and in which ``path`` makes them available."""

    def begin(self) -> None:
        """At the start of a service."""

    def path(self, name: str) -> Path:
        """Return the path, where no file need exist; raises StorageError if a fetch fails."""
        return self.folder / name

    def send(self, name: str) -> StoredFile | None:  # noqa: ARG002  # see SharedFiles
        """Store a written file for other controllers; None if the folder is enough.

        ``keep`` makes it a file of the state. Raises StorageError or NotLeadingError.
        """
        return None

    def keep(self, tx: "Connection", stored: StoredFile | None) -> None:
        """Make the file from ``send`` a file of the state, in the transaction that names it."""

    def put(self, name: str) -> None:
        """``send`` and ``keep`` together; raises as they do."""

    def stored(self, prefix: str) -> tuple[str, ...]:  # noqa: ARG002  # see SharedFiles
        """Return the sorted names with this prefix that are stored outside the folder."""
        return ()

    def forget(self, prefix: str, tx: "Connection | None" = None) -> None:
        """Delete the files with this prefix outside the folder, in transaction ``tx`` if given."""
