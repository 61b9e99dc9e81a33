"""Quantiles and means of levels from the counts of a histogram's cells."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate
from math import ceil, floor, nan, sqrt

import numpy as np

from gencard.analysis.answers.answer import AnalysisAnswer, table_of
from gencard.analysis.answers.design import CheckedQuestion
from gencard.analysis.answers.families.comparisons import one_term, quantile_shares
from gencard.analysis.answers.families.levels import level_table, order, response_of
from gencard.analysis.answers.margins import Margins
from gencard.core.coding import Edges
from gencard.core.errors import NoEstimateError
from gencard.core.scale import Scale, shortest, steps_of
from gencard.core.statistics.psi import HistogramMeasurement
from gencard.core.statistics.unit_sums import unit_bounds

_REACH = 1.96
"""Standard deviations of the noise that a bound reaches, for 95 %."""

_EVENLY = "values are placed evenly inside a cell of the histogram; the bounds are certain"
_INSIDE = (
    "values are placed evenly inside a level; each quantile, the value of rank max(1, ceil(q n)), lies "
    "between its numbers in the tables lower and upper"
)
_CLAMPED = (
    "numbers beyond an edge count as the edge: a quantile there is at least its lower bound, or at most "
    "its upper one"
)
_NOISY = "each quantile lies between its bounds in at least 95 % of draws of the noise"


def histogram_quantiles(
    question: CheckedQuestion, coding: Edges, histogram: HistogramMeasurement
) -> AnalysisAnswer:
    """Quantiles of a whole column: the values of rank max(1, ceil(q n)), each with its bounds.

    Without noise the cell of a value is known, and the bounds are its ends.

    Raises:
        NoEstimateError: No record has a value.
    """
    scale = scale_in(coding)
    counts = histogram.counts[: len(scale.cells) - 1]
    n = sum(counts)
    if n <= 0:
        raise NoEstimateError(kind=question.kind, problem="there are no records")
    shares = quantile_shares(question)
    rows = [
        _as_recorded(scale, quantile_of_cells(scale, counts, share, histogram.stddev))
        for share in shares
    ]
    names = tuple(f"{share:g}" for share in shares)
    table = table_of("quantiles", names, ("value", "lower", "upper"), np.array(rows))
    notes = [_NOISY if histogram.stddev else _EVENLY, *_clamped_note(scale)]
    if coding.missing:
        notes.append(f"of the records that have {histogram.attribute}")
    return AnalysisAnswer(question.kind, question.text, float(n), tables=(table,), notes=tuple(notes))


def quantiles_inside_levels(
    margins: Margins, question: CheckedQuestion, answer: AnalysisAnswer
) -> AnalysisAnswer:
    """Place quantiles inside the levels that hold them, and add tables of the levels' ends.

    Args:
        margins: Exact counts of the response in each group.
        answer: The same quantiles, each the number of its level, as the schema declares it. It is
            returned as it is if the levels are no intervals.
    """
    response, term = response_of(question), one_term(question, "a table of quantiles")
    coding = question.coding.attribute(response).coding
    if not isinstance(coding, Edges):
        return answer
    keys = {response: order(question, response)}
    table = level_table(margins, question, term, (response,), keys, signed=True)
    ends = [coding.ends[place] for place in table.columns.places]
    shares = quantile_shares(question)
    rows = [
        [_inside_level(coding, ends, [*map(round, counts)], share) for share in shares]
        for counts in table.counts.tolist()
    ]
    names, columns = table.rows.names, tuple(f"{share:g}" for share in shares)
    placed, lower, upper = (
        table_of(name, names, columns, np.array([[one[part] for one in row] for row in rows]))
        for part, name in enumerate(("quantiles", "lower", "upper"))
    )
    others = tuple(one for one in answer.tables if one.name != placed.name)
    notes = (*answer.notes, _INSIDE, *_clamped_note(coding.scale))
    return replace(answer, tables=(placed, lower, upper, *others), notes=notes)


def _clamped_note(scale: Scale | None) -> tuple[str, ...]:
    return (_CLAMPED,) if scale is not None and (scale.above or scale.below) else ()


def _inside_level(
    coding: Edges, ends: Sequence[tuple[Fraction, Fraction]], counts: Sequence[int], share: float
) -> tuple[float, float, float]:
    """A quantile and its bounds."""
    below = [0, *accumulate(counts)]
    rank = max(1, ceil(Fraction(repr(share)) * below[-1]))
    place = next(i for i in range(len(counts)) if below[i + 1] >= rank)
    part = Fraction(2 * (rank - below[place]) - 1, 2 * counts[place])
    low, high = ends[place]
    step, length = coding.grid, high - low
    inside = step * floor(part * (length / step + 1)) if step else part * length
    return _as_recorded(coding.scale, (float(low + inside), float(low), float(high)))


def _as_recorded(
    scale: Scale | None, quantile: tuple[float, float, float]
) -> tuple[float, float, float]:
    """A quantile and its bounds; NaN where numbers beyond an edge count as the edge."""
    if scale is None:
        return quantile
    value, lower, upper = quantile
    first, last = float(scale.cells[0]), float(scale.cells[-1])
    beneath, above = scale.below and lower <= first, scale.above and upper >= last
    return nan if beneath or above else value, nan if beneath else lower, nan if above else upper


def quantile_of_cells(
    scale: Scale, counts: Sequence[int], share: float, stddev: float
) -> tuple[float, float, float]:
    """A quantile of values whose counts by cells are known, and its bounds.

    With noise, the lower bound is in the first cell up to which the count may reach the quantile's rank,
    and the upper one in the last cell before which it may not: the true cell lies between them unless
    the noise of one certain count is larger than its reach.
    """
    cells = cells_of(scale)
    below, q = [0, *accumulate(counts)], Fraction(repr(share))
    if stddev == 0:
        rank = max(1, ceil(q * below[-1]))
        place = next(i for i in range(len(cells)) if below[i + 1] >= rank)
        first, last = cells[place]
        inside = (2 * (rank - below[place]) - 1) * (last - first + 1) // (2 * counts[place])
        steps = (first + inside, first, last)
    else:
        low, middle, high = _cells_of_rank(below, share, stddev)
        steps = (sum(cells[middle]) // 2, cells[low][0], cells[high][1])
    value, lower, upper = scale.numbers(np.array(steps, dtype=np.int64)).tolist()
    return value, lower, upper


def _cells_of_rank(below: Sequence[int], share: float, stddev: float) -> tuple[int, int, int]:
    """The first, the likeliest and the last cell that may hold a quantile, of noisy counts."""
    size = len(below) - 1
    over = [below[i + 1] - share * below[-1] for i in range(size)]
    reach = [
        _REACH * stddev * sqrt((1 - share) ** 2 * (i + 1) + share**2 * (size - i - 1))
        for i in range(size)
    ]
    middle = next((i for i in range(size) if over[i] >= 0), size - 1)
    low = next((i for i in range(size) if over[i] + reach[i] >= 0), size - 1)
    high = next((i for i in reversed(range(1, size)) if over[i - 1] - reach[i - 1] < 0), 0)
    return min(low, middle), middle, max(high, middle)


def level_means(coding: Edges, histogram: HistogramMeasurement) -> list[float]:
    """The mean of the values in each level, as a histogram has them; its middle where it has nobody."""
    scale, means = scale_in(coding), list(coding.midpoints)
    starts = [steps_of(shortest(edge), scale.step) for edge in coding.edges[:-1]]
    totals, weights = [0] * len(starts), [0] * len(starts)
    for (first, last), count in zip(cells_of(scale), histogram.counts, strict=False):
        level = bisect_right(starts, first) - 1
        totals[level] += max(count, 0) * (first + last)
        weights[level] += 2 * max(count, 0)
    for level, weight in enumerate(weights):
        if weight:
            means[level] = float(Fraction(totals[level], weight) * Fraction(scale.step))
    return means


def cells_of(scale: Scale) -> list[tuple[int, int]]:
    """The first and the last number of each cell of a histogram, in steps."""
    units = unit_bounds(scale, scale.cells[:-1])
    return [(first + scale.centre, last + scale.centre) for first, last in units]


def scale_in(coding: Edges) -> Scale:
    """The scale of an attribute that has one; raises ValueError for another one."""
    if coding.scale is None:
        raise ValueError
    return coding.scale
