"""The nearest records against all distances, and against another program on Adult."""

import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.errors import DomainMismatchError
from gencard.measures.privacy.dcr import closer_share
from gencard.measures.privacy.distances import Gower, Missing, Records, gower_of
from gencard.measures.privacy.nearest import (
    RareLevels,
    first_of_each,
    nearest,
    rare_levels,
    twin_numbers,
)
from tests.core.mixed import adult, compared, distances
from tests.shared_data import oracle_file


def test_ties_are_the_first_one():
    reference = Records(("a", "b"), (np.array([1, 0, 0, 1]), np.array([0, 1, 0, 1])))
    found = nearest(reference.take(np.array([0, 3])), reference, gower_of(reference))
    assert found.position.tolist() == [0, 3]
    outside = Records(("a", "b"), (np.array([5]), np.array([5])))
    assert nearest(outside, reference, gower_of(reference)).position.tolist() == [0]


@given(compared())
def test_all_distances_say_the_same(drawn):
    records, reference, gower = drawn
    every = distances(records, reference, gower)
    every[np.isnan(every)] = np.inf
    padded = np.sort(np.pad(every, ((0, 0), (0, 2)), constant_values=np.inf), axis=1)
    padded[np.isinf(padded)] = np.nan
    found = nearest(records, reference, gower)
    np.testing.assert_array_equal(found.distance, padded[:, 0])
    np.testing.assert_array_equal(found.second, padded[:, 1])
    some = ~np.isnan(padded[:, 0])
    assert np.all(found.position[~some] == -1)
    if some.any():
        np.testing.assert_array_equal(found.position[some], every[some].argmin(axis=1))
    closest = nearest(records, reference, gower, second=False)
    np.testing.assert_array_equal(closest.distance, found.distance)
    np.testing.assert_array_equal(closest.position, found.position)
    assert np.isnan(closest.second).all()


@given(compared(), st.randoms(use_true_random=False))
def test_the_order_of_records_does_not_matter(drawn, random):
    records, reference, gower = drawn
    rows, others = (random.sample(range(len(t)), len(t)) for t in (records, reference))
    found = nearest(records, reference, gower)
    again = nearest(records.take(np.array(rows, int)), reference.take(np.array(others, int)), gower)
    np.testing.assert_array_equal(again.distance, found.distance[rows])
    np.testing.assert_array_equal(again.second, found.second[rows])


@pytest.mark.parametrize("missing", Missing)
@pytest.mark.parametrize(("numbers", "levels"), [(3, 0), (2, 3), (0, 4), (1, 12)])
def test_tables_of_some_hundred_records(missing, numbers, levels):
    """More records than are compared at once, in one group and in many."""
    rng = np.random.default_rng(4)
    names = tuple(f"a{axis}" for axis in range(numbers + levels))

    def table(rows):
        floats = [
            np.where(rng.random(rows) < 0.1, np.nan, rng.normal(size=rows)) for _ in range(numbers)
        ]
        return Records(names, (*floats, *(rng.integers(-1, 3, rows) for _ in range(levels))))

    records, reference = table(500), table(400)
    gower = gower_of(reference, missing=missing, weights={names[-1]: 0.7})
    every = np.sort(distances(records, reference, gower), axis=1)
    found = nearest(records, reference, gower)
    np.testing.assert_array_equal(found.distance, every[:, 0])
    np.testing.assert_array_equal(found.second, every[:, 1])


@pytest.mark.parametrize("missing", Missing)
@pytest.mark.parametrize("attributes", [1, 2, 6])
def test_numbers_that_lie_in_many_boxes(missing, attributes):
    """Some far outside the ranges, some missing, many equal; with weights."""
    rng = np.random.default_rng(attributes)
    names = tuple(f"a{axis}" for axis in range(attributes))

    def table(rows):
        numbers = np.round(rng.normal(size=(attributes, rows)) ** 3, 2)
        numbers[rng.random(numbers.shape) < 0.02] = np.nan
        return Records(names, tuple(numbers))

    records, reference = table(700), table(1500)
    weights = tuple(rng.random(attributes) + 0.1)
    gower = Gower(names, (4.0,) * attributes, weights, missing)
    every = distances(records, reference, gower)
    ordered = np.sort(every, axis=1)
    for second in (False, True):
        found = nearest(records, reference, gower, second=second)
        np.testing.assert_array_equal(found.distance, ordered[:, 0])
        known = ~np.isnan(ordered[:, 0])
        np.testing.assert_array_equal(found.position[known], np.nanargmin(every[known], axis=1))
    np.testing.assert_array_equal(found.second, ordered[:, 1])


def test_many_equal_numbers_are_one_box():
    same = Records(("a",), (np.full(1000, 0.5),))
    found = nearest(same, same, Gower(("a",), (1.0,), (1.0,)))
    assert not found.second.any()
    assert not found.position.any()


def test_a_hundred_thousand_equal_records_are_compared_once():
    """10**10 pairs; half of the synthetic ones lack the number, and only one other record does."""
    rows = 100_000
    half = np.where(np.arange(rows) % 2, np.nan, 2.0)
    synthetic = Records(("a", "b"), (half, np.full(rows, 7)))
    others = Records(("a", "b"), (np.append(np.full(rows, 2.0), np.nan), np.full(rows + 1, 7)))
    found = nearest(synthetic, others, Gower(("a", "b"), (1.0, None), (1.0, 1.0)))
    assert not found.distance.any()
    assert np.array_equal(found.second, np.where(np.arange(rows) % 2, 0.5, 0.0))
    assert np.array_equal(found.position, np.where(np.arange(rows) % 2, rows, 0))


def test_twins_are_numbered_without_what_weighs_nothing():
    records = Records(
        ("a", "b", "c"), (np.array([0.0, -0.0, np.nan, np.nan]), np.array([9, 9, -1, -1]), np.arange(4))
    )
    gower = Gower(("a", "b", "c"), (1.0, None, None), (1.0, 1.0, 0.0))
    numbers = twin_numbers(records, gower)
    assert numbers.tolist() == [0, 0, 1, 1]
    assert first_of_each(numbers).tolist() == [0, 2]
    assert first_of_each(np.array([1, 0, 1, 1, 0]), 2).tolist() == [1, 4, 0, 2]


def test_no_records_and_no_reference():
    none, one = (Records(("a",), (np.zeros(rows),)) for rows in (0, 1))
    gower = Gower(("a",), (1.0,), (1.0,))
    assert len(nearest(none, one, gower)) == 0
    found = nearest(one, none, gower)
    assert np.isnan(found.distance).all()
    assert np.isnan(found.second).all()
    assert found.position.tolist() == [-1]
    alone = nearest(one, one, gower)
    assert (alone.distance.tolist(), alone.position.tolist()) == ([0.0], [0])
    assert np.isnan(alone.second).all()


def test_other_attributes_are_refused():
    one, other = Records(("a",), (np.zeros(1),)), Records(("b",), (np.zeros(1),))
    with pytest.raises(DomainMismatchError):
        nearest(one, other, gower_of(one))


def test_memory_stays_flat():
    """4,000 by 4,000 distances alone would take 128 MB."""
    rng = np.random.default_rng(5)
    numbers = Records(("a", "b"), (rng.normal(size=4000), rng.normal(size=4000)))
    levels = Records(("a", "b"), (rng.integers(0, 4000, 4000), rng.integers(0, 4000, 4000)))
    for records in (numbers, levels):
        tracemalloc.start()
        nearest(records, records, gower_of(records))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 48e6


@pytest.mark.shared
@pytest.mark.parametrize("rule", Missing)
@pytest.mark.parametrize("tables", ["union_TH", "union_THS", "reference_only", "pair_union"])
def test_another_program_says_the_same(rule, tables):
    """300 records of Adult; whichever ranges are fixed, and both rules for missing values."""
    cases = json.loads(oracle_file("metrics/dcr_adult300.json").read_text())["results"]
    case = cases[f"{rule.value}/{tables}"]
    train, holdout, synthetic = adult(
        "adult300_train.csv", "adult300_holdout.csv", "adult299_synthetic.csv"
    )
    ranged = {
        "union_TH": lambda _: (train, holdout),
        "union_THS": lambda _: (train, holdout, synthetic),
        "reference_only": lambda reference: (reference,),
        "pair_union": lambda reference: (reference, synthetic),
    }[tables]
    to_train, to_holdout = (
        nearest(synthetic, table, gower_of(*ranged(table), missing=rule)) for table in (train, holdout)
    )
    np.testing.assert_allclose(to_train.distance, case["dcr_syn_train"], rtol=0, atol=1e-12)
    np.testing.assert_allclose(to_train.second, case["second_train"], rtol=0, atol=1e-12)
    np.testing.assert_allclose(to_holdout.distance, case["dcr_syn_holdout"], rtol=0, atol=1e-12)
    assert to_train.position.tolist() == case["argmin_train"]
    assert np.sum(to_train.distance == 0) == case["n_zero_train"]
    assert np.sum(to_holdout.distance == 0) == case["n_zero_holdout"]
    found, share = closer_share(to_train.distance, to_holdout.distance, (300, 300)), case["share"]
    assert found.strict == pytest.approx(share["strictly_closer_to_train"], abs=1e-12)
    assert found.ties == pytest.approx(share["ties"], abs=1e-12)
    assert found.strict + found.ties / 2 == pytest.approx(share["share_ties_half"], abs=1e-12)
    farther = 1 - found.strict - found.ties
    assert farther == pytest.approx(share["strictly_closer_to_holdout"], abs=1e-12)
    for table, name in ((train, "ranges_train"), (holdout, "ranges_holdout")):
        gower = gower_of(*ranged(table))
        assert case[name] == {a: gower.ranges[gower.attributes.index(a)] for a in case[name]}


@pytest.mark.shared
def test_sdmetrics_says_the_same():
    case = json.loads(oracle_file("metrics/sdmetrics_adult300.json").read_text())
    *real, synthetic = adult("adult300_train.csv", "adult300_holdout.csv", "adult299_synthetic.csv")
    for table, name in zip(real, ("train", "holdout"), strict=True):
        found = nearest(synthetic, table, gower_of(table), second=False)
        expected = case[f"calculate_dcr_syn_{name}"]
        np.testing.assert_allclose(found.distance, expected, rtol=0, atol=1e-12)


def test_thousands_of_equal_records_are_a_group_that_cannot_be_halved():
    """More of them than are looked at in one step, as where many people give the same answers."""
    rng = np.random.default_rng(1)
    reference, records = (
        Records(("a", "b"), (np.zeros(count, dtype=int), rng.choice([0.0, 1.0, 2.0, 4.0], count)))
        for count in (8_000, 200)
    )
    gower = gower_of(reference)
    found = nearest(records, reference, gower)
    assert not found.distance.any()
    assert not found.second.any()


@pytest.mark.parametrize("missing", Missing)
@pytest.mark.parametrize("spread", [1, 3])
def test_levels_that_few_records_have(missing, spread):
    """Three attributes of hundreds of levels, some frequent, some missing, some in one table alone."""
    rng = np.random.default_rng(spread)

    def table(rows, seed):
        many = [
            np.where(rng.random(rows) < 0.1, -1, rng.integers(0, 400, rows) // spread),
            np.minimum(rng.zipf(1.3, rows), 2**40 + seed),
            rng.integers(0, 200, rows) + 100 * seed,
        ]
        number = np.where(rng.random(rows) < 0.1, np.nan, np.round(rng.normal(size=rows), 1))
        return Records(tuple("abcde"), (*many, rng.integers(0, 2, rows), number))

    records, reference = table(600, 0), table(900, 1)
    gower = gower_of(reference, missing=missing, weights={"b": 0.3, "e": 2})
    assert len(rare_levels(records, reference, gower)) == 3
    every = distances(records, reference, gower)
    ordered = np.sort(every, axis=1)
    for second in (False, True):
        found = nearest(records, reference, gower, second=second)
        np.testing.assert_array_equal(found.distance, ordered[:, 0])
        np.testing.assert_array_equal(found.position, every.argmin(axis=1))
    np.testing.assert_array_equal(found.second, ordered[:, 1])


def test_of_records_that_share_several_rare_levels_each_is_counted_once():
    codes = np.arange(200)
    records = Records(("a", "b", "c"), (codes, codes, np.zeros(200, int)))
    reference = Records(("a", "b", "c"), (codes, codes, np.ones(200, int)))
    found = nearest(records, reference, gower_of(reference))
    np.testing.assert_array_equal(found.distance, 1 / 3)
    np.testing.assert_array_equal(found.position, codes)
    np.testing.assert_array_equal(found.second, 1)


def test_pairs_that_share_a_level_come_a_few_at_a_time():
    rng = np.random.default_rng(1)
    left, right = rng.integers(-1, 5, 300), rng.integers(-1, 4, 2_000)
    pieces = list(RareLevels(0, left, right, (0, 1)).sharing())
    assert len(pieces) > 1
    found = np.hstack([np.stack(piece) for piece in pieces])
    same = (left[:, None] == right) & (left >= 0)[:, None]
    np.testing.assert_array_equal(found, np.nonzero(same))


def test_columns_are_shared_between_records_and_with_nobody_else():
    mine = np.arange(3)
    records = Records(("a",), (mine,))
    mine[0] = 7
    assert records.columns[0].tolist() == [0, 1, 2]
    assert Records(("b",), records.columns).columns[0] is records.columns[0]
    view = mine[:]
    view.flags.writeable = False
    assert Records(("a",), (view,)).columns[0] is not view
