"""Runs about part of the records, over a real service: as SQL chooses, and beside answers of before."""

import numpy as np
import pytest

from gencard.analysis.formulas.model_matrix import read_condition
from gencard.controller import run_question
from gencard.controller.answers import decisions
from gencard.controller.jobs import answering
from gencard.core.errors import RunRefusedError
from tests.system.house import SCHEMA, build, survey
from tests.system.raw_calls import configure
from tests.system.thread_jobs import run_jobs_in_threads

POLICY = '{ kinds = ["linear", "means"], checked_runs = 80, numbers = 200 }'
WHERE = "age < 45 or region == 'north'"
LACKING = {"north": 180, "south": 30}


@pytest.fixture(scope="module")
def frame():
    """A survey in which some people's age is missing."""
    made = survey(900)
    for region, number in LACKING.items():
        made.loc[np.flatnonzero(made.region == region)[:number], "age"] = np.nan
    return made


@pytest.fixture
def house(frame, tmp_path):
    schema = SCHEMA.replace(
        "edges = [16, 30, 45, 65, 95]", "edges = [16, 30, 45, 65, 95]\nmissing = true"
    )
    made = build(tmp_path, frame, schema)
    made.raise_caps()
    configure(made, "datasets.policy", analyses=POLICY, largest_order=6)
    with pytest.MonkeyPatch.context() as patch:
        run_jobs_in_threads(patch)
        yield made.start()
        made.stop()


@pytest.fixture
def card(house):
    granted = {"kinds": ["linear", "means"], "checked_runs": 50}
    with house.analyst() as ana:
        pairs = [("sex", "age", "region"), ("sex", "work")]
        yield ana.propose("survey", pairs, purpose="a test", rows=900, analyses=granted).accept()


def asked_for(frame):
    """Number of people that pandas chooses."""
    return int(((frame.age < 45) | (frame.region == "north")).sum())


def rounded(count):
    """Round a count as a run does."""
    return 5 * round(count / 5)


def run_before(card, formula, where):
    """An answer of the time when a condition chose among people alone who have all its numbers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            run_question, "read_condition", lambda *given, **_: read_condition(*given, of_present=True)
        )
        for module in (answering, decisions):
            patch.setattr(module, "RULES_VERSION", "2")
        return card.run(formula, "linear", where=where, progress=False)


def test_a_run_and_an_answer_are_about_whom_sql_chooses(card, frame):
    expected = asked_for(frame)
    assert card.run("I(work == 'full') ~ sex", "linear", where=WHERE, progress=False).nobs == rounded(
        expected
    )
    card.release(rows=100, seed=1, progress=False)
    assert card.answer("I(region == 'north') ~ sex", "linear", where=WHERE).nobs == expected


def test_a_question_whose_condition_chose_others_is_run_again(card, frame):
    expected = asked_for(frame)
    formula = "I(work == 'full') ~ sex"
    assert run_before(card, formula, WHERE).nobs == rounded(expected - LACKING["north"])
    assert card.run(formula, "linear", where=WHERE, progress=False).nobs == rounded(expected)


def test_one_whose_condition_chose_the_same_people_has_its_answer(card):
    formula = "I(work == 'full') ~ sex"
    run_before(card, formula, "age < 45")
    card.run(formula, "linear", where="age < 45", progress=False)
    assert len(card.answers()) == 1


def test_an_answer_of_before_keeps_its_population(card, frame):
    """Without the nine of these people who lack an age, then with them: they would be the difference."""
    some = frame[frame.age.isna() & (frame.region == "south")].groupby(["health", "work"]).size()
    health, work = some[some.between(1, 9)].index[0]
    where = f"age < 45 or (region == 'south' and health == '{health}' and work == '{work}')"
    run_before(card, "I(sex == 'male') ~ C(health)", where)
    with pytest.raises(RunRefusedError):
        card.run("I(sex == 'male') ~ C(health)", "linear", where=where, progress=False)
