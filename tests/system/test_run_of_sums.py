"""Runs over a real service whose stored means would chain to the numbers of few people."""

import numpy as np
import pytest

from gencard.core.errors import AnswerWaitingError, RunRefusedError
from tests.system.house import build, survey
from tests.system.raw_calls import configure

POLICY = '{ kinds = ["means", "ttest"], checked_runs = 80, numbers = 200, stored = true }'
EITHER = "health == 'good' or work == 'part'"


def three_who_work_part_time():
    """Survey in which three people in good health work part time; no age is extreme."""
    frame = survey(900)
    frame["age"] = frame.age.clip(30, 60)
    both = frame.index[(frame.health == "good") & (frame.work == "part")]
    frame.loc[both[3:], "work"] = "full"
    return frame


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    made = build(tmp_path_factory.mktemp("sums"), three_who_work_part_time())
    made.raise_caps()
    configure(made, "datasets.policy", analyses=POLICY, largest_order=3)
    yield made.start()
    made.stop()


@pytest.fixture
def card(house):
    granted = {"kinds": ["means", "ttest"], "checked_runs": 20}
    with house.analyst() as ana:
        yield ana.propose("survey", [("sex",)], purpose="sums", rows=900, analyses=granted).accept()


def stored_run(card, formula, kind="means", **options):
    return card.run(formula, kind, response="stored", progress=False, **options)


def test_mean_by_health_by_work_and_of_either_are_the_mean_of_three(card):
    assert stored_run(card, "age ~ health").estimates.n == 900
    assert stored_run(card, "age ~ work").estimates.n == 900
    with pytest.raises(RunRefusedError):
        stored_run(card, "age ~ 1", where=EITHER)
    with pytest.raises(RunRefusedError):  # the coded mean is nearly the stored one
        card.run("age ~ 1", "means", where=EITHER, progress=False)
    # what leaves many may be asked
    assert stored_run(card, "age ~ 1", where="health == 'good' or work == 'full'").estimates.n > 100


def test_a_mean_that_one_person_may_move_waits_for_a_steward(house, tmp_path):
    frame = three_who_work_part_time()
    frame["age"] = np.where(frame.age > 31, 30.5, 30)
    frame.loc[7, "age"] = 95
    made = build(tmp_path, frame)
    made.raise_caps()
    configure(made, "datasets.policy", analyses=POLICY)
    made.start()
    try:
        granted = {"kinds": ["means"], "checked_runs": 5}
        with made.analyst() as ana:
            proposed = ana.propose("survey", [("sex",)], purpose="x", rows=900, analyses=granted)
            one = proposed.accept()
            with pytest.raises(AnswerWaitingError):
                stored_run(one, "age ~ region")
            for sex in ("male", "female"):  # in whichever population the person is
                with pytest.raises(AnswerWaitingError):
                    stored_run(one, "age ~ 1", where=f"sex == '{sex}'")
    finally:
        made.stop()
