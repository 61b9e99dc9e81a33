"""Sign-in at an issuer: who it says somebody is, its attackers, and what such a session may do."""

import asyncio
import base64
import json
import socket
import ssl
import threading
import time
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey

from gencard.client import new_request
from gencard.controller.base.disk import write_whole
from gencard.controller.base.fair_use import Bounds
from gencard.controller.page import oidc
from gencard.controller.page import server as application
from gencard.controller.page.security import ATTEMPT, COOKIE
from gencard.controller.settings import Settings
from gencard.controller.state.log import event_of
from gencard.controller.stewards.desk import DecisionChannel
from gencard.core.errors import InvalidInputError, UnauthenticatedError
from gencard.wire.canonical import sha256
from gencard.wire.steward import Kind
from tests.page.by_http import HttpSteward, http_steward, page_house
from tests.page.issuer import CLIENT, SECRET, Issuer, issuing, new_key
from tests.system.stewards import Steward

TABLE = """
[page.oidc]
issuer = "{issuer}"
client_id = "{client}"
secret_file = "oidc-secret"
authority = "authority/certificate.pem"

[page.oidc.subjects]
s-sam = "sam"
s-kim = "kim"
s-ana = "ana"
s-gone = "gone"
"""


@pytest.fixture(scope="module")
def issuer_and_house(tmp_path_factory):
    house = page_house(tmp_path_factory.mktemp("oidc"), "stewards = 2\n")
    with pytest.MonkeyPatch.context() as patch, issuing(house.folder / "server") as issuer:
        patch.setattr(application, "_BOUNDS", Bounds(100, 100, 100_000, 60))
        with house.settings_file.open("a") as settings:
            settings.write(TABLE.format(issuer=issuer.address, client=CLIENT))
        write_whole(house.folder / "oidc-secret", [f"{SECRET}\n".encode()])
        try:
            yield issuer, house.start()
        finally:
            house.stop()


@pytest.fixture
def house(issuer_and_house):
    return issuer_and_house[1]


@pytest.fixture
def issuer(issuer_and_house, monkeypatch):
    """Issuer without faults in each test, and without cached answers."""
    issuer, _ = issuer_and_house
    monkeypatch.setattr(oidc, "KEPT_SECONDS", -1.0)
    monkeypatch.setattr(oidc, "AGAIN_SECONDS", -1.0)
    address = issuer.address
    yield issuer
    vars(issuer).update(vars(Issuer(address=address)))


@pytest.fixture
def guest(house, issuer):
    """A browser without a session."""
    guest = HttpSteward.of(house, "sam")
    with guest.http:
        yield guest


def led_back(guest):
    """Return the address to which the issuer redirects the browser."""
    to_issuer = guest.http.get("/sign-in/oidc").headers["location"]
    return guest.http.get(to_issuer).headers["location"]


def enter(guest):
    return guest.http.get(led_back(guest))


def is_in(guest):
    return guest.http.get("/").status_code == 200


def test_s56_a_mapped_subject_signs_in_and_the_log_says_how(house, issuer, guest):
    assert "/sign-in/oidc" in guest.http.get("/sign-in").text
    answer = enter(guest)
    assert (answer.status_code, answer.headers["refresh"]) == (200, "0; url=/")
    assert "samesite=strict" in answer.headers.get_list("set-cookie")[-1].lower()
    assert is_in(guest)
    state = house.controller.controller_state
    with state.database.reading() as tx:
        event = event_of(state.log.entry(tx, state.log.size(tx) - 1))
    assert (event.action, event.details["way"]) == ("sign-in", "oidc")
    assert event.details["key"] == sha256(f"{issuer.address} s-sam".encode())


@pytest.mark.parametrize(
    "lie",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"aud": "another"},
        {"aud": [CLIENT, "another"]},
        {"azp": "another"},
        {"iss": "https://evil.example"},
        {"exp": 1},
        {"exp": None},
        {"iat": 9_999_999_999},
        {"sub": None},
        {"sub": ["s-sam"]},
        {"sub": "s-stranger"},
        {"sub": "s-ana"},
        {"sub": "s-gone"},
    ],
    ids=str,
)
def test_s56_a_token_that_is_not_right_signs_nobody_in(issuer, guest, lie):
    issuer.lies = lie
    assert enter(guest).status_code == 401
    assert not is_in(guest)


def unsigned(token):
    header = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    return f"{header}.{token.split('.')[1]}."


def signed_by_another(token):
    return token.rpartition(".")[0] + "." + "A" * 86


OWN = ECKey.generate_key("P-256", {"kid": "first"})


def signed_with(header, key):
    """A way to sign the same claims as an attacker would."""

    def forged(token):
        padded = token.split(".")[1] + "=="
        claims = json.loads(base64.urlsafe_b64decode(padded))
        algorithms = [header["alg"]]
        return jwt.encode(header, claims, key, algorithms=algorithms)

    return forged


own_key_inside = signed_with({"alg": "ES256", "kid": "first", "jwk": OWN.as_dict(private=False)}, OWN)
own_key_at = signed_with({"alg": "ES256", "kid": "first", "jku": "https://evil.example/keys"}, OWN)
without_a_name = signed_with({"alg": "ES256"}, OWN)
path_as_name = signed_with({"alg": "ES256", "kid": "../../dev/null"}, OWN)
by_the_shared_secret = signed_with({"alg": "HS256", "kid": "first"}, OctKey.import_key(SECRET))
by_nothing = signed_with({"alg": "HS256", "kid": "first"}, OctKey.import_key("0" * 32))


@pytest.mark.parametrize(
    "forged",
    [
        *(
            unsigned,
            signed_by_another,
            lambda _token: "",
            lambda _token: "a.b.c",
            lambda _token: "a.b.c.d.e",
        ),
        *(own_key_inside, own_key_at, without_a_name, path_as_name, by_the_shared_secret, by_nothing),
    ],
)
def test_s56_a_token_that_the_issuer_did_not_sign(issuer, guest, monkeypatch, forged):
    right = Issuer.id_token
    monkeypatch.setattr(Issuer, "id_token", lambda self, asked: forged(right(self, asked)))
    assert enter(guest).status_code == 401


def test_s56_a_key_that_was_not_published_signs_nobody_in(issuer, guest):
    issuer.keys = [issuer.key]
    issuer.key = ECKey.generate_key("P-256", {"kid": issuer.key.kid})
    assert enter(guest).status_code == 401


def test_s56_keys_of_the_issuer_may_change(issuer, guest, monkeypatch):
    assert enter(guest).status_code == 200
    monkeypatch.setattr(oidc, "KEPT_SECONDS", 600.0)
    enter(guest)
    issuer.calls.clear()
    assert enter(guest).status_code == 200
    assert issuer.calls == ["token"], "the rest is kept"
    issuer.key = new_key("second")
    assert enter(guest).status_code == 200


def test_s56_an_answer_of_the_issuer_is_good_once(guest):
    back = led_back(guest)
    attempt = {"cookie": f"{ATTEMPT}={guest.http.cookies[ATTEMPT]}"}
    assert guest.http.get(back, headers=attempt).status_code == 200
    assert guest.http.get(back, headers=attempt).status_code == 401


def test_s56_an_answer_is_for_the_browser_that_asked(house, guest):
    """An attacker leads the victim back with a code of the attacker's: whose session would it be?"""
    back = led_back(guest)
    victim = HttpSteward.of(house, "kim")
    with victim.http:
        assert victim.http.get(back).status_code == 401
        victim.http.get("/sign-in/oidc")
        assert victim.http.get(back).status_code == 401
    assert guest.http.get(back).status_code == 401, "and it is used up"


def test_s56_no_way_in_keeps_the_session_that_a_browser_came_with(house, guest):
    """A session that somebody planted, or left behind, ends with the sign-in of the next."""
    enter(guest)
    planted = guest.http.cookies[COOKIE]
    assert guest.enrol().status_code == 303
    assert guest.sign_in().status_code == 303
    by_passkey = guest.http.cookies[COOKIE]
    enter(guest)
    assert len({planted, by_passkey, guest.http.cookies[COOKIE]}) == 3
    thief = HttpSteward.of(house, "sam")
    with thief.http:
        for secret in (planted, by_passkey):
            thief.http.cookies.set(COOKIE, secret)
            assert not is_in(thief)
            thief.http.cookies.clear()


def test_s56_a_code_of_another_attempt_is_refused(guest):
    """PKCE: the code does not go with the verifier of this attempt."""
    stolen = led_back(guest).partition("code=")[2].partition("&")[0]
    own = led_back(guest)
    injected = own.replace(own.partition("code=")[2].partition("&")[0], stolen)
    assert guest.http.get(injected).status_code == 401


def test_s56_an_answer_of_another_issuer_is_refused_before_its_code_is_sent(issuer, guest):
    back = led_back(guest).partition("&iss=")[0]
    issuer.calls.clear()
    assert guest.http.get(f"{back}&iss=https%3A%2F%2Fevil.example").status_code == 401
    assert "token" not in issuer.calls
    issuer.published = {"authorization_response_iss_parameter_supported": True}
    assert guest.http.get(led_back(guest).partition("&iss=")[0]).status_code == 401


def test_s56_an_answer_that_comes_late_is_refused(house, issuer, guest, monkeypatch):
    monkeypatch.setattr(oidc, "LEEWAY", 0)
    house.clock.ahead += timedelta(hours=1)
    try:
        assert enter(guest).status_code == 401
    finally:
        house.clock.ahead = timedelta()


@pytest.mark.parametrize(
    "published",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://localhost:1/token"},
        {"jwks_uri": "file:///etc/passwd"},
        {"authorization_endpoint": None},
        {"padding": "a" * 300_000},
    ],
    ids=lambda published: next(iter(published)),
)
def test_s56_metadata_that_are_not_right_lead_nowhere(issuer, guest, published):
    issuer.published = published
    answer = guest.http.get("/sign-in/oidc")
    assert answer.status_code == 401
    assert "evil" not in answer.text


async def a_byte_now_and_then():
    while True:
        yield b" "
        await asyncio.sleep(0.05)


async def a_gigabyte():
    for _ in range(1 << 10):
        yield b" " * (1 << 20)


@pytest.mark.parametrize("endless", [a_byte_now_and_then, a_gigabyte])
def test_s56_an_issuer_that_answers_without_end_holds_nobody(issuer, guest, monkeypatch, endless):
    issuer.endless = endless
    monkeypatch.setattr(oidc, "ANSWER_SECONDS", 0.5)
    began = time.monotonic()
    assert guest.http.get("/sign-in/oidc").status_code == 401
    assert time.monotonic() - began < 20


def test_s56_an_issuer_whose_headers_trickle_in_holds_nobody(house, monkeypatch):
    """Each line comes in time, and the end never does."""
    monkeypatch.setattr(oidc, "ANSWER_SECONDS", 0.5)
    folder, stopped = house.folder / "server", threading.Event()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")

    def trickle(listener):
        with suppress(OSError), context.wrap_socket(listener.accept()[0], server_side=True) as browser:
            browser.sendall(b"HTTP/1.1 200 OK\r\n")
            while not stopped.wait(0.1):
                browser.sendall(b"x: y\r\n")

    with socket.create_server(("localhost", 0)) as listener:
        thread = threading.Thread(target=trickle, args=(listener,), daemon=True)
        thread.start()
        trust = ssl.create_default_context(cafile=str(house.authority))
        began = time.monotonic()
        with pytest.raises(UnauthenticatedError):
            oidc.Issuer(f"https://localhost:{listener.getsockname()[1]}", trust).metadata()
        assert time.monotonic() - began < 20
        stopped.set()
        thread.join(10)


@pytest.mark.parametrize("query", ["", "?state=zz&code=a", "?state=&code=", "?state=a&state=b&code=c"])
def test_s56_an_answer_without_an_attempt_is_none(guest, query):
    assert guest.http.get(f"{oidc.ANSWER}{query}").status_code == 401


def test_s56_a_disabled_steward_or_one_with_other_keys_is_out(house, issuer, guest, tmp_path):
    issuer.subject = "s-kim"
    enter(guest)
    assert is_in(guest)
    owner = DecisionChannel("local", "root", emergency=True)
    desk = Steward(house.controller.controller_state, channel=owner)
    keys = new_request(tmp_path, "kim")
    given = {"request": keys.file.read_text(), "again": True, "address": "localhost:1"}
    desk.decide(Kind.ENROL, "people/kim", fingerprint=keys.fingerprint, **given)
    assert not is_in(guest), "a session of the old keys"
    enter(guest)
    desk.decide(Kind.DISABLE, "people/kim")
    try:
        assert not is_in(guest)
        assert enter(guest).status_code == 401
    finally:
        desk.decide(Kind.ENABLE, "people/kim")


def test_s56_where_two_decide_a_passkey_is_asked_for_all_the_same(house, issuer, guest):
    with house.analyst() as analyst:
        card = analyst.propose("survey", [("sex", "health"), ("sex", "age")], purpose="To see").name
    enter(guest)
    assert guest.decide("approve", card).status_code == 403, "no passkey"
    assert guest.enrol().status_code == 303
    assert guest.decide("approve", card).status_code == 303
    with http_steward(house, "kim", signed_in=False) as kim:
        forged = replace(guest, key=kim.key)
        assert forged.decide("approve", card).status_code == 403, "another steward's"


@pytest.mark.parametrize(
    "lines",
    ['issuer = "http://login.example"', 'issuer = "https://a@login.example"', 'issuer = "https://x?y"'],
)
def test_s56_an_issuer_is_reached_by_tls_alone(house, lines):
    table = f'[page.oidc]\n{lines}\nclient_id = "x"\nsubjects = {{ a = "sam" }}\n'
    text = house.settings_file.read_text().partition("[page.oidc]")[0]
    file = house.folder / "other.toml"
    file.write_text(text + table)
    with pytest.raises(InvalidInputError, match=r"page\.oidc\.issuer"):
        Settings.load(file)
