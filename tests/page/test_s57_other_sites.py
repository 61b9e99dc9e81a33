"""Pages of other sites in a steward's browser: they change nothing, read nothing, and frame nothing.

A page at another port of the same host is of the same site: a browser sends the cookie
with its requests, SameSite=Strict or not.
"""

from html import escape
from urllib.parse import urlencode

import pytest

from gencard.controller.page.security import COOKIE
from tests.page.browsing import needs_chromium, visitor
from tests.page.hostile_requests import foreign_origin
from tests.page.served import enrol_passkey, sign_in

pytestmark = needs_chromium

FORMS = """<!doctype html><html lang="en"><title>A prize</title><h1>You have won</h1>
<form id="usual" method="post" action="{target}">{fields}</form>
<form id="text" method="post" enctype="text/plain" action="{target}">{fields}</form>
<form id="parts" method="post" enctype="multipart/form-data" action="{target}">{fields}</form>
<form id="query" action="{target}">{fields}</form>
<form id="out" method="post" action="{origin}/sign-out">{fields}</form>"""
FRAMES = """<!doctype html><html lang="en"><title>A prize</title>
<iframe src="{origin}/"></iframe><object data="{origin}/"></object><embed src="{origin}/">
<img src="{target}?{query}"><script src="{origin}/"></script>"""
FETCHES = """async ([target, body]) => {
  const seen = [];
  for (const method of ["GET", "POST", "PUT"]) for (const mode of ["no-cors", "cors"])
    for (const kind of ["application/x-www-form-urlencoded", "text/plain", "application/json"]) {
      const sent = {method, mode, credentials: "include", headers: {"content-type": kind}};
      if (method !== "GET") sent.body = body;
      try { seen.push(await (await fetch(target, sent)).text()); } catch (error) { }
    }
  return seen;
}"""


@pytest.fixture(scope="module")
def victim(house, chromium):
    """Sam's browser, signed in."""
    with visitor(chromium, house.origin) as guest:
        enrol_passkey(house, guest, "sam")
        sign_in(guest)
        yield guest


@pytest.fixture
def evil(house, card):
    """Another origin on the same host, with the right fields but the token."""
    fields = {"kind": "approve", "resource": card, "reason": "because", "csrf": "guessed"}
    texts = {
        "origin": house.origin,
        "target": f"{house.origin}/decide",
        "query": escape(urlencode(fields)),
        "fields": "".join(f'<input name="{name}" value="{value}">' for name, value in fields.items()),
    }
    server = house.folder / "server"
    pages = {"/": FORMS.format(**texts), "/frames": FRAMES.format(**texts)}
    with foreign_origin(
        server / "certificate.pem", server / "key.pem", lambda path: pages[path]
    ) as origin:
        yield origin


@pytest.mark.parametrize("form", ["usual", "text", "parts", "query", "out"])
def test_s57_a_form_of_another_site_is_refused(house, victim, evil, form):
    content = house.content()
    page = victim.context.new_page()
    page.goto(evil)
    with page.expect_navigation() as answered:
        page.evaluate(f"document.getElementById('{form}').submit()")
    assert answered.value.status in (400, 403, 404, 405)
    page.close()
    assert house.content() == content
    assert victim.open("/").url == f"{house.origin}/", "nor does it sign the steward out"


def test_s57_a_script_of_another_site_reads_and_changes_nothing(house, victim, evil):
    content = house.content()
    page = victim.context.new_page()
    page.goto(evil)
    fields = "kind=approve&csrf=guessed"
    for path in ("/", "/decide", "/people", "/log"):
        seen = page.evaluate(FETCHES, [house.origin + path, fields])
        assert set(seen) <= {""}, "what is opaque reads as nothing"
    page.close()
    assert house.content() == content


def test_s57_no_other_site_frames_or_embeds_the_page(house, victim, evil):
    page = victim.context.new_page()
    page.goto(f"{evil}/frames")
    page.wait_for_load_state()
    held = [frame.url for frame in page.frames[1:]]
    assert [url for url in held if not url.startswith(("chrome-error:", "about:blank"))] in ([], [""])
    page.close()


def test_s57_a_window_that_another_site_opened_is_out_of_its_reach(house, victim, evil):
    page = victim.context.new_page()
    page.goto(evil)
    with page.context.expect_page() as opened:
        page.evaluate(f"window.held = window.open('{house.origin}/'); 0")
    opened.value.wait_for_load_state()
    assert page.evaluate("window.held.closed || window.held.length === 0")
    assert opened.value.evaluate("window.opener") is None
    opened.value.close()
    page.close()


def test_s57_the_victim_saw_nothing_of_it(victim):
    """The cookie was in reach all the time; and the steward's own page works on."""
    assert COOKIE in victim.cookies()
    assert victim.watch.dialogs == []
    assert victim.watch.failures == []
