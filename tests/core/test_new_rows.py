"""New rows pair by pair, and the distance of records drawn without a model."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import (
    DomainMismatchError,
    InvalidCliqueError,
    InvalidDatasetError,
    InvalidInputError,
    InvalidNumberError,
    UnknownAttributeError,
)
from gencard.core.privacy.attacks.new_rows import new_rows
from gencard.core.privacy.distances.gower import Missing, gower_of
from gencard.core.privacy.records import Records
from gencard.core.privacy.tables.disclosure_protection import disclosure_protection
from gencard.core.privacy.tables.random_baseline import RandomBaseline, random_baseline, random_records
from tests.core.mixed import compared


def matches(one, other, tolerance):
    """By the definition, for two tuples of values."""
    return all(
        (np.isnan(x) and np.isnan(s)) or abs(x - s) <= tolerance * abs(s)
        if isinstance(s, float)
        else x == s
        for s, x in zip(one, other, strict=True)
    )


@given(compared(), st.sampled_from([0, 0.01, 0.5, 1]))
def test_pair_by_pair(drawn, tolerance):
    synthetic, real, _ = drawn
    ours, theirs = (
        list(zip(*(column.tolist() for column in table.columns), strict=True))
        for table in (synthetic, real)
    )
    if not ours:
        with pytest.raises(InvalidDatasetError):
            new_rows(synthetic, real, tolerance=tolerance)
        return
    found = new_rows(synthetic, real, tolerance=tolerance)
    assert found.matched == sum(any(matches(one, x, tolerance) for x in theirs) for one in ours)
    assert found.new + found.matched == found.records == len(ours)
    assert found.share == found.new / len(ours)
    assert new_rows(synthetic, synthetic, tolerance=tolerance).new == 0


def test_large_tables_of_numbers_are_compared_in_parts():
    rng = np.random.default_rng(1)
    real = Records(("a", "b"), tuple(rng.normal(size=(2, 3000))))
    columns = [column[:2000] * (1 + 0.009 * rng.uniform(-1, 1, 2000)) for column in real.columns]
    assert new_rows(Records(("a", "b"), tuple(columns)), real).matched == 2000
    assert new_rows(Records(("a", "b"), (columns[0] + 99, columns[1])), real).matched == 0


@given(compared(count=1, fewest=1), st.integers(0, 40))
def test_random_records_are_like_real_ones_by_attribute(drawn, rows):
    real, _ = drawn
    found = random_records(real, rows, rng=np.random.default_rng(0))
    assert (found.kinds, len(found)) == (real.kinds, rows)
    for mine, theirs in zip(found.columns, real.columns, strict=True):
        numbers = theirs.dtype.kind == "f"
        absent, missing = (np.isnan(c) if numbers else c == -1 for c in (theirs, mine))
        assert not absent.all() or missing.all()
        assert absent.any() or not missing.any()
        if not numbers:
            assert set(mine[~missing]) <= set(theirs)
        elif not missing.all():
            present, drawn_numbers = theirs[~absent], mine[~missing]
            assert present.min() <= drawn_numbers.min() <= drawn_numbers.max() <= present.max()
            if np.all(present == np.floor(present)):
                assert np.all(drawn_numbers == np.floor(drawn_numbers))


def test_random_records_are_uniform():
    real = Records(("a", "b", "c"), (np.array([0, 0, 0, 1, -1]), np.array([1.0, 2, 4, 4, 4]),
                                     np.array([0.5, 4.5, np.nan, np.nan, np.nan])))  # fmt: skip
    levels, whole, numbers = random_records(real, 20_000, rng=np.random.default_rng(2)).columns
    assert np.bincount(levels + 1) / 20_000 == pytest.approx([0.2, 0.4, 0.4], abs=0.02)
    assert np.bincount(whole.astype(int))[1:] / 20_000 == pytest.approx([0.25] * 4, abs=0.02)
    assert np.isnan(numbers).mean() == pytest.approx(0.6, abs=0.02)
    assert np.nanquantile(numbers, [0.25, 0.5, 0.75]) == pytest.approx([1.5, 2.5, 3.5], abs=0.1)


def test_copies_are_nearer_than_random_records():
    rng = np.random.default_rng(3)
    real = Records(("a", "b"), (rng.normal(size=200), rng.integers(0, 9, 200)))
    gower = gower_of(real)
    other = random_records(real, 200, rng=rng)
    assert random_baseline(real, real, other, gower).ratio == 0
    same = random_baseline(other, real, other, gower)
    assert same.ratio == 1
    assert same.synthetic > 0
    assert random_baseline(other, real, real, gower).ratio is None
    assert RandomBaseline(0.4, 0.2).ratio == 1


def test_baseline_of_guesses():
    original = Dataset(Domain.of({"a": 3, "b": 5}), np.array([[0, 1], [1, 1], [1, 4]]))
    found = disclosure_protection(0.25, original, ("b", "a"))
    assert (found.protection, found.baseline, found.ratio) == (0.75, 0.75, 1)
    assert disclosure_protection(1 + 1e-15, original, ("a",)).ratio == 0
    single = original.take(np.array([0]))
    assert disclosure_protection(0, single, ("a",)).ratio is None


def test_bad_input_is_refused():
    one, none = Records(("a",), (np.array([1]),)), Records(("a",), (np.zeros(0, int),))
    other, rng = Records(("b",), (np.array([1]),)), np.random.default_rng(0)
    with pytest.raises(DomainMismatchError):
        new_rows(one, other)
    for tolerance in (-0.1, 1.1, np.nan):
        with pytest.raises(InvalidNumberError):
            new_rows(one, one, tolerance=tolerance)
    with pytest.raises(InvalidNumberError):
        random_records(one, -1, rng=rng)
    with pytest.raises(InvalidDatasetError):
        random_records(none, 1, rng=rng)
    gower, unknown = gower_of(one, missing=Missing.PAIRWISE), Records(("a",), (np.array([-1]),))
    for tables in ((none, one, one), (one, none, one), (one, one, none), (unknown, one, one)):
        with pytest.raises(InvalidDatasetError):
            random_baseline(*tables, gower)
    with pytest.raises(DomainMismatchError):
        random_baseline(one, one, other, gower)


@pytest.mark.parametrize(
    ("attributed", "targets", "rows", "error"),
    [
        (-0.1, ("a",), 1, InvalidNumberError),
        (1.1, ("a",), 1, InvalidNumberError),
        (np.nan, ("a",), 1, InvalidNumberError),
        (0.5, (), 1, InvalidCliqueError),
        (0.5, ("a", "a"), 1, InvalidCliqueError),
        (0.5, ("b",), 1, UnknownAttributeError),
        (0.5, ("a",), 0, InvalidInputError),
    ],
)
def test_protection_of_nonsense_is_refused(attributed, targets, rows, error):
    original = Dataset(Domain.of({"a": 2}), np.zeros((rows, 1), int))
    with pytest.raises(error):
        disclosure_protection(attributed, original, targets)
