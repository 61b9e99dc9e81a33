"""S19: what was once learnt about records is paid for, whatever becomes of later tries."""

import time
from concurrent.futures import Future

import pytest

from gencard.core.card.budget import SpendState
from gencard.core.errors import MeasurementRefusedError
from gencard.v1.synthesis_pb2 import OperationProgress as Progress
from tests.system.house import build
from tests.system.raw_calls import agreed, eventually
from tests.system.test_s13_cancel import GENERATE, begun, cancel, is_in, lines


@pytest.fixture(scope="module")
def faulty_house(tmp_path_factory):
    """One record has a level that nobody declared, and every card meets it."""
    house = build(tmp_path_factory.mktemp("faulty"))
    with (house.folder.parent / "survey.csv").open("a") as file:
        file.write("female,good,unheard-of,north,30\n")
    yield house.start()
    house.stop()


def test_s19_a_cancelled_try_does_not_free_what_an_earlier_one_learnt(faulty_house, monkeypatch):
    with faulty_house.analyst() as analyst:
        card = agreed(analyst, ("sex", "work"))
        with pytest.raises(MeasurementRefusedError):
            card.generate(5, progress=False)
    assert lines(faulty_house, card.name) == [SpendState.SETTLED]
    time.sleep(1.1)  # times are kept to the second: an end in the same one counts for the next line too
    executor = faulty_house.controller.operations._executor
    monkeypatch.setattr(executor, "submit", lambda *_, **__: Future())
    name = begun(faulty_house, GENERATE, card=card.name, rows=5)
    assert eventually(is_in(faulty_house, name, Progress.STATE_RUNNING))
    cancel(faulty_house, name)
    assert is_in(faulty_house, name, Progress.STATE_CANCELLED)()
    assert lines(faulty_house, card.name) == [SpendState.VOIDED, SpendState.SETTLED]
