"""Survival at coded times beside statsmodels, and the curves that may leave."""

import numpy as np
import pytest

from gencard.analysis.answers.margins import RecordMargins
from gencard.analysis.formulas.answering import answer_of
from gencard.analysis.output_checks.released import released
from gencard.analysis.output_checks.rule_checks import coarse, of_curves
from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.dataset import Dataset
from gencard.core.errors import InvalidInputError
from gencard.core.policy import USUAL_RULES, Colour, Rule
from gencard.core.statistics.formula import Analysis

CODING = Coding(
    (
        Attribute("time", Edges(tuple(float(edge) for edge in range(13)))),
        Attribute("event", Labels(("censored", "died"))),
        Attribute("sex", Labels(("f", "m"))),
        Attribute("arm", Labels(("a", "b", "c"))),
    )
)
MIDPOINTS = np.arange(12) + 0.5


@pytest.fixture(scope="module")
def records():
    rng = np.random.default_rng(4)
    sex, arm = rng.integers(0, 2, 700), rng.integers(0, 3, 700)
    time = np.minimum(rng.exponential(5 / np.exp(0.4 * sex - 0.3 * (arm == 2))), 11.9).astype(int)
    return Dataset(CODING.domain, np.column_stack([time, rng.random(700) < 0.7, sex, arm]))


def ask(records, formula, kind):
    return answer_of(formula, Analysis(kind), RecordMargins.of(records), CODING)


def test_curves_are_those_of_statsmodels(records):
    duration = pytest.importorskip("statsmodels.duration.survfunc")
    answer = ask(records, "time ~ event + sex", "kaplan-meier")
    for code, name in enumerate("fm"):
        inside = records.column("sex") == code
        times, died = MIDPOINTS[records.column("time")[inside]], records.column("event")[inside]
        theirs = duration.SurvfuncRight(times, died)
        ours = np.array(answer.table(f"survival[{name}]").values)
        ours = ours[np.isin(ours[:, 0], theirs.surv_times)]
        np.testing.assert_allclose(ours[:, 3], theirs.surv_prob, rtol=1e-12)
        np.testing.assert_allclose(ours[:, 4], np.nan_to_num(theirs.surv_prob_se), rtol=1e-9)


def test_hazards_are_those_of_statsmodels(records):
    hazard = pytest.importorskip("statsmodels.duration.hazard_regression")
    answer = ask(records, "time ~ event + sex + C(arm)", "cox")
    arm = records.column("arm")
    x = np.column_stack([records.column("sex") == 1, arm == 1, arm == 2]).astype(float)
    times, died = MIDPOINTS[records.column("time")], records.column("event")
    theirs = hazard.PHReg(times, x, status=died, ties="efron").fit()
    np.testing.assert_allclose(answer.coefficients.params, theirs.params, rtol=1e-6)
    np.testing.assert_allclose(answer.coefficients.bse, theirs.bse, rtol=1e-6)
    assert answer["llf"] == pytest.approx(theirs.llf, rel=1e-8)
    assert answer["nevents"] == died.sum()


@pytest.mark.parametrize("formula", ["time ~ 1", "event ~ time:sex", "sex ~ event"])
def test_what_is_no_survival_is_refused(records, formula):
    with pytest.raises(InvalidInputError):
        ask(records, formula, "kaplan-meier")


def test_steps_stand_far_apart_and_keep_the_estimate(records):
    answer = ask(records, "time ~ event", "kaplan-meier")
    exact = {row[0]: row for row in answer.table("survival").values}
    few = coarse(answer, USUAL_RULES).table("survival").values
    assert 3 < len(few) < len(exact)
    assert all(events >= 10 and at_risk >= 10 for _, at_risk, events, _, _ in few)
    assert all(row[3:] == exact[row[0]][3:] for row in few)
    assert of_curves(answer, USUAL_RULES).colour is Colour.GREEN
    left = released(answer, USUAL_RULES).table("survival")
    assert len(left.values) == len(few)
    assert all(events % 5 == 0 for _, _, events, _, _ in left.values)


def test_too_few_events_have_no_curve(records):
    answer = ask(records.take(np.arange(12)), "time ~ event", "kaplan-meier")
    assert of_curves(answer, USUAL_RULES).broken == (Rule.SURVIVAL,)
