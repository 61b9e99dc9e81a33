"""The connection to SQLite or PostgreSQL: one writer at a time, database errors translated here.

Also what all stores need of it: an insert unless the key is taken, and pages of a growing list.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from sqlalchemy import (
    Column,
    Connection,
    Select,
    Table,
    create_engine,
    delete,
    event,
    insert,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.schema import CreateColumn

from gencard.controller.base.fair_use import FairLock
from gencard.controller.state.tables import announced, leader, measures, metadata, revision
from gencard.core.errors import (
    InvalidInputError,
    NotFoundError,
    NotLeadingError,
    StorageError,
    forget_frames,
)

# The one migration: makes the tables, or adds to a state of an earlier revision what it lacks.
#
# Most changes of ``tables`` are additions: a table, an index, a column with a default. These need no
# code here, only a new number for ``NEWEST``. Other changes are steps of ``upgrade``.

NEWEST = "0015"
_EARLIER = frozenset(f"{number:04}" for number in range(1, int(NEWEST)))
"""Revisions whose states are upgraded; 0001 to 0014 were steps of alembic."""


def revision_of(tx: Connection) -> str:
    """Revision of the tables; empty if the database names none, or more than one."""
    if not inspect(tx).has_table(revision.name):
        return ""
    numbers = tx.execute(select(revision.c.version_num)).scalars().all()
    return numbers[0] if len(numbers) == 1 else ""


def upgrade(tx: Connection) -> None:
    """Bring the tables to the newest revision; all of it becomes true with ``tx``, or nothing."""
    number = revision_of(tx)
    if number == NEWEST:  # another process was faster
        return
    present = {*inspect(tx).get_table_names()} & metadata.tables.keys()
    # an unknown state is left alone: what its tables mean, only the version that wrote it knows
    if number not in _EARLIER and (number or present - {revision.name}):
        problem = (
            "was written by a newer or unknown version of Gencard, and was not changed; start that "
            "version, or restore a backup that this version made"
        )
        raise InvalidInputError(field="the state", problem=problem)
    if "0002" <= number < "0006":
        measures.drop(tx)  # of releases: their numbers disclosed single records, and are not served
    # 0009 and 0013 made these with another name and default than ``tables`` says: they are made again
    old = [table for table in (announced, leader) if table.name in present]
    kept = [(table, tx.execute(select(table)).mappings().all()) for table in old]
    for table in old:
        table.drop(tx)
    metadata.create_all(tx)
    for table, rows in kept:
        for row in rows:
            tx.execute(insert(table).values(**row))
    if leader not in old:
        tx.execute(insert(leader).values(place=1, fence=0, holder=""))
    for name in present:
        _add_missing(tx, name)
    tx.execute(delete(revision))
    tx.execute(insert(revision).values(version_num=NEWEST))


def _add_missing(tx: Connection, name: str) -> None:
    table, stored = metadata.tables[name], inspect(tx).get_columns(name)
    for column in table.columns:
        if column.name not in {one["name"] for one in stored}:
            added = CreateColumn(column).compile(dialect=tx.dialect)
            tx.execute(text(f"ALTER TABLE {name} ADD COLUMN {added}"))
    for index in table.indexes:
        index.create(tx, checkfirst=True)


_FOREIGN = (SQLAlchemyError, sqlite3.Error)
_WRITES = "gencard_writes"
_BUSY_SECONDS = 30
_WRITER_LOCK = 0x67656E63617264
"""Number of the writer's advisory lock in PostgreSQL: the text "gencard" as bytes."""


@dataclass(frozen=True, slots=True)
class Fence:
    """A leadership, by which the database distinguishes its writes from those of earlier leaderships.

    Args:
        number: Number that grows with every leadership.
        holder: Random name: after a restore numbers occur again, names do not.
        refused: Called if a write shows that the leadership is over.
        advice: Advice of the error then; if empty, the default advice.
    """

    number: int
    holder: str
    refused: Callable[[], None]
    advice: str = ""

    def check(self, connection: Connection) -> None:
        """Begin a write only while the leadership lasts, and keep it from ending before the commit.

        The lock on the row stops a leader that was suspended for a while: a controller that takes
        over changes the row, after all transactions that hold the lock have ended. Raises
        NotLeadingError after it.
        """
        if _writes(connection) and not self.lasts(connection, locked=True):
            self.refused()
            raise NotLeadingError(advice=self.advice) if self.advice else NotLeadingError()

    def lasts(self, connection: Connection, *, locked: bool = False) -> bool:
        """Whether no controller has taken over; with ``locked``, none can until the transaction ends."""
        mine = select(leader.c.place).where(
            leader.c.fence == self.number, leader.c.holder == self.holder
        )
        # FOR SHARE: the next leader's update of the row waits until this write has committed, and a
        # write that begins after the update no longer finds the row.
        present = connection.execute(mine.with_for_update(read=True) if locked else mine)
        return present.first() is not None


SESSIONS = "gencard-leader-"


class Database:
    """The controller's state, by URL: ``sqlite:////path/state.sqlite`` or ``postgresql+psycopg://...``.

    Writers follow one another, on both databases: SQLite through ``BEGIN IMMEDIATE``, PostgreSQL through
    an advisory lock. The log therefore has one order, and no writer decides on data that another writer
    is about to change. Writers of this process queue by identity before that: SQLite would retry after
    pauses of up to 100 ms, and admit the writer that retries first. A committed transaction is on the
    disk (WAL with ``synchronous=FULL``).

    Args:
        fence: The leadership in which a service writes; every write then checks that it still lasts.
    """

    def __init__(self, url: str, fence: "Fence | None" = None) -> None:
        self._fence = fence
        self._write_lock = FairLock(_BUSY_SECONDS)
        with translated():
            address = make_url(url)
            if address.get_backend_name() == "sqlite":
                _create_private(Path(address.database or ""))
                # hide_parameters: errors of SQLAlchemy would otherwise quote the values of a statement
                engine = create_engine(address, hide_parameters=True, pool_size=32)
                event.listen(engine, "connect", _prepare_sqlite)
                event.listen(engine, "begin", _begin_sqlite)
            else:
                # the next leader ends the sessions of this leadership by their name
                session = {"application_name": f"{SESSIONS}{fence.holder}" if fence else "gencard"}
                engine = create_engine(
                    address, hide_parameters=True, pool_size=32, pool_pre_ping=True, connect_args=session
                )
                event.listen(engine, "begin", _begin_postgresql)
                if fence:
                    event.listen(engine, "begin", fence.check)
            self._engine = engine

    @property
    def shared(self) -> bool:
        """Whether several controllers may use the database, one after another: all but SQLite."""
        return self._engine.dialect.name != "sqlite"

    def migrate(self) -> None:
        """Bring the tables to the newest revision, in one transaction.

        Raises StorageError, or InvalidInputError for a newer or unknown revision.
        """
        with self.reading() as tx:
            if revision_of(tx) == NEWEST:
                return
        with self.transaction() as tx:
            upgrade(tx)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Run a transaction, committed at the end of the block, or rolled back if the block raises.

        Raises StorageError (disk full, locked for 30 s, a broken file), or NotLeadingError if
        overtaken.
        """
        writing = self._engine.execution_options(**{_WRITES: True})
        with self._while_leading(), translated(), self._write_lock.passed(), writing.begin() as tx:
            yield tx

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Read an unchanging snapshot of all committed data.

        Raises StorageError, also for a write in the block, or NotLeadingError if overtaken.
        """
        with self._while_leading(), translated(), self._engine.connect() as tx:
            yield tx

    @contextmanager
    def _while_leading(self) -> Iterator[None]:
        """Raise NotLeadingError in place of StorageError if another controller has taken over.

        A controller that takes over ends the sessions of this one. That is no failure of the database,
        and callers can go to the other controller.
        """
        try:
            yield
            return
        except StorageError:
            if self._fence is None:
                raise
            is_over = False
            with suppress(StorageError), translated(), self._engine.connect() as tx:
                is_over = not self._fence.lasts(tx)
            if not is_over:
                raise
        raise NotLeadingError

    def copy_to(self, file: Path) -> None:
        """Copy all committed data of SQLite at one moment, while others write; raises StorageError."""
        if self._engine.dialect.name != "sqlite":
            problem = "is not SQLite; back it up with the database's own tools: see docs/controllers.md"
            raise InvalidInputError(field="state.url", problem=problem)
        _create_private(file)
        with translated(), self._engine.connect() as tx, closing(sqlite3.connect(file)) as copy:
            source: Any = tx.connection.driver_connection
            source.backup(copy)

    def close(self) -> None:
        """Close the idle connections."""
        self._engine.dispose()


@contextmanager
def translated() -> Iterator[None]:
    """Replace errors of the database, because their texts quote statements and values."""
    try:
        yield
        return
    except _FOREIGN as foreign:
        forget_frames(foreign)  # frames of SQLAlchemy hold the error
    error = StorageError()
    try:
        raise error
    finally:
        error.__context__ = None  # the with statement that calls us has put the foreign error there
        del error  # or this frame and its error would hold each other


def _create_private(file: Path) -> None:
    """Make a file that its owner alone may read; SQLite gives the same mode to its companions.

    If that fails, SQLite raises an error at the first use.
    """
    with suppress(OSError):
        file.touch(mode=0o600)


def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = None  # the driver begins nothing by itself
    for pragma in (
        f"busy_timeout = {_BUSY_SECONDS * 1000}",
        "journal_mode = WAL",
        "synchronous = FULL",  # a charge must survive a power cut, or budget could be spent twice
        "foreign_keys = ON",
        "trusted_schema = OFF",  # a tampered file cannot run functions from its views and triggers
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    writes = _writes(connection)
    connection.exec_driver_sql(f"PRAGMA query_only = {'OFF' if writes else 'ON'}")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _begin_postgresql(connection: Connection) -> None:
    if _writes(connection):
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_BUSY_SECONDS}s'")
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_WRITER_LOCK})")
    else:
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")


def _writes(connection: Connection) -> bool:
    return bool(connection.get_execution_options().get(_WRITES))


def insert_if_absent(tx: Connection, table: Table, row: Mapping[str, Any]) -> bool:
    """Insert a row unless its primary key exists; return whether it was inserted.

    Two transactions that insert the same key do not both succeed: the second waits for the first.
    """
    make = sqlite.insert if tx.dialect.name == "sqlite" else postgresql.insert
    key = list(table.primary_key)
    fresh = make(table).values(**row).on_conflict_do_nothing(index_elements=key)
    return tx.execute(fresh.returning(*key)).first() is not None


T = TypeVar("T")


def find_one(tx: Connection, query: Select[Any], make: Callable[[Mapping[Any, Any]], T]) -> T | None:
    """Return the content of the only row of a query; None if it has no row."""
    row = tx.execute(query).mappings().one_or_none()
    return None if row is None else make(row)


def get_named(
    tx: Connection, table: Table, name: str, make: Callable[[Mapping[Any, Any]], T], what: str
) -> T:
    """Return the content of the row of a name; raises NotFoundError, which names ``what`` is missing."""
    row = find_one(tx, select(table).where(table.c.name == name), make)
    if row is None:
        raise NotFoundError(what=what)
    return row


LARGEST_PAGE = 500
Query = TypeVar("Query", bound=Select[Any])


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some rows, newest first; ``next_token`` asks for the rest and is empty at the end."""

    rows: tuple[T, ...]
    next_token: str


def only(query: Query, *wanted: tuple[Column[str], str | None]) -> Query:
    """Return the query of rows with these values in these columns; None stands for any value."""
    return query.where(*(column == value for column, value in wanted if value is not None))


def page_of(
    tx: Connection,
    query: Select[Any],
    number: Column[int],
    make: Callable[[Mapping[Any, Any]], T],
    *,
    before: str,
    limit: int,
) -> Page[T]:
    """Return the rows older than the token ``before``, at most ``limit`` and at most 500.

    ``number`` is the selected column that grows with every row; an empty token asks for the first page.
    """
    size = max(1, min(limit, LARGEST_PAGE))
    if before:
        query = query.where(number < number_of_token(before))
    rows = tx.execute(query.order_by(number.desc()).limit(size + 1)).mappings().all()
    return Page(tuple(map(make, rows[:size])), str(rows[size - 1][number]) if len(rows) > size else "")


def rows_of_pages(list_page: Callable[[str], Page[T]]) -> Iterator[T]:
    """Yield the rows of every page of a list, which returns the page that a token asks for."""
    page = list_page("")
    yield from page.rows
    while page.next_token:
        page = list_page(page.next_token)
        yield from page.rows


def number_of_token(token: str) -> int:
    """Return the number in the token of a list whose rows have numbers; raises InvalidInputError."""
    if not (token.isascii() and token.isdigit() and len(token) <= 18):
        raise InvalidInputError(field="page_token", problem="was not issued by this list")
    return int(token)
