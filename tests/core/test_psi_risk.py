"""Risk of psi: brute force on tiny domains, and claims that are true of all records."""

from functools import cache, partial
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, milp

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import InvalidInputError, InvalidNumberError
from gencard.core.statistics.marginals import count
from gencard.measures.privacy import psi_risk as risk_of_psi
from gencard.measures.privacy.psi_risk import psi_risk
from gencard.measures.privacy.released_tables import ReleasedTables, cell_bounds, certain_facts
from gencard.measures.privacy.wide_tables import confident_guesses, maximum_entropy, wide_tables

TINY = Domain.of({"a": 2, "b": 3, "c": 2})
PAIRS = (("a", "b"), ("a", "c"), ("b", "c"))


def tables_like(table, margins):
    """All tables of counts with the same margins, by brute force over the cells."""
    shape = table.shape
    ends = [range(int(min(margin[tuple(cell[a] for a in axes)] for axes, margin in margins.items())) + 1)
            for cell in np.ndindex(shape)]  # fmt: skip
    first = list(product(*ends[: len(ends) // 2]))
    rest = list(product(*ends[len(ends) // 2 :]))
    for one, other in product(first, rest):
        candidate = np.array((*one, *other)).reshape(shape)
        if all(
            np.array_equal(candidate.sum(axis=tuple(set(range(table.ndim)) - set(axes))), margin)
            for axes, margin in margins.items()
        ):
            yield candidate


def margins_of(table):
    return {(0, 1): table.sum(2), (0, 2): table.sum(1), (1, 2): table.sum(0)}


@pytest.mark.parametrize("seed", range(8))
def test_the_bounds_are_those_of_all_tables_with_these_marginals(seed):
    table = np.random.default_rng(seed).poisson(0.7, (2, 2, 2))
    margins = margins_of(table)
    every = np.array(list(tables_like(table, margins)))
    bounds = cell_bounds(table.shape, margins)
    assert np.array_equal(bounds.lower, every.min(axis=0))
    assert np.array_equal(bounds.upper, every.max(axis=0))


def integer_bounds(table, margins, cell):
    """Least and largest count of a cell by integer programs over all cells."""
    places = np.arange(table.size).reshape(table.shape)
    rows = [
        np.isin(places, np.moveaxis(places, axes, range(len(axes)))[index]).ravel()
        for axes, margin in margins.items()
        for index in np.ndindex(margin.shape)
    ]
    sums = np.concatenate([margin.ravel() for margin in margins.values()])
    cost = (places == places[cell]).ravel().astype(float)
    fits = LinearConstraint(np.array(rows, dtype=float), sums, sums)
    ends = [milp(sign * cost, constraints=fits, integrality=np.ones(table.size)).fun for sign in (1, -1)]
    return round(ends[0]), round(-ends[1])


@pytest.mark.parametrize("seed", range(6))
def test_the_bounds_are_those_of_integer_programs(seed):
    """Sharp on every open cell of tables too large for brute force."""
    table = np.random.default_rng(seed).poisson(0.6, (3, 4, 3))
    margins = margins_of(table)
    bounds = cell_bounds(table.shape, margins)
    for cell in list(zip(*np.nonzero(bounds.lower < bounds.upper), strict=True))[:10]:
        assert integer_bounds(table, margins, cell) == (bounds.lower[cell], bounds.upper[cell])


@st.composite
def records(draw):
    number = draw(st.integers(2, 25))
    rows = draw(st.lists(st.integers(0, TINY.cells - 1), min_size=number, max_size=number))
    return Dataset(TINY, np.array(np.unravel_index(rows, TINY.sizes)).T)


@given(records())
@settings(max_examples=60)
def test_facts_are_all_that_brute_force_finds(dataset):
    """Keys of two attributes, all pairs released: certain is what every table with these pairs says."""
    released = ReleasedTables.of(dataset, PAIRS)
    table = count(dataset, TINY.attributes)
    bounds = released.bounds(TINY.attributes)
    facts = certain_facts(dataset, released, widest=2)
    assert facts.by_width[-1].wrong == 0
    known = np.zeros((len(dataset), 3), dtype=bool)
    for target in range(3):
        if np.count_nonzero(table.sum(axis=tuple({0, 1, 2} - {target}))) < 2:
            continue
        possible = np.moveaxis(bounds.upper > 0, target, -1)
        one_level = possible.sum(axis=-1) == 1
        keys = dataset.codes[:, [axis for axis in range(3) if axis != target]]
        known[:, target] = one_level[tuple(keys.T)]
        for axis in {0, 1, 2} - {target}:
            pair = np.moveaxis(table, (axis, target), (0, 1)).sum(axis=2) > 0
            known[:, target] |= (pair.sum(axis=1) == 1)[dataset.codes[:, axis]]
    assert facts.by_width[-1].facts == known.sum()


def every_pair(domain):
    return list(combinations(domain.attributes, 2))


def clustered(rows=400, seed=0):
    """Records with a rare combination: c follows from a and b for some of them."""
    rng = np.random.default_rng(seed)
    domain = Domain.of({"a": 4, "b": 5, "c": 6, "d": 3, "e": 2})
    codes = rng.integers(domain.sizes, size=(rows, 5))
    codes[:, 2] = np.where(rng.random(rows) < 0.9, (codes[:, 0] + codes[:, 1]) % 6, codes[:, 2])
    codes[:, 3] = np.where(codes[:, 0] == 0, 1, codes[:, 3])
    return Dataset(domain, codes)


@cache
def risk_of_pairs(seed):
    """The report on clustered records, and its progress; its integer programs take seconds.

    What programs prove is compared with brute force in ``test_psi_risk_claims``; here they are few.
    """
    dataset, steps = clustered(seed=seed), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(risk_of_psi, "wide_tables", partial(wide_tables, most_programs=3))
        report = psi_risk(
            dataset, every_pair(dataset.domain), progress=lambda _, share: steps.append(share)
        )
    return report, steps


@pytest.mark.parametrize("seed", range(5))
def test_no_claim_of_certainty_is_wrong(seed):
    risk, steps = risk_of_pairs(seed)
    assert risk.wrong == 0
    assert [facts.width for facts in risk.facts] == [1, 2, 3]
    assert [facts.facts for facts in risk.facts] == sorted(facts.facts for facts in risk.facts)
    assert steps == sorted(steps)


def test_what_one_attribute_determines():
    dataset, (risk, _) = clustered(), risk_of_pairs(0)
    column = dataset.column("a")
    share = np.mean(column == 0)
    places = {name: place for place, name in enumerate(risk.attributes)}
    assert risk.certain[places["a"]][places["d"]] == pytest.approx(share)
    worst = risk.worst[0]
    assert (worst.keys, worst.levels, worst.target, worst.level) == (("a",), (0,), "d", 1)
    assert worst.records == np.sum(column == 0)
    assert risk.facts[0].facts == np.sum(column == 0)
    mode = int(np.bincount(dataset.column("d")).argmax())
    assert risk.facts[0].guessed == (worst.records if mode == 1 else 0)


def test_small_cells_are_counted():
    dataset = Dataset(Domain.of({"a": 2, "b": 2}), np.array([[0, 0]] * 12 + [[0, 1]] * 3 + [[1, 1]]))
    small = psi_risk(dataset, [("a", "b"), ("a",)]).small
    assert (small.cells, small.single, small.small, small.records) == (3, 1, 2, 4)
    assert psi_risk(dataset, [("a", "b")], threshold=3).small.small == 1


def test_small_counts_by_pair_of_attributes():
    dataset = Dataset(
        Domain.of({"a": 2, "b": 2, "c": 2}), np.array([[0, 0, 0]] * 12 + [[0, 1, 0]] * 3 + [[1, 1, 1]])
    )
    risk = psi_risk(dataset, [("a", "b"), ("c",)])
    assert risk.small_pairs == ((1, 2, 0), (2, 1, 0), (0, 0, 1))
    pairs = psi_risk(dataset, [("a", "b", "c")]).small_pairs
    assert pairs == ((1, 2, 1), (2, 1, 2), (1, 2, 1)), "from the wider table"


def test_tables_of_other_records_are_noticed():
    """The control of the check: with foreign tables, claims are wrong and are counted so."""
    dataset, other = clustered(seed=1), clustered(seed=2)
    codes = other.codes.copy()
    codes[:, 3] = np.where(codes[:, 0] == 0, 2, codes[:, 3])
    released = ReleasedTables.of(Dataset(other.domain, codes), every_pair(other.domain))
    assert certain_facts(dataset, released, widest=1).by_width[0].wrong > 0


def test_guesses_come_from_the_table_of_largest_entropy():
    dataset = clustered(rows=3_000)
    released = ReleasedTables.of(dataset, [("a", "b"), ("b", "c")])
    fitted = maximum_entropy((4, 5, 6), released.within(("a", "b", "c")), len(dataset))
    ab, bc = count(dataset, ("a", "b")), count(dataset, ("b", "c"))
    expected = ab[:, :, None] * bc[None] / bc.sum(axis=1)[None, :, None]
    assert np.allclose(fitted, expected)
    released = ReleasedTables.of(dataset, [("a", "b", "c")])
    guesses = confident_guesses(dataset, released, 2)
    table = count(dataset, ("a", "b", "c"))
    confident = table > 0.9 * table.sum(axis=2, keepdims=True)
    keys = np.broadcast_to(table.sum(axis=2, keepdims=True), table.shape)
    assert guesses.guesses >= keys[confident].sum()
    assert guesses.right >= table[confident].sum()
    assert guesses.held == 0, "the table itself is released"


def test_cells_that_certainly_hold_somebody():
    """With a = 0 in 9 of 10 records and b = 0 in 9, at least 8 records have both, in any table."""
    codes = np.array([[0, 0]] * 8 + [[0, 1], [1, 0]])
    dataset = Dataset(Domain.of({"a": 2, "b": 2}), codes)
    guesses = confident_guesses(dataset, ReleasedTables.of(dataset, [("a",), ("b",)]), 1)
    assert (guesses.held, guesses.unexpected, guesses.wrong) == (1, 0, 0)


def test_a_report_is_json_and_bad_input_is_refused():
    dataset = clustered()
    document = risk_of_pairs(0)[0].json()
    assert document["small"]["cells"] > 0
    assert document["facts"][0]["width"] == 1
    with pytest.raises(InvalidInputError):
        psi_risk(dataset, [])
    with pytest.raises(InvalidNumberError):
        psi_risk(dataset, [("a",)], threshold=1)


def test_one_attribute_has_no_keys():
    dataset = clustered()
    risk = psi_risk(dataset, [("a",)])
    assert risk.facts == risk.guesses == ()
    assert risk.wrong == 0
