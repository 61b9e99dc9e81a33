"""Parts of attacks: neighbours, and conditions that single out one record."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gencard.measures.privacy.attacks import (
    AttributeCondition,
    Relation,
    by_luck,
    middles,
    neighbours,
    outliers,
    portrait,
    singles_out,
)
from gencard.measures.privacy.distances import gower_of
from tests.core.mixed import by_hand, compared
from tests.core.populations import records


@given(compared(fewest=1), st.integers(1, 12), st.integers(0, 9))
def test_neighbours_are_the_nearest(drawn_tables, count, seed):
    targets, synthetic, gower = drawn_tables
    count = min(count, len(synthetic))
    apart = np.round(by_hand(targets, synthetic, gower), 12)
    found = list(neighbours(targets, synthetic, gower, count, np.random.default_rng(seed)))
    assert len(found) == len(targets)
    for near, row in zip(found, apart, strict=True):
        assert len(set(near.tolist())) == len(near)
        np.testing.assert_array_equal(np.sort(row[near]), np.sort(row[~np.isnan(row)])[:count])


def test_ties_are_broken_at_random_for_each_target():
    synthetic, targets = records(np.array([0, 1, 1, 1, 1])), records(np.ones(4000, int))
    found = neighbours(targets, synthetic, gower_of(synthetic), 1, np.random.default_rng(1))
    counts = np.bincount([int(near[0]) for near in found], minlength=5)
    assert counts[0] == 0
    assert np.all(np.abs(counts[1:] - 1000) < 4 * np.sqrt(4000 * 3 / 16))


# Predicates ------------------------------------------------------------------------------------

SMALL = records(
    np.array([3.0, 1.0, 1.0, np.nan, 7.0]), np.array([0, 1, 1, 1, -1]), np.array([2, 2, 2, 2, 2])
)


def test_conditions_hold_for_the_right_records():
    for axis, relation, value, rows in (
        (0, Relation.EQUAL, 1, [1, 2]),
        (0, Relation.AT_MOST, 3, [0, 1, 2]),
        (0, Relation.AT_LEAST, 3, [0, 4]),
        (0, Relation.MISSING, 0, [3]),
        (1, Relation.EQUAL, 1, [1, 2, 3]),
        (1, Relation.MISSING, 0, [4]),
        (2, Relation.MISSING, 0, []),
    ):
        assert np.flatnonzero(AttributeCondition(axis, relation, value).holds(SMALL)).tolist() == rows


def test_outliers_of_a_small_table():
    found = {predicate for predicate in outliers(SMALL) if singles_out(predicate, SMALL)}
    assert found == {
        frozenset([AttributeCondition(*each)])
        for each in (
            (0, Relation.EQUAL, 3.0),
            (0, Relation.EQUAL, 7.0),
            (0, Relation.AT_LEAST, 7.0),
            (0, Relation.MISSING, 0.0),
            (1, Relation.EQUAL, 0.0),
            (1, Relation.MISSING, 0.0),
        )
    }


@given(compared(count=1, fewest=1), st.integers(0, 99))
def test_a_portrait_holds_for_its_record(drawn_tables, seed):
    table, _ = drawn_tables
    rng = np.random.default_rng(seed)
    row = int(rng.integers(len(table)))
    axes = rng.permutation(len(table.attributes))[: 1 + seed % len(table.attributes)]
    predicate = portrait(table, row, axes, middles(table))
    assert len(predicate) == len(axes)
    assert all(condition.holds(table)[row] for condition in predicate)


@given(compared(count=1, fewest=1), st.integers(0, 99))
def test_lucky_conditions_take_values_that_occur(drawn_tables, seed):
    table, _ = drawn_tables
    values = [np.unique(column) for column in table.columns]
    axes = np.arange(len(values))
    for condition in by_luck(values, axes, np.random.default_rng(seed)):
        assert condition.holds(table).any()
        if values[condition.axis].dtype.kind != "f":
            assert condition.relation in (Relation.EQUAL, Relation.MISSING)
