"""Tools of all families: tables with the names of levels, numbers of levels, options, predictions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import special

from gencard.analysis.answers.answer import AnswerTable, Scalar, finite, table_of
from gencard.analysis.answers.design import INTERCEPT, CheckedQuestion, Column, occurring
from gencard.analysis.answers.exact import Gram, centred_products, gram_of
from gencard.analysis.answers.families.contingency import Test
from gencard.analysis.answers.margins import Margins, Mask
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError, LackingMarginalsError, NoEstimateError
from gencard.core.types import FloatArray, IntArray

Keys = Mapping[str, FloatArray]
"""For some attributes, what each level stands for: NaN for nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class TableSide:
    """The levels on one side of a table.

    Args:
        names: For people.
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
        """Number of records."""
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

    Raises:
        NoEstimateError: No record is left.
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
        names = level_names(question, side)
        sides.append(
            TableSide(
                tuple(names[place] for place in places[is_occupied]),
                places[is_occupied],
                values[is_occupied],
            )
        )
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

    Raises:
        NoEstimateError: No class is left.
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
    """The number that each level stands for, NaN where it stands for none.

    Raises:
        InvalidInputError: No level stands for a number.
    """
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
    """Refuse levels that somebody has and that stand for nothing.

    Raises:
        InvalidInputError: There are some.
    """
    if notes := missing_note(margins, keys):
        names = notes[0].partition(": ")[2]
        problem = f"a level that occurs has no number ({names}); use missing='drop', or values= from psi"
        raise InvalidInputError(field="formula", problem=problem)


def number_gram(margins: Margins, question: CheckedQuestion, attributes: Clique) -> Gram:
    """Inner products of a constant and numbers, as the records have them where they are summed.

    Raises:
        InvalidInputError: An attribute has no numbers, or a level that occurs has none.
        NoEstimateError: There are no records, or an attribute has a single value.
    """
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
    """All attributes of the formula, each once, the response first.

    Raises:
        InvalidInputError: There are fewer than ``least``.
    """
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
    """An option that is one of a few words; the first where it is not given.

    Raises:
        InvalidInputError: It is another one.
    """
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

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        if self.confusion is None:
            return ()
        accuracy = float(np.trace(self.confusion) / self.confusion.sum())
        return Scalar("accuracy", accuracy), Scalar("log_loss", self.log_loss)

    @property
    def notes(self) -> tuple[str, ...]:
        return (self.why,) if self.confusion is None else ()

    def tables(self, classes: tuple[str, ...]) -> tuple[AnswerTable, ...]:
        """The confusion matrix, true classes in rows."""
        if self.confusion is None:
            return ()
        return (table_of("confusion", classes, classes, self.confusion),)


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
