"""Epsilon by the best of all thresholds: another program's numbers, the hull by hand, bad input."""

import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from gencard.core.card.budget import Neighbouring
from gencard.core.errors import InvalidDatasetError, InvalidNumberError
from gencard.core.privacy.canaries.curve_audit import if_gaussian
from gencard.core.privacy.canaries.epsilon_bound import EpsilonBound
from gencard.core.privacy.canaries.one_run import Guesses
from gencard.core.privacy.canaries.roc import ScoredCanaries
from gencard.core.privacy.canaries.threshold_estimates import by_curve, by_guesses, by_rates
from tests.shared_data import oracle_file

LEVELS = {"delta": 1e-5, "beta": 0.05, "neighbouring": Neighbouring.ADD_REMOVE}
scores = st.lists(st.integers(0, 8), min_size=1, max_size=12)


@pytest.mark.shared
def test_another_program_says_the_same():
    """Normal scores of 500 canaries each, at delta 1e-5 and significance 0.05; it bisects to 1e-6."""
    for case in json.loads(oracle_file("metrics/one_run_audits.json").read_text())["canary_scores"]:
        scored = ScoredCanaries(case["in_scores"], case["out_scores"])
        assert scored.area == pytest.approx(case["auroc"], abs=1e-12)
        rates = by_rates(scored, **LEVELS).epsilon
        assert rates == pytest.approx(case["epsilon_clopper_pearson_bonferroni"], abs=1e-9)
        guesses = by_guesses(scored, **LEVELS).epsilon
        assert guesses == pytest.approx(case["epsilon_one_run_bonferroni"], abs=2e-6)
        curve = by_curve(scored, **LEVELS).epsilon
        assert curve == pytest.approx(case["epsilon_one_run_fdp_bonferroni"], abs=2e-6)


@given(scores, scores)
def test_the_hull_lies_on_or_above_every_threshold(put_in, left_out):
    scored = ScoredCanaries(np.array(put_in), np.array(left_out))
    right, wrong = scored.corners
    assert (right[0], wrong[0], right[-1], wrong[-1]) == (len(put_in), len(left_out), 0, 0)
    for threshold in range(10):
        hits, alarms = (np.sum(np.array(side) >= threshold) for side in (put_in, left_out))
        above = max(  # the segments of all pairs of corners at the alarms' place
            (y0 + (y1 - y0) * (alarms - x0) / (x1 - x0) if x1 > x0 else max(y0, y1))
            for (x0, y0), (x1, y1) in product(zip(wrong, right, strict=True), repeat=2)
            if x0 <= alarms <= x1
        )
        assert hits <= above + 1e-9
    slopes = np.diff(right) / np.minimum(np.diff(wrong), -1e-9)
    assert np.all(np.diff(slopes) > 0)
    pairs = [(one > other) + (one == other) / 2 for one, other in product(put_in, left_out)]
    assert max(0.5, np.mean(pairs)) - 1e-12 <= scored.area <= 1


@given(scores, scores)
def test_each_is_the_best_of_its_thresholds(put_in, left_out):
    """Only order counts; and the level is shared."""
    scored = ScoredCanaries(np.exp(np.array(put_in)), np.exp(np.array(left_out)))
    right, wrong = ScoredCanaries(np.array(put_in), np.array(left_out)).corners
    level, canaries = {**LEVELS, "beta": 0.05 / len(right)}, len(put_in) + len(left_out)
    made = [Guesses(canaries, r + w, r) for r, w in zip(right.tolist(), wrong.tolist(), strict=True)]
    guesses, curve = by_guesses(scored, **LEVELS), by_curve(scored, **LEVELS)
    assert guesses.epsilon == max(each.bound(**level).epsilon for each in made)
    assert curve.epsilon == max(if_gaussian(each, **level).epsilon for each in made)
    assert guesses.thresholds == curve.thresholds == len(right)


@settings(max_examples=25)
@given(scores, scores)
def test_rates_are_at_the_ends_of_their_intervals(put_in, left_out):
    """The best of all thresholds; each end by bisection of the binomial tail."""
    scored = ScoredCanaries(np.array(put_in), np.array(left_out))
    right, wrong = scored.corners
    level, found = 0.05 / 2 / len(right), [0.0]
    for hits, alarms in zip(right.tolist(), wrong.tolist(), strict=True):
        least, most = (
            _root(lambda p, k=k, n=n: binom.cdf(k, n, p) - level) if k < n else 1.0
            for k, n in ((len(put_in) - hits, len(put_in)), (alarms, len(left_out)))
        )
        found.append(np.log(max(1 - least - LEVELS["delta"], 1e-300) / most))
    assert by_rates(scored, **LEVELS).epsilon == pytest.approx(max(found), abs=1e-6)


def _root(falling):
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return low


def test_estimates_say_what_they_are():
    scored = ScoredCanaries(np.arange(100) + 100, np.arange(100))
    found = by_rates(scored, **LEVELS), by_guesses(scored, **LEVELS), by_curve(scored, **LEVELS)
    for estimate in found:
        assert "an estimate and no bound: best of 3 thresholds" in str(estimate)
        assert estimate.epsilon > 2
        assert estimate.neighbouring is Neighbouring.ADD_REMOVE
        assert not isinstance(estimate, EpsilonBound)
        assert not hasattr(estimate, "refutes")
    assert "the trade-off curve Gaussian" in str(found[2])
    assert scored.area == 1


@pytest.mark.parametrize("sides", [([], [1]), ([1], []), ([np.nan], [1]), ([1], [[1]])])
def test_scores_that_are_none_are_refused(sides):
    with pytest.raises(InvalidDatasetError):
        ScoredCanaries(*map(np.array, sides))


@pytest.mark.parametrize(
    "wrong", [{"delta": 0}, {"delta": 1}, {"delta": np.nan}, {"beta": 0}, {"beta": 0.7}]
)
def test_levels_out_of_range_are_refused(wrong):
    scored = ScoredCanaries(np.array([2]), np.array([1]))
    for estimate in (by_rates, by_guesses, by_curve):
        with pytest.raises(InvalidNumberError):
            estimate(scored, **(LEVELS | wrong))
