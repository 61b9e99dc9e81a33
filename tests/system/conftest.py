from collections.abc import Iterator

import pytest

from gencard.client import Analyst
from tests.compiled_copies import copies_compiled_once  # noqa: F401  # a fixture
from tests.system import sandboxes
from tests.system.house import House, running


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One running controller for all tests that leave it as they found it."""
    with running(tmp_path_factory.mktemp("house")) as started:
        yield started


@pytest.fixture
def fresh_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A running controller of one's own."""
    with running(tmp_path_factory.mktemp("fresh")) as started:
        yield started


@pytest.fixture
def ana(house: House) -> Iterator[Analyst]:
    """An analyst at the controller of the test's module, or at the one of all."""
    with house.analyst() as analyst:
        yield analyst


@pytest.fixture(params=[True, False], ids=["forked", "started anew"])
def each_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts in Python run in a sandbox in both ways."""
    monkeypatch.setattr(sandboxes, "FORKS", request.param)
