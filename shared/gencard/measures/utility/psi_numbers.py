"""Numbers according to psi: their means, deviations, quantiles, heaps and correlations."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import sqrt
from typing import NamedTuple

import numpy as np

from gencard.analysis.answers.margins import PsiMargins
from gencard.core.coding import Coding, Edges
from gencard.core.dataset import NumbersOf
from gencard.core.domain import Clique
from gencard.core.errors import LackingMarginalsError
from gencard.core.scale import Scale, shortest, steps_of
from gencard.core.statistics.linear import unit_bounds
from gencard.core.statistics.psi import Psi
from gencard.core.types import FloatArray
from gencard.measures.utility.numbers import (
    Known,
    NumberTable,
    Ranks,
    Source,
    compared,
    largest_heaps,
    number_scale,
    numbers_in,
)


def compare_with_psi(
    psi: Psi, coding: Coding, attributes: Clique, rows: NumbersOf
) -> NumberTable | None:
    """Compare the numbers of rows with all measurements of psi, histograms and sums included."""
    return compared(numbers_in(coding, attributes), PsiNumbers(psi, coding), rows)


class Total(NamedTuple):
    """A sum of products of units, or a number of records; the variance of its noise, and its source."""

    value: int | float
    variance: float
    source: Source = Source.SUMS


@dataclass(frozen=True, eq=False)
class _CountedCells:
    """Counts of an attribute by the cells of its histogram, or by its levels.

    Args:
        scale: Its cells are those of the counts.
        counts: Of records with a number, shape ``(cells,)``.
        stddev: Standard deviation of the noise on each, in records.
    """

    scale: Scale
    counts: Sequence[int]
    stddev: float
    source: Source

    @cached_property
    def n(self) -> float:
        return float(sum(self.counts))

    @cached_property
    def ends(self) -> list[tuple[int, int]]:
        """First and last number of each cell, in steps."""
        centre = self.scale.centre
        bounds = unit_bounds(self.scale, self.scale.cells[:-1])
        return [(first + centre, last + centre) for first, last in bounds]

    @cached_property
    def shares(self) -> FloatArray:
        return np.array(self.counts, dtype=np.float64) / self.n

    @cached_property
    def moments(self) -> tuple[float, float, float]:
        """Mean, variance and fourth moment about the mean, in steps, of numbers placed evenly in cells.

        Cells that noise makes negative are empty.
        """
        lows, highs = (np.array(ends, dtype=np.float64) for ends in zip(*self.ends, strict=True))
        weights = np.maximum(self.shares, 0.0)
        weights /= weights.sum()
        inside = ((highs - lows + 1) ** 2 - 1) / 12
        mean = float(weights @ (lows + highs)) / 2
        away = ((lows + highs) / 2 - mean) ** 2
        # of m whole numbers in a row, the fourth moment is v (9 v / 5 - 1/5) with their variance v
        fourth = away**2 + 6 * away * inside + inside * (9 * inside - 1) / 5
        return mean, float(weights @ (away + inside)), float(weights @ fourth)

    @property
    def kurtosis(self) -> float:
        """0 where the numbers do not vary."""
        _, variance, fourth = self.moments
        return fourth / variance**2 if variance > 0 else 0.0

    def ranks(self, steps: int) -> tuple[int, float, float]:
        """The cell of a number, and the shares below the cell and up to its end."""
        cell = bisect_right([first for first, _ in self.ends], steps) - 1
        below = np.concatenate([[0.0], np.cumsum(self.shares)])
        return cell, float(below[cell]), float(below[cell + 1])

    def variance_of_share(self, share: float, cells: int) -> float:
        """Variance of the noise in the share of so many of the cells together."""
        others = len(self.counts) - cells
        return (self.stddev / self.n) ** 2 * ((1 - share) ** 2 * cells + share**2 * others)


@dataclass(frozen=True, slots=True, eq=False)
class PsiNumbers:
    """Figures of numbers according to psi.

    Means, deviations and correlations are those of sums if psi has them; else what the counts of a
    histogram, or of levels, leave open is between bounds.
    """

    psi: Psi
    coding: Coding
    _known: dict[str, _CountedCells | None] = field(default_factory=dict, repr=False)

    def mean(self, name: str) -> Known | None:
        records, summed = self._total((), (name,)), self._total((name,))
        if records is not None and summed is not None and records.value > 0:
            scale, mean = self._scale(name), summed.value / records.value
            noise = sqrt(summed.variance + mean**2 * records.variance) / records.value
            value = (mean + scale.centre) * float(scale.step)
            sd = self.sd(name)
            # scatter: about the deviation of the numbers; 0 where psi does not tell it
            noise, scatter = noise * float(scale.step), 0.0 if sd is None else sd.value
            return Known(value, value, value, summed.source, noise, scatter=scatter)
        cells = self._cells(name)
        if cells is None:
            return None
        low, high = (
            cells.shares @ np.array(ends, dtype=np.float64) for ends in zip(*cells.ends, strict=True)
        )
        middles = np.array([first + last for first, last in cells.ends]) / 2
        mean = float(cells.shares @ middles)
        noise = cells.stddev / cells.n * sqrt(float(((middles - mean) ** 2).sum()))
        step, (_, variance, _) = float(cells.scale.step), cells.moments
        least, most = sorted((float(low) * step, float(high) * step))
        scatter = sqrt(variance) * step
        return Known(mean * step, least, most, cells.source, noise * step, scatter=scatter)

    def sd(self, name: str) -> Known | None:
        records, summed = self._total((), (name,)), self._total((name,))
        squares = self._total((name, name))
        if records is not None and summed is not None and squares is not None:
            n, mean = records.value, summed.value / records.value if records.value > 0 else 0.0
            # whole numbers: squares of dates lose all digits of their variance in floats
            residual = n * squares.value - summed.value**2
            if n <= 1 or residual < 0 or (residual == 0 and squares.variance):
                return None
            sd = sqrt(residual / (n * (n - 1)))
            parts = squares.variance + 4 * mean**2 * summed.variance + mean**4 * records.variance
            noise = sqrt(parts) / (n - 1) / (2 * sd) if parts else 0.0
            step = float(self._scale(name).step)
            scatter = sd * step * sqrt(max(self._kurtosis(name) - 1, 0.0)) / 2
            return Known(sd * step, sd * step, sd * step, squares.source, noise * step, scatter=scatter)
        cells = self._cells(name)
        return None if cells is None or cells.stddev else _sd_of_cells(cells)

    def _kurtosis(self, name: str) -> float:
        """About the fourth moment of an attribute's standardised numbers; 0 if psi does not tell it."""
        cells = self._cells(name)
        return 0.0 if cells is None else cells.kurtosis

    def quantile(self, name: str, share: float) -> Known | None:
        from gencard.analysis.answers.levels import quantile_of_cells  # noqa: PLC0415 - loads scipy.stats

        cells = self._cells(name)
        if cells is None:
            return None
        value, low, high = quantile_of_cells(cells.scale, cells.counts, share, cells.stddev)
        return Known(value, low, high, cells.source)

    def ranks(self, name: str, number: float, share: float) -> Ranks:
        cells = self._cells(name)
        if cells is None:
            raise LackingMarginalsError.of([(name,)])
        cell, below, upto = cells.ranks(steps_of(shortest(number), cells.scale.step))
        return Ranks(below, upto, cells.variance_of_share(share, cell + 1))

    def heaps(self, name: str) -> list[tuple[float, Known]]:
        cells = self._cells(name)
        if cells is None:
            return []
        single = [place for place, (first, last) in enumerate(cells.ends) if first == last]
        steps = np.array([cells.ends[place][0] for place in single], dtype=np.int64)
        shares = {
            number: Known(share, share, share, cells.source, sqrt(cells.variance_of_share(share, 1)))
            for number, share in zip(
                cells.scale.numbers(steps).tolist(), cells.shares[single].tolist(), strict=True
            )
        }
        return largest_heaps(shares)

    def correlation(self, one: str, other: str) -> Known | None:
        """From the sum of products, and sums and squares of both, over the records that have both."""
        pair = tuple(sorted((one, other), key=self.coding.domain.axis))
        first, second = pair
        wanted = [(), (first,), (second,), (first, first), (second, second), pair]
        totals = [self._total(of, pair) for of in wanted]
        known = [total for total in totals if total is not None]
        if len(known) < len(totals):
            return None
        n, x, z, xx, zz, xz = (total.value for total in known)
        sx, sz, product = n * xx - x * x, n * zz - z * z, n * xz - x * z
        if n <= 0 or sx <= 0 or sz <= 0:
            return None
        root = sqrt(sx) * sqrt(sz)
        r = product / root
        along = (
            xz / root - r / 2 * (xx / sx + zz / sz),
            r * x / sx - z / root,
            r * z / sz - x / root,
            -r * n / (2 * sx),
            -r * n / (2 * sz),
            n / root,
        )
        noise = sqrt(sum(d**2 * total.variance for d, total in zip(along, known, strict=True)))
        tails = [max(self._kurtosis(name) - 1, 0.0) for name in pair]
        return Known(r, r, r, known[-1].source, noise, scatter=abs(r) * sqrt(sum(tails)) / 2)

    def _total(self, of: Clique, present: Clique = ()) -> Total | None:
        """A sum over the records that have the numbers of both, by sums of psi or by levels."""
        margins = PsiMargins(self.psi, self.coding)
        try:
            total = margins.sums(of, (), present)
            return Total(total.item(), float(margins.sum_variances(of, (), present)))
        except LackingMarginalsError:
            return self._total_of_levels(margins, of, present)

    def _total_of_levels(self, margins: PsiMargins, of: Clique, present: Clique) -> Total | None:
        """Return the total by a marginal, if every level that counts holds one number."""
        names = self.coding.domain.canonical(tuple({*of, *present}))
        units = {name: _level_units(self.coding, name) for name in of}
        try:
            counts = margins.counts(names)
        except LackingMarginalsError:
            return None
        weights = np.ones(counts.shape, dtype=object)
        for axis, name in enumerate(names):
            own = np.ones(counts.shape[axis], dtype=object)
            for _ in range(of.count(name)):
                if (levels := units[name]) is None:
                    return None
                own[: len(levels)] *= levels
            own[counts.shape[axis] - self.coding.attribute(name).coding.missing :] = 0
            weights = weights * own.reshape([-1 if other == axis else 1 for other in range(counts.ndim)])
        exact = not margins.variances(names).any()
        cells = counts.astype(np.int64).astype(object) if exact else counts
        variance = float((margins.variances(names) * (weights**2).astype(np.float64)).sum())
        total = (cells * weights).sum()
        return Total(int(total) if exact else float(total), variance, Source.LEVELS)

    def _cells(self, name: str) -> _CountedCells | None:
        """Counts of the histogram; without one, of the levels. None where no record has a number."""
        if name not in self._known:
            cells = self._counted(name)
            self._known[name] = cells if cells is not None and cells.n > 0 else None
        return self._known[name]

    def _counted(self, name: str) -> _CountedCells | None:
        scale, margins = self._scale(name), PsiMargins(self.psi, self.coding)
        histogram = margins.histogram(name)
        if histogram is not None:
            counts = histogram.counts[: len(scale.cells) - 1]
            return _CountedCells(scale, counts, histogram.stddev, Source.HISTOGRAM)
        own = self.coding.attribute(name).coding
        try:
            levels, variances = margins.counts((name,)), margins.variances((name,))
        except LackingMarginalsError:
            return None
        present = levels[: len(levels) - own.missing]
        edges = own.edges if isinstance(own, Edges) else ()
        by_levels = replace(scale, cells=(*map(shortest, edges[:-1]), scale.cells[-1]))
        numbers = np.rint(present).astype(np.int64).tolist()
        return _CountedCells(by_levels, numbers, sqrt(float(variances.flat[0])), Source.LEVELS)

    def _scale(self, name: str) -> Scale:
        scale = number_scale(self.coding, name)
        if scale is None:
            raise ValueError
        return scale


def _level_units(coding: Coding, name: str) -> list[int] | None:
    """The number of each level in units; None unless every level holds one number."""
    own, scale = coding.attribute(name).coding, number_scale(coding, name)
    if not isinstance(own, Edges) or scale is None or any(low < high for low, high in own.ends):
        return None
    return [steps_of(shortest(start), scale.step) - scale.centre for start in own.edges[:-1]]


def _sd_of_cells(cells: _CountedCells) -> Known | None:
    """Deviation with numbers placed evenly inside cells, and the least and the largest possible one."""
    if cells.n <= 1:
        return None
    lows, highs = (np.array(ends, dtype=np.float64) for ends in zip(*cells.ends, strict=True))
    open_cells = cells.shares, lows, highs
    variances = cells.moments[1], _least_variance(*open_cells), _largest_variance(*open_cells)
    freedom, step = cells.n / (cells.n - 1), float(cells.scale.step)
    value, low, high = (sqrt(max(one, 0.0) * freedom) * step for one in variances)
    scatter = value * sqrt(max(cells.kurtosis - 1, 0.0)) / 2
    return Known(value, min(low, value), max(high, value), cells.source, scatter=scatter)


def _least_variance(shares: FloatArray, lows: FloatArray, highs: FloatArray) -> float:
    """Each number is the one of its cell that is nearest to their common mean, found by bisection."""
    below, above = float(lows[0]), float(highs[-1])
    for _ in range(200):
        centre = (below + above) / 2
        if float(shares @ np.clip(centre, lows, highs)) > centre:
            below = centre
        else:
            above = centre
    nearest = np.clip((below + above) / 2, lows, highs)
    return float(shares @ (nearest - shares @ nearest) ** 2)


def _largest_variance(shares: FloatArray, lows: FloatArray, highs: FloatArray) -> float:
    """Numbers of lower cells are their first, those of higher ones their last.

    In one cell both occur: so that its middle is the mean of all, if that is possible.
    """
    largest = 0.0
    for cell, share in enumerate(shares):
        numbers = np.where(np.arange(len(shares)) < cell, lows, highs)
        width, middle = highs[cell] - lows[cell], (lows[cell] + highs[cell]) / 2
        over = float(shares @ numbers) - middle
        first = min(max(over / width, 0.0), float(share)) if width else 0.0
        mean = float(shares @ numbers) - first * width
        spread = shares @ (numbers - mean) ** 2
        spread += first * ((lows[cell] - mean) ** 2 - (highs[cell] - mean) ** 2)
        largest = max(largest, float(spread))
    return largest
