"""Analyses of numbers as the records hold them, not by their levels.

Sums of such numbers give means, tests and regressions by the same code as sums of psi. Quantiles are
those of the numbers themselves, group by group.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gencard.analysis.answers.answer import AnalysisAnswer, table_of
from gencard.analysis.answers.design import CheckedQuestion, Column, Option
from gencard.analysis.answers.families.comparisons import (
    compared,
    means_table,
    one_term,
    quantile_shares,
)
from gencard.analysis.answers.families.groups import SummedGroups
from gencard.analysis.answers.families.levels import choice, level, response_of
from gencard.analysis.answers.kinds import answered
from gencard.analysis.answers.margins import Margins, Mask, RecordMargins
from gencard.core.card.sums import level_values
from gencard.core.coding import Edges
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError
from gencard.core.statistics.formula import SUMMED_TERMS, Analysis
from gencard.core.types import FloatArray, IntArray

STORED, LEVELS = "stored", "levels"
CHOICES = (LEVELS, STORED, "coded")
"""Values of the option ``response``; "coded" is the older name for "levels"."""

STORED_KINDS = {
    *(Analysis.MEANS, Analysis.TTEST, Analysis.ANOVA),
    *(Analysis.LINEAR, Analysis.CORRELATION, Analysis.QUANTILES),
}
"""Kinds whose runs take numbers as the records have them."""

ERRORS = "standard errors"
"""The table beside that of the quantiles."""

NOTE = "numbers count as the records have them, not by levels; records without one are left out"
_STEPS = (0.5, 0.25, 0.05, 0.01)
"""Each is a multiple of the next."""


@dataclass(frozen=True, slots=True, eq=False)
class StoredRecords:
    """Records with numbers, none of which is missing.

    Args:
        dataset: The coded records.
        numbers: By name: attributes, and functions of them, shape ``(n,)`` each.
    """

    dataset: Dataset
    numbers: Mapping[str, FloatArray]

    def of(self, column: Column) -> FloatArray:
        """A column of a model, or a response, at each record, shape ``(n,)``."""
        codes = {name: self.dataset.column(name) for name in self.dataset.domain.attributes}
        return np.broadcast_to(column.at(codes, self.numbers), (len(self.dataset),))

    def codes(self, attributes: Clique) -> IntArray:
        """Codes of some attributes, shape ``(n, attributes)``."""
        return self.dataset.codes[:, list(self.dataset.domain.axes(attributes))].astype(np.int64)

    def take(self, kept: Mask) -> "StoredRecords":
        """Some of the records."""
        numbers = {name: one[kept] for name, one in self.numbers.items()}
        return StoredRecords(self.dataset.take(np.flatnonzero(kept)), numbers)

    def margins(self, question: CheckedQuestion) -> RecordMargins:
        """Margins with sums of all numbers, which have scales in the question."""
        scales = question.scales
        units = {name: scales[name].units(one) for name, one in self.numbers.items()}
        return RecordMargins(self.dataset, units=units)


@dataclass(frozen=True, slots=True, eq=False)
class StoredGroups:
    """Numbers of a response in the cells of a term that hold somebody.

    Args:
        names: Names of the cells, in row-major order.
        place: The cell of each record.
        values: Number of each record.
    """

    names: tuple[str, ...]
    place: IntArray
    values: FloatArray

    @classmethod
    def of(
        cls, dataset: Dataset, question: CheckedQuestion, term: Clique, values: FloatArray
    ) -> "StoredGroups":
        """The groups of some records, which have these numbers."""
        if not term:
            return cls(("all",), np.zeros(len(values), dtype=np.int64), values)
        codes = np.column_stack([dataset.column(name) for name in term])
        cells, place = np.unique(codes, axis=0, return_inverse=True)
        levels = [question.levels(name) for name in term]
        names = (", ".join(map(tuple.__getitem__, levels, cell)) for cell in cells)
        return cls(tuple(names), np.ravel(place), values)

    def quantiles(self, shares: Sequence[float]) -> tuple[FloatArray, FloatArray]:
        """Quantiles as numpy's default, and their standard errors; shapes ``(groups, shares)``.

        A standard error is half the distance of the order statistics that are one binomial standard
        deviation of ranks below and above.
        """
        order = np.lexsort((self.values, self.place))
        ends = np.cumsum(np.bincount(self.place, minlength=len(self.names)))[:-1]
        q = np.array(shares)
        rows = []
        for part in np.split(self.values[order], ends):
            wide = np.sqrt(q * (1 - q) / len(part))
            low, middle, high = np.quantile(part, np.clip([q - wide, q, q + wide], 0, 1))
            rows.append((middle, (high - low) / 2))
        values, errors = np.swapaxes(rows, 0, 1)
        return values, errors


def wants_stored(question: CheckedQuestion) -> bool:
    """Whether numbers count as the records have them, by the option ``response``.

    Raises:
        InvalidInputError: The option is none of ``CHOICES``, or what is asked for cannot be had of
            stored numbers: no number of the formula has edges, the analysis is one of ranks, or a share
            is not a whole percentage.
    """
    if choice(question, "response", CHOICES) != STORED:
        return False
    names = question.formula.attributes if question.kind in SUMMED_TERMS else (response_of(question),)
    if not any(isinstance(question.coding.attribute(name).coding, Edges) for name in names):
        problem = f"'{names[0]}' is not a number with declared edges"
        raise InvalidInputError(field="response", problem=problem, advice="Omit the option.")
    if question.kind is Analysis.QUANTILES:
        _check_quantiles(question, names[0])
    elif not question.is_summed:
        problem = "this analysis takes levels in their order, or functions of levels"
        raise InvalidInputError(field="response", problem=problem, advice="Omit the option.")
    level(question)
    return True


def wants_stored_quantiles(question: CheckedQuestion) -> bool:
    """Whether quantiles of the numbers themselves are asked for: they tell of no level who has it."""
    return question.kind is Analysis.QUANTILES and question.options.get("response") == STORED


def _check_quantiles(question: CheckedQuestion, name: str) -> None:
    if not np.array_equal(question.values[name], level_values(question.coding)[name], equal_nan=True):
        problem = "quantiles of stored numbers cannot be combined with functions or values="
        raise InvalidInputError(field="response", problem=problem)
    one_term(question, "a table of quantiles")
    if any(step_of(share) is None for share in quantile_shares(question)):
        raise InvalidInputError(
            field="q",
            problem="must be multiples of 0.01 for stored numbers",
            advice='Choose such shares, or response="levels".',
        )


def check_coded(options: Mapping[str, Option]) -> None:
    """Raises InvalidInputError where counts are asked for what the records alone have."""
    if options.get("response", LEVELS) == STORED:
        raise InvalidInputError(
            field="response",
            problem="psi and runs with noise have counts of intervals and sums, not the numbers",
            advice="Use card.run under a card whose runs have no noise, or omit the option.",
        )


def step_of(share: float) -> float | None:
    """The largest step that a share is a multiple of; None below a hundredth.

    >>> [step_of(share) for share in (0.5, 0.75, 0.9, 0.33, 0.333)]
    [0.5, 0.25, 0.05, 0.01, None]
    """
    multiples = (step for step in _STEPS if abs(share / step - round(share / step)) < 1e-9)
    return next(multiples, None)


def stored_answer(question: CheckedQuestion, margins: Margins) -> AnalysisAnswer:
    """The answer from sums of numbers as the records have them; raises as ``answered``."""
    answer = answered(question, margins)
    return replace(answer, notes=(*answer.notes, NOTE))


def quantiles_of(
    question: CheckedQuestion, records: StoredRecords
) -> tuple[StoredGroups, AnalysisAnswer]:
    """Quantiles of the response in the groups of the term, with their standard errors."""
    response, term = response_of(question), one_term(question, "a table of quantiles")
    groups = StoredGroups.of(records.dataset, question, term, records.numbers[response])
    shares = quantile_shares(question)
    columns = tuple(f"{share:g}" for share in shares)
    tables = tuple(
        table_of(name, groups.names, columns, numbers)
        for name, numbers in zip(("quantiles", ERRORS), groups.quantiles(shares), strict=True)
    )
    n = float(len(records.dataset))
    return groups, AnalysisAnswer(question.kind, question.text, n, tables=tables, notes=(NOTE,))


def pooled_tables(
    answer: AnalysisAnswer, question: CheckedQuestion, margins: Margins, terms: Sequence[Clique]
) -> AnalysisAnswer:
    """The answer with one variance within all groups of some terms, in place of each group's own."""
    pooled = {}
    for term in terms:
        part = compared(margins, question, term)
        name = _table_name(answer, term)
        groups = part.groups
        variance = groups.within / (float(groups.sizes.sum()) - len(groups.sizes))
        one = SummedGroups(
            groups.sizes, groups.means, np.full(len(groups.sizes), variance), groups.within
        )
        pooled[name] = means_table(part.names, one, question, name)
    return replace(answer, tables=tuple(pooled.get(table.name, table) for table in answer.tables))


def without_spreads(answer: AnalysisAnswer, terms: Sequence[Clique]) -> AnalysisAnswer:
    """The answer without what tells the standard deviations of the groups of some terms."""
    names = {_table_name(answer, term) for term in terms}
    tables = list(answer.tables)
    for place, table in enumerate(answer.tables):
        if table.name in names:
            stays = [name not in _SPREADS for name in table.column_names]
            rows = [
                tuple(value if kept else None for value, kept in zip(row, stays, strict=True))
                for row in table.values
            ]
            tables[place] = replace(table, values=tuple(rows))
    return replace(answer, tables=tuple(tables))


def _table_name(answer: AnalysisAnswer, term: Clique) -> str:
    own = f"means[{' × '.join(term)}]"
    return own if any(table.name == own for table in answer.tables) else "means"


_SPREADS = ("var", "std", "std_mean", "lower", "upper")
"""Columns of a table of means that tell its standard deviations."""
