"""A state of any earlier revision becomes as a fresh one and keeps its rows, or stays as it is."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import event, select, text

from gencard.controller.state import database as database_module
from gencard.controller.state.database import NEWEST, Database, revision_of
from gencard.controller.state.tables import cards, metadata
from gencard.core.errors import InvalidInputError, StorageError
from tests.controller.state import postgres, revisions
from tests.controller.state.samples import CARD, insert_card
from tests.controller.state.test_state_faults import FaultAt

ANOTHER_TABLE = "CREATE TABLE another (name VARCHAR(9) NOT NULL)"


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request, tmp_path) -> str:
    """URL of a database without tables."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/empty.sqlite"
    return postgres.new_database(request.getfixturevalue("postgres_socket"))


@pytest.fixture
def old(empty) -> Iterator[Database]:
    with closing(Database(empty)) as database:
        yield database


@pytest.fixture
def fresh(empty, request) -> dict:
    """The schema of a state that this version made in the same kind of database."""
    if empty.startswith("sqlite"):
        url = f"sqlite:///{request.getfixturevalue('migrated_sqlite')}"
    else:
        socket = request.getfixturevalue("postgres_socket")
        url = postgres.new_database(socket, request.getfixturevalue("migrated_postgres"))
    with closing(Database(url)) as database, database.reading() as tx:
        return revisions.schema_of(tx)


def made(database: Database, revision: str) -> tuple[dict, dict]:
    """Make a filled state of a revision; its schema and rows."""
    with database.transaction() as tx:
        revisions.make(tx, revision)
        revisions.fill(tx)
    return facts(database)


def facts(database: Database) -> tuple[dict, dict]:
    with database.reading() as tx:
        return revisions.schema_of(tx), revisions.rows_of(tx)


class TestFresh:
    def test_the_tables_are_those_the_code_knows(self, database):
        with database.reading() as tx:
            context = MigrationContext.configure(tx, opts={"compare_type": True})
            assert compare_metadata(context, metadata) == []
            assert revision_of(tx) == NEWEST

    def test_a_second_migration_changes_nothing(self, database):
        with database.transaction() as tx:
            insert_card(tx)
        database.migrate()
        with database.reading() as tx:
            assert tx.execute(select(cards.c.name)).scalars().all() == [CARD]

    def test_state_of_this_version_is_left_alone(self, database, monkeypatch):
        monkeypatch.delattr(database_module, "upgrade")
        database.migrate()

    def test_tables_of_others_are_left_alone(self, old):
        with old.transaction() as tx:
            tx.execute(text(ANOTHER_TABLE))
            tx.execute(text("INSERT INTO another VALUES ('row')"))
        old.migrate()
        with old.reading() as tx:
            assert tx.execute(text("SELECT name FROM another")).scalars().all() == ["row"]


class TestEarlierRevisions:
    @pytest.mark.parametrize("revision", revisions.EARLIER)
    def test_a_state_becomes_as_a_fresh_one_and_keeps_its_rows(self, old, fresh, revision):
        _, before = made(old, revision)
        old.migrate()
        schema, after = facts(old)
        assert schema == fresh
        if "0002" <= revision < "0006":  # measures of releases, which no version serves any more
            assert before.pop("measures")
            assert after["measures"] == []
        assert before
        for name, rows in before.items():
            kept = [{column: row[column] for column in rows[0]} for row in after[name]]
            assert kept == rows, name
        with old.reading() as tx:
            context = MigrationContext.configure(tx, opts={"compare_type": True})
            assert compare_metadata(context, metadata) == []
            assert revision_of(tx) == NEWEST

    @pytest.mark.parametrize("revision", ["0001", "0005", "0006", "0014"])
    def test_a_fault_at_any_step_changes_nothing_and_the_upgrade_is_repeated(self, old, revision):
        before, steps = made(old, revision), 0
        for step in range(1, 1_000):
            fault = FaultAt(step)

            def on_write(_connection, _cursor, statement, *_, fault=fault):
                if not statement.lstrip().startswith(("SELECT", "PRAGMA")):
                    fault()

            event.listen(old._engine, "before_cursor_execute", on_write)
            event.listen(old._engine, "commit", fault)
            with suppress(StorageError):
                old.migrate()
            event.remove(old._engine, "before_cursor_execute", on_write)
            event.remove(old._engine, "commit", fault)
            if fault.left > 0:
                break
            steps = step
            assert facts(old) == before, f"step {step}"
        assert steps > 3
        assert facts(old) != before
        with old.reading() as tx:
            assert revision_of(tx) == NEWEST

    def test_a_killed_upgrade_changes_nothing_and_is_repeated(self, old, empty):
        before = made(old, "0006")
        ended = subprocess.run([sys.executable, "-m", __name__, empty], check=False, timeout=60)
        assert ended.returncode == -signal.SIGKILL
        assert facts(old) == before
        old.migrate()
        with old.reading() as tx:
            assert revision_of(tx) == NEWEST

    def test_of_many_who_upgrade_at_once_one_does(self, old, empty):
        _, before = made(old, "0006")

        def migrate(_number):
            with closing(Database(empty)) as database:
                database.migrate()

        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(migrate, range(8))) == [None] * 8
        _, after = facts(old)
        assert len(after["leader"]) == 1
        assert [row["name"] for row in after["cards"]] == [row["name"] for row in before["cards"]]

    def test_numbers_go_on_behind_those_that_were_given(self, old):
        """A number of a row that was deleted never returns, before the upgrade or after."""
        with old.transaction() as tx:
            revisions.make(tx, "0006")
            insert_card(tx, f"{CARD}-1")
            insert_card(tx, f"{CARD}-2")
            tx.execute(cards.delete().where(cards.c.name == f"{CARD}-2"))
        old.migrate()
        with old.transaction() as tx:
            insert_card(tx, f"{CARD}-3")
            assert tx.execute(select(cards.c.number).order_by(cards.c.number)).scalars().all() == [1, 3]


UNKNOWN = [
    "UPDATE alembic_version SET version_num = '9999'",
    "UPDATE alembic_version SET version_num = '0016'",
    "UPDATE alembic_version SET version_num = '0000'",
    "UPDATE alembic_version SET version_num = '14'",
    "UPDATE alembic_version SET version_num = '٠٠٠٦'",
    "UPDATE alembic_version SET version_num = ''",
    "UPDATE alembic_version SET version_num = 'b4d1f0c0a7e2'",
    "DELETE FROM alembic_version",
    "INSERT INTO alembic_version VALUES ('0006')",
    "DROP TABLE alembic_version",
]


class TestUnknownRevisions:
    @pytest.mark.parametrize("statement", UNKNOWN)
    def test_are_refused_and_stay_as_they_are(self, database, statement):
        with database.transaction() as tx:
            insert_card(tx)
            tx.execute(text(statement))
        before = facts(database)
        with pytest.raises(InvalidInputError, match="newer or unknown version of Gencard") as refused:
            database.migrate()
        assert refused.value.__context__ is None
        assert "restore a backup" in str(refused.value)
        assert facts(database) == before

    def test_of_another_program_in_the_same_database_are_refused(self, old):
        with old.transaction() as tx:
            tx.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
            tx.execute(text("INSERT INTO alembic_version VALUES ('ae1027a6acf')"))
            tx.execute(text(ANOTHER_TABLE))
        before = facts(old)
        with pytest.raises(InvalidInputError):
            old.migrate()
        assert facts(old) == before


def main() -> None:
    """Upgrade a state, killed right before the commit."""
    database = Database(sys.argv[1])
    event.listen(database._engine, "commit", lambda _: os.kill(os.getpid(), signal.SIGKILL))
    database.migrate()


if __name__ == "__main__":
    main()
