"""Files of a state that controllers share: in the database; copies never outlive a leadership."""

import os
from pathlib import Path

import pytest
from sqlalchemy import func, select, update

from gencard.controller.audits import RefusedWorkers
from gencard.controller.state import sharing as state_files
from gencard.controller.state.database import Database
from gencard.controller.state.sharing import SharedFiles
from gencard.controller.state.tables import pieces
from gencard.core.errors import NotFoundError, StorageError, WorkerError
from tests.controller.state import postgres

NAME = "releases/1a2b.rows"


@pytest.fixture
def shared(migrated_postgres, postgres_socket):
    database = Database(postgres.new_database(postgres_socket, migrated_postgres))
    yield database
    database.close()


@pytest.fixture
def here(shared, tmp_path):
    return SharedFiles(shared, tmp_path / "here")


@pytest.fixture
def elsewhere(shared, tmp_path):
    return SharedFiles(shared, tmp_path / "elsewhere")


def written(files: SharedFiles, name: str, data: bytes) -> Path:
    path = files.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def number_of_pieces(database: Database) -> int:
    with database.reading() as tx:
        return tx.scalar(select(func.count()).select_from(pieces))


@pytest.mark.parametrize("size", [0, 1, state_files._PIECE, 10 * state_files._PIECE + 7])
def test_another_machine_reads_what_was_stored(here, elsewhere, size):
    data = os.urandom(size)
    written(here, NAME, data)
    assert not elsewhere.path(NAME).exists()
    here.put(NAME)
    copy = elsewhere.path(NAME)
    assert copy.read_bytes() == data
    assert copy.stat().st_mode & 0o777 == 0o600


def test_what_no_transaction_speaks_of_is_no_file(here, elsewhere, shared):
    written(here, NAME, b"rows")
    assert here.send(NAME).size == 4
    assert not elsewhere.path(NAME).exists()
    assert number_of_pieces(shared) == 1
    elsewhere.begin()
    assert number_of_pieces(shared) == 0


def test_a_leadership_begins_without_copies(here, elsewhere):
    written(here, NAME, b"of an earlier time")
    written(elsewhere, NAME, b"the state's")
    elsewhere.put(NAME)
    here.begin()
    assert here.path(NAME).read_bytes() == b"the state's"


def test_a_changed_piece_is_not_taken(here, elsewhere, shared):
    written(here, NAME, b"rows")
    here.put(NAME)
    with shared.transaction() as tx:
        tx.execute(update(pieces).values(bytes=b"else"))
    with pytest.raises(StorageError):
        elsewhere.path(NAME)
    assert not (elsewhere.folder / NAME).exists()


def test_what_is_forgotten_is_gone_unless_another_file_is_the_same(here, shared):
    for name in ("journals/a/1.run", "journals/b/1.run", "journals/a/2.run"):
        written(here, name, name[-5:].encode())
        here.put(name)
    here.forget("journals/a/")
    assert here.stored("journals/") == ("journals/b/1.run",)
    assert number_of_pieces(shared) == 1


def test_files_of_a_time_before_are_taken_over_once(here, elsewhere, tmp_path):
    old = tmp_path / "here" / NAME
    old.parent.mkdir(parents=True)
    old.write_bytes(b"before")
    here.begin()
    assert elsewhere.path(NAME).read_bytes() == b"before"
    old.write_bytes(b"changed")
    here.begin()
    assert here.path(NAME).read_bytes() == b"before"


def test_a_refused_worker_is_refused_for_every_controller_until_one_admits_it(here, elsewhere):
    one, other = RefusedWorkers(here), RefusedWorkers(elsewhere)
    for name in ("w1", "w10"):
        one.refuse(WorkerError(worker=name, problem="lied"), "operations/1")
    assert other.names() == {"w1", "w10"}
    other.admit("w1")
    assert one.names() == {"w10"}, "an admission takes no other worker's refusal away"
    assert one.trusted({"w1": "a:1", "w10": "a:2"}) == {"w1": "a:1"}
    with pytest.raises(NotFoundError):
        one.admit("w1")
