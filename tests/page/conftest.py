from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from gencard.controller.base.fair_use import Bounds
from gencard.controller.page import server as application
from tests.compiled_copies import copies_compiled_once  # noqa: F401  # a fixture
from tests.page.browsing import CHROMIUM, chromium_running
from tests.page.by_http import HttpSteward, PageHouse, http_steward, page_running
from tests.page.served import with_page
from tests.system.house import House


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for the tests of a module; each visitor has a context of its own.

    Not for longer: while it runs, the thread has an event loop, which other tests must not find.
    """
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    with chromium_running() as browser:
        yield browser


@pytest.fixture(scope="module")
def paged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageHouse]:
    """A running controller with a page, for the tests of a module."""
    with page_running(tmp_path_factory.mktemp("paged")) as house:
        yield house


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageHouse]:
    """The same for tests that call more often than a person does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(application, "_BOUNDS", Bounds(100, 100, 100_000, 60))
        with page_running(tmp_path_factory.mktemp("house")) as started:
            yield started


@pytest.fixture(scope="module")
def of_two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A controller whose policy wants two stewards."""
    house = with_page(tmp_path_factory.mktemp("two"))
    house.edit({"forbidden": "[]\nstewards = 2"})
    try:
        yield house.start()
    finally:
        house.stop()


@pytest.fixture
def sam(house: PageHouse) -> Iterator[HttpSteward]:
    """A steward with a session, without a browser."""
    with http_steward(house, "sam") as steward:
        yield steward


@pytest.fixture
def kim(house: PageHouse) -> Iterator[HttpSteward]:
    """Another steward with a session."""
    with http_steward(house, "kim") as steward:
        yield steward


@pytest.fixture
def card(house: PageHouse) -> str:
    """The name of a new card that waits for a steward."""
    with house.analyst() as analyst:
        return analyst.propose("survey", [("sex", "health"), ("sex", "age")], purpose="To see").name
