"""Noisy marginals: what shrinking does to their error, against the definition."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.domain import Domain
from gencard.core.statistics.marginals import coefficients, project, table_of
from gencard.core.statistics.psi import Measurement, Psi, agreeing, reconcile, shrunk

DOMAIN = Domain.of({"a": 3, "b": 4, "c": 5})
PAIRS = tuple(combinations(DOMAIN.attributes, 2))
DRAWS = {
    "normal": lambda rng, shape: rng.normal(0, 1, shape),
    "laplace": lambda rng, shape: rng.laplace(0, 0.5**0.5, shape),
}
TRUTHS = {
    "uniform": np.full(DOMAIN.sizes, 20.0),
    "one record apart": np.full(DOMAIN.sizes, 20.0) + np.eye(5)[None, :1, :],
    "uneven": 1200 * np.random.default_rng(0).dirichlet(np.full(60, 0.5)).reshape(DOMAIN.sizes),
}


def noisy(table, stddev, draw, rng):
    measurements = []
    for clique in PAIRS:
        exact = project(table, DOMAIN.attributes, clique)
        measurements.append(Measurement(clique, exact + stddev * draw(rng, exact.shape), stddev))
    return Psi(DOMAIN, tuple(measurements))


def squared_error(psi, table):
    exact = [project(table, DOMAIN.attributes, clique) for clique in PAIRS]
    return sum(((m.values - e) ** 2).sum() for m, e in zip(psi.measurements, exact, strict=True))


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
@pytest.mark.parametrize("truth", TRUTHS.values(), ids=TRUTHS)
@pytest.mark.parametrize("stddev", [1.0, 10.0, 100.0])
def test_every_step_lowers_the_expected_squared_error(truth, draw, stddev):
    """Means over 300 draws; beside each other, so that a difference of 3 standard errors is none."""
    rng = np.random.default_rng(7)
    psis = [noisy(truth, stddev, draw, rng) for _ in range(300)]
    errors = [
        [squared_error(step(psi), truth) for psi in psis] for step in (lambda p: p, agreeing, shrunk)
    ]
    for before, after in pairwise(errors):
        gains = np.array(before) - np.array(after)
        assert gains.mean() > -3 * gains.std() / len(gains) ** 0.5
    assert np.mean(errors[1]) < 0.8 * np.mean(errors[0])


def test_where_there_is_nothing_but_noise_most_of_it_goes():
    rng = np.random.default_rng(3)
    truth = TRUTHS["uniform"]
    psis = [noisy(truth, 100.0, DRAWS["laplace"], rng) for _ in range(100)]
    assert np.mean([squared_error(shrunk(psi), truth) for psi in psis]) < 0.5 * np.mean(
        [squared_error(agreeing(psi), truth) for psi in psis]
    )


def test_the_formula_block_by_block():
    """One marginal of 4 x 5 cells: the interaction has 12 directions of variance 4."""
    domain = Domain.of({"b": 4, "c": 5})
    values = np.random.default_rng(5).normal(20, 2, (4, 5))
    psi = Psi(domain, (Measurement(("b", "c"), values, 2.0),))
    pure = table_of(coefficients(values))
    factor = max(0.0, 1 - (12 - 2) * 4 / (pure**2).sum())
    found = shrunk(psi).measurements[0].values
    np.testing.assert_allclose(table_of(coefficients(found)), factor * pure, atol=1e-12)
    assert found.sum() == pytest.approx(values.sum())


@given(st.integers(0, 999), st.sampled_from([1e-9, 1.0, 1e4]))
def test_what_is_shrunk_agrees_and_sums_to_the_same(seed, stddev):
    psi = noisy(TRUTHS["uneven"], stddev, DRAWS["laplace"], np.random.default_rng(seed))
    values = {m.clique: m.values for m in shrunk(psi).measurements}
    np.testing.assert_allclose(
        values["a", "b"].sum(axis=0), values["b", "c"].sum(axis=1), rtol=1e-9, atol=1e-9 * stddev
    )
    assert values["a", "b"].sum() == pytest.approx(agreeing(psi).measurements[0].values.sum())
    assert min(m.values.min() for m in reconcile(psi).measurements) >= 0


def test_exact_marginals_are_not_shrunk():
    """Only the interaction of b and c is noisy: what is exact of them stays exact."""
    table = TRUTHS["uneven"]
    exact, other = (project(table, DOMAIN.attributes, clique) for clique in (("a", "b"), ("b", "c")))
    psi = Psi(DOMAIN, (Measurement(("a", "b"), exact), Measurement(("b", "c"), other + 9.0, 50.0)))
    one, two = shrunk(psi).measurements
    np.testing.assert_allclose(one.values, exact, atol=1e-9)
    np.testing.assert_allclose(two.values.sum(axis=1), exact.sum(axis=0), atol=1e-9)
