"""Noisy marginals made to agree: brute-force least squares, and what it does to the expected error."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.statistics.measure import measure_dataset
from gencard.core.statistics.psi import (
    Measurement,
    Psi,
    agreeing,
    check_consistent,
    on_simplex,
    reconcile,
)
from tests.core.strategies import NAMES, measured, queries, workloads


@st.composite
def noisy_workloads(draw):
    """A domain, different cliques, and the stddev of the noise on each."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    domain = Domain(NAMES[: len(sizes)], tuple(sizes))
    cliques = draw(workloads(domain))
    stddevs = draw(st.lists(st.sampled_from([0.5, 1.0, 3.0, 20.0]), min_size=6, max_size=6))
    return domain, cliques, stddevs[: len(cliques)]


def psi_of(domain, cliques, stddevs, values):
    """Measurements from all their values in a row."""
    sizes = [domain.project(clique).sizes for clique in cliques]
    ends = np.cumsum([np.prod(size, dtype=int) for size in sizes])[:-1]
    tables = zip(cliques, np.split(values, ends), sizes, stddevs, strict=True)
    return Psi(domain, tuple(Measurement(c, v.reshape(size), s) for c, v, size, s in tables))


def in_a_row(psi):
    return np.concatenate([m.values.ravel() for m in psi.measurements])


def each_stddev(domain, cliques, stddevs):
    """One stddev for each value in the row."""
    return np.repeat(stddevs, [domain.project(clique).cells for clique in cliques])


def least_squares(domain, cliques, stddevs):
    """The matrix of the weighted projection onto marginals of one table, by pseudo-inverse."""
    marginals = queries(domain, cliques)
    weights = 1 / each_stddev(domain, cliques, stddevs)
    return marginals @ np.linalg.pinv(weights[:, None] * marginals) * weights


@given(noisy_workloads(), st.integers(0, 999))
def test_agreeing_is_the_weighted_least_squares_estimate(drawn, seed):
    domain, cliques, stddevs = drawn
    matrix = least_squares(*drawn)
    values = np.random.default_rng(seed).normal(5, 30, len(matrix))
    found = in_a_row(agreeing(psi_of(domain, cliques, stddevs, values)))
    np.testing.assert_allclose(found, matrix @ values, atol=1e-7)


@given(noisy_workloads())
def test_agreeing_raises_the_variance_of_no_count(drawn):
    """Gauss and Markov, cell by cell: the map is read off column by column, its variance is exact."""
    domain, cliques, stddevs = drawn
    noise = each_stddev(*drawn)
    columns = [in_a_row(agreeing(psi_of(domain, cliques, stddevs, unit))) for unit in np.eye(len(noise))]
    after = (np.array(columns).T * noise) ** 2
    assert np.all(after.sum(axis=1) <= noise**2 * (1 + 1e-9))


@given(measured(), st.sampled_from([0.0, 1.0]))
def test_what_agrees_already_stays_as_it_is(drawn, stddev):
    psi = measure_dataset(*drawn)
    psi = Psi(psi.domain, tuple(Measurement(m.clique, m.values, stddev) for m in psi.measurements))
    np.testing.assert_allclose(in_a_row(agreeing(psi)), in_a_row(psi), atol=1e-9)


def test_an_exact_marginal_overrules_noisy_ones():
    domain = Domain.of({"a": 2, "b": 2})
    exact = Measurement(("a",), np.array([7, 3]))
    found = agreeing(Psi(domain, (Measurement(("a", "b"), np.ones((2, 2)), 1.0), exact)))
    np.testing.assert_allclose(found.measurements[0].values.sum(axis=1), [7, 3])


@given(noisy_workloads(), st.integers(0, 999))
def test_reconciled_marginals_agree_and_are_counts_of_something(drawn, seed):
    domain, cliques, stddevs = drawn
    noise = each_stddev(*drawn)
    values = np.random.default_rng(seed).normal(2, noise)
    psi = psi_of(domain, cliques, stddevs, values)
    found = reconcile(psi)
    check_consistent(found)
    assert found.cliques == psi.cliques
    assert [m.stddev for m in found.measurements] == stddevs
    np.testing.assert_array_equal(in_a_row(found), in_a_row(reconcile(psi)))


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=4), st.integers(1, 60))
def test_on_simplex_is_the_nearest_table(values, records):
    """The inequality that a projection onto a convex set has at every vertex, and nothing else has."""
    table = np.array(values)
    found = on_simplex(table, float(records))
    assert found.min() >= 0
    assert found.sum() == pytest.approx(records)
    for vertex in records * np.eye(len(values)):
        assert (table - found) @ (vertex - found) <= 1e-6 * (1 + np.abs(table).max()) * records


DOMAIN = Domain.of({"a": 2, "b": 3, "c": 3})
WORKLOADS = {
    "all pairs": (("a", "b"), ("a", "c"), ("b", "c")),
    "a chain": (("a", "b"), ("b", "c")),
    "a table and its parts": (("a", "b", "c"), ("a",), ("b", "c")),
}
TRUTHS = {
    "even": np.full(18, 50),
    "many small": np.random.default_rng(1).poisson(3, 18),
    "mostly empty": np.array([200, *[0] * 8, 37, 1, *[0] * 7]),
    "one record": np.eye(18, dtype=int)[5],
}


@pytest.mark.parametrize("cliques", WORKLOADS.values(), ids=WORKLOADS)
@pytest.mark.parametrize("truth", TRUTHS.values(), ids=TRUTHS)
@pytest.mark.parametrize("stddev", [1.0, 8.0, 40.0])
def test_an_honest_reconciliation_never_raises_the_expected_squared_error(cliques, truth, stddev):
    """From the noise to agreement to counts without negatives: 60 draws, by the means of their gains."""
    rng = np.random.default_rng(11)
    stddevs = [stddev] * len(cliques)
    exact = queries(DOMAIN, cliques) @ truth
    errors = []
    for _ in range(60):
        drawn = exact + rng.laplace(0, stddev / 2**0.5, exact.size)
        psi = psi_of(DOMAIN, cliques, stddevs, drawn)
        steps = (drawn, in_a_row(agreeing(psi)), in_a_row(reconcile(psi)))
        errors.append([np.sum((step - exact) ** 2) for step in steps])
    for before, after in pairwise(np.transpose(errors)):
        gains = before - after
        assert gains.mean() > -3 * gains.std() / len(gains) ** 0.5


def test_empty_cells_are_not_filled_to_make_marginals_agree():
    """The share of the uniform table stays below a thousandth, on 45 sparse pairs too."""
    rng = np.random.default_rng(4)
    domain = Domain.of(dict.fromkeys("abcdefghij", 16))
    level = rng.geometric(0.3, 20_000).clip(max=16) - 1
    columns = [(level + rng.integers(0, 2, 20_000)) % 16 for _ in range(10)]
    exact = measure_dataset(Dataset.of_columns(domain, columns), list(combinations("abcdefghij", 2)))
    drawn = in_a_row(exact) + rng.normal(0, 30, 45 * 256).round()
    found = reconcile(psi_of(domain, exact.cliques, [30.0] * 45, drawn))
    emptiest = [m.values.min() / m.values.mean() for m in found.measurements]
    assert min(emptiest) == 0
    assert max(emptiest) < 1e-3
