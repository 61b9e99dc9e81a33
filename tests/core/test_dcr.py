"""Distances to closest records and what is read off them: shares, clones, ratios, histograms."""

import json
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.errors import DomainMismatchError, InvalidDatasetError, InvalidNumberError
from gencard.measures.evaluation.risk_findings import BINS, Curve
from gencard.measures.privacy.dcr import closer_share, equal_share
from gencard.measures.privacy.disclosure import replicated_uniques
from gencard.measures.privacy.distances import Missing, Records, gower_of
from gencard.measures.privacy.nearest import Nearest, chance_of_clone, clone_share, nearest, nndr
from tests.core.mixed import adult, closer, compared, half_ties
from tests.core.oracles import coded
from tests.shared_data import oracle_file

CLEARBOX = tuple(f"adult_clearbox_{part}.csv" for part in ("train", "holdout", "synthetic"))


def levels(*columns):
    return Records(tuple(f"a{axis}" for axis in range(len(columns))), tuple(map(np.array, columns)))


@pytest.mark.shared
@pytest.mark.parametrize("rule", Missing)
def test_another_program_says_the_same(rule):
    cases = json.loads(oracle_file("metrics/dcr_adult300.json").read_text())["results"]
    case = cases[f"{rule.value}/union_TH"]
    train, holdout, synthetic = adult(
        "adult300_train.csv", "adult300_holdout.csv", "adult299_synthetic.csv"
    )
    gower = gower_of(train, holdout, missing=rule)
    found, share = closer(synthetic, train, holdout, gower), case["share"]
    assert found.strict == pytest.approx(share["strictly_closer_to_train"], abs=1e-12)
    assert found.ties == pytest.approx(share["ties"], abs=1e-12)
    assert half_ties(found) == pytest.approx(share["share_ties_half"], abs=1e-12)
    curve = Curve.of(nearest(synthetic, train, gower))
    histogram = np.array(case["hist100_train"]) / len(synthetic)
    np.testing.assert_allclose(curve.bins, histogram[:BINS], atol=1e-12)
    assert curve.farther == pytest.approx(histogram[BINS:].sum(), abs=1e-12)
    assert curve.zeros == case["n_zero_train"] / len(synthetic)


@pytest.mark.shared
def test_a_leak_is_seen_in_full():
    """Adult, 32,561 records: most synthetic ones are copies, in equal sizes and in unequal ones."""
    train, holdout, synthetic = adult(*CLEARBOX)
    gower = gower_of(train, holdout)
    to_train, to_holdout = (nearest(synthetic, real, gower, second=False) for real in (train, holdout))
    share = closer_share(to_train.distance, to_holdout.distance, (len(train), len(holdout)))
    assert np.sum(to_train.distance == 0) == 20_301
    assert np.sum(to_holdout.distance == 0) == 3_309
    assert share.strict == pytest.approx(0.845, abs=5e-4)
    assert half_ties(share) == pytest.approx(0.913, abs=5e-4)
    assert share.by_size == pytest.approx(2 / 3, abs=1e-4)
    equal = equal_share(synthetic, train, holdout, gower, draws=2, rng=np.random.default_rng(1))
    assert equal.share == pytest.approx(0.7015, abs=0.003)
    low, high = equal.interval()
    assert 0.69 < low < equal.share < high < 0.71


@pytest.mark.shared
def test_the_leak_in_unique_records():
    train, _, synthetic = coded(*(f"metrics/{file}" for file in CLEARBOX))
    found = replicated_uniques(train, synthetic)
    assert found.replicated == 15_284
    assert found.replicated / found.in_original == pytest.approx(0.565, abs=5e-4)


@given(compared(count=3, fewest=1))
def test_each_table_is_compared_with_each(drawn):
    synthetic, train, holdout, gower = drawn
    to_train, to_holdout = (nearest(synthetic, real, gower).distance for real in (train, holdout))
    if np.isnan(to_train + to_holdout).all():
        with pytest.raises(InvalidDatasetError):
            closer(synthetic, train, holdout, gower)
        return
    share = closer(synthetic, train, holdout, gower)
    lead = (to_holdout - to_train)[~np.isnan(to_holdout - to_train)]
    assert share.records == len(lead)
    assert share.closer == np.sum(lead > 1e-9)
    assert share.tied == np.sum(np.abs(lead) <= 1e-9)
    assert share.sizes == (len(train), len(holdout))


@given(compared(count=3, fewest=1))
def test_train_and_holdout_swapped(drawn):
    synthetic, train, holdout, gower = drawn
    both = [nearest(synthetic, real, gower).distance for real in (train, holdout)]
    if not np.isnan(sum(both)).all():
        one, other = closer_share(*both, (1, 1)), closer_share(*both[::-1], (1, 1))
        assert half_ties(one) + half_ties(other) == pytest.approx(1)
        assert one.strict + one.ties + other.strict == pytest.approx(1)


def test_sums_in_another_order_tie():
    """0.1 + 0.2 and 0.3 are one distance."""
    share = closer_share(np.array([0.1 + 0.2, 0.1, np.nan]), np.array([0.3, 0.2, 0.1]), (3, 1))
    assert (share.records, share.closer, share.tied, share.by_size) == (2, 1, 1, 0.75)
    assert (share.strict, share.ties, half_ties(share)) == (0.5, 0.5, 0.75)


def test_half_the_records_are_closer_by_chance_at_equal_sizes_only():
    """Three samples of one population; train is four times as large as holdout."""
    rng = np.random.default_rng(2)
    synthetic, train, holdout = (
        Records(("a", "b", "c"), (*rng.normal(size=(2, rows)), rng.integers(0, 3, rows)))
        for rows in (3000, 4000, 1000)
    )
    gower = gower_of(train, holdout)
    plain = closer(synthetic, train, holdout, gower)
    assert plain.by_size == 0.8
    assert half_ties(plain) == pytest.approx(plain.by_size, abs=0.03)
    equal = equal_share(synthetic, train, holdout, gower, draws=10, rng=rng)
    assert (equal.size, equal.draws) == (1000, 10)
    assert equal.share == pytest.approx(0.5, abs=0.03)
    swapped = equal_share(synthetic, holdout, train, gower, draws=10, rng=rng)
    assert swapped.share == pytest.approx(1 - equal.share, abs=0.03)


def test_the_interval_covers_the_share_of_a_generator():
    """The generator copies 40 % of its records from train; train and holdout stay as they are."""
    rng = np.random.default_rng(3)
    train, holdout = (Records(("a", "b"), tuple(rng.normal(size=(2, rows)))) for rows in (200, 100))
    gower = gower_of(train, holdout)

    def share(rows, draws):
        copies = train.take(rng.integers(0, 200, rows)).columns
        copied = rng.random(rows) < 0.4
        columns = (np.where(copied, copy, rng.normal(size=rows)) for copy in copies)
        return equal_share(
            Records(("a", "b"), tuple(columns)), train, holdout, gower, draws=draws, rng=rng
        )

    truth = share(5_000, 60).share  # its standard error is a third of that of 500 records
    found = [share(500, 8).interval() for _ in range(60)]
    assert sum(low <= truth <= high for low, high in found) >= 50
    assert np.mean([high - low for low, high in found]) < 0.12


def test_equal_sizes_need_no_draws():
    rng = np.random.default_rng(6)
    tables = [Records(("a",), (rng.normal(size=50),)) for _ in range(3)]
    gower = gower_of(*tables[1:])
    found = equal_share(*tables, gower, draws=5, rng=rng)
    assert found.draws == 1
    assert found.share == half_ties(closer(*tables, gower))
    scores = found.share * (1 - found.share) / 49
    assert found.stderr == pytest.approx(np.sqrt(scores))


def test_intervals_widen_with_confidence():
    records = levels(np.arange(4))
    found = equal_share(
        levels([0, 1, 9, 9, 2]), records, levels([0, 9]), gower_of(records),
        draws=4, rng=np.random.default_rng(0),
    )  # fmt: skip
    (low, high), (lower, higher) = found.interval(0.5), found.interval(0.999)
    assert 0 <= lower < low < found.share < high < higher <= 1
    for confidence in (0, 1, np.nan):
        with pytest.raises(InvalidNumberError):
            found.interval(confidence)


@given(st.integers(1, 5), st.integers(0, 6))
def test_chance_of_a_clone(cells, real):
    """Counted over all ways to fill the cells."""
    found = Nearest(np.array([0.0, 0.2]), np.array([0.1, 0.2]), np.array([0, 0]))
    ways = sum(comb(real, k) * (cells - 1) ** (real - k) for k in range(1, real + 1))
    assert chance_of_clone(real, cells) == pytest.approx(ways / cells**real, abs=1e-12)
    assert clone_share(found) == 0.5


def test_uniform_records_are_clones_by_chance():
    rng = np.random.default_rng(7)
    synthetic, train = (levels(*rng.integers(0, 10, (3, rows))) for rows in (20_000, 700))
    share = clone_share(nearest(synthetic, train, gower_of(train)))
    assert share == pytest.approx(chance_of_clone(len(train), 1000), abs=0.02)


def test_no_record_has_no_share_of_clones():
    none = np.zeros(0)
    assert clone_share(Nearest(none, none, none)) is None
    assert chance_of_clone(1, 10**400) == 0


def test_ratio_of_the_two_nearest():
    distance, second = (
        np.array([0, 0, 0.1, 0.2, np.nan, 0.3]),
        np.array([0, 0.5, 0.4, 0.2, np.nan, np.nan]),
    )
    found = nndr(Nearest(distance, second, np.zeros(6, int)))
    np.testing.assert_array_equal(found, [1, 0, 0.25, 1, np.nan, np.nan])


@given(st.lists(st.one_of(st.floats(0, 1), st.just(np.nan)), min_size=1, max_size=30))
def test_a_curve_counts_each_record_once(distances):
    curve = Curve.of(Nearest(np.array(distances), np.array(distances), np.zeros(len(distances), int)))
    assert curve.zeros + sum(curve.bins) + curve.farther + curve.undefined == pytest.approx(1)
    assert len(curve.bins) == BINS


def test_bad_input_is_refused():
    one, none = levels([0]), levels(np.zeros(0, int))
    gower, rng = gower_of(one), np.random.default_rng(0)
    for tables in ((none, one, one), (one, none, one), (one, one, none)):
        with pytest.raises(InvalidDatasetError):
            closer(*tables, gower)
        with pytest.raises(InvalidDatasetError):
            equal_share(*tables, gower, draws=2, rng=rng)
    other = levels([0], [0])
    for tables in ((other, one, one), (one, other, one), (one, one, other)):
        with pytest.raises(DomainMismatchError):
            closer(*tables, gower)
        with pytest.raises(DomainMismatchError):
            equal_share(*tables, gower, draws=2, rng=rng)
    with pytest.raises(InvalidNumberError):
        equal_share(one, one, one, gower, draws=1, rng=rng)
    with pytest.raises(InvalidDatasetError):
        closer_share(np.zeros(1), np.zeros(2), (1, 2))
    for undefined in (np.zeros(0), np.array([np.nan])):
        with pytest.raises(InvalidDatasetError):
            closer_share(undefined, undefined, (1, 1))


def test_where_nothing_is_known_nothing_is_compared():
    missing, one = levels([-1, -1]), levels([0, 1])
    gower = gower_of(one, missing=Missing.PAIRWISE)
    for tables in ((missing, one, one), (one, missing, one)):
        with pytest.raises(InvalidDatasetError):
            closer(*tables, gower)
        with pytest.raises(InvalidDatasetError):
            equal_share(*tables, gower, draws=2, rng=np.random.default_rng(0))
    assert closer(missing, one, one, gower_of(one)).ties == 1
