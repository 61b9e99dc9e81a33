"""Places of the numbers of rows inside their levels, as the histograms and sums of psi say.

Whole numbers and exact fractions alone, so that every machine places a number in the same way.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise

import numpy as np

from gencard.core.card.sums import scale_of
from gencard.core.coding import Coding, Edges
from gencard.core.errors import InvalidPsiError
from gencard.core.scale import Places, shortest, steps_of
from gencard.core.statistics.marginals import project
from gencard.core.statistics.psi import HistogramMeasurement, Psi, SumMeasurement, reconcile, stddev_text

WHOLE = 2**32
"""Number of high halves of a word, and of positions inside a cell."""

WEIGHTS = 2**31
"""Sum of the weights of a level's cells under noise."""

_MIDDLE = WHOLE // 2


def places_of(psi: Psi, coding: Coding) -> dict[str, Places]:
    """Return where the numbers of attributes lie, for each that psi has a histogram of.

    Args:
        psi: Histograms and sums of a card, exact or noisy.

    Raises:
        UnknownAttributeError, InvalidCodingError: An attribute of a histogram has no step.
        InvalidPsiError: A histogram has other cells than the schema, or a negative exact count.
    """
    totals = {one.sum.of: one for one in psi.sums if not one.sum.by and not one.sum.present}
    noisy = [one.attribute for one in psi.histograms if one.stddev and (one.attribute,) in totals]
    records = _level_counts(psi.fitted, noisy)
    return {
        one.attribute: _placed(one, coding, totals.get((one.attribute,)), records.get(one.attribute))
        for one in psi.histograms
    }


def _level_counts(psi: Psi, names: Sequence[str]) -> dict[str, list[int]]:
    """Records of each level in the reconciled marginals, rounded half up, for what they name."""
    cliques = {name: clique for clique in reversed(psi.cliques) for name in clique if name in names}
    if not cliques:
        return {}
    agreeing = reconcile(Psi(psi.domain, psi.measurements))
    tables = {one.clique: one.values for one in agreeing.measurements}
    counts = {
        name: project(tables[clique], clique, (name,)).tolist() for name, clique in cliques.items()
    }
    return {
        # A fraction holds the float exactly, so rounding half up gives the same count on every machine.
        name: [int((2 * Fraction(one) + 1) // 2) for one in column]
        for name, column in counts.items()
    }


@dataclass(frozen=True, slots=True)
class _FineCells:
    """Cells of one level, or of all, in their order: first numbers in steps, and numbers of each."""

    firsts: tuple[int, ...]
    units: tuple[int, ...]

    def part(self, begin: int, end: int) -> "_FineCells":
        return _FineCells(self.firsts[begin:end], self.units[begin:end])


def _placed(
    histogram: HistogramMeasurement,
    coding: Coding,
    summed: SumMeasurement | None,
    level_counts: Sequence[int] | None,
) -> Places:
    """The places of one attribute.

    Args:
        summed: The sum of all its numbers.
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
        records = level_counts[place] if level_counts else max(sum(counts), 0)
        known = not histogram.stddev
        part = cells.part(begin, end)
        levels.append(_exact_level(part, counts) if known else _noisy_level(part, counts, records))
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


def _exact_level(cells: _FineCells, counts: Sequence[int]) -> _Level:
    """Cells are picked as often as they hold records; without a record, all numbers equally often."""
    if not sum(counts):
        return _Level(_FineCells(cells.firsts[:1], (sum(cells.units),)), (1,), (Fraction(),), even=True)
    return _Level(cells, counts, [Fraction(count) for count in counts])


def _noisy_level(cells: _FineCells, counts: Sequence[int], records: int) -> _Level:
    """Cells are picked by the nearest counts from 0 up with the same total."""
    total = sum(counts)
    # No vector from 0 up has a sum below 0, and one of sum 0 has no shares: numbers are then uniform in
    # the level.
    parts, whole = (cells.units, sum(cells.units)) if total < 1 else _projected(counts, total)
    weights = _apportioned(parts, whole)
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


def _apportioned(parts: Sequence[int], whole: int) -> list[int]:
    """Whole numbers of sum ``WEIGHTS`` in proportion to parts: largest remainders, ties to the first."""
    weights, rests = zip(*(divmod(part * WEIGHTS, whole) for part in parts), strict=True)
    order = sorted(range(len(parts)), key=lambda place: (-rests[place], place))
    more = set(order[: WEIGHTS - sum(weights)])
    return [weight + (place in more) for place, weight in enumerate(weights)]


def _position(levels: Sequence[_Level], summed: SumMeasurement | None, centre: int) -> int:
    """Mean position of numbers inside their cells, in parts of ``WHOLE``, by which they have the sum.

    Under noise the position is drawn to the middle: what the sum says has a variance, and positions
    that are uniform have 1/12.

    Args:
        summed: The sum of all numbers, in units.
        centre: The number, in steps, from which units count.
    """
    cells = [
        (records, first - centre, units)
        for level in levels
        for records, first, units in zip(
            level.records, level.cells.firsts, level.cells.units, strict=True
        )
    ]
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
