"""The state's files: rows of releases, files of black boxes, runs of audits.

With SQLite the files are in the state's folder, and nowhere else. If controllers share a database, the
files are in the database, in pieces by the digest of the whole; the folder has copies for the processes
that read and write files. A leadership begins without copies, so no copy is out of date.
"""

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import asdict
from pathlib import Path

from sqlalchemy import Connection, delete, func, insert, select

from gencard.controller.base.disk import KEPT, ROWS, StateFiles, StoredFile, write_whole
from gencard.controller.state.database import Database, insert_if_absent
from gencard.controller.state.tables import files, pieces
from gencard.core.errors import StorageError

_PIECE = 1 << 20
"""Bytes; a statement of a release of any size needs little memory."""
_AT_A_TIME = 8
"""Number of pieces in one transaction, for which other writers wait."""
_COPIES = "copies"
_ADOPTED = (ROWS, KEPT)
"""Folders of files that were on the disk alone before controllers shared a database."""


class SharedFiles(StateFiles):
    """The state's files if controllers share its database.

    Args:
        place: The state's folder on this machine.
    """

    shared = True

    def __init__(self, database: Database, place: Path) -> None:
        super().__init__(place / _COPIES)
        self._database, self._place = database, place

    def begin(self) -> None:
        """At the start of a service: no copies of an earlier time, and no pieces of unfinished files.

        Raises:
            StorageError: The database or the folder failed.
        """
        shutil.rmtree(self.folder, ignore_errors=True)
        for part in _ADOPTED:
            for path in sorted((self._place / part).glob("**/[!.]*")):
                name = path.relative_to(self._place).as_posix()
                if path.is_file() and not self.stored(name):
                    self._put(name, path)
        with self._database.transaction() as tx:
            tx.execute(delete(pieces).where(pieces.c.digest.not_in(select(files.c.digest))))

    def path(self, name: str) -> Path:
        """Return the file's path, fetched if only the database has the file; no file need exist there.

        Raises:
            StorageError: The file cannot be fetched, or differs from the stored file.
        """
        path = self.folder / name
        if path.exists():
            return path
        with self._database.reading() as tx:
            row = tx.execute(select(files).where(files.c.name == name)).mappings().one_or_none()
            if row is not None:
                with suppress(OSError):
                    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_whole(path, _pieces_of(tx, row["digest"], row["size"]))
        return path

    def stored(self, prefix: str) -> tuple[str, ...]:
        """Return the sorted names in the database with this prefix."""
        with self._database.reading() as tx:
            query = select(files.c.name).where(files.c.name.startswith(prefix, autoescape=True))
            return tuple(tx.scalars(query.order_by(files.c.name)))

    def send(self, name: str) -> StoredFile:
        """Bring a written file's pieces into the database."""
        return self._send(name, self.folder / name)

    def keep(self, tx: Connection, stored: StoredFile | None) -> None:
        """Name it in the transaction that speaks of it."""
        if stored is not None:
            tx.execute(delete(files).where(files.c.name == stored.name))
            tx.execute(insert(files).values(asdict(stored)))

    def put(self, name: str) -> None:
        self._put(name, self.folder / name)

    def forget(self, prefix: str, tx: Connection | None = None) -> None:
        """Take files out of the database, and their pieces; raises StorageError.

        Args:
            tx: A writing transaction of which this is to be a part.
        """
        if not self.stored(prefix):
            return
        with nullcontext(tx) if tx else self._database.transaction() as writing:
            statement = delete(files).where(files.c.name.startswith(prefix, autoescape=True))
            digests = set(writing.scalars(statement.returning(files.c.digest)))
            digests_used = select(files.c.digest).where(files.c.digest.in_(digests))
            unused = digests - set(writing.scalars(digests_used))
            writing.execute(delete(pieces).where(pieces.c.digest.in_(unused)))

    def _put(self, name: str, path: Path) -> None:
        stored_file = self._send(name, path)
        with self._database.transaction() as tx:
            self.keep(tx, stored_file)

    def _send(self, name: str, path: Path) -> StoredFile:
        digest, size = _digest_of(path)
        with self._database.reading() as tx:
            there = tx.scalar(select(func.count()).where(pieces.c.digest == digest))
        parts = list(range(0, size, _PIECE))
        for first in range(0, 0 if there == len(parts) else len(parts), _AT_A_TIME):
            with self._database.transaction() as tx:
                for number in range(first, min(first + _AT_A_TIME, len(parts))):
                    row = {"digest": digest, "number": number, "bytes": _read(path, parts[number])}
                    insert_if_absent(tx, pieces, row)
        return StoredFile(name, digest, size)


def _pieces_of(tx: Connection, digest: str, size: int) -> Iterator[bytes]:
    """Yield the pieces of a file; raises OSError if they do not make up the file."""
    hasher = hashlib.sha256()
    for number in range(-(-size // _PIECE)):
        condition = (pieces.c.digest == digest) & (pieces.c.number == number)
        piece = bytes(tx.scalar(select(pieces.c.bytes).where(condition)) or b"")
        hasher.update(piece)
        yield piece
    if hasher.hexdigest() != digest:
        raise OSError


def _digest_of(path: Path) -> tuple[str, int]:
    """SHA-256, in hex, and number of bytes."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest(), os.fstat(file.fileno()).st_size
    except OSError:
        pass
    raise StorageError


def _read(path: Path, place: int) -> bytes:
    try:
        with path.open("rb") as file:
            return os.pread(file.fileno(), _PIECE, place)
    except OSError:
        pass
    raise StorageError
