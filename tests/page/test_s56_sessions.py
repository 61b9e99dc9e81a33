"""Sessions of the page: whose they are, how long they last, and what ends them."""

import json
import ssl
from contextlib import ExitStack
from datetime import timedelta

import httpx
import pytest

from gencard.client import new_request
from gencard.controller.page.passkeys import LONGEST
from gencard.controller.page.security import COOKIE
from gencard.controller.state.stewards import LINK_LIFE, MOST_OF_ONE
from gencard.wire.steward import Kind
from tests.page.by_http import HttpSteward, http_steward
from tests.page.served import uri_of
from tests.page.software_key import PRESENT, SoftwareKey
from tests.system.stewards import Steward

IDLE = timedelta(minutes=15)
SECOND = timedelta(seconds=1)


def is_in(steward: HttpSteward) -> bool:
    """Whether the browser is shown the queue and not the sign-in."""
    answer = steward.http.get("/")
    assert answer.status_code in (200, 303), answer.text
    return answer.status_code == 200


def stolen(steward: HttpSteward) -> httpx.Client:
    """Another client with the steward's cookie."""
    cookies = {COOKIE: steward.http.cookies[COOKIE]}
    house = steward.house
    trust = ssl.create_default_context(cafile=str(house.authority))
    return httpx.Client(base_url=house.origin, verify=trust, cookies=cookies)


def test_s56_a_cookie_ends_after_fifteen_idle_minutes(house, sam):
    house.clock.ahead += IDLE - 2 * SECOND
    assert is_in(sam), "each request of a person begins the minutes anew"
    house.clock.ahead += IDLE - 2 * SECOND
    assert is_in(sam)
    house.clock.ahead += IDLE + SECOND
    assert not is_in(sam)
    assert not is_in(sam), "and nothing brings it back"


def test_s56_what_the_page_asks_by_itself_keeps_nobody_in(house, sam):
    for _ in range(4):
        house.clock.ahead += IDLE / 4 + SECOND
        sam.http.get("/", headers={"x-gencard-poll": "yes"})
    assert not is_in(sam)


def test_s56_no_session_lasts_longer_than_a_day_of_work(house, sam):
    for _ in range(int(LONGEST / (IDLE - 10 * SECOND)) + 1):
        house.clock.ahead += IDLE - 10 * SECOND
        sam.http.get("/")
    assert not is_in(sam)


def test_s56_a_cookie_of_before_the_sign_out_is_worth_nothing(sam):
    with stolen(sam) as thief:
        assert thief.get("/").status_code == 200
        csrf = sam.field("/", "csrf")
        assert sam.http.post("/sign-out", data={"csrf": csrf}).status_code == 303
        assert thief.get("/").status_code == 303


def test_s56_a_disabled_steward_is_out_at_the_next_request(house, kim):
    file = house.settings().signing.identities / "kim.toml"
    enrolled = file.read_text()
    try:
        file.write_text(f"{enrolled}disabled = true\n")
        assert not is_in(kim)
        assert kim.sign_in().status_code == 401, "nor may they sign in anew"
    finally:
        file.write_text(enrolled)
    assert not is_in(kim), "enrolled again, the earlier session stays ended"
    assert kim.sign_in().status_code == 303


def test_s56_a_session_that_somebody_else_chose_is_never_taken_over(house, sam):
    with http_steward(house, "sam", signed_in=False) as victim:
        for planted in ("planted", sam.http.cookies[COOKIE]):
            victim.http.cookies.set(COOKIE, planted, domain="localhost.local", path="/")
            cookie = f"{COOKIE}={planted}"
            answer = victim.http.post(
                "/sign-in", data={"assertion": victim.assertion()}, headers={"cookie": cookie}
            )
            assert answer.status_code == 303
            assert planted not in answer.headers["set-cookie"]


def test_s56_the_cookie_is_of_this_host_alone_and_no_script_reads_it(sam):
    header = sam.sign_in().headers["set-cookie"]
    assert header.startswith("__Host-")
    parts = {part.strip().lower() for part in header.split(";")[1:]}
    assert {"secure", "httponly", "samesite=strict", "path=/"} <= parts
    assert not any(part.startswith(("domain", "max-age", "expires")) for part in parts)


def test_s56_an_assertion_is_good_once(sam):
    assertion = sam.assertion()
    assert sam.sign_in(assertion).status_code == 303
    assert sam.sign_in(assertion).status_code == 401


@pytest.mark.parametrize(
    "lie",
    [
        {"origin": "https://localhost:1"},
        {"origin": "https://localhost.evil.example"},
        {"host": "evil.example"},
        {"flags": PRESENT},
        {"flags": 0},
        {"count": 0},
        {"identifier": b"x" * 32},
        {"private": SoftwareKey("").private},
    ],
    ids=lambda lie: next(iter(lie)),
)
def test_s56_an_assertion_that_lies_signs_nobody_in(sam, lie):
    sam.sign_in()
    assert sam.sign_in(sam.assertion(**lie)).status_code == 401


def test_s56_a_challenge_made_up_or_too_old_is_none(house, sam):
    made_up = {"challenge": "A" * 43}
    sam.key = sam.key.but(count=sam.key.count + 1)
    assert sam.sign_in(json.dumps(sam.key.asserted(made_up))).status_code == 401


def test_s56_another_stewards_passkey_signs_in_that_steward_alone(house, sam, kim, card):
    """Kim's answer to a challenge that sam fetched is hers; it opens no session of sam's."""
    options = sam.http.post("/sign-in/options").json()
    kim.key = kim.key.but(count=kim.key.count + 1)
    forged = kim.key.asserted(options) | {"id": sam.key.asserted(options)["id"]}
    assert sam.sign_in(json.dumps(forged)).status_code == 401


def test_s56_a_link_makes_one_passkey_and_is_soon_too_old(house):
    link, other = house.link("sam"), HttpSteward.of(house, "sam")
    with other.http:
        assert other.enrol(link).status_code == 303
        again = HttpSteward.of(house, "sam")
        assert other.enrol(link).status_code == 401
        other.key = again.key
        assert other.enrol(link).status_code == 401, "nor does it make one for another device"
        late = house.link("sam")
        house.clock.ahead += LINK_LIFE + SECOND
        assert other.enrol(late).status_code == 401
        assert other.enrol("made-up").status_code == 401


def test_s56_no_steward_gathers_passkeys_without_end(house):
    with ExitStack() as kept:
        for _ in range(MOST_OF_ONE):
            kept.enter_context(http_steward(house, "kim", signed_in=False))
        more = HttpSteward.of(house, "kim")
        with more.http:
            assert more.enrol().status_code == 400


def test_s56_a_removed_passkey_ends_its_sessions(house, kim):
    passkeys = house.controller.controller_state.passkeys
    passkeys.remove(uri_of(house, "kim"), uri_of(house, "sam"))
    assert not is_in(kim)
    assert kim.sign_in().status_code == 401


def test_s56_other_keys_end_passkeys_links_and_sessions(house, kim, tmp_path):
    """A holder of the old keys may have made a passkey, or may have a link for one."""
    link, keys = house.link("kim"), new_request(tmp_path, "kim")
    text, desk = keys.file.read_text(), Steward(house.controller.controller_state)
    given = {"request": text, "again": True, "address": "localhost:1"}
    desk.decide(Kind.ENROL, "people/kim", fingerprint=keys.fingerprint, **given)
    assert not is_in(kim)
    assert kim.sign_in().status_code == 401
    assert kim.enrol(link).status_code == 401
    assert kim.enrol().status_code == 303, "by a link that was made since"


def test_s56_a_steward_who_is_back_again_needs_a_new_passkey(house, kim):
    """A thief's passkey, link and session do not come back with the steward."""
    link, desk = house.link("kim"), Steward(house.controller.controller_state)
    desk.decide(Kind.DISABLE, "people/kim")
    desk.decide(Kind.ENABLE, "people/kim")
    assert not is_in(kim)
    assert kim.sign_in().status_code == 401
    assert kim.enrol(link).status_code == 401
    assert kim.enrol().status_code == 303, "by a link that was made since"


def test_s56_a_link_of_a_disabled_steward_makes_no_passkey(house):
    file, link = house.settings().signing.identities / "kim.toml", house.link("kim")
    enrolled = file.read_text()
    file.write_text(f"{enrolled}disabled = true\n")
    try:
        stranger = HttpSteward.of(house, "kim")
        with stranger.http:
            assert stranger.enrol(link).status_code == 401
    finally:
        file.write_text(enrolled)


@pytest.mark.parametrize("name", ["ana", "aud"])
def test_s56_nobody_but_stewards_gets_a_passkey(house, name):
    other = HttpSteward.of(house, name)
    with other.http:
        assert other.enrol().status_code == 401


def test_s56_a_copied_passkey_that_counts_less_is_refused(house, sam):
    """A thief who copies a key, and lets its owner sign in first, comes with an old count."""
    copy = sam.key
    assert sam.sign_in().status_code == 303
    options = sam.http.post("/sign-in/options").json()
    assert sam.sign_in(json.dumps(copy.asserted(options))).status_code == 401
