"""Means and quantiles of a response as the records hold it, not by its levels.

psi has counts of intervals alone, so that only a run on the records can give these.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gencard.core.answers.answer import Answer, Table, table_of
from gencard.core.answers.design import Option, Question
from gencard.core.answers.families.comparisons import means_table, one_term, quantile_shares
from gencard.core.answers.families.levels import choice, level, response_of
from gencard.core.coding import Edges
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError
from gencard.core.moment import level_values
from gencard.core.statistics.formula import Analysis
from gencard.core.types import FloatArray, IntArray

CHOICES = ("coded", "stored")
"""What the option ``response`` may be: numbers of levels, or those of the records."""

ERRORS = "standard errors"
"""The table beside that of the quantiles."""

_STORED = "the response has its stored values, not codes; records without it are left out"
_STEPS = (0.5, 0.25, 0.05, 0.01)
"""Each is a multiple of the next."""


@dataclass(frozen=True, slots=True, eq=False)
class StoredGroups:
    """Numbers of a response in the cells of a term that hold somebody.

    Args:
        term: The attributes of the cells.
        names: Of the cells, in row-major order.
        place: The cell of each record.
        values: One for each record; NaN where it is missing.
        pooled: All groups have the one variance within groups, in place of their own.
    """

    term: Clique
    names: tuple[str, ...]
    place: IntArray
    values: FloatArray
    pooled: bool = False

    @classmethod
    def of(
        cls, dataset: Dataset, question: Question, term: Clique, values: FloatArray
    ) -> "StoredGroups":
        """The groups of some records, which have these numbers."""
        if not term:
            return cls(term, ("all",), np.zeros(len(values), dtype=np.int64), values)
        codes = np.column_stack([dataset.column(name) for name in term])
        cells, place = np.unique(codes, axis=0, return_inverse=True)
        levels = [question.levels(name) for name in term]
        names = (", ".join(map(tuple.__getitem__, levels, cell)) for cell in cells)
        return cls(term, tuple(names), np.ravel(place), values)

    @property
    def sizes(self) -> FloatArray:
        """Records with a value."""
        return self._sums(np.ones(len(self.values)))

    @property
    def means(self) -> FloatArray:
        means: FloatArray = self._sums(self.values) / self.sizes
        return means

    @property
    def variances(self) -> FloatArray:
        """With one degree of freedom less than records."""
        squares = self._sums((self.values - self.means[self.place]) ** 2)
        if self.pooled:
            freedom = self.sizes.sum() - len(self.sizes)
            return np.full(len(self.sizes), squares.sum() / freedom)
        variances: FloatArray = squares / (self.sizes - 1)
        return variances

    def quantiles(self, shares: Sequence[float]) -> tuple[FloatArray, FloatArray]:
        """Quantiles as numpy's default, and their standard errors; shapes ``(groups, shares)``.

        A standard error is half the distance of the order statistics that are one binomial standard
        deviation of ranks below and above.
        """
        is_known = ~np.isnan(self.values)
        order = np.lexsort((self.values[is_known], self.place[is_known]))
        ends = np.cumsum(self.sizes).astype(np.int64)[:-1]
        q = np.array(shares)
        rows = []
        for part in np.split(self.values[is_known][order], ends):
            wide = np.sqrt(q * (1 - q) / len(part))
            low, middle, high = np.quantile(part, np.clip([q - wide, q, q + wide], 0, 1))
            rows.append((middle, (high - low) / 2))
        values, errors = np.swapaxes(rows, 0, 1)
        return values, errors

    def _sums(self, numbers: FloatArray) -> FloatArray:
        is_known = ~np.isnan(self.values)
        sums = np.bincount(self.place[is_known], numbers[is_known], minlength=len(self.names))
        return sums.astype(np.float64)


def wants_stored(question: Question) -> bool:
    """Whether the response is asked for as stored, by the option ``response``.

    Raises:
        InvalidInputError: It is neither "coded" nor "stored", or what is asked for cannot be had of
            stored numbers: the response has no edges, has a function or other numbers of its own, or a
            share is not a whole percentage.
    """
    if choice(question, "response", CHOICES) == CHOICES[0]:
        return False
    name = response_of(question)
    if not isinstance(question.coding.attribute(name).coding, Edges):
        problem = f"'{name}' is not a number with declared edges"
        raise InvalidInputError(field="response", problem=problem, advice="Omit the option.")
    if not np.array_equal(question.values[name], level_values(question.coding)[name], equal_nan=True):
        problem = "stored numbers cannot be combined with functions or values="
        raise InvalidInputError(field="response", problem=problem)
    level(question)
    if question.kind is Analysis.QUANTILES:
        one_term(question, "a table of quantiles")
        if any(step_of(share) is None for share in quantile_shares(question)):
            raise InvalidInputError(field="q", problem="must be multiples of 0.01 for stored numbers")
    return True


def check_coded(options: Mapping[str, Option]) -> None:
    """Raises InvalidInputError where counts are asked for what the records alone have."""
    if options.get("response", CHOICES[0]) != CHOICES[0]:
        raise InvalidInputError(
            field="response",
            problem="psi and runs with noise have counts of intervals only",
            advice="Use card.run under a card whose runs have no noise, or omit the option.",
        )


def step_of(share: float) -> float | None:
    """The largest step that a share is a multiple of; None below a hundredth.

    >>> [step_of(share) for share in (0.5, 0.75, 0.9, 0.33, 0.333)]
    [0.5, 0.25, 0.05, 0.01, None]
    """
    multiples = (step for step in _STEPS if abs(share / step - round(share / step)) < 1e-9)
    return next(multiples, None)


def stored_groups(dataset: Dataset, question: Question, values: FloatArray) -> tuple[StoredGroups, ...]:
    """The groups of each term; of a formula without terms, everybody."""
    terms = question.formula.terms or ((),)
    return tuple(StoredGroups.of(dataset, question, term, values) for term in terms)


def stored_answer(question: Question, groups: Sequence[StoredGroups]) -> Answer:
    """Means, or quantiles, with their standard errors; each group has some values."""
    if question.kind is Analysis.QUANTILES:
        tables = _quantile_tables(groups[0], quantile_shares(question))
    else:
        names = [f"means[{' × '.join(one.term)}]" for one in groups] if len(groups) > 1 else ["means"]
        tables = tuple(
            means_table(one.names, one, question, name) for one, name in zip(groups, names, strict=True)
        )
    n = float(groups[0].sizes.sum())
    return Answer(question.kind, question.text, n, tables=tables, notes=(_STORED,))


def _quantile_tables(groups: StoredGroups, shares: Sequence[float]) -> tuple[Table, ...]:
    columns = tuple(f"{share:g}" for share in shares)
    names = ("quantiles", ERRORS)
    return tuple(
        table_of(name, groups.names, columns, numbers)
        for name, numbers in zip(names, groups.quantiles(shares), strict=True)
    )
