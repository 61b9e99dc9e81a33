"""Sampling error of a marginal: against all possible samples, and against repeated draws."""

from itertools import product
from math import comb, factorial, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.measures.utility.fidelity import sampling_variation

RNG = np.random.default_rng(11)
TABLES = {
    "even": np.array([0.5, 0.5]),
    "skew": np.array([0.02, 0.98]),
    "rare": np.array([0.001, 0.999]),
    "three": np.array([0.2, 0.3, 0.5]),
    "dominated": np.array([0.9, *[1 / 90] * 9]),
    "hundred": RNG.dirichlet(np.ones(100)),
    "sparse": RNG.dirichlet(np.ones(2_000)),
    "zeros": np.array([0.0, 0.25, 0.0, 0.75]),
}


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5).filter(any), st.integers(1, 12))
def test_the_mean_is_the_sum_over_all_that_can_happen(counts, rows):
    shares = np.array(counts) / sum(counts)
    chances = [
        [comb(rows, x) * p**x * (1 - p) ** (rows - x) * abs(x / rows - p) for x in range(rows + 1)]
        for p in shares
    ]
    assert sampling_variation(shares, rows, 0.01)[0] == pytest.approx(np.sum(chances) / 2, abs=1e-12)


def test_the_mean_of_very_many_rows_is_that_of_normal_deviates():
    shares, rows = np.array([0.2, 0.3, 0.5]), 10**9
    normal = np.sqrt(shares * (1 - shares) / rows * 2 / np.pi).sum() / 2
    assert sampling_variation(shares, rows, 0.01)[0] == pytest.approx(normal, rel=1e-5)


@pytest.mark.parametrize("rows", [20, 500, 20_000])
@pytest.mark.parametrize("name", TABLES)
def test_the_bound_is_exceeded_as_rarely_as_it_says(name, rows):
    shares = TABLES[name]
    drawn = np.random.default_rng(5).multinomial(rows, shares, 4_000) / rows
    found = np.abs(drawn - shares).sum(axis=1) / 2
    assert (found > sampling_variation(shares, rows, 0.05)[1]).mean() <= 0.05
    assert (found > sampling_variation(shares, rows, 0.01)[1]).mean() <= 0.012


@pytest.mark.parametrize("name", ["even", "three", "hundred", "sparse"])
def test_the_bound_is_not_much_wider_than_it_must_be(name):
    shares, rows = TABLES[name], 20_000
    drawn = np.random.default_rng(6).multinomial(rows, shares, 4_000) / rows
    found = np.abs(drawn - shares).sum(axis=1) / 2
    needed = np.quantile(found, 0.99) - found.mean()
    assert sampling_variation(shares, rows, 0.01)[1] - found.mean() < 1.3 * needed


@given(st.integers(1, 8), st.sampled_from([0.5, 0.1, 0.02]))
def test_no_outcome_of_few_rows_is_forgotten(rows, probability):
    """Brute force: the probability of every table of so many rows."""
    shares = np.array([0.1, 0.3, 0.6])
    bound, beyond = sampling_variation(shares, rows, probability)[1], 0.0
    for counts in product(range(rows + 1), repeat=3):
        if sum(counts) == rows and np.abs(np.array(counts) / rows - shares).sum() / 2 > bound:
            ways = factorial(rows) / prod(map(factorial, counts))
            beyond += ways * prod(p**x for p, x in zip(shares, counts, strict=True))
    assert beyond <= probability


def test_what_is_certain_does_not_vary():
    certain = np.array([0.0, 1.0])
    assert sampling_variation(certain, 10, 0.01)[0] == 0
    assert sampling_variation(certain, 10, 0.01)[1] == 0.1
