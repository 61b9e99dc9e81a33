"""S28: until the tick nothing that anybody may ask for says that work at the records has ended."""

import sqlite3
import threading
from contextlib import closing

import pytest

from gencard.controller.operations import Run
from gencard.core.card.budget import SpendState
from gencard.v1.synthesis_pb2 import OperationProgress as Progress
from tests.system.house import build
from tests.system.raw_calls import agreed, configure, eventually, is_idle
from tests.system.test_bad_records import BAD, add_dataset
from tests.system.test_s13_cancel import GENERATE, RUN_AUDIT, begun, cancel, is_in, lines


class Gates:
    """Work begins, and the tick comes, when the test says so."""

    def __init__(self):
        self.start, self.ended, self.tick = (threading.Event() for _ in range(3))

    def hold(self, run):
        self.ended.set()
        while not (self.tick.wait(0.02) or run._over.is_set()):
            pass

    def open(self):
        self.start.set()
        self.tick.set()


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """Ticks are an hour apart; one more dataset has bad records."""
    house = build(tmp_path_factory.mktemp("ticks"))
    configure(house, "limits", tick_seconds=3_600)
    add_dataset(house, "undeclared", BAD["undeclared"])
    yield house.start()
    house.stop()


@pytest.fixture
def gates(house, monkeypatch):
    gates, executor = Gates(), house.controller.operations._executor
    work = executor._run

    def late(*job):
        assert gates.start.wait(60)
        return work(*job)

    def hold(run):
        gates.hold(run)

    monkeypatch.setattr(executor, "_run", late)
    monkeypatch.setattr(Run, "_hold", hold)
    yield gates
    gates.open()
    assert eventually(lambda: is_idle(house))


def state(house):
    """All that the service could answer from: every table of its state."""
    with closing(sqlite3.connect(house.folder / "state" / "state.sqlite")) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {name: connection.execute(f"SELECT * FROM {name}").fetchall() for (name,) in tables}


def begin(house, kind):
    """An operation of this kind, and its card."""
    with house.analyst() as analyst:
        card = agreed(analyst, dataset="undeclared" if kind == "refusal" else "survey").name
    if kind == "audit":
        return begun(house, RUN_AUDIT, card=card, black_box="honest"), card
    return begun(house, GENERATE, card=card, rows=20), card


@pytest.fixture(params=["release", "audit", "refusal"])
def held(request, house, gates):
    """Kind, operation and card of work that ended; all is still as it was before it began."""
    name, card = begin(house, request.param)
    assert eventually(is_in(house, name, Progress.STATE_RUNNING))
    before = state(house)
    gates.start.set()
    assert gates.ended.wait(120)
    assert state(house) == before
    assert is_in(house, name, Progress.STATE_RUNNING)()
    return request.param, name, card


def test_s28_nothing_tells_before_the_tick(house, held, gates):
    kind, name, _ = held
    gates.tick.set()
    end = Progress.STATE_FAILED if kind == "refusal" else Progress.STATE_SUCCEEDED
    assert eventually(is_in(house, name, end), 120)


def test_s28_a_cancel_before_the_tick_tells_nothing(house, held):
    """The operation ends as if its work had not been done, whatever had become of it."""
    _, name, card = held
    cancel(house, name)
    assert is_in(house, name, Progress.STATE_CANCELLED)()
    assert lines(house, card) == [SpendState.VOIDED]
    assert eventually(lambda: is_idle(house))
