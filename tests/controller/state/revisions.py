"""States of earlier revisions, made by the statements that the migrations of that time ran.

``tests/fixtures/revisions`` holds them as alembic wrote them down, for each database.
"""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Connection, MetaData, Table, inspect, text

FOLDER = Path(__file__).parents[2] / "fixtures" / "revisions"
EARLIER = [f"{number:04}" for number in range(1, 15)]


def statements(dialect: str, revision: str) -> list[str]:
    """Statements that made the tables of a revision."""
    whole = (FOLDER / f"{dialect}.sql").read_text()
    until = whole.partition(f"-- Running upgrade {revision} -> ")[0]
    return [one.strip() for one in re.sub("--.*", "", until).split(";") if one.strip()]


def make(tx: Connection, revision: str) -> None:
    """Make the tables of a revision as they were."""
    for statement in statements(tx.dialect.name, revision):
        tx.execute(text(statement))


def stored_tables(tx: Connection) -> list[Table]:
    """Tables as the database describes them, each behind those that it refers to."""
    reflected = MetaData()
    reflected.reflect(tx)
    return [table for table in reflected.sorted_tables if table.name != "alembic_version"]


def fill(tx: Connection) -> None:
    """Insert three rows into every table but ``leader``, whose one row is there already, and changes."""
    for table in stored_tables(tx):
        if table.name == "leader":
            tx.execute(table.update().values(fence=7, holder="another"))
            continue
        for number in (1, 2, 3):
            tx.execute(table.insert().values({one.name: _value(one, number) for one in table.columns}))


def _value(column: Column[Any], number: int) -> int | bytes | str:
    """A value that differs from row to row; a reference is to the row of the same number."""
    for key in column.foreign_keys:
        column = key.column
    if column.type.python_type is int:
        return number
    value = f"{column.name}{number}"
    return value.encode() if column.type.python_type is bytes else value


def rows_of(tx: Connection) -> dict[str, list[dict[str, Any]]]:
    """All rows by table, in the order of their keys."""
    rows = {}
    for table in stored_tables(tx):
        query = table.select().order_by(*table.primary_key)
        rows[table.name] = [dict(row) for row in tx.execute(query).mappings()]
    return rows


def schema_of(tx: Connection) -> dict[str, dict[str, Any]]:
    """All that the database says of its tables, but the order of columns."""
    inspector = inspect(tx)
    return {name: _facts(tx, name) for name in inspector.get_table_names()}


def _facts(tx: Connection, name: str) -> dict[str, Any]:
    inspector = inspect(tx)
    facts: dict[str, Any] = {
        kind: sorted(map(str, getattr(inspector, f"get_{kind}")(name)))
        for kind in ("foreign_keys", "indexes", "unique_constraints", "check_constraints")
    }
    columns = inspector.get_columns(name)
    facts["columns"] = {one["name"]: {**one, "type": one["type"].compile(tx.dialect)} for one in columns}
    facts["key"] = inspector.get_pk_constraint(name)
    if tx.dialect.name == "sqlite":
        made = tx.scalar(text("SELECT sql FROM sqlite_master WHERE name = :name"), {"name": name})
        facts["numbers never return"] = "AUTOINCREMENT" in made
    return facts


def copied_as(newest: Path, revision: str, target: Path) -> None:
    """Copy a SQLite state as a revision would have held it: without later tables and columns."""
    with closing(sqlite3.connect(target)) as copy, copy:
        for statement in statements("sqlite", revision):
            copy.execute(statement)
        copy.execute("ATTACH ? AS newest", (str(newest),))
        names = copy.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in names:
            if name in ("alembic_version", "leader", "sqlite_sequence"):
                continue
            if name == "measures" and revision < "0006":
                continue
            columns = ", ".join(f'"{row[1]}"' for row in copy.execute(f"PRAGMA main.table_info({name})"))
            copy.execute(f"INSERT INTO main.{name} ({columns}) SELECT {columns} FROM newest.{name}")
