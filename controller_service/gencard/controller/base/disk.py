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

_MIB = 1 << 20


def write_whole(path: Path, parts: Iterable[bytes | memoryview], *, lasting: bool = True) -> None:
    """Put bytes there, over what was there, and on the disk before this returns.

    Args:
        lasting: False for a file that is of no use after a failure of the machine: it may reach the disk
            later, or never.

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
    """Raises StorageReserveError where only ledger and log may still write."""
    if free(folder) < reserve_mib * _MIB:
        raise StorageReserveError(reserve=reserve_mib)


def reserve_warning(folder: Path, reserve_mib: int) -> str:
    """Return the sentence for a steward where space is below the reserve; empty above it."""
    try:
        check_space(folder, reserve_mib)
    except StorageReserveError as error:
        return f"{error.message} Until then, no card, offer or operation can start. {error.advice}"
    return ""


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
        raise InvalidInputError(
            field="folder", problem="is not empty, and no file is overwritten; choose another folder"
        )


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


IN_FORCE = "in_force.json"
"""Statement of the running service about its settings, in the state's folder; no part of the state."""

ROWS, KEPT, JOURNALS = "releases", "kept", "journals"
"""Where rows of releases lie, what black boxes left, and the runs of audits that have not ended."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file whose bytes are in a database that controllers share."""

    name: str
    digest: str
    size: int


class StateFiles:
    """The state's files by name, such as ``releases/1a2b.rows``: in its folder, and nowhere else.

    Where controllers share a database, ``SharedFiles`` has them there too.
    """

    shared = False
    """Whether other controllers may come to read them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        """Where files are written, and found once ``path`` was asked for them."""

    def begin(self) -> None:
        """At the start of a service."""

    def path(self, name: str) -> Path:
        """Where the file lies; there may be none. Raises StorageError where it cannot be had."""
        return self.folder / name

    def send(self, name: str) -> StoredFile | None:  # noqa: ARG002  # see SharedFiles
        """Bring a written file to where others find it; ``keep`` makes it a file of the state.

        Returns:
            None where the folder is enough.

        Raises:
            StorageError: The file or the database failed.
            NotLeadingError: Another controller has taken over.
        """
        return None

    def keep(self, tx: "Connection", stored: StoredFile | None) -> None:
        """Make what ``send`` returned a file of the state, in the transaction that speaks of it."""

    def put(self, name: str) -> None:
        """``send`` and ``keep`` together; raises as they do."""

    def stored(self, prefix: str) -> tuple[str, ...]:  # noqa: ARG002  # see SharedFiles
        """Names outside the folder that begin so, in order."""
        return ()

    def forget(self, prefix: str, tx: "Connection | None" = None) -> None:
        """Have those outside the folder gone, as a part of ``tx`` where that is given."""
