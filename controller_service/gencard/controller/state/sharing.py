"""Controllers that share a database: only the newest leader writes; the state's files are in it too.

The leader holds an advisory lock of PostgreSQL in a session of its own. The database releases the lock
when the process dies, and when the session is silent for ``SILENCE`` seconds, because the process was
suspended or the machine is gone. A controller that takes the lock then begins a new leadership, whose
number and name every write checks. A suspended leader that resumes can therefore read, and not write.
The machine of a leader keeps number and name: commands on this machine write by them, and are refused on
other machines.
"""

import hashlib
import os
import secrets
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from io import BufferedReader
from pathlib import Path

from sqlalchemy import Connection, create_engine, delete, func, insert, select, text, update
from sqlalchemy.exc import ProgrammingError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from gencard.controller.base.disk import KEPT, ROWS, StateFiles, StoredFile, write_whole
from gencard.controller.state.database import SESSIONS, Database, Fence, insert_if_absent, translated
from gencard.controller.state.tables import events, files, leader, pieces
from gencard.core.errors import InvalidInputError, StorageError

# The state's files: rows of releases, files of black boxes, runs of audits.
#
# With SQLite the files are in the state's folder, and nowhere else. If controllers share a database, the
# files are in the database, in pieces by the digest of the whole; the folder has copies for the
# processes that read and write files. A leadership begins without copies, so no copy is out of date.


_PIECE = 1 << 20
"""Bytes; a statement of a release of any size needs little memory."""
_AT_A_TIME = 8
"""Number of pieces in one transaction, for which other writers wait."""
_ADOPTED = (ROWS, KEPT)
"""Folders of files that were on the disk alone before controllers shared a database."""


class SharedFiles(StateFiles):
    """The state's files if controllers share its database."""

    shared = True

    def __init__(self, database: Database, place: Path) -> None:
        super().__init__(place / "copies")
        self._database, self._place = database, place

    def begin(self) -> None:
        """Start a service: no earlier copies, no pieces of unfinished files; raises StorageError."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for part in _ADOPTED:
            for path in sorted((self._place / part).glob("**/[!.]*")):
                name = path.relative_to(self._place).as_posix()
                if path.is_file() and not self.stored(name):
                    self.put(name, path)
        with self._database.transaction() as tx:
            tx.execute(delete(pieces).where(pieces.c.digest.not_in(select(files.c.digest))))

    def path(self, name: str) -> Path:
        """Return the file's path, fetched if only the database has the file; raises StorageError."""
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

    def send(self, name: str, path: Path | None = None) -> StoredFile:
        """Bring a written file's pieces into the database; ``path`` if it lies elsewhere."""
        path = path or self.folder / name
        with _opened(path) as file:
            digest, size = (
                hashlib.file_digest(file, "sha256").hexdigest(),
                os.fstat(file.fileno()).st_size,
            )
        with self._database.reading() as tx:
            there = tx.scalar(select(func.count()).where(pieces.c.digest == digest))
        parts = list(range(0, size, _PIECE))
        for first in range(0, 0 if there == len(parts) else len(parts), _AT_A_TIME):
            with self._database.transaction() as tx:
                for number in range(first, min(first + _AT_A_TIME, len(parts))):
                    with _opened(path) as file:
                        piece = os.pread(file.fileno(), _PIECE, parts[number])
                    insert_if_absent(tx, pieces, {"digest": digest, "number": number, "bytes": piece})
        return StoredFile(name, digest, size)

    def keep(self, tx: Connection, stored: StoredFile | None) -> None:
        """Name it in the transaction that speaks of it."""
        if stored is not None:
            tx.execute(delete(files).where(files.c.name == stored.name))
            tx.execute(insert(files).values(asdict(stored)))

    def put(self, name: str, path: Path | None = None) -> None:
        stored_file = self.send(name, path)
        with self._database.transaction() as tx:
            self.keep(tx, stored_file)

    def forget(self, prefix: str, tx: Connection | None = None) -> None:
        """Delete files in the database, in transaction ``tx`` if given; raises StorageError."""
        if not self.stored(prefix):
            return
        with nullcontext(tx) if tx else self._database.transaction() as writing:
            statement = delete(files).where(files.c.name.startswith(prefix, autoescape=True))
            digests = set(writing.scalars(statement.returning(files.c.digest)))
            digests_used = select(files.c.digest).where(files.c.digest.in_(digests))
            unused = digests - set(writing.scalars(digests_used))
            writing.execute(delete(pieces).where(pieces.c.digest.in_(unused)))


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


@contextmanager
def _opened(path: Path) -> Iterator[BufferedReader]:
    """Open a file for reading; raises StorageError if that, or reading it in the block, fails."""
    try:
        with path.open("rb") as file:
            yield file
            return
    except OSError:
        pass
    error = StorageError()
    try:
        raise error
    finally:
        error.__context__ = None  # the with statement that calls us has put the system's error there


# Leadership.


SILENCE = 5
"""Seconds after which the database gives a silent leader up."""
LOOK_EVERY = 0.5
"""Seconds between two looks: of a standby at the lock, of a leader at its session."""
_LOCK = 0x67656E6C656164
"""Number of the leader's advisory lock in PostgreSQL: the text "genlead" as bytes."""
_AFTER_RESTORE = 1_000
"""Number of leaderships that a restore skips: more than a controller can have seen since the backup."""
_NOTE_EVERY = 10
"""Number of checks between two notes on the disk."""
_MARK = "leads"
"""File of a controller: number and name of its last leadership, by which commands here may write."""
_ELSEWHERE = (
    "Run the command on the machine of the leading controller; if there is none, start one here."
)


@dataclass(frozen=True, slots=True)
class Seen:
    """State that a controller has seen: number of leaderships and of entries of the log."""

    number: int = 0
    entries: int = 0

    @classmethod
    def read(cls, file: Path) -> "Seen":
        """Read the note of the controller on this machine; an empty one if there is no note."""
        with suppress(OSError, ValueError, TypeError):
            return cls(*map(int, file.read_text().split()))
        return cls()

    def is_older_than(self, other: "Seen") -> bool:
        """Whether entries are gone, and no steward took that into service."""
        return self.entries < other.entries and self.number < other.number + _AFTER_RESTORE // 2


class Leadership:
    """One controller's part in the leadership.

    Args:
        folder: Folder of this controller, in which it notes how far it has seen the state.
        on_loss: Called once, from another thread, when the leadership is over.

    Raises:
        InvalidInputError: The server is too old.
        StorageError: The server cannot be reached.
    """

    def __init__(self, url: str, folder: Path, on_loss: Callable[[], None] = lambda: None) -> None:
        self._url, self._on_loss, self._file = url, on_loss, folder / "seen"
        self._mark = folder / _MARK
        self._seen, self._looks = Seen.read(self._file), 0
        self._holder = secrets.token_hex(16)
        with translated():
            self._engine = create_engine(
                url,
                hide_parameters=True,
                poolclass=NullPool,
                # idle_session_timeout, which ends a silent leader, does not count time inside a
                # transaction: none may stay open.
                isolation_level="AUTOCOMMIT",
                connect_args={"application_name": f"{SESSIONS}lock", "connect_timeout": SILENCE},
            )
            self._held: Connection | None = self._opened()
        self.lost, self._ended = threading.Event(), threading.Event()
        self._watch = threading.Thread(target=self._watching, name="leadership", daemon=True)
        self.fence: Fence | None = None

    def try_lead(self) -> bool:
        """Take the lead if it is free; earlier leaders' sessions end first. Raises as ``migrate``."""
        try:
            if not self._try_lock():
                self._look()
                return False
            # In this order: the lock keeps other standbys out; then sessions of earlier leaders end,
            # whose locks would block the new leadership; then the fence moves on. A late write fails at
            # the fence, if its session has survived.
            self._session().execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND usename = current_user"
                    " AND application_name LIKE :earlier AND application_name <> :locks"
                ),
                {"earlier": f"{SESSIONS}%", "locks": f"{SESSIONS}lock"},
            )
        except SQLAlchemyError:
            self._drop()
            return False
        database = Database(self._url)
        try:
            database.migrate()
            with database.transaction() as tx:
                moved_on = update(leader).values(fence=leader.c.fence + 1, holder=self._holder)
                number = tx.execute(moved_on.returning(leader.c.fence)).scalar_one()
                self.fence = Fence(number, self._holder, self._lose)
        finally:
            database.close()
        self._write(self._mark, self.fence.number, self._holder)
        self._watch.start()
        return True

    def close(self) -> None:
        """Release the leadership, so that another controller can lead at once."""
        self._ended.set()
        if self._watch.is_alive():
            self._watch.join()
        self._note()
        self._drop()

    def check(self) -> None:
        """Raise InvalidInputError for a state that is earlier than what this controller has seen."""
        with translated(), self._engine.connect() as session:
            present = _present(session)
        if present.is_older_than(self._seen):
            problem = (
                "holds an older state than this controller has seen; restore it with "
                "`gencard-controller restore`"
            )
            raise InvalidInputError(field="state.url", problem=problem)

    def restored(self) -> None:
        """Note that a steward accepted the state: all controllers may serve it. Raises StorageError."""
        with translated(), self._engine.connect() as session:
            number = max(_present(session).number, self._seen.number) + _AFTER_RESTORE
            session.execute(update(leader).values(fence=number))
            self._seen = _present(session)
        self._write(self._mark, number, self._holder)
        self._note()

    @staticmethod
    def _write(file: Path, number: int, other: str | int) -> None:
        # without its mark a machine's commands are refused; of notes, the next one may do
        with suppress(StorageError, OSError):
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(file, [f"{number} {other}\n".encode()])

    def _look(self) -> None:
        """Note how far the state is; a database without tables has no state yet."""
        with suppress(ProgrammingError):
            present = _present(self._session())
            if not present.is_older_than(self._seen):
                self._seen = present
        self._looks += 1
        if self._looks % _NOTE_EVERY == 0:
            self._note()

    def _note(self) -> None:
        if Seen.read(self._file) != self._seen:
            self._write(self._file, self._seen.number, self._seen.entries)

    def _session(self) -> Connection:
        if self._held is None:
            self._held = self._opened()
        return self._held

    def _try_lock(self) -> bool:
        return bool(self._session().scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": _LOCK}))

    def _opened(self) -> Connection:
        session = self._engine.connect()
        # the first version that ends idle sessions by itself
        if (session.dialect.server_version_info or (0,)) < (14,):
            session.close()
            raise InvalidInputError(field="state.url", problem="needs PostgreSQL 14 or later")
        session.execute(text(f"SET idle_session_timeout = '{SILENCE}s'"))
        return session

    def _watching(self) -> None:
        while not self._ended.wait(LOOK_EVERY):
            with suppress(SQLAlchemyError, StorageError):
                if not self._still_leads():
                    self._drop()
                    self._lose()
                    return
                self._look()

    def _still_leads(self) -> bool:
        """Whether this controller holds the lock; it takes it again after a restart of the database."""
        if self._held is not None:
            with suppress(SQLAlchemyError):
                # This also keeps the session from being idle for SILENCE seconds, after which the server
                # would end it and with it the lock.
                self._held.execute(text("SELECT 1"))
                return True
            self._drop()
        try:
            if not self._try_lock():
                return False
            # another controller may have led in between
            return bool(self._session().scalar(select(leader.c.holder)) == self._holder)
        except SQLAlchemyError:
            self._drop()
            raise

    def _drop(self) -> None:
        if self._held is not None:
            with suppress(SQLAlchemyError):
                self._held.invalidate()  # closed, and so without the lock
                self._held.close()
            self._held = None

    def _lose(self) -> None:
        if not self.lost.is_set():
            self.lost.set()
            self._on_loss()


def fence_of_machine(url: str, folder: Path) -> Fence | None:
    """Return the fence for commands on this machine: its controller's last leadership, while it lasts.

    Rules and people are files of a machine, so another machine would decide by rules that are not in
    force. Before the first leadership every machine may write. None with SQLite. Raises as
    ``Database.migrate``.
    """
    database = Database(url)
    try:
        if not database.shared:
            return None
        database.migrate()
    finally:
        database.close()
    number, holder = 0, ""
    with suppress(OSError, ValueError):
        first, _, holder = (folder / _MARK).read_text().strip().partition(" ")
        number = int(first)
    return Fence(number, holder, lambda: None, _ELSEWHERE)


def _present(session: Connection) -> Seen:
    last = select(func.max(events.c.index)).scalar_subquery()
    number, newest = session.execute(select(leader.c.fence, last)).one()
    return Seen(number, 0 if newest is None else newest + 1)
