"""Cells of a few attributes, the marginal counts to protect there, and what outputs tell of them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from gencard.core.card.mechanism import Transform
from gencard.core.coding import StructuralZeros, impossible_records
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.output_checks.populations import Kept, cell_numbers
from gencard.core.types import FloatArray, IntArray

MOST_CELLS = 512
"""Of a lattice that is listed whole, and of which all marginals are looked at."""

MOST_CHANGING = 2_000
"""Cells of a wider lattice whose counts may change in the search, besides those of small counts."""

WIDTH = 3
"""Least difference, in records, between the least and the largest value that a small count may have."""

_MOST_SMALL = 200
"""Small counts that are looked at in a wider lattice, of its smallest marginals: memory is bounded."""

_MOST_OF_PAIR = 2**16
"""Cells of a pair that is looked at there."""

_FEW_CELLS = 64
_WIDEST = 4
"""Cells and attributes of the marginals beyond pairs that are looked at in a wider lattice."""

_OTHERS = 2
"""Cells besides its own through which a small count of a wider lattice may grow."""


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Marginal counts, as sums over cells of a lattice.

    Args:
        rows: Which of the cells that may change each sums, shape ``(sums, changing)``.
        values: In records, shape ``(sums,)``.
    """

    rows: FloatArray
    values: IntArray

    def take(self, places: NDArray[np.bool_] | IntArray) -> "Sums":
        return Sums(self.rows[places], self.values[places])


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """Cells of a few attributes, all that are occupied among them, and how many records each holds.

    A narrow lattice has all cells. In a wider one, counts of some cells alone may change: what is found
    open with these is open with all.

    Args:
        cells: One row for each cell.
        counts: In records.
        changing: Places of the cells whose counts may be others, as far as an attacker knows; never
            structural zeros, which everybody knows to be empty.
        small: The marginal counts to protect.
        narrow: Whether all cells are there.
        told_apart: The attributes of which no levels are merged.
    """

    cells: Dataset
    counts: IntArray
    changing: IntArray
    small: Sums
    narrow: bool
    told_apart: frozenset[str]

    @classmethod
    def of(
        cls,
        dataset: Dataset,
        attributes: Clique,
        checks: Transform,
        impossible: Sequence[StructuralZeros] = (),
        exact: Sequence[Clique] = (),
        merged: Iterable[str] = (),
    ) -> "Lattice":
        """Of records.

        Args:
            checks: Counts below the threshold are small; 0 where zeros are.
            impossible: Cells that are empty by the schema.
            exact: Marginals that everybody may know: what they tell alone needs no protection.
            merged: Attributes of which several levels have one code.
        """
        domain = dataset.domain.project(attributes)
        narrow = lattice_size(domain, attributes) <= MOST_CELLS
        cliques = _looked_at(domain, narrow)
        numbered = ((clique, _small_cells(dataset, clique, checks, exact)) for clique in cliques)
        small = [*_few(numbered, None if narrow else _MOST_SMALL)]
        codes, counts = _all_cells(dataset, domain) if narrow else _occupied(dataset, attributes)
        if not narrow:
            codes, counts = _with_neighbours(codes, counts, domain, small)
        cells = Dataset(domain, codes)
        changing = _changing(cells, counts, small, narrow) if small else np.zeros(0, dtype=np.int64)
        changing = changing[~impossible_records(domain, codes[changing], impossible)]
        sums = _sums(cells, counts, changing, small)
        possible = np.flatnonzero(sums.rows.any(axis=1))
        return cls(
            cells,
            counts,
            changing,
            sums.take(possible),
            narrow,
            frozenset(attributes).difference(merged),
        )

    @property
    def domain(self) -> Domain:
        return self.cells.domain

    def sums(self, clique: Sequence[str], kept: Kept) -> Sums:
        """A marginal of the records in some cells, all its cells in their order."""
        numbers, size = cell_numbers(self.cells, clique)
        values = np.bincount(numbers[kept], self.counts[kept], minlength=size).astype(np.int64)
        inside = (numbers[self.changing] == np.arange(size)[:, None]) & kept[self.changing]
        return Sums(inside.astype(np.float64), values)


def lattice_size(domain: Domain, attributes: Sequence[str]) -> int:
    """How many cells some attributes have together."""
    return prod(domain.size(name) for name in attributes)


def _looked_at(domain: Domain, narrow: bool) -> Iterator[Clique]:
    """All marginals of a narrow lattice; else all pairs, and wider ones of few cells."""
    names = domain.attributes
    sizes = range(1, 1 + (len(names) if narrow else _WIDEST))
    cliques = (clique for size in sizes for clique in combinations(names, size))
    if narrow:
        yield from cliques
    else:
        for size, clique in sorted((lattice_size(domain, one), one) for one in cliques):
            if size <= (_MOST_OF_PAIR if len(clique) <= 2 else _FEW_CELLS):
                yield clique


def _few(
    small: Iterable[tuple[Clique, IntArray]], most: int | None
) -> Iterator[tuple[Clique, IntArray]]:
    """The marginals with small counts, in their order, until they have too many together."""
    total = 0
    for clique, places in small:
        total += len(places)
        if most is not None and total > most:
            return
        if len(places):
            yield clique, places


def _small_cells(
    dataset: Dataset, clique: Clique, checks: Transform, exact: Sequence[Clique]
) -> IntArray:
    """Numbers of the cells of a marginal that are small, but for those that exact marginals tell."""
    shared = {frozenset(clique) & frozenset(other) for other in exact}
    if frozenset(clique) in shared:
        return np.zeros(0, dtype=np.int64)
    sizes = [dataset.domain.size(name) for name in clique]
    numbers, cells = cell_numbers(dataset, clique)
    counts = np.bincount(numbers, minlength=cells).reshape(sizes)
    small = (counts < checks.threshold) & (checks.zeros | (counts > 0))
    for inside in shared:
        others = tuple(axis for axis, name in enumerate(clique) if name not in inside)
        small &= counts.sum(axis=others, keepdims=True) >= WIDTH
    return np.flatnonzero(small)


def _all_cells(dataset: Dataset, domain: Domain) -> tuple[IntArray, IntArray]:
    """Codes and counts of all cells."""
    codes = np.indices(domain.sizes).reshape(len(domain.sizes), -1).T
    numbers, size = cell_numbers(dataset, domain.attributes)
    return codes, np.bincount(numbers, minlength=size)


def _occupied(dataset: Dataset, attributes: Clique) -> tuple[IntArray, IntArray]:
    """The same of the cells that hold a record, the fullest first."""
    rows = dataset.codes[:, list(dataset.domain.axes(attributes))]
    codes, counts = np.unique(rows, axis=0, return_counts=True)
    fullest = np.argsort(-counts, kind="stable")
    return codes[fullest].astype(np.int64), counts[fullest].astype(np.int64)


def _with_neighbours(
    codes: IntArray, counts: IntArray, domain: Domain, small: Sequence[tuple[Clique, IntArray]]
) -> tuple[IntArray, IntArray]:
    """The occupied cells, and empty ones next to the fullest through which small counts may grow."""
    names, parts = domain.attributes, [codes]
    for clique, numbers in small:
        axes = [names.index(name) for name in clique]
        levels = np.unravel_index(numbers, domain.project(clique).sizes)
        for cell in codes[:_OTHERS]:
            neighbours = np.tile(cell, (len(numbers), 1))
            neighbours[:, axes] = np.stack(levels, axis=1)
            parts.append(neighbours)
    rows, first = np.unique(np.concatenate(parts), axis=0, return_index=True)
    return rows, np.where(first < len(codes), counts[np.minimum(first, len(codes) - 1)], 0)


def _changing(
    cells: Dataset, counts: IntArray, small: Sequence[tuple[Clique, IntArray]], narrow: bool
) -> IntArray:
    """All cells of a narrow lattice; else the fullest, those of small counts, and the empty ones."""
    if narrow or len(cells) <= MOST_CHANGING:
        return np.arange(len(cells))
    is_changing = counts == 0
    is_changing[np.argsort(-counts, kind="stable")[:MOST_CHANGING]] = True
    for clique, numbers in small:
        is_changing |= np.isin(cell_numbers(cells, clique)[0], numbers)
    return np.flatnonzero(is_changing)


def _sums(
    cells: Dataset, counts: IntArray, changing: IntArray, small: Sequence[tuple[Clique, IntArray]]
) -> Sums:
    """The small counts, each once where they sum the same cells."""
    rows, values = [np.zeros((0, len(changing)))], [np.zeros(0, dtype=np.int64)]
    for clique, numbers in small:
        own, size = cell_numbers(cells, clique)
        rows.append((own[changing] == numbers[:, None]).astype(np.float64))
        values.append(np.bincount(own, counts, minlength=size).astype(np.int64)[numbers])
    together, first = np.unique(np.concatenate(rows), axis=0, return_index=True)
    return Sums(together, np.concatenate(values)[first])


@dataclass(frozen=True, slots=True)
class Facts:
    """Linear functions of the counts of a lattice, and by how much an output lets them be others.

    Args:
        rows: Shape ``(facts, changing)``.
        low: The least change that agrees with the output, at most 0; shape ``(facts,)``.
        high: The largest, at least 0.
    """

    rows: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def near(cls, rows: FloatArray, apart: FloatArray | float) -> "Facts":
        """That some functions are where they are, but for so much."""
        return cls.between(rows, 0.0 - np.asarray(apart), np.asarray(apart))

    @classmethod
    def between(cls, rows: FloatArray, low: FloatArray, high: FloatArray) -> "Facts":
        """With bounds that rounding errors may have moved beyond 0."""
        zeros = np.zeros(len(rows))
        return cls(rows, np.minimum(zeros, low), np.maximum(zeros, high))

    @classmethod
    def rounded(cls, sums: Sums, base: int, least: int = 0) -> "Facts":
        """That some counts have certain nearest multiples of a base, and pass a threshold."""
        nearest = np.round(sums.values / base) * base
        passed = np.where(sums.values >= least, least, 0)
        low = np.maximum(np.ceil(nearest - base / 2), passed)
        return cls.between(sums.rows, low - sums.values, np.floor(nearest + base / 2) - sums.values)

    @classmethod
    def together(cls, parts: Iterable["Facts"], changing: int) -> "Facts":
        """All facts of several outputs."""
        parts_list = list(parts)
        rows = np.concatenate([np.empty((0, changing)), *(part.rows for part in parts_list)])
        low = np.concatenate([np.empty(0), *(part.low for part in parts_list)])
        return cls(rows, low, np.concatenate([np.empty(0), *(part.high for part in parts_list)]))
