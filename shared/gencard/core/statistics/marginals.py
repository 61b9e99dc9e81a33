"""Marginals of a table: sums over attributes, and coordinates of what each adds to narrower ones.

Along each axis of size ``n`` stand the orthonormal Helmert vectors: one constant and ``n - 1``
contrasts. Their tensor products are an orthonormal basis of all tables, sorted into blocks: block
``W_S`` has a contrast on every axis in ``S`` and the constant on every other one. Blocks of different
sets are orthogonal, and the coefficients in ``W_S`` follow from the marginal on ``S`` alone.
"""

from collections.abc import Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.domain import Clique
from gencard.core.errors import InvalidCliqueError
from gencard.core.types import FloatArray


def project(table: NDArray[Any], attributes: Clique, clique: Clique) -> NDArray[Any]:
    """The marginal of a table.

    Args:
        table: One axis per attribute, in the order of ``attributes``.
        attributes: What the axes mean.
        clique: The attributes to keep.

    Returns:
        Axes in the order of ``clique``; same units as ``table``.

    Raises:
        InvalidCliqueError: The clique names an attribute that the table does not have.
    """
    if not set(clique) <= set(attributes):
        raise InvalidCliqueError(
            clique=", ".join(clique), problem="the table does not have all of its attributes"
        )
    kept = [name for name in attributes if name in clique]
    summed = sum_out(table, others(attributes, clique))
    shape = [table.shape[attributes.index(name)] for name in kept]
    return np.transpose(summed.reshape(shape), [kept.index(name) for name in clique])


def others(attributes: Clique, clique: Clique) -> tuple[int, ...]:
    """The axes of a table on ``attributes`` that lie outside a clique, ascending."""
    return tuple(axis for axis, name in enumerate(attributes) if name not in clique)


def sum_out(table: NDArray[Any], axes: Sequence[int]) -> NDArray[Any]:
    """Sum over ascending axes, which stay with size 1.

    One axis after another, the first one first: what it adds up are long pieces of memory, and the
    later ones find a smaller table. That is three times as fast as all at once, and keeps off the sums
    over long contiguous memory whose order has changed between versions of numpy.
    """
    for axis in axes:
        table = np.add.reduce(table, axis=axis, keepdims=True)
    return table


def total(table: NDArray[Any]) -> float:
    """Sum of all cells, added in their order."""
    return float(np.cumsum(table)[-1])


@cache
def contrasts(size: int) -> FloatArray:
    r"""Orthonormal Helmert contrasts, shape ``(size - 1, size)``, read-only.

    Row ``k - 1`` compares level ``k`` with the mean of the levels before it:
    :math:`(1, \dots, 1, -k, 0, \dots, 0) / \sqrt{k (k + 1)}`. Every row sums to 0.

    >>> contrasts(3).round(3).tolist()
    [[0.707, -0.707, 0.0], [0.408, 0.408, -0.816]]
    """
    order = np.arange(1, size)
    rows = np.tri(size - 1, size, dtype=np.float64)
    rows[order - 1, order] = -order
    rows /= np.sqrt(order * (order + 1.0))[:, None]
    rows.flags.writeable = False
    return rows


def coefficients(marginal: NDArray[Any]) -> FloatArray:
    """Coordinates of a marginal in the block of all its attributes.

    Returns:
        Shape ``(n_1 - 1, ..., n_k - 1)``, in the marginal's unit. The coordinates of the whole table
        are these divided by the square root of the number of cells of the attributes summed out.
    """
    coordinates = np.asarray(marginal, dtype=np.float64)
    for axis, size in enumerate(marginal.shape):
        coordinates = _along(contrasts(size), coordinates, axis)
    return coordinates


def table_of(coordinates: FloatArray) -> FloatArray:
    """The table that has these coordinates in its own block and 0 in every other one.

    Returns:
        Shape ``(c_1 + 1, ..., c_k + 1)``; ``coefficients`` gives the coordinates back.
    """
    table = np.asarray(coordinates, dtype=np.float64)
    for axis, length in enumerate(coordinates.shape):
        table = _along(contrasts(length + 1).T, table, axis)
    return table


def block_dimension(sizes: tuple[int, ...]) -> int:
    """Dimension of the block of attributes with these sizes, ``prod(n_i - 1)``."""
    return prod(size - 1 for size in sizes)


def _along(matrix: FloatArray, table: FloatArray, axis: int) -> FloatArray:
    """Multiply one axis of ``table`` by ``matrix``, leaving the axes in place."""
    return np.moveaxis(np.tensordot(matrix, table, axes=(1, axis)), 0, axis)
