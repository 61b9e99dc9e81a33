"""Every claim of certainty about psi is true of every dataset with the same psi: beside brute force."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.statistics.marginals import count
from gencard.measures.privacy import wide_tables as wide_module
from gencard.measures.privacy.psi_risk import psi_risk
from gencard.measures.privacy.released_tables import ReleasedTables, certain_facts
from gencard.measures.privacy.wide_tables import ProvableClaim, bounds_of_four, is_certain, wide_tables

NAMES = ("a", "b", "c", "d")
DOMAINS = (Domain(NAMES, (2, 2, 2, 2)), Domain(NAMES, (3, 2, 2, 2)))
RELEASED = (
    tuple(combinations(NAMES, 2)),
    (("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")),
    (("a", "b", "c"), ("b", "d"), ("c", "d")),
    (("a", "b"), ("c", "d")),
)


def tables_like(table, margins, most=20_000):
    """All tables of counts with the same margins, cell by cell with what the margins leave."""
    cells = list(np.ndindex(table.shape))
    places = [[(axes, tuple(cell[axis] for axis in axes)) for axes in margins] for cell in cells]
    last = {entry: number for number, entries in enumerate(places) for entry in entries}
    left = {
        (axes, index): int(margin[index])
        for axes, margin in margins.items()
        for index in np.ndindex(margin.shape)
    }
    found, chosen = [], np.zeros(len(cells), dtype=np.int64)

    def fill(number):
        assert len(found) < most, "too many for brute force"
        if number == len(cells):
            found.append(chosen.reshape(table.shape).copy())
            return
        entries = places[number]
        most_here = min(left[entry] for entry in entries)
        closing = [left[entry] for entry in entries if last[entry] == number]
        for value in {closing[0]} if closing else range(most_here + 1):
            if value > most_here or any(rest != value for rest in closing):
                continue
            chosen[number] = value
            for entry in entries:
                left[entry] -= value
            fill(number + 1)
            for entry in entries:
                left[entry] += value

    fill(0)
    return np.array(found)


@st.composite
def records(draw):
    domain = draw(st.sampled_from(DOMAINS))
    number = draw(st.integers(2, 9))
    rows = draw(st.lists(st.integers(0, domain.cells - 1), min_size=number, max_size=number))
    return Dataset(domain, np.array(np.unravel_index(rows, domain.sizes)).T)


def levels_known(dataset, every):
    """By record and target: whether the other attributes have one level in all datasets of this psi."""
    known = np.zeros((len(dataset), len(NAMES)), dtype=bool)
    possible = (every > 0).any(axis=0)
    for target in range(len(NAMES)):
        single = np.moveaxis(possible, target, -1).sum(axis=-1) == 1
        keys = np.delete(dataset.codes, target, axis=1)
        known[:, target] = single[tuple(keys.T)]
    return known


@given(records(), st.sampled_from(RELEASED))
@settings(max_examples=300, deadline=None)
def test_what_is_certain_is_so_in_every_dataset_with_this_psi(dataset, cliques):
    released = ReleasedTables.of(dataset, cliques)
    table = count(dataset, NAMES)
    every = tables_like(table, released.within(NAMES))
    assert any(np.array_equal(one, table) for one in every), "the records themselves are among them"
    bounds = bounds_of_four(released, NAMES)
    assert np.all(bounds.lower <= every.min(axis=0))
    assert np.all(bounds.upper >= every.max(axis=0))
    facts = certain_facts(dataset, released, widest=3)
    sure = levels_known(dataset, every)
    for target, name in enumerate(NAMES):
        if name in facts.known:
            assert np.all(sure[facts.known[name], target])
    risk = psi_risk(dataset, cliques)
    assert risk.wrong == 0
    varied = [target for target, name in enumerate(NAMES) if name in facts.known]
    assert risk.facts[-1].facts + risk.wide.facts <= sure[:, varied].sum()


@given(records(), st.sampled_from(RELEASED[:3]), st.integers(0, 10**6))
@settings(max_examples=200, deadline=None)
def test_programs_say_what_brute_force_says(dataset, cliques, seed):
    released = ReleasedTables.of(dataset, cliques)
    every = tables_like(count(dataset, NAMES), released.within(NAMES))
    rng = np.random.default_rng(seed)
    cell = tuple(map(int, dataset.codes[rng.integers(len(dataset))]))
    held = np.all(every[(slice(None), *cell)] > 0)
    assert is_certain(released, ProvableClaim(0, NAMES, cell, None)) == held
    target = int(rng.integers(len(NAMES)))
    key = list(cell)
    key[target] = slice(None)
    others = np.delete((every[(slice(None), *key)] > 0).any(axis=0), cell[target])
    assert is_certain(released, ProvableClaim(0, NAMES, cell, target)) == (not others.any())


def test_programs_prove_what_bounds_leave_open(monkeypatch):
    rng = np.random.default_rng(15)
    domain, number = DOMAINS[1], int(rng.integers(4, 12))
    rows = rng.integers(domain.cells, size=number)
    dataset = Dataset(domain, np.array(np.unravel_index(rows, domain.sizes)).T)
    released = ReleasedTables.of(dataset, RELEASED[0])
    facts = certain_facts(dataset, released)
    every = tables_like(count(dataset, NAMES), released.within(NAMES))
    wide = wide_tables(dataset, released, facts.known)
    assert (facts.by_width[-1].facts, wide.facts) == (0, 3)
    assert levels_known(dataset, every).sum() == 3
    assert (wide.wrong, wide.open) == (0, 0)
    none = wide_tables(dataset, released, facts.known, most_programs=0)
    assert (none.facts, none.programs, none.open) == (0, 0, wide.programs)
    monkeypatch.setattr(wide_module, "MOST_FREE", 0)
    large = wide_tables(dataset, released, facts.known)
    assert (large.facts, large.programs, large.open) == (0, 0, wide.programs)
    assert psi_risk(dataset, RELEASED[0]).not_covered == (
        f"Not decided: {wide.programs} claims about three known attributes may hold too.",
    )


@pytest.mark.parametrize("cliques", RELEASED[2:])
def test_no_program_is_tried_where_bounds_are_sharp(cliques):
    """Chains and separate tables are decomposable; a cycle through a wider table is not."""
    rng = np.random.default_rng(3)
    dataset = Dataset(DOMAINS[0], rng.integers(2, size=(9, 4)))
    released = ReleasedTables.of(dataset, cliques)
    wide = wide_tables(dataset, released, certain_facts(dataset, released).known)
    assert wide.tables == 1
    assert (wide.programs == 0) == (cliques == RELEASED[3])
