"""A flood of strangers at the sign-in: no steward is locked out, whatever is asked, and how often."""

from collections import Counter
from contextlib import ExitStack

import pytest

from gencard.controller.base import fair_use
from gencard.controller.base.fair_use import Bounds, Shares
from gencard.controller.page import server as application
from gencard.controller.page.passkeys import Challenges
from gencard.controller.page.server import MOST_CONNECTIONS
from gencard.core.errors import UnauthenticatedError
from tests.page.by_http import HttpSteward, http_steward, page_running
from tests.page.hostile_requests import connected

JUNK = '{"id": "AAAA", "rawId": "AAAA", "type": "public-key", "response": {}}'


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """One where few calls are many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(application, "_BOUNDS", Bounds(8, 32, per_second=1, request_seconds=60))
        with page_running(tmp_path_factory.mktemp("house")) as started:
            yield started


def flooded(guest: HttpSteward, path: str, **form: str) -> Counter[int]:
    """Answers to more requests than an address may send at once."""
    return Counter(guest.http.post(path, data=form).status_code for _ in range(40))


def test_s63_strangers_use_up_their_own_share_alone(house):
    """The strangers come from the steward's own address, as through one tunnel."""
    stranger = HttpSteward.of(house, "sam")
    with http_steward(house, "sam", signed_in=False) as sam, stranger.http:
        assert flooded(stranger, "/sign-in", assertion=JUNK)[429]
        assert flooded(stranger, "/passkey/options", link="guessed")[429]
        assert sam.http.get("/sign-in").status_code == 200
        assert sam.sign_in().status_code == 303
        assert sam.http.get("/").status_code == 200
        with http_steward(house, "kim") as kim:
            assert kim.http.get("/").status_code == 200, "nor who has a link, and then a passkey"


def test_s63_connections_that_ask_nothing_make_room(house):
    host = house.origin.removeprefix("https://").encode()
    begun = b"POST /sign-in HTTP/1.1\r\nHost: " + host + b"\r\nContent-Length: 500\r\n"
    with http_steward(house, "sam") as sam, ExitStack() as held:
        for number in range(MOST_CONNECTIONS + 10):
            one = held.enter_context(connected(house.origin, house.authority))
            if number % 3:  # some say nothing, some half a request, some half of a body
                one.sendall(begun + (b"\r\nassertion=" if number % 3 == 1 else b"X: "))
        fresh = HttpSteward.of(house, "kim")
        with fresh.http:
            assert fresh.http.get("/sign-in").status_code == 200
        assert sam.http.get("/").status_code == 200


def test_s63_a_challenge_outlasts_any_number_of_others():
    time = [0.0]
    challenges = Challenges(lambda: time[0])
    first = challenges.new("sign-in")
    others = [challenges.new("sign-in") for _ in range(3_000)]
    assert len({first, *others}) == 3_001
    challenges.take(first, "sign-in")
    for wrong in (first, b"", bytes(88), others[0][:-1] + bytes([others[0][-1] ^ 1]), others[0][:-1]):
        with pytest.raises(UnauthenticatedError):
            challenges.take(wrong, "sign-in")
    with pytest.raises(UnauthenticatedError):
        challenges.take(others[1], "decide")
    with pytest.raises(UnauthenticatedError):
        challenges.take(others[1], "sign-in")
    for one in others[2:]:
        challenges.take(one, "sign-in")
    late, time[0] = challenges.new("sign-in"), challenges.seconds + 1
    time[0] += challenges.seconds
    with pytest.raises(UnauthenticatedError):
        challenges.take(late, "sign-in")
    assert len(challenges._used) <= 1, "what would be too late anyway is not remembered"


def test_s63_a_challenge_of_another_service_is_none():
    challenge = Challenges(lambda: 0.0).new("sign-in")
    with pytest.raises(UnauthenticatedError):
        Challenges(lambda: 0.0).take(challenge, "sign-in")


def test_s63_addresses_without_end_fill_no_memory(monkeypatch):
    monkeypatch.setattr(fair_use, "MOST_BUCKETS", 100)
    time = [0.0]
    shares = Shares(Bounds(8, 32, per_second=10, request_seconds=60), lambda: time[0])
    for number in range(2_000):
        time[0] += 0.01
        with shares.taken(f"127.0.{number // 256}.{number % 256}"):
            pass
    assert len(shares._buckets) <= 102
    assert not shares._running
