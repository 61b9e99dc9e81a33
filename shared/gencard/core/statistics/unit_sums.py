"""Histograms and sums of records, in whole numbers: no float, and no integer that overflows.

Records are added in batches, so that they need not fit in memory.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import product
from math import prod
from operator import add

import numpy as np
from numpy.typing import NDArray

from gencard.core.card.sums import Sum, scale_of
from gencard.core.coding import Coding, Edges, intervals_of
from gencard.core.scale import Scale, shortest, steps_of
from gencard.core.statistics.marginals import cell_numbers
from gencard.core.types import FloatArray, IntArray

_LOW = np.int64(2**32 - 1)
"""Products of up to 61 bits are added in two halves: floats hold sums of 2^21 of each exactly."""

_HALF = 26
"""Bits of the lower part of a unit that is too large for products in machine words."""

_BLOCK = 2**20
"""Records that are added at once."""


@dataclass(frozen=True, slots=True)
class SummedCells:
    """A sum's cells, the last attribute of ``by`` running fastest.

    Args:
        values: Sum of products of units over the records of each cell, of any size.
        counts: Records of each cell that are in the population.
    """

    values: tuple[int, ...]
    counts: tuple[int, ...]


@dataclass(slots=True)
class UnitSums:
    """Sums and histograms of a stream of records; the order of the records does not matter.

    Args:
        coding: The public schema of the records.
        sums: Each one has passed ``Sum.check``.
        histograms: Attributes with a step.

    Raises:
        UnknownAttributeError, InvalidCodingError: An attribute of a histogram has no step.
    """

    coding: Coding
    sums: Sequence[Sum]
    histograms: Sequence[str] = ()
    _values: list[list[int]] = field(init=False)
    _counts: list[IntArray] = field(init=False)
    _cells: list[IntArray] = field(init=False)

    def __post_init__(self) -> None:
        sizes = [prod(self.coding.attribute(name).coding.size for name in one.by) for one in self.sums]
        self._values = [[0] * size for size in sizes]
        self._counts = [np.zeros(size, dtype=np.int64) for size in sizes]
        self._cells = [
            np.zeros(fine_cells(self.coding, name), dtype=np.int64) for name in self.histograms
        ]

    def add(self, codes: Mapping[str, NDArray[np.integer]], numbers: Mapping[str, FloatArray]) -> None:
        """Add some records.

        Args:
            codes: Codes of each attribute of ``by`` and ``present``, shape ``(n,)``.
            numbers: Numbers of each attribute of ``of`` and of the histograms, rounded and clamped as
                declared, shape ``(n,)``; NaN is "missing".
        """
        length = len(next(iter((*codes.values(), *numbers.values()))))
        for begin in range(0, length, _BLOCK):
            block = slice(begin, begin + _BLOCK)
            self._add(
                {name: column[block] for name, column in codes.items()},
                {name: column[block] for name, column in numbers.items()},
            )

    def _add(self, codes: Mapping[str, NDArray[np.integer]], numbers: Mapping[str, FloatArray]) -> None:
        summed = {name for one in self.sums for name in one.of}
        units = {name: scale_of(self.coding, name).units(numbers[name]) for name in summed}
        for place, (one, values) in enumerate(zip(self.sums, self._values, strict=True)):
            # Whether each record is in the sum's population.
            present = [~np.isnan(numbers[name]) for name in one.of]
            present += [
                codes[name] < self.coding.attribute(name).coding.size - 1 for name in one.present
            ]
            inside = np.asarray(np.logical_and.reduce(present))
            by = [codes[name][inside] for name in one.by]
            sizes = [self.coding.attribute(name).coding.size for name in one.by]
            cells = cell_numbers(by, sizes) if by else np.zeros(np.count_nonzero(inside), dtype=np.int64)
            self._counts[place] += np.bincount(cells, minlength=len(values))
            if one.of:
                totals = exact_sums([units[name][inside] for name in one.of], cells, len(values))
                values[:] = map(add, values, totals)
        for place, name in enumerate(self.histograms):
            edges = list(map(float, scale_of(self.coding, name).cells))
            self._cells[place] += np.bincount(
                intervals_of(edges, numbers[name]), minlength=len(self._cells[place])
            )

    def add_totals(
        self, place: int, cells: Iterable[int], counts: Iterable[int], values: Iterable[int]
    ) -> None:
        """Add what was summed elsewhere: records of the population, and products of units, by cell.

        Args:
            place: Position of the sum.
            cells: Numbers of cells, the last attribute of ``by`` running fastest.
        """
        for cell, count, value in zip(cells, counts, values, strict=True):
            self._counts[place][cell] += int(count)
            self._values[place][cell] += int(value)

    def add_cells(self, place: int, cells: Iterable[int], counts: Iterable[int]) -> None:
        """Add what was counted elsewhere: records by cells of the histogram at a place."""
        for cell, count in zip(cells, counts, strict=True):
            self._cells[place][cell] += int(count)

    def totals(self) -> list[SummedCells]:
        """Return the cells of each sum so far, in the order of the sums."""
        pairs = zip(self.sums, self._values, self._counts, strict=True)
        return [
            SummedCells(tuple(values if one.of else counts.tolist()), tuple(counts.tolist()))
            for one, values, counts in pairs
        ]

    def fine_counts(self) -> list[IntArray]:
        """Return the counts of each histogram so far; the last one is of "missing", if it can be."""
        return [counts.copy() for counts in self._cells]


def fine_cells(coding: Coding, name: str) -> int:
    """Return the number of cells of an attribute's histogram, with that of "missing".

    Raises:
        UnknownAttributeError, InvalidCodingError: The attribute is not declared, or has no step.
    """
    return len(scale_of(coding, name).cells) - 1 + coding.attribute(name).coding.missing


def level_of_cells(coding: Coding, name: str) -> IntArray:
    """Return the code of the level that each cell of an attribute's histogram lies in."""
    scale, own = scale_of(coding, name), coding.attribute(name).coding
    starts = own.edges[:-1] if isinstance(own, Edges) else ()
    cells = list(map(float, scale.cells[:-1]))
    levels = np.searchsorted(starts, cells, side="right") - 1
    return np.append(levels, [len(starts)] * own.missing).astype(np.int64)


def unit_bounds(scale: Scale, starts: Iterable[Decimal | float]) -> list[tuple[int, int]]:
    """Return the first and the last unit of each level or cell that begins with a number of ``starts``.

    Args:
        starts: Ascending, without the last edge.
    """
    firsts = [steps_of(shortest(float(start)), scale.step) - scale.centre for start in starts]
    lasts = [*(first - 1 for first in firsts[1:]), scale.last - scale.centre]
    return list(zip(firsts, lasts, strict=True))


def exact_sums(units: Sequence[IntArray], cells: NDArray[np.integer], size: int) -> list[int]:
    """Return the sums of products over the records of each cell, exactly.

    Args:
        units: One factor of the products, or two, each of less than 2^52 in size, shape ``(n,)``.
        cells: The cell of each record, shape ``(n,)``.
        size: Number of cells.
    """
    sums = [0] * size
    for begin in range(0, len(cells), _BLOCK):
        block = slice(begin, begin + _BLOCK)
        for shift, whole in _products([one[block] for one in units]):
            totals = _totals(whole, cells[block], size)
            sums = [total + (more << shift) for total, more in zip(sums, totals, strict=True)]
    return sums


def _products(units: Sequence[IntArray]) -> Iterator[tuple[int, IntArray]]:
    """Products that fit machine words, and the powers of two that they are to be multiplied by."""
    # A product of larger units may overflow 64 bits, which numpy does not report. They are split: (2^26
    # a + b)(2^26 c + d) is four products below 2^53 with their powers of two.
    small = all(one.min(initial=0) > -(2**30) and one.max(initial=0) < 2**30 for one in units)
    if len(units) < 2 or small:
        yield 0, np.asarray(np.prod(units, axis=0, dtype=np.int64))
        return
    parts = [((_HALF, one >> _HALF), (0, one & (2**_HALF - 1))) for one in units]
    for (one, left), (other, right) in product(*parts):
        yield one + other, left * right


def _totals(products: IntArray, cells: NDArray[np.integer], size: int) -> list[int]:
    """The sum of the products in each cell, exact: at most ``_BLOCK`` products of at most 61 bits."""
    # bincount adds floats, which are exact up to 2^53: 2^20 halves below 2^32 stay below 2^52. The shift
    # floors, so high * 2^32 + low is also right for negative products, with low >= 0.
    high, low = products >> 32, products & _LOW
    return [
        (int(upper) << 32) + int(lower)
        for upper, lower in zip(
            np.bincount(cells, weights=high, minlength=size),
            np.bincount(cells, weights=low, minlength=size),
            strict=True,
        )
    ]
