"""Cells of a few attributes, the marginal counts to protect there, and what outputs tell of them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from gencard.analysis.output_checks.populations import Kept, cell_numbers
from gencard.core.card.privacy import Transform
from gencard.core.coding import StructuralZeros, impossible_records
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.types import FloatArray, IntArray

MOST_CELLS = 4_096
"""Most cells of a lattice. All of them are listed, and all their marginals are protected."""

WIDTH = 3
"""Least difference, in records, between the least and the largest value that a small count may have."""


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
class SmallCounts:
    """Counts to protect in one marginal.

    Args:
        clique: Attributes of the marginal.
        places: Numbers of its cells with a small count, shape ``(small,)``.
        values: These counts, in records.
    """

    clique: Clique
    places: IntArray
    values: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """All cells of a few attributes, and how many records each holds.

    Args:
        cells: One row for each cell.
        counts: In records.
        changing: Places of the cells whose counts may be others, as far as an attacker knows; never
            structural zeros, which everybody knows to be empty.
        small: The marginal counts to protect, of all marginals.
        told_apart: The attributes of which no levels are merged.
    """

    cells: Dataset
    counts: IntArray
    changing: IntArray
    small: tuple[SmallCounts, ...]
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
        """Count records in the cells of some attributes, and list the counts to protect.

        Args:
            checks: Counts below the threshold are small; 0 where zeros are.
            impossible: Cells that are empty by the schema.
            exact: Marginals that everybody may know: what they tell alone needs no protection.
            merged: Attributes of which several levels have one code.
        """
        domain = dataset.domain.project(attributes)
        codes = np.indices(domain.sizes).reshape(len(domain.sizes), -1).T
        numbers, size = cell_numbers(dataset, domain.attributes)
        counts = np.bincount(numbers, minlength=size)
        possible = ~impossible_records(domain, codes, impossible)
        small = _small_counts(domain, counts, possible, checks, exact)
        told_apart = frozenset(attributes).difference(merged)
        return cls(Dataset(domain, codes), counts, np.flatnonzero(possible), tuple(small), told_apart)

    @property
    def domain(self) -> Domain:
        return self.cells.domain

    def numbers(self, clique: Sequence[str]) -> tuple[IntArray, int]:
        """The cell of a marginal that each cell which may change is in, and how many cells it has."""
        numbers, size = cell_numbers(self.cells, clique)
        return numbers[self.changing], size

    def sums(self, clique: Sequence[str], kept: Kept) -> Sums:
        """A marginal of the records in some cells, all its cells in their order."""
        numbers, size = cell_numbers(self.cells, clique)
        values = np.bincount(numbers[kept], self.counts[kept], minlength=size).astype(np.int64)
        inside = (numbers[self.changing] == np.arange(size)[:, None]) & kept[self.changing]
        return Sums(inside.astype(np.float64), values)


def lattice_size(domain: Domain, attributes: Sequence[str]) -> int:
    """Count the cells that some attributes have together."""
    return prod(domain.size(name) for name in attributes)


def _small_counts(
    domain: Domain,
    counts: IntArray,
    possible: NDArray[np.bool_],
    checks: Transform,
    exact: Sequence[Clique],
) -> Iterator[SmallCounts]:
    """List the small counts of every marginal that can hold a record.

    An attribute with one level adds nothing: the marginals with it are those without.
    """
    table, can_hold = counts.reshape(domain.sizes), possible.reshape(domain.sizes)
    wide = [name for name in domain.attributes if domain.size(name) > 1]
    for length in range(1, len(wide) + 1):
        for clique in combinations(wide, length):
            away = tuple(axis for axis, name in enumerate(domain.attributes) if name not in clique)
            marginal = table.sum(axis=away)
            small = _is_small(clique, marginal, checks, exact) & can_hold.any(axis=away)
            places = np.flatnonzero(small)
            if len(places):
                yield SmallCounts(clique, places, marginal.ravel()[places])


def _is_small(
    clique: Clique, counts: IntArray, checks: Transform, exact: Sequence[Clique]
) -> NDArray[np.bool_]:
    """Mark the cells of a marginal that are small, except those that exact marginals tell."""
    shared = {frozenset(clique) & frozenset(other) for other in exact}
    if frozenset(clique) in shared:
        return np.zeros(counts.shape, dtype=bool)
    small = (counts < checks.threshold) & (checks.zeros | (counts > 0))
    for inside in shared:
        others = tuple(axis for axis, name in enumerate(clique) if name not in inside)
        # If everybody may know that the group has fewer records than `WIDTH`, no output can leave that
        # many values open, and every answer would be refused.
        small &= counts.sum(axis=others, keepdims=True) >= WIDTH
    return np.asarray(small)


@dataclass(frozen=True, slots=True)
class CountFacts:
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
    def near(cls, rows: FloatArray, apart: FloatArray | float) -> "CountFacts":
        """That some functions are where they are, but for so much."""
        return cls.between(rows, 0.0 - np.asarray(apart), np.asarray(apart))

    @classmethod
    def between(cls, rows: FloatArray, low: FloatArray, high: FloatArray) -> "CountFacts":
        """With bounds that rounding errors may have moved beyond 0."""
        zeros = np.zeros(len(rows))
        return cls(rows, np.minimum(zeros, low), np.maximum(zeros, high))

    @classmethod
    def rounded(cls, sums: Sums, base: int, least: int = 0) -> "CountFacts":
        """That some counts have certain nearest multiples of a base, and pass a threshold."""
        nearest = np.round(sums.values / base) * base
        passed = np.where(sums.values >= least, least, 0)
        low = np.maximum(np.ceil(nearest - base / 2), passed)
        return cls.between(sums.rows, low - sums.values, np.floor(nearest + base / 2) - sums.values)

    @classmethod
    def together(cls, parts: Iterable["CountFacts"], changing: int) -> "CountFacts":
        """All facts of several outputs."""
        parts_list = list(parts)
        rows = np.concatenate([np.empty((0, changing)), *(part.rows for part in parts_list)])
        low = np.concatenate([np.empty(0), *(part.low for part in parts_list)])
        return cls(rows, low, np.concatenate([np.empty(0), *(part.high for part in parts_list)]))
