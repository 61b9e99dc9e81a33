"""S11, attack: one analyst queues fifty operations so that everybody else waits behind them."""

import threading
from collections.abc import Iterator

import pytest

from gencard.controller.operations import OperationRunner, Run
from gencard.v1 import synthesis_pb2
from gencard.wire.keys import Identity
from tests.system.house import House, build, request_id
from tests.system.raw_calls import agreed, call, configure, enrolled, eventually

GENERATE = "/gencard.v1.SynthesisService/GenerateRelease"
WORKERS, QUEUED, SECONDS = 2, 50, 120.0


class Starts:
    """Runs operations as the service does, once the gate is open; keeps the names of who began."""

    def __init__(self, runner: OperationRunner) -> None:
        self.runner, self.names, self.gate = runner, [], threading.Event()

    def __call__(self, run: Run) -> None:
        self.names.append(Identity.of(run.row.owner).name)
        assert self.gate.wait(SECONDS)
        self.runner(run)

    def undo(self, *what: object) -> None:
        self.runner.undo(*what)


@pytest.fixture
def house(tmp_path_factory) -> Iterator[House]:
    house = build(tmp_path_factory.mktemp("queue"))
    house.raise_caps()
    yield configure(house, "limits", workers=WORKERS).start()
    house.stop()


def test_fifty_operations_of_one_keep_nobody_waiting(house):
    """Bob comes last and is served with the first two; before, he was the fifty-first."""
    operations = house.controller.operations
    starts = Starts(operations._runners["release"])
    operations.register_runner("release", starts)
    with house.analyst() as ana, house.analyst(enrolled(house, "bob")) as bob:
        cards = {"ana": agreed(ana).name, "bob": agreed(bob).name}
    for name in ["ana"] * QUEUED + ["bob"]:
        asked = synthesis_pb2.GenerateReleaseRequest(card=cards[name], rows=5, request_id=request_id())
        assert call(house.channel(name), GENERATE, asked).answers
    assert eventually(lambda: len(starts.names) == WORKERS, SECONDS)
    starts.gate.set()
    assert eventually(lambda: "bob" in starts.names, SECONDS)
    assert starts.names.index("bob") < WORKERS
