"""Bayesian networks: drawn by their law, kept to the byte, and refused where they are none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gencard.core.domain import Domain
from gencard.core.errors import DomainMismatchError, InvalidInputError, InvalidNumberError
from gencard.core.generators.contract import rng_of
from gencard.core.generators.model_file import bytes_of, model_of
from gencard.core.generators.models import NetworkModel, Node

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 2})
A = Node("a", (), np.array([3.0, 1.0]))
B = Node("b", ("a",), np.array([[2.0, 0.0, 6.0], [0.0, 0.0, 0.0]]))
C = Node("c", ("b", "a"), np.arange(12, dtype=float).reshape(3, 2, 2))
MODEL = NetworkModel(DOMAIN, (A, B, C))


def law():
    """By hand: a row without mass is uniform."""
    given_a = np.array([[0.25, 0, 0.75], [1 / 3] * 3])
    given_ba = C.table / C.table.sum(axis=-1, keepdims=True)
    return np.einsum("a,ab,bac->abc", np.array([0.75, 0.25]), given_a, given_ba)


def test_rows_follow_the_law():
    codes = MODEL.sample(40_000, rng=rng_of(5)).codes.astype(int)
    hits = np.bincount(codes @ [6, 2, 1], minlength=12)
    expected = law().ravel()
    assert not hits[expected == 0].any()
    possible = expected > 0
    assert stats.chisquare(hits[possible], 40_000 * expected[possible]).pvalue > 1e-3


@given(st.integers(0, 30), st.integers(0, 30))
def test_two_draws_are_one_long_draw(first, second):
    rng = rng_of(3)
    parts = np.concatenate([MODEL.sample(rows, rng=rng).codes for rows in (first, second)])
    np.testing.assert_array_equal(parts, MODEL.sample(first + second, rng=rng_of(3)).codes)


def test_it_comes_back_to_the_byte():
    saved = bytes_of(MODEL)
    loaded = model_of(saved)
    assert bytes_of(loaded) == saved
    assert loaded.sample(500, rng=rng_of(1)).digest() == MODEL.sample(500, rng=rng_of(1)).digest()


@pytest.mark.parametrize(
    "nodes",
    [
        (B, A, C),
        (A, B),
        (A, A, B, C),
        (A, B, Node("c", (), np.ones(3))),
        (A, B, Node("c", ("d",), np.ones((2, 2)))),
    ],
    ids=["child first", "one lacks", "twice", "shape", "unknown parent"],
)
def test_what_is_no_network_of_the_domain_is_refused(nodes):
    with pytest.raises(DomainMismatchError):
        NetworkModel(DOMAIN, nodes)


@pytest.mark.parametrize("number", [-1.0, np.nan, np.inf])
def test_numbers_must_be_weights(number):
    with pytest.raises(InvalidNumberError):
        NetworkModel(DOMAIN.project(("a",)), (Node("a", (), np.array([1.0, number])),))


def test_rows_are_a_count_and_files_are_checked():
    with pytest.raises(InvalidNumberError):
        MODEL.sample(-1, rng=rng_of(0))
    other = NetworkModel(DOMAIN.project(("a",)), (A,))
    broken = bytes_of(other).replace(b'"sizes":[2]', b'"sizes":[3]')
    assert broken != bytes_of(other)
    with pytest.raises(InvalidInputError):
        model_of(broken)
