"""The histograms and sums of psi: the places that they give to rows' numbers, and their agreement.

Anybody who holds psi and the schema can compute both, without a record.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.card.sums import Sum, product_ends, scale_of
from gencard.core.coding import Coding, Edges
from gencard.core.domain import Clique
from gencard.core.errors import InvalidPsiError
from gencard.core.scale import Places, shortest, steps_of
from gencard.core.statistics.linear import level_of_cells, unit_bounds
from gencard.core.statistics.marginals import Attributes, check_subsets, project, subsets
from gencard.core.statistics.psi import HistogramMeasurement, Psi, SumMeasurement, reconcile, stddev_text
from gencard.core.types import Counts

# Places inside the levels: whole numbers and exact fractions alone, so that every machine places a
# number in the same way.

WHOLE = 2**32
"""Number of high halves of a word, and of positions inside a cell."""

WEIGHTS = 2**31
"""Sum of the weights of a level's cells under noise."""

_MIDDLE = WHOLE // 2


def places_of(psi: Psi, coding: Coding) -> dict[str, Places]:
    """Return where the numbers of attributes lie, for each that psi has a histogram of.

    Raises:
        UnknownAttributeError, InvalidCodingError: An attribute of a histogram has no step.
        InvalidPsiError: A histogram has other cells than the schema, or a negative exact count.
    """
    totals = {one.sum.of: one for one in psi.sums if not one.sum.by and not one.sum.present}
    noisy = [one.attribute for one in psi.histograms if one.stddev and (one.attribute,) in totals]
    # Records of each level in the reconciled marginals, rounded half up, for what they name.
    fitted, records = psi.fitted, dict[str, list[int]]()
    cliques = {name: clique for clique in reversed(fitted.cliques) for name in clique if name in noisy}
    if cliques:
        agreeing = reconcile(Psi(fitted.domain, fitted.measurements))
        tables = {one.clique: one.values for one in agreeing.measurements}
        for name, clique in cliques.items():
            counts = project(tables[clique], clique, (name,)).tolist()
            # A fraction holds the float exactly, so rounding half up is the same on every machine.
            records[name] = [int((2 * Fraction(one) + 1) // 2) for one in counts]
    return {
        one.attribute: _placed(one, coding, totals.get((one.attribute,)), records.get(one.attribute))
        for one in psi.histograms
    }


@dataclass(frozen=True, slots=True)
class _FineCells:
    """Cells of one level, or of all, in their order: first numbers in steps, and numbers of each."""

    firsts: tuple[int, ...]
    units: tuple[int, ...]


def _placed(
    histogram: HistogramMeasurement,
    coding: Coding,
    summed: SumMeasurement | None,
    level_counts: Sequence[int] | None,
) -> Places:
    """The places of one attribute.

    Args:
        level_counts: Records of each level, under noise.
    """
    name, scale = histogram.attribute, scale_of(coding, histogram.attribute)
    firsts = tuple(steps_of(number, scale.step) for number in scale.cells[:-1])
    cells = _FineCells(firsts, tuple(high - low for low, high in pairwise([*firsts, scale.last + 1])))
    edges = coding.attribute(name).coding
    if len(histogram.counts) != len(cells.firsts) + edges.missing or not isinstance(edges, Edges):
        raise InvalidPsiError(problem=f"the histogram of {name} has other cells than the schema")
    if not histogram.stddev and min(histogram.counts) < 0:
        raise InvalidPsiError(problem=f"the histogram of {name} is exact and holds a negative count")
    starts = [cells.firsts.index(steps_of(shortest(edge), scale.step)) for edge in edges.edges[:-1]]
    levels = []
    for place, (begin, end) in enumerate(pairwise([*starts, len(cells.firsts)])):
        counts = histogram.counts[begin:end]
        part = _FineCells(cells.firsts[begin:end], cells.units[begin:end])
        if histogram.stddev:
            records = level_counts[place] if level_counts else max(sum(counts), 0)
            levels.append(_noisy_level(part, counts, records))
        elif sum(counts):  # cells are picked as often as they hold records
            levels.append(_Level(part, counts, list(map(Fraction, counts))))
        else:  # all numbers of the level are equally frequent
            whole = _FineCells(part.firsts[:1], (sum(part.units),))
            levels.append(_Level(whole, (1,), (Fraction(),), even=True))
    return _assembled(levels, _position(levels, summed, scale.centre))


@dataclass(frozen=True, slots=True)
class _Level:
    """Cells of a level and how often they are picked.

    Args:
        weights: Whole numbers, proportional to how often each cell is picked; not all 0.
        records: Records of each cell as far as they are known.
    """

    cells: _FineCells
    weights: Sequence[int]
    records: Sequence[Fraction]
    even: bool = False


def _noisy_level(cells: _FineCells, counts: Sequence[int], records: int) -> _Level:
    """Cells are picked by the nearest counts from 0 up with the same total."""
    total = sum(counts)
    # No vector from 0 up has a sum below 0, and one of sum 0 has no shares: numbers are then uniform in
    # the level.
    parts, whole = (cells.units, sum(cells.units)) if total < 1 else _projected(counts, total)
    # Whole numbers of sum WEIGHTS in proportion to the parts: largest remainders, ties to the first.
    floors, rests = zip(*(divmod(part * WEIGHTS, whole) for part in parts), strict=True)
    order = sorted(range(len(parts)), key=lambda place: (-rests[place], place))
    more = set(order[: WEIGHTS - sum(floors)])
    weights = [floor + (place in more) for place, floor in enumerate(floors)]
    return _Level(cells, weights, [Fraction(records * weight, WEIGHTS) for weight in weights])


def _projected(counts: Sequence[int], total: int) -> tuple[list[int], int]:
    """The nearest vector, in Euclidean distance, of numbers from 0 up with the sum of the counts.

    Every count falls by the same amount, down to zero.

    Returns:
        Numerators and their common denominator, which is also their sum: shares of the total.
    """
    largest = sorted(counts, reverse=True)
    sums = list(accumulate(largest))
    # the last count that stays above zero fixes by how much all fall
    kept = max(place for place, one in enumerate(largest, 1) if place * one > sums[place - 1] - total)
    excess = sums[kept - 1] - total
    return [max(kept * count - excess, 0) for count in counts], kept * total


def _position(levels: Sequence[_Level], summed: SumMeasurement | None, centre: int) -> int:
    """Mean position of numbers inside their cells, in parts of ``WHOLE``, by which they have the sum.

    Under noise the position is drawn to the middle: what the sum says has a variance, and positions
    that are uniform have 1/12.

    Args:
        summed: The sum of all numbers, in units.
        centre: The number, in steps, from which units count.
    """
    cells = []
    for level in levels:
        parts = zip(level.records, level.cells.firsts, level.cells.units, strict=True)
        cells += [(records, first - centre, units) for records, first, units in parts]
    room = sum(records * (units - 1) for records, _, units in cells)
    if summed is None or room <= 0:
        return _MIDDLE
    above = summed.values[0] - sum(records * low for records, low, _ in cells)
    position = min(max(WHOLE * above // room, 0), WHOLE - 1)
    # Inverse-variance mean of the position p that the sum implies, with variance s^2 = (stddev /
    # room)^2, and of the middle m, with 1/12: (p / s^2 + 12 m) / (1 / s^2 + 12) = (p + 12 s^2 m) / (1 +
    # 12 s^2).
    variance = 12 * (Fraction(stddev_text(summed.stddev)) / room) ** 2
    return int((position + variance * _MIDDLE) // (1 + variance))


def _assembled(levels: Sequence[_Level], position: int) -> Places:
    begins: list[int] = []
    splits: list[int] = []
    pieces: list[tuple[int, int]] = []
    for place, level in enumerate(levels):
        total = sum(level.weights)
        for before, first, units in zip(
            accumulate(level.weights, initial=0), level.cells.firsts, level.cells.units, strict=False
        ):
            # floor(half x total / 2^32) is at least a whole number c if and only if half is at least
            # c x 2^32 / total; rounded up, it is compared without a product that could overflow
            begins.append(place * WHOLE - (-before * WHOLE // total))
            split, left = (WHOLE, units) if level.even else _split(units, position)
            splits.append(split)
            pieces += [(first, left), (first + left, units - left)]
    return Places(
        len(levels),
        np.array(begins, dtype=np.uint64),
        np.array(splits, dtype=np.uint64),
        np.array([first for first, _ in pieces], dtype=np.int64),
        np.array([count for _, count in pieces], dtype=np.uint64),
    )


def _split(units: int, position: int) -> tuple[int, int]:
    """Divide a cell so that uniform places in both pieces have the mean position.

    Returns:
        The first high half of a word that picks the upper piece, and the numbers of the lower one.
    """
    last = max(0, min(position * (units - 1) // WHOLE, units - 2))
    # a high half below weight / units picks the lower piece; it is a whole number, so round up
    # Numbers 0..last have the mean last / 2, the others (last + units) / 2. Weight w on the lower piece
    # gives the mean m if w = (last + units - 2 m) / units.
    weight = (last + units) * WHOLE - 2 * position * (units - 1)
    return min(max(-(-weight // units), 0), WHOLE), last + 1


# Agreement of exact histograms and sums with the marginals, and with each other.

Table = NDArray[Any]
"""Whole numbers of any size: Python's, in an array of objects."""


def check_numbers_agree(psi: Psi, coding: Coding) -> None:
    """Refuse exact histograms and sums that contradict psi's marginals, each other or the schema.

    Args:
        psi: psi whose marginals agree (``check_consistent``). Noisy or rounded numbers are not compared.

    Raises:
        InvalidPsiError: A count is negative, fine counts do not add up to a marginal's levels, counts
            of a population differ from those of a marginal or of another sum, a sum over all groups is
            not the sum of the groups, or a sum is out of the range that counts and schema leave it.
        TooLargeError: The groups are too wide to compare.
    """
    if psi.histograms or psi.sums:
        NumberAgreement(psi, coding).check()


@dataclass(frozen=True)
class NumberAgreement:
    """Comparison of the exact numbers of a psi; see ``check_numbers_agree``."""

    psi: Psi
    coding: Coding

    def check(self) -> None:
        for histogram in self.psi.histograms:
            if histogram.stddev == 0:
                self._check_histogram(histogram)
        check_subsets(one.sum.by for one in self.psi.sums)
        seen: dict[tuple[Clique, Attributes, Attributes], Table] = {}
        exact = [one for one in self.psi.sums if one.stddev == one.counts_stddev == 0]
        for one in exact:
            counts = self.counts(one)
            population = frozenset(one.sum.population(self.coding))
            values = self._of_groups(one.sum, one.values)
            self._check_missing(one.sum, values)
            if counts is not None:
                groups = self._of_marginals(one.sum.by, frozenset())
                if np.any(counts < 0) or (groups is not None and np.any(counts > groups)):
                    raise InvalidPsiError(problem=f"{one.sum} has counts below 0 or above its groups")
                self._check_missing(one.sum, counts)
                self._check_ranges(one, values, counts)
                self._compare(one.sum, (), population, counts, seen)
            self._compare(one.sum, one.sum.of, population, values, seen)

    def counts(self, one: SumMeasurement) -> Table | None:
        """Return the records of each group of a sum that are in its population; None if psi has none."""
        own = one.counts if one.sum.of else one.values
        if own:
            return self._of_groups(one.sum, own)
        return self._of_marginals(one.sum.by, frozenset(one.sum.population(self.coding)))

    def _of_marginals(self, by: Clique, population: Attributes) -> Table | None:
        """Records in each cell of some attributes in which all of a population are present."""
        names = frozenset(by) | population
        wider = self._wider.get(names)
        if wider is None:
            return None
        table, clique = wider
        rest = tuple(name for name in self.coding.domain.attributes if name in names - frozenset(by))
        counts = project(table, clique, (*by, *rest))
        for axis, name in enumerate((*by, *rest)):
            if name in population:
                present = np.arange(counts.shape[axis]) < counts.shape[axis] - 1
                shape = [-1 if other == axis else 1 for other in range(counts.ndim)]
                counts = np.where(present.reshape(shape), counts, 0)
        return np.asarray(counts.sum(axis=tuple(range(len(by), counts.ndim)))).astype(object)

    @cached_property
    def _wider(self) -> Mapping[Attributes, tuple[Counts, Clique]]:
        """An exact marginal that holds each set of attributes, by the set."""
        exact = [one for one in self.psi.measurements if one.stddev == 0]
        check_subsets(one.clique for one in exact)
        wider: dict[Attributes, tuple[Counts, Clique]] = {}
        for one in exact:
            for names in subsets(one.clique):
                wider.setdefault(names, (one.values, one.clique))
        return wider

    @cached_property
    def _records(self) -> int | None:
        if self.psi.measurements:
            table = self._wider.get(frozenset())
            return None if table is None else int(table[0].sum())
        linear = self.psi.linear[0]
        return None if linear.stddevs.any() else int(linear.values[0])

    def _of_groups(self, one: Sum, values: tuple[int, ...]) -> Table:
        table = np.empty(len(values), dtype=object)
        table[:] = values
        return table.reshape([self.coding.domain.size(name) for name in one.by])

    def _check_histogram(self, one: HistogramMeasurement) -> None:
        counts, what = np.array(one.counts, dtype=object), f"the histogram of {one.attribute}"
        if np.any(counts < 0):
            raise InvalidPsiError(problem=f"{what} holds a negative count")
        if self._records not in (None, counts.sum()):
            raise InvalidPsiError(problem=f"{what} disagrees on the number of records")
        marginal = self._of_marginals((one.attribute,), frozenset())
        if marginal is not None:
            levels = np.zeros(len(marginal), dtype=object)
            np.add.at(levels, level_of_cells(self.coding, one.attribute), counts)
            if np.any(levels != marginal):
                raise InvalidPsiError(problem=f"{what} does not add up to the levels of a marginal")

    def _check_missing(self, one: Sum, values: Table) -> None:
        """Groups of records without a value that must be present are empty."""
        for axis, name in enumerate(one.by):
            if name in one.present and np.any(values.take(-1, axis)):
                raise InvalidPsiError(problem=f"{one} is not 0 where {name} is missing")

    def _check_ranges(self, one: SumMeasurement, values: Table, counts: Table) -> None:
        """Each sum is one that so many records can have, by levels and histogram if psi tells them."""
        low, high = product_ends(self.coding, one.sum.of) if one.sum.of else (1, 1)
        bounds = [(counts * low, counts * high), *self._bounds(one.sum)]
        if any(np.any(values < least) or np.any(values > most) for least, most in bounds):
            raise InvalidPsiError(problem=f"{one.sum} is out of the range of its records")
        mean = self._sums.get((one.sum.of[:1], one.sum.by, one.sum.population(self.coding)))
        squares = len(set(one.sum.of)) < len(one.sum.of)
        if squares and mean is not None and np.any(counts * values < mean * mean):
            raise InvalidPsiError(problem=f"{one.sum} is smaller than its mean leaves it")

    @cached_property
    def _sums(self) -> Mapping[tuple[Clique, Clique, Clique], Table]:
        """Exact sums of one number, by number, groups and population."""
        exact = [one for one in self.psi.sums if len(one.sum.of) == 1 and one.stddev == 0]
        keys = [(one.sum.of, one.sum.by, one.sum.population(self.coding)) for one in exact]
        return dict(zip(keys, (self._of_groups(one.sum, one.values) for one in exact), strict=True))

    def _bounds(self, one: Sum) -> Iterator[tuple[Table, Table]]:
        """Bounds of a sum of one number by its levels in a marginal, and by its histogram."""
        if len(one.of) != 1:
            return
        (name,) = one.of
        scale, own = scale_of(self.coding, name), self.coding.attribute(name).coding
        population = frozenset(one.population(self.coding))
        levels = self._of_marginals((*one.by, name), population)
        if levels is not None and isinstance(own, Edges):
            yield _weighted(levels, unit_bounds(scale, own.edges[:-1]))
        for histogram in self.psi.histograms:
            alone = histogram.attribute == name and not one.by and population <= {name}
            if alone and histogram.stddev == 0:
                cells = np.array(histogram.counts, dtype=object)
                yield _weighted(cells, unit_bounds(scale, scale.cells[:-1]))

    def _compare(
        self,
        one: Sum,
        of: Clique,
        population: Attributes,
        values: Table,
        seen: dict[tuple[Clique, Attributes, Attributes], Table],
    ) -> None:
        """Compare sums over groups with the first ones seen of the same numbers, and with marginals."""
        for names in subsets(one.by):
            clique = tuple(name for name in one.by if name in names)
            table = project(values, one.by, clique) if one.by else values
            first = seen.setdefault((of, population, names), table)
            marginal = None if of else self._of_marginals(clique, population)
            if np.any(table != first) or (marginal is not None and np.any(table != marginal)):
                raise InvalidPsiError(problem=f"{one} disagrees with another sum or marginal")


def _weighted(counts: Table, bounds: list[tuple[int, int]]) -> tuple[Table, Table]:
    """Least and largest sum of units of records whose last axis says in which cell they are."""
    present = counts[..., : len(bounds)]
    least, most = zip(*bounds, strict=True)
    return present @ np.array(least, dtype=object), present @ np.array(most, dtype=object)
