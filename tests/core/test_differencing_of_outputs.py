"""Differencing of populations, beside brute force on small records."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.analysis.output_checks import differencing
from gencard.analysis.output_checks.differencing import (
    EVERYBODY,
    Condition,
    ToldOutput,
    cell_numbers,
    differences,
    nearly_natural,
    not_missing,
)
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import DomainMismatchError

DOMAIN = Domain.of({"age": 6, "job": 4, "ill": 2})
ALL = ToldOutput((EVERYBODY,), ())
T = 10


def dataset(rows=600, seed=1):
    rng = np.random.default_rng(seed)
    return Dataset(DOMAIN, np.column_stack([rng.integers(0, size, rows) for size in DOMAIN.sizes]))


def cell(**codes):
    """The test of one cell."""
    names = tuple(codes)
    cells = np.zeros(DOMAIN.project(names).sizes, bool)
    cells[tuple(codes.values())] = True
    return Condition(names, cells)


def but(test):
    return Condition(test.attributes, ~test.cells)


def with_few(number, **codes):
    """Records of which just so many are in a cell."""
    records = dataset()
    kept = ~cell(**codes).kept(records)
    few = np.tile([codes.get(name, 0) for name in DOMAIN.attributes], (number, 1))
    return Dataset(DOMAIN, np.vstack([records.codes[kept], few]))


@pytest.mark.parametrize(("number", "refused"), [(0, False), (1, True), (9, True), (10, False)])
def test_all_and_all_but_a_few(number, refused):
    records = with_few(number, age=3, job=2)
    all_but = ToldOutput((but(cell(age=3, job=2)),), ())
    assert differences(all_but, [ALL], records, T) == refused
    assert differences(ALL, [all_but], records, T) == refused


def test_the_same_population_again_and_nobody_before():
    records = dataset()
    half = ToldOutput((cell(ill=1),), (("age",),))
    assert not differences(half, [half, half], records, T)
    assert not differences(half, [], records, T)
    assert not differences(half, [ALL], records, threshold=1)


def test_a_cell_of_an_earlier_table_but_a_few_of_it():
    """The 40-year-olds are in psi; 40-year-olds without nine of them would tell of the nine."""
    records = with_few(9, age=3, job=2)
    told = ToldOutput((EVERYBODY,), (("age", "ill"),))
    question = ToldOutput((cell(age=3), but(cell(job=2))), (("ill",),))
    assert differences(question, [told], records, T)
    assert not differences(question, [ALL], records, T)
    # the other way round: first the few were left out, then the table of everybody is asked for
    assert differences(told, [question], records, T)


def test_a_difference_that_is_large_in_all_and_small_within_a_cell():
    """Two tables of illness by age: their difference is a table too, with cells of its own."""
    records = with_few(9, job=2, age=5, ill=1)
    told = ToldOutput((EVERYBODY,), (("age", "ill"),))
    others = ToldOutput((but(cell(job=2)),), (("age", "ill"),))
    assert differences(others, [told], records, T)
    assert not differences(ToldOutput(others.tests, ()), [ALL], records, T)


def test_nested_chains_are_refused_although_every_pair_is_far_apart():
    """all - a - b - c = the few: each pair differs by many records, the sum of all by nine."""
    ages = [ToldOutput((cell(age=code),), ()) for code in range(5)]
    records = with_few(9, age=5)
    assert not any(differences(one, [other], records, T) for one, other in combinations([ALL, *ages], 2))
    assert not differences(ages[4], [ALL, *ages[:3]], records, T)
    assert differences(ages[4], [ALL, *ages[:4]], records, T)


def test_what_cannot_be_searched_is_refused(monkeypatch):
    monkeypatch.setattr(differencing, "MOST_COMBINATIONS", 0)
    ages = [ToldOutput((cell(age=code),), ()) for code in range(5)]
    assert differences(ages[4], [ALL, *ages[:4]], with_few(9, age=5), T)


def smallest_combination(populations, most=2):
    """The fewest records that any combination with small whole weights is about; brute force."""
    columns, sizes = np.unique(np.array(populations), axis=1, return_counts=True)
    grids = np.meshgrid(*[np.arange(-most, most + 1)] * len(populations), indexing="ij")
    weights = np.stack([grid.ravel() for grid in grids])
    supports = (weights.T @ columns.astype(int)) != 0
    records = supports @ sizes
    return int(records[records > 0].min())


@given(st.integers(0, 10_000))
def test_chains_are_those_of_brute_force(seed):
    rng = np.random.default_rng(seed)
    records = dataset(rows=40, seed=seed)
    outputs = [ToldOutput((Condition(("age",), rng.random(6) < 0.5),), ()) for _ in range(3)] + [
        ToldOutput((Condition(("job",), rng.random(4) < 0.5),), ())
    ]
    kept = [output.kept(records) for output in outputs]
    few = smallest_combination(kept) < T
    assert differencing._in_a_chain(kept, T) == few


def test_dropped_missing_values_are_a_population_of_their_own():
    """Missing is the last level: a run without it and a run with it differ by those who have none."""
    records = with_few(4, age=5)
    without = ToldOutput(not_missing(["age"], DOMAIN), ())
    assert differences(without, [ALL], records, T)


def test_populations_are_checked():
    with pytest.raises(DomainMismatchError):
        Condition(("age",), np.ones(3, bool)).kept(dataset())


def test_cells_of_wide_tables_are_numbered_as_they_occur():
    rng = np.random.default_rng(1)
    wide = Domain.of({f"a{place}": 64 for place in range(5)})
    records = Dataset(wide, rng.integers(0, 2, (50, 5)) * 60)
    numbers, many = cell_numbers(records, wide.attributes)
    assert many == len(np.unique(records.codes, axis=0)) == numbers.max() + 1


@pytest.mark.parametrize(("number", "refused"), [(0, True), (1, True), (9, True), (10, False)])
def test_nobody_is_as_few_as_somebody_beside_natural_groups(number, refused):
    """Otherwise the answer would say that no record is there, and the refusal that one is."""
    records = with_few(number, age=3, job=2)
    assert nearly_natural(but(cell(age=3, job=2)), records, T) == refused
    of_an_age = Condition(("age", "job"), cell(age=3).cells[:, None] & ~cell(job=2).cells)
    assert nearly_natural(of_an_age, records, T) == refused


def test_a_natural_group_is_no_difference_to_itself():
    records = with_few(0, age=3)
    assert not nearly_natural(
        Condition(("age", "job"), np.tile(cell(age=4).cells[:, None], 4)), records, T
    )
    assert not nearly_natural(cell(age=4), records, T)
    assert nearly_natural(but(cell(age=3)), records, T)


@pytest.mark.parametrize("others", [1, 7, 11, 12])
def test_a_natural_group_is_found_behind_attributes_that_change_little(others):
    """Half of the jobs without four people; beyond twelve attributes a condition is refused unseen."""
    domain = Domain.of({**{f"a{place:02}": 2 for place in range(others)}, "job": 4})
    codes = np.random.default_rng(2).integers(0, 2, (600, others + 1))
    codes[:, -1] += 2 * np.random.default_rng(3).integers(0, 2, 600)
    few = [1] * others + [0]
    codes = np.concatenate([codes[~np.all(codes == few, axis=1)], [few] * 4])
    cells = np.zeros((2,) * others + (4,), dtype=bool)
    cells[..., :2] = True
    cells[tuple(few)] = False
    records = Dataset(domain, codes)
    assert nearly_natural(Condition(domain.attributes, cells), records, T)
    cells[tuple(few)] = True
    assert not nearly_natural(Condition(domain.attributes, cells), records, T)
