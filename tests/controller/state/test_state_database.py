# ruff: noqa: PT012  an error of the database may rise only where the transaction ends

import gc
import os
import stat
import weakref
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import select, text

from gencard.controller.state.database import Database
from gencard.controller.state.tables import cards
from gencard.core.errors import GencardError, InvalidInputError, StorageError
from tests.controller.state.samples import CARD, NOW, insert_card

TOKEN = "canary-7f3a"


def refused(url: str) -> StorageError:
    with pytest.raises(StorageError) as caught:
        Database(url).migrate()
    return caught.value


def assert_silent(error: GencardError) -> None:
    assert error.__context__ is None
    assert error.__cause__ is None
    assert TOKEN not in str(error)
    assert not error.fields


class TestCopies:
    def test_a_copy_is_of_what_was_committed(self, tmp_path):
        """A writer in the middle of its work neither waits nor is seen."""
        database, copy = (Database(f"sqlite:///{tmp_path}/{name}.sqlite") for name in ("own", "copy"))
        database.migrate()
        with database.transaction() as tx:
            insert_card(tx)
        with database.transaction() as tx:
            tx.execute(cards.delete())
            database.copy_to(tmp_path / "copy.sqlite")
        with copy.reading() as tx:
            assert tx.execute(select(cards.c.name)).scalars().all() == [CARD]
        database.close()
        copy.close()

    def test_only_sqlite_is_copied(self, database, url, tmp_path):
        if url.startswith("sqlite"):
            database.copy_to(tmp_path / "copy")
            return
        with pytest.raises(InvalidInputError, match="the database's own tools"):
            database.copy_to(tmp_path / "copy")
        assert not (tmp_path / "copy").exists()


class TestTransactions:
    def test_what_raises_leaves_nothing_behind(self, database):
        with pytest.raises(KeyError), database.transaction() as tx:
            insert_card(tx)
            raise KeyError("the caller's own error passes as it is")
        with database.reading() as tx:
            assert tx.execute(select(cards)).all() == []

    def test_nothing_is_written_while_reading(self, database):
        with pytest.raises(StorageError) as caught, database.reading() as tx:
            insert_card(tx)
        assert_silent(caught.value)
        with database.transaction() as tx:
            assert tx.execute(select(cards)).all() == []
            insert_card(tx)

    def test_an_error_keeps_nothing_of_the_call_that_met_it(self, database):
        gc.disable()  # nothing waits for the garbage collector
        try:
            assert self._local_of_a_call_that_fails(database)() is None
        finally:
            gc.enable()

    @staticmethod
    def _local_of_a_call_that_fails(database) -> weakref.ref:
        context = set()
        with suppress(StorageError), database.reading() as tx:
            tx.execute(text("SELECT column_that_is_not_there FROM cards"))
        return weakref.ref(context)

    def test_a_reader_sees_one_moment(self, database):
        with database.reading() as tx:
            assert tx.execute(select(cards)).all() == []
            with database.transaction() as other:
                insert_card(other)
            assert tx.execute(select(cards)).all() == []
        with database.reading() as tx:
            assert len(tx.execute(select(cards)).all()) == 1

    def test_a_datetime_without_a_zone_is_refused(self, database):
        with pytest.raises(StorageError), database.transaction() as tx:
            tx.execute(select(cards).where(cards.c.created == NOW.replace(tzinfo=None)))


class TestErrorsSayNothing:
    def test_of_statements_and_values(self, database):
        with pytest.raises(StorageError) as caught, database.transaction() as tx:
            insert_card(tx, TOKEN)
            insert_card(tx, TOKEN)
        assert_silent(caught.value)

    def test_when_raised_while_another_error_is_handled(self, database):
        with pytest.raises(StorageError) as caught:
            try:
                raise KeyError(TOKEN)
            except KeyError:
                with database.transaction() as tx:
                    tx.execute(text(f"SELECT {TOKEN!r} FROM nowhere"))
        assert_silent(caught.value)

    def test_where_the_file_is_no_database(self, tmp_path):
        (tmp_path / "state.sqlite").write_text(TOKEN * 1000)
        assert_silent(refused(f"sqlite:///{tmp_path}/state.sqlite"))

    @pytest.mark.parametrize(
        "url",
        [
            f"sqlite:////nowhere/{TOKEN}/state.sqlite",
            f"postgresql+psycopg://{TOKEN}@localhost:1/{TOKEN}",
            f"{TOKEN}://nothing",
            TOKEN,
        ],
    )
    def test_where_there_is_no_database(self, url):
        assert_silent(refused(url))


class TestSqliteFile:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        return tmp_path / "state.sqlite"

    def test_only_its_owner_may_read_it(self, file):
        old = os.umask(0o022)
        try:
            database = Database(f"sqlite:///{file}")
            database.migrate()
        finally:
            os.umask(old)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()}
        assert set(modes.values()) == {0o600}, modes

    def test_every_commit_reaches_the_disk(self, file):
        with Database(f"sqlite:///{file}").reading() as tx:
            assert tx.execute(text("PRAGMA journal_mode")).scalar() == "wal"
            assert tx.execute(text("PRAGMA synchronous")).scalar() == 2

    def test_a_full_disk_is_a_storage_error_and_changes_nothing(self, file):
        database = Database(f"sqlite:///{file}")
        database.migrate()
        with pytest.raises(StorageError) as caught, database.transaction() as tx:
            pages = tx.execute(text("PRAGMA page_count")).scalar_one()
            tx.execute(text(f"PRAGMA max_page_count = {pages}"))
            for number in range(2000):
                insert_card(tx, f"{TOKEN}-{number}")
        assert_silent(caught.value)
        with database.reading() as tx:
            assert tx.execute(select(cards)).all() == []
