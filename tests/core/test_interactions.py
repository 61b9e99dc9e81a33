"""Interaction coordinates against Gram-Schmidt and against the definition."""

from itertools import chain, combinations
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gencard.core.domain import Domain
from gencard.core.statistics.marginals import coefficients, contrasts, dimension, table_of

TABLES = hnp.arrays(
    np.int64, hnp.array_shapes(min_dims=1, max_dims=4, max_side=4), elements=st.integers(0, 50)
)


def full_block(table, axes):
    """Coordinates of the whole table in the block of ``axes``, by the definition."""
    for axis, size in enumerate(table.shape):
        constant = np.full((1, size), 1 / np.sqrt(size))
        matrix = contrasts(size) if axis in axes else constant
        table = np.moveaxis(np.tensordot(matrix, table, axes=(1, axis)), 0, axis)
    return table


def subsets(number):
    return chain.from_iterable(combinations(range(number), size) for size in range(number + 1))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 13])
def test_contrasts_are_orthonormal_and_orthogonal_to_the_constant(size):
    rows = contrasts(size)
    assert rows.shape == (size - 1, size)
    np.testing.assert_allclose(rows @ rows.T, np.eye(size - 1), atol=1e-12)
    np.testing.assert_allclose(rows.sum(axis=1), 0, atol=1e-12)


def test_contrasts_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        contrasts(3)[0, 0] = 1


def test_contrasts_are_gram_schmidt_on_indicators_of_the_first_levels():
    triangle = np.tri(5)[::-1]  # constant, then the first 4 levels, 3, 2, 1
    q, _ = np.linalg.qr(triangle.T)
    for ours, theirs in zip(contrasts(5)[::-1], q.T[1:], strict=True):
        np.testing.assert_allclose(abs(ours @ theirs), 1, atol=1e-12)


@given(TABLES)
def test_blocks_together_hold_the_whole_table(table):
    energy = sum(np.square(full_block(table, axes)).sum() for axes in subsets(table.ndim))
    np.testing.assert_allclose(energy, np.square(table).sum(), rtol=1e-9)


@given(TABLES, st.data())
def test_coordinates_of_a_block_follow_from_its_marginal_alone(table, data):
    axes = data.draw(st.sampled_from(list(subsets(table.ndim))))
    others = tuple(axis for axis in range(table.ndim) if axis not in axes)
    left_out = prod(table.shape[axis] for axis in others)
    ours = coefficients(table.sum(axis=others)) / np.sqrt(left_out)
    np.testing.assert_allclose(ours.ravel(), full_block(table, axes).ravel(), atol=1e-9)


@given(TABLES)
def test_a_table_made_of_coordinates_has_them_and_no_other(table):
    coordinates = coefficients(table)
    made = table_of(coordinates)
    np.testing.assert_allclose(coefficients(made), coordinates, atol=1e-9)
    for axis in range(table.ndim):
        np.testing.assert_allclose(made.sum(axis=axis), 0, atol=1e-9)


@pytest.mark.parametrize(
    ("sizes", "cliques", "outside"),
    [
        ({"activity": 10, "occupation": 10, "sex": 2}, "all pairs", 81),
        (
            {"ethnic": 6, "birth": 3, "family": 7, "grade": 5},
            [
                ("ethnic", "birth", "family"),
                ("ethnic", "grade"),
                ("birth", "grade"),
                ("family", "grade"),
            ],
            448,
        ),
    ],
)
def test_dimensions_of_the_paper(sizes, cliques, outside):
    domain = Domain.of(sizes)
    released = list(combinations(sizes, 2)) if cliques == "all pairs" else cliques
    inside = {
        frozenset(part) for clique in released for n in range(5) for part in combinations(clique, n)
    }
    blocks = [part for n in range(5) for part in combinations(sizes, n) if frozenset(part) not in inside]
    assert sum(prod(sizes[name] - 1 for name in block) for block in blocks) == outside
    assert domain.cells - dimension(domain, released) == outside
