"""Every test of the state runs on SQLite and on PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gencard.controller.state.database import Database
from tests.controller.state import postgres


@pytest.fixture(scope="session")
def postgres_socket() -> Iterator[str]:
    with postgres.server() as socket:
        yield socket


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/state.sqlite"
    return postgres.new_database(request.getfixturevalue("postgres_socket"))


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    database = Database(url)
    database.migrate()
    yield database
    database.close()
