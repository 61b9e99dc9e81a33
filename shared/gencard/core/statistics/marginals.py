"""Marginals of a table: sums over attributes, their coordinates, and what a workload of them determines.

Along each axis of size ``n`` stand the orthonormal Helmert vectors: one constant and ``n - 1``
contrasts. Their tensor products are an orthonormal basis of all tables, sorted into blocks: block
``W_S`` has a contrast on every axis in ``S`` and the constant on every other one. Blocks of different
sets are orthogonal, and the coefficients in ``W_S`` follow from the marginal on ``S`` alone.

The marginals of a workload span the blocks of its closure. Of one version of the records, read by one
schema, two workloads therefore determine the marginals inside one of their cliques and no more.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import combinations, groupby, product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.card.sums import Sum
from gencard.core.coding import Coding, Edges
from gencard.core.dataset import Dataset, check_codes
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidCliqueError, InvalidDatasetError, TooLargeError
from gencard.core.types import FloatArray


def project(table: NDArray[Any], attributes: Clique, clique: Clique) -> NDArray[Any]:
    """The marginal of a table.

    Args:
        table: One axis per attribute, in the order of ``attributes``.

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
        problem = "the table does not have all of its attributes"
        raise InvalidCliqueError(clique=", ".join(clique), problem=problem)
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


def _along(matrix: FloatArray, table: FloatArray, axis: int) -> FloatArray:
    """Multiply one axis of ``table`` by ``matrix``, leaving the axes in place."""
    # What ``tensordot`` does, without its preparations, which take longer than a small product.
    first = table.transpose((axis, *range(axis), *range(axis + 1, table.ndim)))
    rest = first.shape[1:]
    product: FloatArray = np.dot(matrix, first.reshape(len(first), prod(rest)))
    product = product.reshape(len(matrix), *rest)
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
    return any(
        (grant.version, grant.coding) != (wanted.version, wanted.coding)
        or grant.rounding not in (1, wanted.rounding)
        for grant in granted
    )


# Counting marginals in one pass over records that need not fit in memory.
#
# Few attribute sets that hold many cliques are counted (``cover``), so that one table serves all cliques
# inside it.

MOST_CELLS = 50_000_000
"""Cells of all marginals of one count together: 400 MB."""

_TABLE_CELLS = 2**14
"""Cells of one table that is counted for many cliques: 128 KiB, so that it stays in a core's cache."""

_BLOCK_ROWS = 2**16
"""Records looked at together: their cell numbers stay in the cache too."""


class Counter:
    """Marginals of a stream of records; the order of the records does not matter.

    Few tables that hold many cliques each are counted; the marginals are summed out of them at the
    end. Memory does not grow with the number of records.

    >>> counter = Counter(Domain.of({"sex": 2, "age": 3}), [("sex",)])
    >>> counter.add(np.array([[0, 2], [1, 2], [1, 0]]))
    >>> counter.marginals()
    [array([1, 2])]

    Raises:
        TooLargeError: The marginals have more than ``MOST_CELLS`` cells together.
        UnknownAttributeError: A clique names an attribute that is not in the domain.
    """

    def __init__(self, domain: Domain, cliques: Sequence[Clique]) -> None:
        if sum(domain.project(clique).cells for clique in cliques) > MOST_CELLS:
            raise TooLargeError(what="The number of cells of the marginals", limit=MOST_CELLS)
        self._domain = domain
        self._cliques = tuple(cliques)
        self._tallies = []
        for inside in cover(domain, cliques, _TABLE_CELLS):
            own = domain.project(inside)
            self._tallies.append(_Tally(domain.axes(inside), own, np.zeros(own.cells, dtype=np.int64)))

    def add(self, codes: NDArray[Any] | Sequence[NDArray[Any]]) -> None:
        """Count some records.

        Args:
            codes: Shape ``(n, d)``, or one array of ``n`` codes per attribute of the domain.

        Raises:
            InvalidDatasetError: Wrong shape, not integers, or a code outside its attribute's size.
        """
        columns = list(codes.T if isinstance(codes, np.ndarray) else codes)
        shapes = {column.shape for column in columns}
        is_wrong = len(columns) != len(self._domain) or len(shapes) > 1
        if is_wrong or any(len(shape) != 1 for shape in shapes):
            raise InvalidDatasetError(problem="attributes differ in length or are missing")
        for axis, column in enumerate(columns):
            check_codes(column, self._domain, axis)
        for begin in range(0, len(columns[0]) if columns else 0, _BLOCK_ROWS):
            block = [column[begin : begin + _BLOCK_ROWS] for column in columns]
            for tally in self._tallies:
                cells = cell_numbers([block[axis] for axis in tally.axes], tally.domain.sizes)
                counts = tally.counts
                counts += np.bincount(cells, minlength=len(counts))

    def marginals(self) -> list[NDArray[np.int64]]:
        """Counts so far, in records, in the order of the cliques; axes in the clique's own order."""
        tallies = sorted(self._tallies, key=lambda tally: tally.domain.cells)
        inside = np.zeros((len(self._domain), len(tallies)), dtype=bool)
        for number, tally in enumerate(tallies):
            inside[list(tally.axes), number] = True
        marginals = []
        for clique in self._cliques:
            tally = tallies[inside[list(self._domain.axes(clique))].all(axis=0).argmax()]
            table = tally.counts.reshape(tally.domain.sizes)
            marginals.append(np.array(project(table, tally.domain.attributes, clique), order="C"))
        return marginals


def count(dataset: Dataset, clique: Clique) -> NDArray[np.int64]:
    """Number of records in each cell of a clique.

    Returns:
        Shape ``dataset.domain.project(clique).sizes``; sums to ``len(dataset)``.

    Raises:
        TooLargeError: More cells than may be counted.
        UnknownAttributeError: An attribute is not in the domain.
    """
    return count_all(dataset, [clique])[0]


def count_all(dataset: Dataset, cliques: Sequence[Clique]) -> list[NDArray[np.int64]]:
    """The marginals on all cliques, in their order, in one pass over the records.

    Raises:
        TooLargeError: More cells than may be counted.
        UnknownAttributeError: An attribute is not in the domain.
    """
    counter = Counter(dataset.domain, cliques)
    counter.add(dataset.codes)
    return counter.marginals()


@dataclass(frozen=True, slots=True, eq=False)
class _Tally:
    """Counts on one attribute set: its ``axes`` in the records, its own ``domain``, flat ``counts``."""

    axes: tuple[int, ...]
    domain: Domain
    counts: NDArray[np.int64]


def cell_numbers(columns: Sequence[NDArray[Any]], sizes: Sequence[int]) -> NDArray[Any]:
    """Number of each record's cell, the last attribute running fastest, as narrow as the cells allow.

    Args:
        columns: One array of ``n`` codes per attribute.

    Returns:
        Shape ``(n,)``.
    """
    number = prod(sizes)
    dtype = np.uint16 if number < 2**16 else np.uint32 if number < 2**32 else np.int64
    cells = columns[0].astype(dtype)
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        np.multiply(cells, dtype(size), out=cells)
        np.add(cells, column, out=cells, casting="unsafe")
    return cells


def cover(domain: Domain, cliques: Sequence[Clique], most_cells: int) -> tuple[Clique, ...]:
    """Attribute sets, in the domain's order, such that every clique lies inside one of them.

    Each set has at most ``most_cells`` cells, unless it is a single clique that is larger by itself.
    Greedy: a set starts from the first clique not yet covered and takes the attribute that completes
    most others until nothing more fits. Deterministic.

    >>> cover(Domain.of({"a": 2, "b": 2, "c": 2, "d": 2}), [("a", "b"), ("b", "c"), ("c", "d")], 8)
    (('a', 'b', 'c'), ('c', 'd'))
    """
    return _cover(domain, tuple(map(tuple, cliques)), most_cells)


@lru_cache(maxsize=32)  # an audit counts the same marginals of each output of a box
def _cover(domain: Domain, cliques: tuple[Clique, ...], most_cells: int) -> tuple[Clique, ...]:
    largest = maximal(cliques)
    if not largest:
        return ()
    axes = np.full((len(largest), max(map(len, largest))), len(domain))
    for row, clique in enumerate(largest):
        axes[row, : len(clique)] = domain.axes(clique)
    cliques_with = (np.flatnonzero((axes == axis).any(axis=1)) for axis in range(len(domain)))
    sizes = np.array([*domain.sizes, 1], dtype=float)
    widths = np.sum(axes < len(domain), axis=1)
    wanted = _Wanted(axes, sizes, tuple(cliques_with), widths, np.prod(sizes[axes], axis=1))
    return tuple(tuple(domain.attributes[axis] for axis in inside) for inside in wanted.sets(most_cells))


@dataclass(frozen=True, slots=True, eq=False)
class _Wanted:
    """The cliques to cover, each in a row.

    Args:
        axes: Shape ``(cliques, widest)``; short rows end with an axis of size 1 that every set has.
        sizes: Numbers of levels of the attributes, followed by 1.
        cliques_with: For each axis, the rows of the cliques that have it.
    """

    axes: NDArray[np.intp]
    sizes: NDArray[np.float64]
    cliques_with: tuple[NDArray[np.intp], ...]
    widths: NDArray[np.intp]
    cells: NDArray[np.float64]

    def sets(self, most_cells: int) -> Iterator[list[int]]:
        covered = np.zeros(len(self.axes), dtype=bool)
        for row in range(len(self.axes)):
            if not covered[row]:
                inside = np.arange(len(self.sizes)) == len(self.cliques_with)
                cells = np.where(covered, np.inf, self.cells)
                growing = _Growing(self, inside, self.widths.copy(), cells)
                growing.grow(self.axes[row], most_cells)
                covered |= growing.lacking == 0
                yield np.flatnonzero(growing.inside[:-1]).tolist()


@dataclass(frozen=True, slots=True, eq=False)
class _Growing:
    """One set while it grows.

    Args:
        inside: True for the axes that the set has.
        lacking: How many axes each clique has that the set has not.
        cells: Cells of the lacking axes; infinite if this set or another one covers the clique.
    """

    wanted: _Wanted
    inside: NDArray[np.bool_]
    lacking: NDArray[np.intp]
    cells: NDArray[np.float64]

    def grow(self, added: NDArray[np.intp], most_cells: int) -> None:
        """Add the axes of a first clique, then others until no further clique fits."""
        while True:
            # Take in some axes; only the cliques that have them change.
            for axis in added[~self.inside[added]]:
                self.inside[axis] = True
                rows = self.wanted.cliques_with[axis]
                self.lacking[rows] -= 1
                self.cells[rows] /= self.wanted.sizes[axis]
                self.cells[rows[self.lacking[rows] == 0]] = np.inf
            room = most_cells / np.prod(self.wanted.sizes[self.inside])
            fits = np.flatnonzero(self.cells <= room)
            if not len(fits):
                return
            # The axis that completes most cliques; if none does, the smallest addition.
            one_short = fits[self.lacking[fits] == 1]
            if len(one_short):
                completed = np.bincount(self._missing(one_short), minlength=len(self.inside))
                smallest_of_best = np.where(completed == completed.max(), self.wanted.sizes, np.inf)
                added = np.array([np.argmin(smallest_of_best)])
            else:
                added = self._missing(fits[[np.argmin(self.cells[fits])]])

    def _missing(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """The axes that the cliques of some rows lack, one after another."""
        axes = self.wanted.axes[rows]
        return axes[~self.inside[axes]]


# Price of exact marginals, histograms and sums together: the rank of all their functions.
#
# Functions of one attribute are written in blocks: the constant; whether it is present; its other level
# contrasts; its other contrasts of fine cells; its units u; their squares. A function of several
# attributes lies in products of blocks, one for each attribute, so that the rank is the sum over
# different products of their dimensions. What one statistic shares with another counts once.
#
# The price is never below the rank. It is one above for each product with u and squares of a scale on
# which exactly one level, or one cell of the histogram, holds two values.

_ONE, _PRESENT, _LEVELS, _CELLS, _UNITS, _SQUARES = "1", "present", "levels", "cells", "u", "u^2"


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Blocks of one attribute.

    Args:
        levels: Blocks that functions of the level lie in.
        cells: The same for functions of the cell of the histogram.
        number: Block of u, then that of its squares.
    """

    sizes: dict[str, int]
    levels: frozenset[str]
    cells: frozenset[str]
    number: tuple[str, str]
    may_be_missing: bool


def _blocks_of(coding: Coding, name: str, *, apart: bool) -> _Blocks:
    """Return the blocks of an attribute.

    Args:
        apart: A histogram or sum tells contrasts of its levels apart; else all of them are one block.
    """
    own = coding.attribute(name).coding
    if not apart:
        whole = frozenset({_ONE, _LEVELS})
        sizes = {_ONE: 1, _LEVELS: own.size - 1}
        return _Blocks(sizes, whole, whole, (_UNITS, _SQUARES), own.missing)
    present_levels = own.size - own.missing
    sizes = {_ONE: 1, _PRESENT: int(own.missing), _LEVELS: present_levels - 1}
    base = frozenset({_ONE, _LEVELS} | ({_PRESENT} if own.missing else set()))
    if not isinstance(own, Edges) or own.scale is None:
        return _Blocks(sizes, base, base, (_UNITS, _SQUARES), own.missing)
    values, cells = own.scale.size, len(own.scale.cells) - 1
    squares = _UNITS if values == 2 else _SQUARES  # units of two values are 0 and 1
    numbers = frozenset({_UNITS, squares})
    sizes |= dict.fromkeys(numbers, int(values > 1))
    levels = base
    # Each level holds one number: u and its squares are then functions of the level.
    if present_levels == values:
        sizes[_LEVELS] -= sum(sizes[one] for one in numbers)
        levels = base | numbers
    sizes[_CELLS] = cells - present_levels
    fine = levels | {_CELLS}
    if cells == values > present_levels:
        sizes[_CELLS] -= len(numbers)  # may be -1: where it counts, both blocks of numbers do
        fine |= numbers
    return _Blocks(sizes, levels, fine, (_UNITS, squares), own.missing)


def rank(
    coding: Coding, marginals: Iterable[Clique], histograms: Iterable[str] = (), sums: Sequence[Sum] = ()
) -> int:
    """Return the number of independent statistics in exact marginals, histograms and sums.

    The number of records is one of them. A sum's counts of its population are another statistic.

    Raises:
        UnknownAttributeError: An attribute is not declared.
        TooLargeError: There are more than ``MOST_SUBSETS`` products of blocks.
    """
    histograms = tuple(histograms)
    apart = {*histograms, *(name for one in sums for name in (*one.of, *one.present))}
    blocks = {name: _blocks_of(coding, name, apart=name in apart) for name in coding.domain.attributes}
    spans = [{name: blocks[name].levels for name in clique} for clique in marginals]
    spans += [{name: blocks[name].cells} for name in histograms]
    for one in sums:
        # Blocks of the counts of the sum's population, for each attribute.
        counted = {
            name: frozenset({_PRESENT if blocks[name].may_be_missing else _ONE})
            for name in (*one.of, *one.present)
        }
        for name in one.by:
            # Functions of the level that are 0 where the attribute is missing have no constant.
            apart_from = {_ONE} if name in one.present and blocks[name].may_be_missing else set()
            counted[name] = blocks[name].levels - apart_from
        numbers = {name: frozenset({blocks[name].number[one.of.count(name) - 1]}) for name in one.of}
        spans += [counted, {**counted, **numbers}]
    if sum(prod(map(len, span.values())) for span in spans) > MOST_SUBSETS:
        raise TooLargeError(
            what="The number of subsets of the cliques",
            limit=MOST_SUBSETS,
            advice="Request marginals of fewer attributes.",
        )
    # Products of blocks: attributes with their blocks, without the constant.
    products = {
        frozenset((name, block) for name, block in zip(span, one, strict=True) if block != _ONE)
        for span in spans
        for one in product(*map(sorted, span.values()))
    }
    return sum(prod(blocks[name].sizes[block] for name, block in one) for one in products)
