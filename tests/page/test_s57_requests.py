"""Requests that no browser sends: none of them fails inside, and none has an effect."""

import re
import ssl
from collections import Counter
from contextlib import ExitStack, suppress

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gencard.controller.page import security, server
from gencard.wire import keys
from tests.page.furniture import MARK
from tests.page.hostile_requests import answer_to, connected, mutants

MUTANTS = 300
PATHS = (
    *("/", "/budget", "/releases", "/answers", "/people", "/log", "/sign-in", "/passkey"),
    *("/decide", "/decide/options", "/sign-in/options", "/passkey/options", "/sign-out", "/nowhere"),
    *("/static/htmx.min.js", "/cards/{card}", "/cards/{card}/risk", "/log/1", "/people/requests"),
)


@pytest.mark.timeout(120)
def test_s57_mutated_requests_change_nothing_and_break_nothing(house, sam, card):
    form = {
        "csrf": sam.field("/", "csrf"),
        "shown": "0" * 64,
        "kind": "approve",
        "resource": card,
        "reason": "because",
        "request_id": "not-one",
    }
    content, statuses = house.content(), Counter()
    for number, mutant in enumerate(mutants([path.format(card=card) for path in PATHS], form, MUTANTS)):
        answer = sam.http.request(
            mutant.method, mutant.path, headers=dict(mutant.headers), content=mutant.body
        )
        assert answer.status_code < 500, (mutant, answer.text)
        statuses[answer.status_code] += 1
        if answer.status_code == 303 and sam.http.get("/").status_code == 303:
            assert "sign-out" in mutant.path
            sam.sign_in()
            form["csrf"], content = sam.field("/", "csrf"), house.content()
        if number % 25 == 0:
            assert house.content() == content, mutant
    assert house.content() == content
    assert len(statuses) > 4, statuses
    assert statuses[200] > 20, "some were read"


SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n"
RAW = {
    "two lengths": b"Content-Length: 0\r\nContent-Length: 44\r\n\r\n" + SMUGGLED,
    "two lengths in one": b"Content-Length: 0, 44\r\n\r\n" + SMUGGLED,
    "a signed length": b"Content-Length: +0\r\n\r\n" + SMUGGLED,
    "a length in hexadecimal": b"Content-Length: 0x0\r\n\r\n" + SMUGGLED,
    "length and chunks": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "chunks of another coding": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "chunks twice": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "space before the colon": b"Content-Length : 44\r\n\r\n" + SMUGGLED,
    "a bare line end": b"X: a\nContent-Length: 44\n\n" + SMUGGLED,
    "a NUL in a header": b"X: a\0b\r\n\r\n",
    "two hosts": b"Host: evil.example\r\n\r\n",
    "headers without end": b"X: " + b"a" * 200_000 + b"\r\n\r\n",
}
"""After the first lines of a POST to /decide; each hides a second request, or is none."""


@pytest.mark.parametrize("name", RAW)
def test_s57_a_request_inside_another_is_not_answered(house, name):
    host = house.origin.removeprefix("https://").encode()
    lines = b"POST /decide HTTP/1.1\r\nHost: {host}\r\nOrigin: https://{host}\r\n" + RAW[name]
    answer = answer_to(house.origin, house.authority, lines.replace(b"{host}", host), seconds=2)
    statuses = re.findall(rb"HTTP/1.1 (\d+)", answer)
    assert b"404" not in statuses, "the request inside"
    assert all(status[:1] == b"4" for status in statuses), answer


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1:{port}", "localhost", "localhost:{port}.evil"]
)
def test_s57_a_rebound_name_reaches_nothing(house, sam, host):
    port = house.origin.rpartition(":")[2]
    headers = {"host": host.format(port=port)}
    for path in ("/", "/sign-in", "/static/style.css"):
        answer = sam.http.get(path, headers=headers)
        assert answer.status_code == 400
        assert "gencard" not in answer.text.lower() or answer.headers["content-type"].startswith(
            "text/html"
        )


def test_s57_headers_of_every_answer(sam):
    paths = ("/", "/sign-in", "/nowhere", "/static/style.css", "/static/none", "/decide", "/people")
    answers = [sam.http.request(method, path) for path in paths for method in ("GET", "POST", "PUT")]
    answers.append(sam.http.get("/", headers={"host": "evil.example"}))
    assert len({answer.status_code for answer in answers}) > 2
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        if "/static/" not in str(answer.url):
            assert answer.headers["cache-control"] == "no-store"
        assert "uvicorn" not in answer.headers.get("server", "")


def test_s57_a_body_is_bounded(house, sam):
    token = sam.field("/", "csrf")
    large = b"csrf=" + token.encode() + b"&reason=" + b"a" * (8 << 20)
    kind = {"content-type": "application/x-www-form-urlencoded"}
    assert sam.http.post("/decide", content=large, headers=kind).status_code == 413
    pieces = (b"a" * 65_536 for _ in range(128))
    with suppress(httpx.TransportError):  # it may answer and hang up before all was sent
        assert sam.http.post("/decide", content=pieces, headers=kind).status_code == 413
    many = "&".join(f"f{number}=1" for number in range(20_000)).encode()
    assert sam.http.post("/decide", content=many, headers=kind).status_code == 400
    assert sam.http.get("/").status_code == 200


@pytest.mark.parametrize("part", ["name", "role", "project"])
def test_s57_markup_in_a_request_for_enrolment_goes_nowhere(sam, monkeypatch, part):
    """Signed as it should be, by a client that checks nothing."""
    markup = f"<b {MARK}>eve</b>"
    with monkeypatch.context() as patch:
        patch.setattr(keys, "checked_identity", lambda *_parts: None)
        pair = ec.generate_private_key(ec.SECP256R1()), Ed25519PrivateKey.generate()
        request = keys.request_document(*pair, **({"name": "eve"} | {part: markup})).decode()
    form = {"csrf": sam.field("/", "csrf"), "role": "analyst", "project": "survey"}
    for sent in ({"request": request}, {"request": markup}, {"request": request, part: markup}):
        answer = sam.http.post("/people/request", data=form | sent)
        assert answer.status_code == 400
        assert markup not in answer.text


@pytest.mark.parametrize("earlier", [0, 1], ids=["first request", "second request"])
def test_s57_half_a_request_holds_no_connection(house, sam, monkeypatch, earlier):
    host = house.origin.removeprefix("https://").encode()
    with ExitStack() as connections:
        if not earlier:
            monkeypatch.setattr(server, "REQUEST_SECONDS", 0.5)
        slow = [connections.enter_context(connected(house.origin, house.authority)) for _ in range(20)]
        for one in slow if earlier else ():
            one.sendall(b"HEAD /sign-in HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
            assert one.recv(65_536).startswith(b"HTTP/1.1 200")
        monkeypatch.setattr(server, "REQUEST_SECONDS", 0.5)
        for one in slow:
            with suppress(ConnectionError, ssl.SSLError):  # on a busy machine its time is over by now
                one.sendall(b"POST /sign-in HTTP/1.1\r\nHost: " + host + b"\r\nX: ")
        assert sam.http.get("/").status_code == 200
        for one in slow:
            with suppress(ConnectionError, ssl.SSLError):
                assert one.recv(1) == b"", "closed in time"


def test_s57_a_body_that_trickles_in_is_waited_for_so_long(house, monkeypatch):
    monkeypatch.setattr(security, "BODY_SECONDS", 0.3)
    host = house.origin.removeprefix("https://")
    lines = f"POST /sign-in HTTP/1.1\r\nHost: {host}\r\nOrigin: {house.origin}\r\n"
    sent = f"{lines}Content-Length: 500\r\n\r\nassertion=".encode()
    answer = answer_to(house.origin, house.authority, sent)
    assert re.match(rb"HTTP/1.1 (4\d\d|503)", answer), answer
