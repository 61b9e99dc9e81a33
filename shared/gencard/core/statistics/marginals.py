"""Marginals of a table: sums over attributes, their coordinates, and what a workload of them determines.

Along each axis of size ``n`` stand the orthonormal Helmert vectors: one constant and ``n - 1``
contrasts. Their tensor products are an orthonormal basis of all tables, sorted into blocks: block
``W_S`` has a contrast on every axis in ``S`` and the constant on every other one. Blocks of different
sets are orthogonal, and the coefficients in ``W_S`` follow from the marginal on ``S`` alone.

The marginals of a workload span the blocks of its closure. Of one version of the records, read by one
schema, two workloads therefore determine the marginals inside one of their cliques and no more.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import combinations, groupby
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidCliqueError, TooLargeError
from gencard.core.types import FloatArray


def project(table: NDArray[Any], attributes: Clique, clique: Clique) -> NDArray[Any]:
    """The marginal of a table.

    Args:
        table: One axis per attribute, in the order of ``attributes``.
        attributes: Attribute of each axis.
        clique: The attributes to keep.

    Returns:
        Axes in the order of ``clique``; same units as ``table``.

    Raises:
        InvalidCliqueError: The clique names an attribute that the table does not have.
    """
    kept, outside, order = _layout(tuple(attributes), tuple(clique))
    summed = sum_out(table, outside)
    return summed.reshape([table.shape[axis] for axis in kept]).transpose(order)


@lru_cache(maxsize=4096)
def _layout(
    attributes: Clique, clique: Clique
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Axes of a table that a clique keeps, those outside it, and the clique's order among those kept."""
    if not set(clique) <= set(attributes):
        raise InvalidCliqueError(
            clique=", ".join(clique), problem="the table does not have all of its attributes"
        )
    kept = tuple(axis for axis, name in enumerate(attributes) if name in clique)
    order = tuple(kept.index(attributes.index(name)) for name in clique)
    return kept, others(attributes, clique), order


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
    # What ``tensordot`` does, without its preparations, which take longer than a small product.
    first = table.transpose((axis, *range(axis), *range(axis + 1, table.ndim)))
    rest = first.shape[1:]
    product: FloatArray = np.dot(matrix, first.reshape(len(first), prod(rest))).reshape(
        len(matrix), *rest
    )
    return product.transpose((*range(1, axis + 1), 0, *range(axis + 1, table.ndim)))


Attributes = frozenset[str]
"""A set of attributes: a clique whose order does not matter."""

MOST_SUBSETS = 2**20
"""Sets of attributes that are ever listed, counted before the first is made."""


def subsets(clique: Collection[str]) -> Iterable[Attributes]:
    """Every subset of a clique, the empty one first and the clique itself last."""
    for order in range(len(clique) + 1):
        yield from map(frozenset, combinations(clique, order))


def closure(cliques: Sequence[Clique]) -> frozenset[Attributes]:
    """Every set of attributes inside some clique: exactly those whose marginal the cliques determine.

    The empty set is one of them: its marginal is the number of records.

    >>> sorted("".join(sorted(inside)) for inside in closure([("a", "b"), ("b", "c")]))
    ['', 'a', 'ab', 'b', 'bc', 'c']

    Raises:
        TooLargeError: The cliques have more than ``MOST_SUBSETS`` subsets.
    """
    check_subsets(cliques)
    return frozenset(inside for clique in cliques for inside in subsets(clique))


def maximal(cliques: Iterable[Clique]) -> tuple[Clique, ...]:
    """The cliques that lie inside no other one, in the given order; of equal sets, the first."""
    first: dict[Attributes, Clique] = {}
    for clique in cliques:
        first.setdefault(frozenset(clique), clique)
    wider: dict[str, list[Attributes]] = defaultdict(list)
    inner: set[Attributes] = set()
    for _, alike in groupby(sorted(first, key=len, reverse=True), key=len):
        same_width = list(alike)
        inner.update(names for names in same_width if _lies_in_one(names, wider))
        for names in same_width:
            for name in names:
                wider[name].append(names)
    return tuple(clique for names, clique in first.items() if names not in inner)


def _lies_in_one(names: Attributes, supersets: Mapping[str, Sequence[Attributes]]) -> bool:
    """Whether a set lies in one of some sets, which are given for each attribute that they have."""
    if not names:
        return bool(supersets)
    fewest = min((supersets.get(name, ()) for name in names), key=len)
    return any(names < other for other in fewest)


def dimension(domain: Domain, cliques: Sequence[Clique]) -> int:
    r"""Independent counts that the marginals on ``cliques`` release: their price in "statistics".

    The space of tables splits into orthogonal interaction blocks, one per set S of attributes, of
    dimension :math:`\prod_{i \in S} (n_i - 1)`; the marginals span the blocks of their closure.

    >>> dimension(Domain.of({"activity": 10, "occupation": 10, "sex": 2}), [("activity", "sex")])
    20

    Raises:
        TooLargeError: The cliques have more than ``MOST_SUBSETS`` subsets.
        UnknownAttributeError: An attribute is not in the domain.
    """
    return sum(prod(domain.size(name) - 1 for name in inside) for inside in closure(cliques))


def check_subsets(cliques: Iterable[Clique]) -> None:
    """Refuse cliques so wide that listing their subsets would be work in itself."""
    if sum(2 ** len(clique) for clique in cliques) > MOST_SUBSETS:
        raise TooLargeError(
            what="The number of subsets of the cliques",
            limit=MOST_SUBSETS,
            advice="Request marginals of fewer attributes.",
        )


@dataclass(frozen=True, slots=True)
class Grant:
    """Exact counts that somebody was granted: of which records, and how they were read.

    Args:
        version: Digest of the records.
        coding: Digest of the public schema.
        rounding: Multiples that the counts were rounded to; 1 for none.
    """

    version: str
    coding: str
    rounding: int = 1


def shows_a_difference(wanted: Grant, granted: Iterable[Grant]) -> bool:
    """Whether ``wanted`` and an earlier grant determine together what neither determines alone.

    Of two versions of the records, every block that both workloads span shows by subtraction which
    records came or went, and the block of the empty set, the number of records, is in every workload.
    Under two schemas, edges that moved by a little show the records between them. Counts rounded to two
    different multiples say more than either, and unrounded counts undo the rounding of earlier ones.
    Rounded counts add nothing to the same counts that were granted unrounded before.
    """
    return any(_differ(wanted, grant) for grant in granted)


def _differ(wanted: Grant, granted: Grant) -> bool:
    if (wanted.version, wanted.coding) != (granted.version, granted.coding):
        return True
    return granted.rounding not in (1, wanted.rounding)
