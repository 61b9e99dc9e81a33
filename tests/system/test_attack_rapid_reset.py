"""S11, attack: an analyst opens streams and resets them at once, thousands by the second.

Everybody else's calls were cancelled, or refused for the number of calls. Now all of them succeed; how
long they take is not bounded here, since the attack costs the machine CPU time whatever refuses it.
"""

import gc
import json
import math
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from gencard.controller.service.guard import KEPT_SECONDS
from tests.system.house import House, build
from tests.system.raw_calls import call, eventually

LIST = "/gencard.v1.CatalogService/ListDatasets"
CHECK = "/grpc.health.v1.Health/Check"
ROOT = Path(__file__).resolve().parents[2]
ATTACK_SECONDS, CALLS = 1.5, 20


@pytest.fixture(scope="module")
def house(tmp_path_factory) -> Iterator[House]:
    house = build(tmp_path_factory.mktemp("resets"))
    yield house.start()
    house.stop()


@contextmanager
def attacked(house: House, path: str, at_once: int, connections: int) -> Iterator[subprocess.Popen]:
    """The attack runs, with the certificate of ana, until the block ends or its time is over."""
    asked = (house.address, house.person("ana"), path, ATTACK_SECONDS, at_once, connections)
    command = (sys.executable, "-m", "tests.system.rapid_reset", *map(str, asked))
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
        try:
            yield process
        finally:
            process.kill()


def endings_of(house: House, name: str, attack: subprocess.Popen) -> Counter[grpc.StatusCode]:
    """Ends of one person's calls, one after another until the attack is over."""
    channel, endings = house.channel(name), Counter()
    while attack.poll() is None or endings.total() < CALLS:
        endings[call(channel, LIST, b"").code] += 1
        endings[call(channel, CHECK, b"").code] += 1
    return endings


@pytest.mark.parametrize(
    ("path", "request_bytes", "reason"),
    [
        (LIST, b"\xff\xff", "INVALID_INPUT"),
        ("/gencard.v1.NegotiationService/GetCard", b"", "NOT_FOUND"),
        ("/gencard.v1.AuditService/GetAuditReport", b"", "PERMISSION_DENIED"),
        ("/gencard.v1.AuditService/RunBlackBox", b"", "INVALID_INPUT"),
        ("/gencard.v1.SynthesisService/StreamRows", b"", "NOT_FOUND"),
    ],
)
def test_calls_that_fail_give_their_streams_back(house, path, request_bytes, reason):
    """At once and not when the garbage collector runs: a connection may fail as often as it likes."""
    channel = house.channel("ana")
    gc.disable()
    try:
        reasons = {call(channel, path, request_bytes).reason for _ in range(40)}
    finally:
        gc.enable()
    assert reasons == {reason}


@pytest.mark.parametrize(
    ("path", "at_once", "connections"),
    [(LIST, 100, 1), (LIST, 2, 8), (LIST, 12, 8), (CHECK, 2, 8)],
    ids=["one connection", "eight connections", "as many as allowed", "exempt calls"],
)
def test_resets_of_one_cancel_nobody_elses_calls(house, path, at_once, connections):
    others = ("aud", "sam")
    with attacked(house, path, at_once, connections) as attack, ThreadPoolExecutor(2) as pool:
        endings = list(pool.map(lambda name: endings_of(house, name, attack), others))
        tally = json.loads(attack.stdout.read())
    assert tally["streams"] > 1_000
    assert [set(codes) for codes in endings] == [{grpc.StatusCode.OK}] * len(others)


def test_streams_that_were_served_and_left_give_their_places_back(house):
    """A caller that stops reading has done nothing wrong, however often."""
    watch = house.channel("ana").unary_stream("/grpc.health.v1.Health/Watch")
    for _ in range(40):
        stream = watch(b"")
        assert next(stream)
        stream.cancel()
        time.sleep(0.02)


def calls_that_ended(house: House, code: str) -> int:
    """Calls that came to the interpreter and ended so."""
    counts = house.controller.service.guard.calls.counts()
    return sum(number for (_, each), number in counts.items() if each == code)


def test_resets_of_one_connection_reach_the_interpreter_few_times_a_second(house):
    """Before, all did, and each took half a millisecond of everybody's."""
    streams = house.controller.service.guard.bounds.streams
    before, begin = calls_that_ended(house, "CANCELLED"), time.monotonic()
    with attacked(house, LIST, at_once=2, connections=1) as attack:
        tally = json.loads(attack.stdout.read())
    periods = math.ceil((time.monotonic() - begin) / KEPT_SECONDS)
    assert tally["streams"] > 1_000
    assert calls_that_ended(house, "CANCELLED") - before <= 2 * periods * streams


def test_the_attacker_is_served_again_afterwards(house):
    """A certificate is not shut out for good."""
    with attacked(house, LIST, 100, 1) as attack:
        attack.wait()
    ana = house.channel("ana")
    assert eventually(lambda: call(ana, LIST, b"").code is grpc.StatusCode.OK)
