"""Every test of the state runs on SQLite and on PostgreSQL, on a copy of freshly migrated tables."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gencard.controller.state.database import Database
from tests.controller.state import postgres


@pytest.fixture(scope="session")
def postgres_socket() -> Iterator[str]:
    with postgres.server() as socket:
        yield socket


@pytest.fixture(scope="session")
def migrated_postgres(postgres_socket: str) -> str:
    """Name of a database with the tables in it and nobody connected."""
    return migrated(postgres.new_database(postgres_socket)).split("@/")[1].split("?")[0]


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("migrated") / "state.sqlite"
    migrated(f"sqlite:///{file}")
    return file


def migrated(url: str) -> str:
    database = Database(url)
    database.migrate()
    database.close()
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("migrated_sqlite"), tmp_path / "state.sqlite")
        return f"sqlite:///{tmp_path}/state.sqlite"
    template = request.getfixturevalue("migrated_postgres")
    return postgres.new_database(request.getfixturevalue("postgres_socket"), template)


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    database = Database(url)
    yield database
    database.close()
