"""Runs over a real service whose populations differ by few people: the second is refused, and signed."""

import numpy as np
import pytest

from gencard.core.errors import RunRefusedError
from tests.system.house import build, survey
from tests.system.raw_calls import configure

POLICY = '{ kinds = ["crosstab", "linear", "means"], checked_runs = 80, numbers = 200 }'
EITHER = "health in ['bad', 'very bad']"


def nine_very_bad():
    frame = survey(900)
    others = np.flatnonzero(frame.health == "very bad")[9:]
    frame.loc[others, "health"] = "bad"
    return frame


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    made = build(tmp_path_factory.mktemp("differencing"), nine_very_bad())
    made.raise_caps()
    configure(made, "datasets.policy", analyses=POLICY, largest_order=3)
    configure(made, "limits", refusals=1_000)
    yield made.start()
    made.stop()


@pytest.fixture
def card(house):
    granted = {"kinds": ["linear", "means"], "checked_runs": 50}
    with house.analyst() as ana:
        pairs = [("sex", "health"), ("sex", "work"), ("age",)]
        yield ana.propose("survey", pairs, purpose="a test", rows=900, analyses=granted).accept()


def test_two_runs_that_differ_by_nine_people(card):
    """Bad or very bad, then bad alone: the nine would be the difference."""
    assert card.run("age ~ sex", "linear", where=EITHER, progress=False).nobs > 100
    with pytest.raises(RunRefusedError, match="output-rules"):
        card.run("age ~ sex", "linear", where="health == 'bad'", progress=False)
    # what differs by many may be asked
    assert card.run("age ~ sex", "linear", where="health == 'good'", progress=False).nobs > 100
    assert [one.state for one in card.answers()].count("refused") == 1


def test_nine_people_are_left_out_of_no_run(card):
    """Not even of the first one: how many there are is what a card may tell later."""
    with pytest.raises(RunRefusedError, match="output-rules"):
        card.run("age ~ work", "linear", where="health != 'very bad'", progress=False)


def test_everybody_but_one_man_and_his_like_never(card):
    """The existence of such a man is not disclosed either: the empty groups are refused too."""
    for sex in ("male", "female"):
        for work in ("none", "part", "full"):
            for sign in ("not ", ""):
                text = f"{sign}(sex == '{sex}' and work == '{work}' and health == 'very bad')"
                with pytest.raises(RunRefusedError):
                    card.run("age ~ sex", "linear", where=text, progress=False)


def test_what_psi_tells_is_told_before(card):
    """The group is the men in fair health, whom psi counts, and a few more men.

    Before the release the group is far from any other. This test releases psi, so it is the last one.
    """
    women = "(health == 'bad' and sex == 'female' and work == 'part')"
    men = "(health == 'very bad' and sex == 'male' and work == 'none')"
    group = f"health == 'fair' or {women} or {men}"
    assert card.run("age ~ sex", "linear", where=group, progress=False).nobs > 100
    card.release(rows=100, seed=1, progress=False)
    with pytest.raises(RunRefusedError, match="output-rules"):
        card.run("age ~ C(sex)", "linear", where=group, progress=False)
