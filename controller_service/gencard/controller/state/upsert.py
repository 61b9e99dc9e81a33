"""Insert a row unless its key is taken: the one statement that SQLAlchemy has no common form for."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite


def insert_if_absent(tx: Connection, table: Table, row: Mapping[str, Any]) -> bool:
    """Whether the row was inserted; False where its primary key was there already.

    Two transactions that insert the same key do not both succeed: the second waits for the first.
    """
    make = sqlite.insert if tx.dialect.name == "sqlite" else postgresql.insert
    key = list(table.primary_key)
    fresh = make(table).values(**row).on_conflict_do_nothing(index_elements=key)
    return tx.execute(fresh.returning(*key)).first() is not None
