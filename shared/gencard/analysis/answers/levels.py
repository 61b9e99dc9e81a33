"""Levels, for all kinds of analysis: their tables and numbers, options, predictions, histograms."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate, product
from math import ceil, floor, nan, sqrt

import numpy as np
from scipy import special

from gencard.analysis.answers.answer import AnalysisAnswer, AnswerTable, Scalar, finite, table_of
from gencard.analysis.answers.design import INTERCEPT, CheckedQuestion, Column, occurring
from gencard.analysis.answers.linear import Gram, centred_products, gram_of
from gencard.analysis.answers.margins import Margins, Mask
from gencard.core.coding import Edges
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError, LackingMarginalsError, NoEstimateError
from gencard.core.scale import Scale, shortest, steps_of
from gencard.core.statistics.linear import unit_bounds
from gencard.core.statistics.psi import HistogramMeasurement
from gencard.core.types import FloatArray, IntArray

Keys = Mapping[str, FloatArray]
"""For some attributes, what each level stands for: NaN for nothing."""


@dataclass(frozen=True, slots=True)
class Test:
    """A chi-squared test: statistic, degrees of freedom, p value."""

    statistic: float
    degrees: int
    pvalue: float

    @classmethod
    def chi2(cls, statistic: float, degrees: int) -> "Test":
        """Test a statistic that is chi-squared by hypothesis; p is 1 without degrees of freedom."""
        pvalue = float(special.chdtrc(degrees, statistic)) if degrees else 1.0
        return cls(float(statistic), degrees, pvalue)


@dataclass(frozen=True, slots=True, eq=False)
class TableSide:
    """The levels on one side of a table.

    Args:
        places: Positions among all cells of the side's attributes, in row-major order.
        keys: What each level stands for; the positions where nothing was said.
    """

    names: tuple[str, ...]
    places: IntArray
    keys: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class LevelTable:
    """Counts of rows by columns, from 0 up; each row and each column holds records.

    Of signed counts with noise, all levels are there, and a count may be below 0.
    """

    counts: FloatArray
    rows: TableSide
    columns: TableSide

    def table(self, name: str, values: FloatArray) -> AnswerTable:
        """Values of this shape as a table of an answer."""
        return table_of(name, self.rows.names, self.columns.names, values)

    def of_rows(self, chosen: Mask) -> "LevelTable":
        """Some of the rows, with all columns."""
        names = tuple(name for name, is_chosen in zip(self.rows.names, chosen, strict=True) if is_chosen)
        rows = TableSide(names, self.rows.places[chosen], self.rows.keys[chosen])
        return LevelTable(self.counts[chosen], rows, self.columns)

    @property
    def n(self) -> float:
        return float(self.counts.sum())


def level_table(
    margins: Margins,
    question: CheckedQuestion,
    rows: Clique,
    columns: Clique,
    keys: Keys | None = None,
    *,
    signed: bool = False,
) -> LevelTable:
    """The table of some attributes by others; levels that nobody has are left out, as from records.

    Noise below 0 counts as 0. A side without attributes is one level, "all".

    Args:
        keys: A side that is one of these attributes stands in the order of its keys, and levels without
            one are left out.
        signed: Keep noisy counts as they are, and all their levels. To set the negative ones to 0 would
            add records: sums and means of many cells with few records would be biased.
    """
    whole, is_noisy = margins.counts(rows + columns), has_noise(margins, rows + columns)
    whole = whole if signed and is_noisy else np.maximum(whole, 0)
    cells, choices = [], []
    for side in (rows, columns):
        # Positions of the levels that have a key, in its order, and the keys.
        cells.append(int(np.prod(margins.domain.project(side).sizes, dtype=np.int64)))
        of_side = keys.get(side[0]) if keys and len(side) == 1 else None
        values = np.arange(float(cells[-1])) if of_side is None else of_side
        order = np.argsort(values, kind="stable")
        order = order[~np.isnan(values[order])]
        choices.append((order, values[order]))
    counts = whole.reshape(cells)[np.ix_(*(places for places, _ in choices))]
    occupied = [counts.sum(axis=axis) > 0 for axis in (1, 0)]
    if signed and is_noisy:
        occupied = [np.ones(size, dtype=bool) for size in counts.shape]
    if not counts.size or not counts.sum() > 0:
        raise NoEstimateError(kind=question.kind, problem="there are no records")
    sides = []
    for side, (places, values), is_occupied in zip((rows, columns), choices, occupied, strict=True):
        names, own = level_names(question, side), places[is_occupied]
        sides.append(TableSide(tuple(names[place] for place in own), own, values[is_occupied]))
    return LevelTable(counts[np.ix_(*occupied)], *sides)


def has_noise(margins: Margins, clique: Clique) -> bool:
    """Whether the counts of a clique are known to have noise."""
    return bool(margins.variances(clique).any())


def class_tables(
    margins: Margins,
    question: CheckedQuestion,
    response: str,
    sides: Sequence[Clique],
    *,
    signed: bool = False,
) -> tuple[LevelTable, ...]:
    """The response's classes by each of several sides, each with the same classes.

    Noise may leave a class out of one table and not of another one: it is left out of all then.
    """
    tables = [level_table(margins, question, (response,), side, signed=signed) for side in sides]
    common = set.intersection(*(set(table.rows.places.tolist()) for table in tables))
    if not common:
        raise NoEstimateError(kind=question.kind, problem="no class has records in every table")
    return tuple(table.of_rows(np.isin(table.rows.places, sorted(common))) for table in tables)


def level_names(question: CheckedQuestion, clique: Clique) -> list[str]:
    """Names of the cells of some attributes, in row-major order."""
    return [", ".join(names) or "all" for names in product(*map(question.levels, clique))]


def numbers(question: CheckedQuestion, attribute: str) -> FloatArray:
    """The number that each level stands for, NaN where it stands for none."""
    if attribute not in question.values:
        problem = f"'{attribute}' needs a number for each of its levels; answers from psi take values="
        raise InvalidInputError(field="formula", problem=problem)
    return np.asarray(question.values[attribute], dtype=np.float64)


def order(question: CheckedQuestion, attribute: str) -> FloatArray:
    """Return the sort keys of levels: their numbers, else places from 1; NaN for "missing"."""
    if attribute in question.values:
        return numbers(question, attribute)
    coding = question.coding.attribute(attribute).coding
    places = np.arange(1.0, coding.size + 1)
    if coding.missing:
        places[-1] = np.nan
    return places


def missing_note(margins: Margins, keys: Keys) -> tuple[str, ...]:
    """Name the attributes of which some record has a level without a key."""
    without = [name for name, key in keys.items() if np.any(occurring(margins, (name,))[np.isnan(key)])]
    return (f"dropped where missing: {', '.join(without)}",) if without else ()


def check_complete(margins: Margins, keys: Keys) -> None:
    """Raises InvalidInputError where somebody has a level that stands for nothing."""
    if notes := missing_note(margins, keys):
        names = notes[0].partition(": ")[2]
        problem = f"a level that occurs has no number ({names}); use missing='drop', or values= from psi"
        raise InvalidInputError(field="formula", problem=problem)


def number_gram(margins: Margins, question: CheckedQuestion, attributes: Clique) -> Gram:
    """Inner products of a constant and numbers, as the records have them where they are summed."""
    gram = gram_of(margins, number_columns(margins, question, attributes), question.scales)
    if gram.product(0, 0) <= 0:
        raise NoEstimateError(kind=question.kind, problem="there are no records")
    for name, square in zip(attributes, np.diag(centred_products(gram)), strict=True):
        if not square > 0:
            raise NoEstimateError(kind=question.kind, problem=f"'{name}' does not vary")
    return gram


def number_columns(
    margins: Margins, question: CheckedQuestion, attributes: Clique
) -> tuple[Column, ...]:
    """A constant, then the numbers of attributes; those that are not summed go by levels."""
    keys = {name: numbers(question, name) for name in attributes if name not in question.columns}
    check_complete(margins, keys)
    by_levels = {name: Column(name, (name,), np.nan_to_num(key)) for name, key in keys.items()}
    columns = {**by_levels, **question.columns}
    return Column(INTERCEPT, (), np.ones(())), *(columns[name] for name in attributes)


def attributes_of(question: CheckedQuestion, least: int = 1) -> Clique:
    """All attributes of the formula, each once, the response first."""
    formula = question.formula
    names = (formula.response,) if formula.response else ()
    attributes = tuple(dict.fromkeys((*names, *(name for term in formula.terms for name in term))))
    if len(attributes) < least:
        raise InvalidInputError(field="formula", problem=f"needs at least {least} attributes")
    return attributes


def response_of(question: CheckedQuestion) -> str:
    """Raises InvalidInputError where the formula has no response."""
    if question.formula.response is None:
        raise InvalidInputError(field="formula", problem="needs a response before the '~'")
    return question.formula.response


def test_scalar(name: str, test: Test) -> Scalar:
    """A chi-squared test as a number of an answer."""
    return Scalar(name, finite(test.statistic), None, (test.degrees,), finite(test.pvalue))


def choice(question: CheckedQuestion, name: str, choices: tuple[str, ...]) -> str:
    """An option that is one of a few words; the first where it is not given."""
    option = question.options.get(name, choices[0])
    if option not in choices:
        raise InvalidInputError(field=name, problem=f"must be one of {', '.join(choices)}")
    return str(option)


def number(question: CheckedQuestion, name: str, default: float) -> float:
    """An option that is a number; raises InvalidInputError where it is none."""
    value = question.options.get(name, default)
    if not isinstance(value, int | float) or not np.isfinite(value):
        raise InvalidInputError(field=name, problem="must be a number")
    return float(value)


def one_term(question: CheckedQuestion, what: str) -> Clique:
    """The term of a formula, () where it has none; raises InvalidInputError where it has several."""
    terms = question.formula.terms
    if len(terms) > 1:
        problem = f"{what} takes one term; combine several as a:b"
        raise InvalidInputError(field="formula", problem=problem)
    return terms[0] if terms else ()


def quantile_shares(question: CheckedQuestion) -> tuple[float, ...]:
    """The option ``q``: one share or several, default the quartiles."""
    option = question.options.get("q", (0.25, 0.5, 0.75))
    shares = (option,) if isinstance(option, str | int | float) else tuple(option)
    if not all(isinstance(q, int | float) and 0 < q < 1 for q in shares):
        raise InvalidInputError(field="q", problem="must lie between 0 and 1")
    return tuple(map(float, shares))


def level(question: CheckedQuestion) -> float:
    """The option ``alpha``: one less the level of intervals, default 0.05."""
    alpha = number(question, "alpha", 0.05)
    if not 0 < alpha < 1:
        raise InvalidInputError(field="alpha", problem="must lie between 0 and 1")
    return alpha


_UNDETERMINED = (
    "accuracy is not given: it needs the joint table of the response and all features, which "
    "is not determined here"
)


@dataclass(frozen=True, slots=True, eq=False)
class Predicted:
    """Predictions beside the truth.

    Args:
        confusion: Records by true class and predicted class; None where they are not determined.
        why: Note on why they are not.
        log_loss: Mean of the negative logarithm of the true class's probability, in nats.
    """

    confusion: FloatArray | None
    why: str = _UNDETERMINED
    log_loss: float = np.nan

    def beside(
        self,
        answer: AnalysisAnswer,
        scalars: tuple[Scalar, ...],
        tables: tuple[AnswerTable, ...],
        classes: tuple[str, ...],
    ) -> AnalysisAnswer:
        """The answer with numbers and tables of a classifier, then those of the predictions."""
        if self.confusion is None:
            return replace(answer, scalars=scalars, tables=tables, notes=(self.why,))
        accuracy = Scalar("accuracy", float(np.trace(self.confusion) / self.confusion.sum()))
        scalars = (*scalars, accuracy, Scalar("log_loss", self.log_loss))
        confusion = table_of("confusion", classes, classes, self.confusion)  # true classes in rows
        return replace(answer, scalars=scalars, tables=(*tables, confusion))


def predictions(
    margins: Margins,
    response: str,
    features: Clique,
    classes: IntArray,
    scores: Callable[[IntArray], FloatArray],
) -> Predicted:
    """Predictions of a classifier for the records that it was made from.

    Args:
        classes: Codes of the response that it knows; every record has one of them.
        scores: From cells of the features, shape ``(m, len(features))``, to the logarithm of the
            probability of each class up to a constant, shape ``(m, len(classes))``.
    """
    clique = (response, *features)
    try:
        margins.source(clique)
    except LackingMarginalsError:
        return Predicted(None)
    cells = margins.occupied(clique)
    counts = np.maximum(cells.counts, 0)
    known = np.isin(cells.codes[:, 0], classes)
    codes, counts = cells.codes[known], counts[known]
    true = np.searchsorted(classes, codes[:, 0])
    logs = special.log_softmax(scores(codes[:, 1:]), axis=1)
    confusion = np.zeros((len(classes), len(classes)))
    np.add.at(confusion, (true, np.argmax(logs, axis=1)), counts)
    loss = -float(counts @ logs[np.arange(len(true)), true] / counts.sum())
    return Predicted(confusion, log_loss=loss)


# Quantiles and means of levels from the counts of a histogram's cells.


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
    """
    scale = scale_in(coding)
    counts = histogram.counts[: len(scale.cells) - 1]
    n = sum(counts)
    if n <= 0:
        raise NoEstimateError(kind=question.kind, problem="there are no records")
    shares = quantile_shares(question)
    placed = (quantile_of_cells(scale, counts, share, histogram.stddev) for share in shares)
    rows = [_as_recorded(scale, quantile) for quantile in placed]
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
