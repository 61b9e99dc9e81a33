from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.page.browsing import CHROMIUM, chromium_running
from tests.page.served import with_page
from tests.system.house import House


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One browser for all tests; each visitor has a context of its own."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    with chromium_running() as browser:
        yield browser


@pytest.fixture(scope="module")
def paged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A running controller with a page, for the tests of a module."""
    house = with_page(tmp_path_factory.mktemp("paged")).start()
    try:
        yield house
    finally:
        house.stop()
