"""Sums of one number over groups of many tables: no combination may be about few records."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gencard.analysis.output_checks import differencing
from gencard.analysis.output_checks.differencing import chain_of_sums
from gencard.core.policy import PASSED, Rule, Rules

RULES = Rules()
TOLD = (Rule.DIFFERENCING,)


def groups(*, of, where=None):
    """The group of each record, where a condition holds."""
    inside = np.ones(len(of), dtype=bool) if where is None else where
    return np.where(inside, of, -1).astype(np.int64)


def crossed(counts, seed=1):
    """Two attributes with so many records in each cell, and log-normal numbers."""
    rows, columns = np.indices(np.shape(counts))
    a, b = (np.repeat(one.ravel(), np.ravel(counts)) for one in (rows, columns))
    return a, b, np.random.default_rng(seed).lognormal(0, 0.5, size=len(a))


@pytest.mark.parametrize("few", [1, 4, 9])
def test_mean_by_each_and_of_either_tell_the_cell_of_both(few):
    a, b, values = crossed([[few, 30, 30], [30, 30, 30], [30, 30, 30]])
    by_a, by_b = groups(of=a), groups(of=b)
    either = groups(of=np.zeros(len(a)), where=(a == 0) | (b == 0))
    tables = [by_a, by_b, either]
    for place, new in enumerate(tables):
        others = [one for one in tables if one is not new]
        assert chain_of_sums([new], others, values, RULES).broken == TOLD, place
        assert chain_of_sums([new], others, None, RULES).broken == TOLD
        assert chain_of_sums([new], others[:1], values, RULES) == PASSED
    assert chain_of_sums(tables, [], values, RULES).broken == TOLD


def test_ten_records_in_the_cell_may_be_told():
    a, b, values = crossed([[10, 30, 30], [30, 30, 30], [30, 30, 30]])
    either = groups(of=np.zeros(len(a)), where=(a == 0) | (b == 0))
    assert chain_of_sums([either], [groups(of=a), groups(of=b)], values, RULES) == PASSED


def test_what_is_left_may_not_be_one_records_number_beside_small_ones():
    a, b, values = crossed([[12, 30, 30], [30, 30, 30], [30, 30, 30]])
    values[np.flatnonzero((a == 0) & (b == 0))[0]] = 40.0  # less than half of its row and its column
    by_a, by_b = groups(of=a), groups(of=b)
    either = groups(of=np.zeros(len(a)), where=(a == 0) | (b == 0))
    assert chain_of_sums([by_a, by_b], [], values, RULES) == PASSED
    assert chain_of_sums([either], [by_a, by_b], values, RULES).broken == TOLD
    assert chain_of_sums([either], [by_a, by_b], None, RULES) == PASSED


def test_a_weighted_combination_may_not_be_nearly_one_record():
    """One record with weight 1 and 90 with weight 1/90 are two records, though no number is exact."""
    one = np.array([1, *[0] * 90])
    whole, part = groups(of=np.zeros(91)), groups(of=np.zeros(91), where=one == 0)
    assert chain_of_sums([whole], [part], None, RULES).broken == TOLD


def test_what_was_told_before_is_not_told_again():
    a, b, values = crossed([[3, 30], [30, 30]])
    either = groups(of=np.zeros(len(a)), where=(a == 0) | (b == 0))
    earlier = [groups(of=a), groups(of=b), either]
    assert chain_of_sums([groups(of=a)], earlier, values, RULES) == PASSED
    assert chain_of_sums([groups(of=np.zeros(len(a)))], earlier, values, RULES) == PASSED
    assert chain_of_sums([groups(of=a, where=b == 1)], [], values, RULES) == PASSED


def lightest(tables, sizes):
    """The lightest combination with small whole coefficients, by brute force."""
    rows = [table == group for table in tables for group in range(table.max() + 1)]
    least = np.inf
    for weights in product((-1, 0, 1), repeat=len(rows)):
        vector = np.abs(np.array(weights) @ np.array(rows, dtype=float)[:, :])
        if vector.max() > 0:
            least = min(least, (vector * sizes).sum() / vector.max())
    return least


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 3), st.integers(2, 12))
def test_no_light_combination_of_small_whole_coefficients_passes(seed, tables, threshold):
    rng = np.random.default_rng(seed)
    classes = rng.integers(-1, 2, size=(tables, 7))
    sizes = rng.integers(1, 9, size=7)
    rules = Rules(differencing.Transform(threshold=threshold, dominance_count=0))
    records = np.repeat(classes, sizes, axis=1).astype(np.int64)
    verdict = chain_of_sums([*records], [], None, rules)
    if lightest(classes, sizes) < threshold - 1e-6:
        assert verdict.broken == TOLD


def test_an_order_of_tables_that_many_analysts_ask_for_passes():
    rng = np.random.default_rng(3)
    attributes = [rng.choice(size, size=600) for size in (2, 3, 4, 6)]
    values, earlier = rng.lognormal(0, 0.6, size=600), []
    for table in [*attributes, attributes[0] * 3 + attributes[1], attributes[0] * 4 + attributes[2]]:
        assert chain_of_sums([groups(of=table)], earlier, values, RULES) == PASSED
        earlier.append(groups(of=table))


@pytest.mark.parametrize("bound", ["_MOST_SUMS", "_MOST_WEIGHTS", "_MOST_SHARES"])
def test_what_is_too_large_to_judge_waits(bound, monkeypatch):
    monkeypatch.setattr(differencing, bound, 3)
    a, b, values = crossed(np.full((5, 5), 3))
    verdict = chain_of_sums([groups(of=a)], [groups(of=b)], values, RULES)
    assert verdict.broken == (Rule.UNDECIDED,)


@pytest.mark.parametrize("failing", [(0,), (1,), (0, 1)])
def test_a_solver_that_fails_leaves_the_answer_undecided(monkeypatch, failing):
    """Both programs of a class can fail, which once let the class pass."""
    a, b, values = crossed([[4, 30, 30], [30, 30, 30], [30, 30, 30]])
    either = groups(of=np.zeros(len(a)), where=(a == 0) | (b == 0))
    solve, calls = differencing.scipy.optimize.linprog, []

    def sometimes(*arguments, **options):
        solution = solve(*arguments, **options)
        if len(calls) % 2 in failing:
            solution.status, solution.fun = 4, None
        calls.append(solution.status)
        return solution

    monkeypatch.setattr(differencing.scipy.optimize, "linprog", sometimes)
    verdict = chain_of_sums([either], [groups(of=a), groups(of=b)], values, RULES)
    assert 4 in calls
    assert verdict.broken == (Rule.UNDECIDED,)
