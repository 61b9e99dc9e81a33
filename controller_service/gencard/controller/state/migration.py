"""The one migration: makes the tables, or adds to a state of an earlier revision what it lacks.

Most changes of ``tables`` are additions: a table, an index, a column with a default. These need no code
here, only a new number for ``NEWEST``. Other changes are steps of ``upgrade``.
"""

from sqlalchemy import Connection, delete, insert, inspect, select, text
from sqlalchemy.schema import CreateColumn

from gencard.controller.state.tables import announced, leader, measures, metadata, revision
from gencard.core.errors import InvalidInputError

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
    """Bring the tables to the newest revision; all of it becomes true with ``tx``, or nothing.

    Raises:
        InvalidInputError: Tables are there, and of no revision that this version of Gencard knows.
    """
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
    """Add the columns and indexes that a table lacks."""
    table, stored = metadata.tables[name], inspect(tx).get_columns(name)
    for column in table.columns:
        if column.name not in {one["name"] for one in stored}:
            added = CreateColumn(column).compile(dialect=tx.dialect)
            tx.execute(text(f"ALTER TABLE {name} ADD COLUMN {added}"))
    for index in table.indexes:
        index.create(tx, checkfirst=True)
