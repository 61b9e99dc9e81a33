"""Every view as people see it: light, dark and narrow, without a finding of axe-core, and light to load.

The analyst of these cards writes markup and scripts wherever analysts may write.
"""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.page.browsing import (
    NARROW,
    WIDE,
    Visitor,
    grave_findings,
    needs_chromium,
    sideways,
    visitor,
    weight,
)
from tests.page.by_http import page_house
from tests.page.furniture import MARK, RUNS, furnish, label_with_markup
from tests.page.served import enrol_passkey, sign_in

pytestmark = needs_chromium

WEIGHT = 300 * 1024
LOOKS = {"light": ("light", WIDE), "dark": ("dark", WIDE), "narrow": ("light", NARROW)}
MOST = 40
"""Pages of a walk; one of each kind."""


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A house in which something of every kind waits, was released, or failed."""
    house = page_house(tmp_path_factory.mktemp("views"), RUNS)
    label_with_markup(house)
    try:
        furnish(house.start())
        yield house
    finally:
        house.stop()


@pytest.fixture(scope="module")
def steward(house, chromium):
    """Sam's browser, signed in."""
    with visitor(chromium, house.origin) as guest:
        findings = grave_findings(guest.open("/sign-in"))
        assert findings == []
        enrol_passkey(house, guest, "sam")
        sign_in(guest)
        yield guest


def kind_of(path: str) -> str:
    """Paths that one template shows are of one kind."""
    path = re.sub(r"/cards/[0-9a-f]{16}", "/cards/*", path.partition("?")[0].partition("#")[0])
    path = re.sub(r"/log/\d+", "/log/*", path)
    return re.sub(r"/(releases|audits)/[0-9a-f]{8,}", r"/\1/*", path)


def walk(guest: Visitor) -> Iterator[tuple[str, Page]]:
    """Each kind of page that links lead to, from the queue on."""
    waiting, seen = ["/"], {"/"}
    while waiting and len(seen) < MOST:
        path = waiting.pop(0)
        page = guest.open(path)
        yield path, page
        for link in page.locator("main a[href^='/'], nav a[href^='/']").all():
            href = link.get_attribute("href") or ""
            if kind_of(href) not in seen:
                seen.add(kind_of(href))
                waiting.append(href)


def test_s57_every_view(steward):
    """One walk: each page is loaded once, and looked at in all three looks."""
    findings: dict[str, object] = {}
    for path, page in walk(steward):
        assert page.locator("h1").count() == 1, path
        assert weight(page) < WEIGHT, path
        assert page.locator(f"[{MARK}]").count() == 0, f"markup of an analyst's is in {path}"
        for look, (scheme, (width, height)) in LOOKS.items():
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": height})
            findings[f"{path}, {look}"] = grave_findings(page)
            findings[f"{path}, {look}, is wider by"] = sideways(page)
        assert page.evaluate("typeof window.attacked") == "undefined"
    links = steward.page.locator("nav a").evaluate_all("all => all.map(one => one.pathname)")
    seen = {name.partition(",")[0] for name in findings}
    assert {*links} <= seen, "the walk reached all views"
    assert {name: finding for name, finding in findings.items() if finding} == {}
    steward.watch.assert_calm()
