r"""Influence of single records on released means, contrasts and correlations, in standard errors.

A person who knows that a record has the largest value of the file reads the group of that record from
the larger mean. So each record is left out and put into each group, and the largest change of a
released number is divided by the standard error of that number without the record, as DFBETAS [1]_. All
groups count and not the record's own: else the decision would tell the group.

Functions return the largest figure over all records and groups. ``waits`` compares a figure with the
rules. Records of one kind may be given once, with their number in ``counts``.

References:
    .. [1] D. A. Belsley, E. Kuh, R. E. Welsch, *Regression Diagnostics*, Wiley, 1980.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gencard.core.answers.design import Design
from gencard.core.domain import Clique
from gencard.core.output_checks.rules import Rule, Rules, Verdict, breaking
from gencard.core.types import FloatArray, IntArray

MOST_COMBINATIONS = 1_024
"""Cells that a record may be put into; beyond this number the answer waits for a steward."""

_MOST_CONTRASTS = 4_000_000
"""Contrasts times cells of a model; beyond this number the bound for every contrast is the figure."""

_ZERO = 1e-9
"""Spread, relative to the size of the values, below which it is 0 but for rounding errors."""


def waits(figure: float, rules: Rules) -> Verdict:
    """Return the verdict on a figure: an answer above the limit of the policy waits for a steward."""
    limit = rules.influence
    return breaking([(Rule.INFLUENCE, limit is not None and not figure <= limit)])


@dataclass(frozen=True, slots=True, eq=False)
class GroupSums:
    """Sizes, means and sums of squares of groups, with one record fewer where a record is left out.

    Args:
        sizes: Records of each group.
        means: NaN in an empty group.
        squares: Sums of squared distances from the means.
        scale: Largest magnitude of a value, to which rounding errors are relative.
    """

    sizes: FloatArray
    means: FloatArray
    squares: FloatArray
    scale: float

    @classmethod
    def of(cls, place: IntArray, values: FloatArray, counts: FloatArray, cells: int) -> "GroupSums":
        """Sum the values of each group in two passes."""
        sizes = np.bincount(place, counts, minlength=cells).astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            means = np.bincount(place, counts * values, minlength=cells) / sizes
        distances = counts * (values - means[place]) ** 2
        squares = np.bincount(place, distances, minlength=cells).astype(np.float64)
        return cls(sizes, means, squares, float(np.abs(values).max(initial=0.0)))

    @property
    def deviations(self) -> FloatArray:
        """Standard deviation of each group; NaN in a group of fewer than two records."""
        with np.errstate(divide="ignore", invalid="ignore"):
            deviations: FloatArray = np.sqrt(self.squares / (self.sizes - 1))
        return np.where(self.sizes > 1, deviations, np.nan)

    def ratio(self, change: FloatArray, error: FloatArray) -> FloatArray:
        """Divide changes by standard errors; without any spread, every change is infinitely large."""
        tiny = _ZERO * self.scale
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(error > tiny, change / error, np.inf)
        return np.where(change > tiny, ratio, 0.0)


_Figure = Callable[[GroupSums, FloatArray], FloatArray]
"""Figure of one value for each group, beside the groups without it."""


def of_means(
    place: IntArray,
    values: FloatArray,
    counts: ArrayLike | None = None,
    *,
    cells: int,
    outside: Sequence[float] | FloatArray = (),
) -> float:
    """Return the largest change of the mean of a group by one record, in its standard errors.

    Args:
        place: Group of each record, 0 to ``cells - 1``; each group holds a record.
        values: One for each record; NaN is left out.
        counts: Records of each kind; by default one.
        outside: Values of records of the file that the population leaves out: in which population a
            person is, is a group as well.
    """

    def figure(groups: GroupSums, values: FloatArray) -> FloatArray:
        change = np.abs(values - groups.means) / (groups.sizes + 1)
        return groups.ratio(change, groups.deviations / np.sqrt(groups.sizes))

    return _largest(figure, place, values, counts, cells, outside)


def of_person_means(place: IntArray, values: FloatArray, persons: IntArray, *, cells: int) -> float:
    """Return the same of persons, who are left out and put into a group with all of their records.

    Args:
        place: Group of each record, 0 to ``cells - 1``; -1 for records that the population leaves out.
        values: One for each record; NaN is left out.
        persons: Whose each record is.
    """
    known = ~np.isnan(values)
    place, values = np.asarray(place)[known], np.asarray(values, dtype=np.float64)[known]
    owners = np.unique(persons[known], return_inverse=True)[1].reshape(-1)
    numbers, totals = (np.bincount(owners, values**power).astype(np.float64) for power in (0, 1))
    inside = place >= 0
    place, own, owners = place[inside], values[inside], owners[inside]
    groups = GroupSums.of(place, own, np.ones(len(own)), cells)

    def figures(groups: GroupSums, number: FloatArray, total: FloatArray) -> FloatArray:
        change = np.abs(total - number * groups.means) / (groups.sizes + number)
        return groups.ratio(change, groups.deviations / np.sqrt(groups.sizes))

    largest = [0.0]
    for number in np.unique(numbers):  # persons of other groups: the figure is convex in their total
        some = totals[numbers == number]
        largest += [
            figures(groups, number, total).max(initial=0.0) for total in (some.min(), some.max())
        ]
    pairs, at = np.unique(owners * cells + place, return_inverse=True)
    person, group = pairs // max(cells, 1), pairs % max(cells, 1)
    away = own - groups.means[place]
    fewer, moved, squares = (np.bincount(at.reshape(-1), away**power) for power in (0, 1, 2))
    left = groups.sizes[group] - fewer
    with np.errstate(divide="ignore", invalid="ignore"):
        means = groups.means[group] - moved / left
        rest = groups.squares[group] - squares - moved**2 / left
    rest = np.where(rest < 1e-10 * groups.squares[group], 0.0, rest)  # nothing but rounding errors
    without = figures(GroupSums(left, means, rest, groups.scale), numbers[person], totals[person])
    largest.append(np.where(left < 2, np.inf, without).max(initial=0.0))
    return float(max(largest))


def of_spreads(
    place: IntArray,
    values: FloatArray,
    counts: ArrayLike | None = None,
    *,
    cells: int,
    outside: Sequence[float] | FloatArray = (),
) -> float:
    """Return the same of standard deviations, whose standard error is that of normal values.

    A larger standard error, which the kurtosis gives, is no better: with it, the larger of two standard
    deviations names the group of the largest value in 0.71 to 0.84 of the answers that pass.
    """

    def figure(groups: GroupSums, values: FloatArray) -> FloatArray:
        sizes, deviations = groups.sizes, groups.deviations
        added = (values - groups.means) ** 2 * sizes / (sizes + 1)
        change = np.abs(np.sqrt((groups.squares + added) / sizes) - deviations)
        return groups.ratio(change, deviations / np.sqrt(2 * (sizes - 1)))

    return _largest(figure, place, values, counts, cells, outside)


def of_pooled_spread(
    place: IntArray, values: FloatArray, outside: Sequence[float] | FloatArray, *, cells: int
) -> float:
    """Return the same of the one standard deviation within all groups.

    It is the same whichever group a record of the population has, so only records outside move it.

    Args:
        place: As in ``of_means``; ``outside``: as there.
    """
    place, values, weights = _known(place, values, None)
    others = np.asarray(outside, dtype=np.float64)
    others = others[~np.isnan(others)]
    groups, freedom = GroupSums.of(place, values, weights, cells), len(values) - cells
    if not len(others):
        return 0.0
    if freedom <= 0:
        return np.inf
    squares, largest = groups.squares.sum(), 0.0
    spread = np.sqrt(squares / freedom)
    for value in (others.min(), others.max()):
        added = (value - groups.means) ** 2 * groups.sizes / (groups.sizes + 1)
        change = np.abs(np.sqrt((squares + added) / (freedom + 1)) - spread)
        error = np.full(cells, spread / np.sqrt(2 * freedom))
        largest = max(largest, float(groups.ratio(change, error).max()))
    return largest


def of_contrasts(
    place: IntArray, values: FloatArray, counts: ArrayLike | None = None, *, cells: int
) -> float:
    """Return the same of the difference of any two means, with one standard deviation for all groups.

    Args:
        place: As in ``of_means``.
    """
    place, values, weights = _known(place, values, counts)
    largest = 0.0
    for one in _extremes(place, values):
        left = weights.copy()
        left[one] -= 1
        groups = GroupSums.of(place, values, left, cells)
        sizes = groups.sizes
        freedom = sizes.sum() - cells
        if cells < 2 or freedom <= 0 or np.any(sizes < 1):
            return 0.0 if cells < 2 else np.inf
        others = np.where(sizes == sizes.max(), np.sort(sizes)[-2], sizes.max())
        change = np.abs(values[one] - groups.means) / (sizes + 1)
        error = np.sqrt(groups.squares.sum() / freedom * (1 / sizes + 1 / others))
        largest = max(largest, float(groups.ratio(change, error).max()))
    return largest


def of_correlation(first: FloatArray, second: FloatArray, counts: ArrayLike | None = None) -> float:
    """Return the largest change of Fisher's z of two attributes by one record, in standard errors.

    Args:
        first: One number for each record, or kind of record, without missing values.
        second: The same of the other attribute.
        counts: As in ``of_means``.
    """
    weights = np.ones(len(first)) if counts is None else np.asarray(counts, dtype=np.float64)
    records = float(weights.sum())
    if records <= 4:
        return np.inf
    x, y = (one - np.average(one, weights=weights) for one in (first, second))
    sums = [np.sum(weights * one) for one in (x * x, y * y, x * y)]
    shrink = records / (records - 1)  # of the squares when a record at a distance is left out
    parts = [total - shrink * one for total, one in zip(sums, (x * x, y * y, x * y), strict=True)]
    with np.errstate(divide="ignore", invalid="ignore"):
        before = np.arctanh(np.clip(parts[2] / np.sqrt(parts[0] * parts[1]), -1, 1))
        after = np.arctanh(np.clip(sums[2] / np.sqrt(sums[0] * sums[1]), -1, 1))
        figures = np.abs(after - before) * np.sqrt(records - 4)
    flat = (parts[0] <= _ZERO * sums[0]) | (parts[1] <= _ZERO * sums[1])
    figures = np.where(flat | np.isnan(figures), np.inf, figures)
    return float(figures[weights > 0].max())


@dataclass(frozen=True, slots=True, eq=False)
class ModelCells:
    """Rows of a model matrix that a record may have, and the contrasts that a model tells.

    Args:
        rows: Shape ``(cells, columns)``, also of cells without a record.
        own: For each cell, the number of what a record keeps when it is put elsewhere: the numbers that
            it has in the model. A record is put into all cells with the same number.
        contrasts: Shape ``(contrasts, columns)``: each coefficient but the constant, and each
            difference of two levels.
    """

    rows: FloatArray
    own: IntArray
    contrasts: FloatArray

    @classmethod
    def of(cls, design: Design, codes: IntArray, numbers: Clique = ()) -> "ModelCells":
        """Collect the cells of a design.

        Args:
            codes: Shape ``(cells, attributes)``, in the order of ``design.attributes``: all
                combinations of levels that a record may have.
            numbers: Attributes that are numbers in the model, which a record keeps.
        """
        kept = codes[:, [design.attributes.index(name) for name in numbers]]
        _, own = np.unique(kept, axis=0, return_inverse=True)
        columns = np.eye(len(design.columns))
        contrasts = [
            row
            for block in design.blocks
            if block.attributes
            for row in (
                *columns[block.places],
                *(columns[one] - columns[other] for one, other in combinations(block.places, 2)),
            )
        ]
        shape = (len(contrasts), len(columns))
        return cls(design.matrix(codes), own.reshape(-1), np.reshape(contrasts, shape))


def of_model(
    model: ModelCells,
    place: IntArray,
    values: FloatArray,
    counts: ArrayLike | None = None,
    *,
    limit: float = 0.0,
) -> float:
    """Return the largest change of a contrast of a linear model by one record, in standard errors.

    Args:
        place: Cell of each record, or of each kind of records.
        values: Its response, without missing values.
        counts: Records of each kind; by default one.
        limit: Above this figure it is exact; below it, a bound that costs less may be returned.

    Returns:
        Infinity where a record decides a coefficient alone, or may be in more than
        ``MOST_COMBINATIONS`` cells.
    """
    place, values, weights = _known(place, values, counts)
    if np.bincount(model.own).max(initial=0) > MOST_COMBINATIONS:
        return np.inf
    fit = _Fit.of(model, place, values, weights)
    figures = sorted(
        ((bound.max(initial=0.0), one, bound) for one, bound in fit.bounds()), key=lambda pair: -pair[0]
    )
    largest = 0.0
    for most, one, bound in figures:
        if most <= max(limit, largest):
            return max(largest, float(most))
        if not np.isfinite(most) or model.contrasts.shape[0] * len(model.rows) > _MOST_CONTRASTS:
            return float(most)
        largest = max(largest, fit.of_contrasts(one, bound > max(limit, largest)))
    return largest


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    """A least-squares fit, and what leaving out one record does to it.

    Args:
        inverse: Of the cross products of the rows, generalised where columns are aliased.
        inside: Cells whose fitted value the records determine.
        rank: Columns that are estimated.
        squares: Sum of squared residuals.
    """

    model: ModelCells
    place: IntArray
    values: FloatArray
    records: float
    inverse: FloatArray
    coefficients: FloatArray
    inside: NDArray[np.bool_]
    rank: int
    squares: float

    @classmethod
    def of(cls, model: ModelCells, place: IntArray, values: FloatArray, weights: FloatArray) -> "_Fit":
        scale = np.abs(model.rows).max(axis=0, initial=0.0)
        rows = model.rows / np.where(scale == 0, 1.0, scale)
        contrasts = model.contrasts / np.where(scale == 0, 1.0, scale)
        sizes = np.bincount(place, weights, minlength=len(rows))
        _, singular, right = np.linalg.svd(rows * np.sqrt(sizes)[:, None], full_matrices=False)
        right = right[singular > _ZERO * singular.max(initial=0.0)]
        singular = singular[: len(right)]
        inverse = (right.T / singular**2) @ right
        totals = np.bincount(place, weights * values, minlength=len(rows))
        coefficients = inverse @ (rows.T @ totals)
        residuals = values - (rows @ coefficients)[place]
        inside = np.abs(rows - rows @ right.T @ right).max(axis=1, initial=0.0) < 1e-7
        return cls(
            ModelCells(rows, model.own, contrasts),
            place,
            values,
            float(weights.sum()),
            inverse,
            coefficients,
            inside,
            len(right),
            float(weights @ residuals**2),
        )

    def bounds(self) -> Iterator[tuple[int, FloatArray]]:
        """For the records that may have the largest figures, a bound for each cell and every contrast.

        By the record's response, the square of a figure is a convex square over a concave square. So
        the largest figures of a cell are those of its smallest and its largest response.
        """
        for one in _extremes(self.place, self.values):
            others, change, spread, leverages, _ = self._without(one)
            if leverages is None:
                yield one, np.full(len(others), np.inf)
            else:
                yield one, _over(change * np.sqrt(leverages), (1 + leverages) * spread, self._tiny)

    def of_contrasts(self, one: int, chosen: NDArray[np.bool_]) -> float:
        """The largest figure of a record that is put into some of its cells."""
        others, change, spread, leverages, between = self._without(one)
        if leverages is None:
            return np.inf
        contrasts = self.model.contrasts
        own = contrasts @ self.inverse @ self.model.rows[self.place[one]]
        rest = 1 - self._leverage(one)
        variances = np.einsum("ij,jk,ik->i", contrasts, self.inverse, contrasts) + own**2 / rest
        moved = contrasts @ self.inverse @ self.model.rows[others[chosen]].T
        moved += np.outer(own, between[chosen] / rest)
        estimable = variances > 1e-18 * variances.max(initial=0.0)
        steepest = (np.abs(moved[estimable]) / np.sqrt(variances[estimable])[:, None]).max(
            axis=0, initial=0.0
        )
        figures = _over(change[chosen] * steepest, (1 + leverages[chosen]) * spread, self._tiny)
        return float(figures.max(initial=0.0))

    def _leverage(self, one: int) -> float:
        row = self.model.rows[self.place[one]]
        return float(row @ self.inverse @ row)

    @property
    def _tiny(self) -> float:
        return _ZERO * float(np.abs(self.values).max(initial=0.0))

    def _without(self, one: int) -> tuple[IntArray, FloatArray, float, FloatArray | None, FloatArray]:
        """Leave a record out.

        Returns:
            The cells that it may be put into; its residual in each; the residual standard deviation;
            the leverage of each cell, None where the record decides a coefficient alone; and the
            products of the cells' rows with the record's own.
        """
        model, cell = self.model, self.place[one]
        others = np.flatnonzero((model.own == model.own[cell]) & self.inside)
        rows, row, rest = model.rows[others], model.rows[cell], 1 - self._leverage(one)
        between = rows @ self.inverse @ row
        freedom = self.records - 1 - self.rank
        if rest < _ZERO or freedom <= 0:
            return others, between, 0.0, None, between
        residual = self.values[one] - row @ self.coefficients
        squares = self.squares - residual**2 / rest
        if squares < 1e-10 * self.squares:  # nothing is left but rounding errors
            squares = 0.0
        change = np.abs(self.values[one] - rows @ self.coefficients + between * residual / rest)
        leverages = np.einsum("ij,jk,ik->i", rows, self.inverse, rows) + between**2 / rest
        return others, change, float(np.sqrt(squares / freedom)), leverages, between


def _over(change: FloatArray, error: FloatArray, tiny: float) -> FloatArray:
    """Divide, with infinity where a change has no error."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio: FloatArray = np.where(error > tiny, change / error, np.inf)
    figures: FloatArray = np.where(change > tiny, ratio, 0.0)
    return figures


def _known(
    place: IntArray, values: FloatArray, counts: ArrayLike | None
) -> tuple[IntArray, FloatArray, FloatArray]:
    """The records, or kinds of records, that have a value and are there."""
    weights = np.ones(len(values)) if counts is None else np.asarray(counts, dtype=np.float64)
    known = ~np.isnan(values) & (weights > 0)
    return np.asarray(place)[known], np.asarray(values, dtype=np.float64)[known], weights[known]


def _extremes(place: IntArray, values: FloatArray) -> list[int]:
    """Places of the smallest and the largest value of each cell."""
    order = np.lexsort((values, place))
    first = np.flatnonzero(np.diff(place[order], prepend=-1))
    last = np.append(first[1:], len(order)) - 1
    return sorted({*order[first].tolist(), *order[last].tolist()}) if len(order) else []


def _largest(
    figure: _Figure,
    place: IntArray,
    values: FloatArray,
    counts: ArrayLike | None,
    cells: int,
    outside: Sequence[float] | FloatArray,
) -> float:
    """The largest figure of groups that are told apart, each with its own spread.

    The figure of a record grows with its distance from the mean of the others. So in each group the
    smallest and the largest of its own values, and of all others, are enough.
    """
    place, values, weights = _known(place, values, counts)
    others = np.asarray(outside, dtype=np.float64)
    others = others[~np.isnan(others)]
    low, high = np.full(cells, np.inf), np.full(cells, -np.inf)
    np.minimum.at(low, place, values)
    np.maximum.at(high, place, values)
    ends = []
    for sign, own in ((1.0, low), (-1.0, -high)):
        left = weights.copy()
        left[_firsts(place, sign * values)] -= 1
        ends.append(figure(GroupSums.of(place, values, left, cells), sign * own))
        rest = _least_of_others(own, (sign * others).min(initial=np.inf))
        foreign = figure(GroupSums.of(place, values, weights, cells), sign * rest)
        ends.append(np.where(np.isfinite(rest), foreign, 0.0))
    return float(np.nan_to_num(np.concatenate(ends), nan=np.inf).max(initial=0.0))


def _firsts(place: IntArray, values: FloatArray) -> IntArray:
    """Place of the smallest value of each group that holds a record."""
    order = np.lexsort((values, place))
    firsts: IntArray = order[np.flatnonzero(np.diff(place[order], prepend=-1))]
    return firsts


def _least_of_others(own: FloatArray, outside: float) -> FloatArray:
    """For each group, the smallest value of all other groups and outside."""
    if len(own) < 2:
        return np.full(len(own), outside)
    least = np.argmin(own)
    second = np.delete(own, least).min()
    rest: FloatArray = np.where(np.arange(len(own)) == least, second, own[least])
    return np.minimum(rest, outside)
