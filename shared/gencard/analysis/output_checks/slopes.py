r"""By how much each number of an answer changes with the count of each cell.

An answer is a function of the tables of a few cliques, so its derivative by the count of a cell is a sum
of functions, one for each clique. Such a sum is known in all cells from its values at a cell c and at
those that differ from c in the attributes of one clique:

.. math:: g(x) = \sum_T m(T)\, g(c \text{ with } x_T), \quad
   m(T) = \sum_{S \supseteq T} (-1)^{|S| - |T|}

over the subsets T and S of the cliques. Each value is a difference of two answers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np

from gencard.analysis.answers.answer import AnalysisAnswer
from gencard.analysis.answers.design import CheckedQuestion
from gencard.analysis.answers.kinds import plain_answer
from gencard.analysis.answers.margins import Mask, RecordMargins, every_cell
from gencard.analysis.output_checks.released import Number, numbers_of
from gencard.analysis.output_checks.rule_checks import coarse
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.errors import FEWER_TERMS, NoEstimateError, TooLargeError
from gencard.core.policy import USUAL_RULES, Rules
from gencard.core.statistics.formula import Analysis
from gencard.core.types import FloatArray, IntArray

MOST_ANSWERS = 1_000
"""Answers that are computed for one; a wider one is for a steward."""

_MOST_NUMBERS = 20_000_000
"""Derivatives that are held at once: 160 MB."""

_INVISIBLE = 0.01
"""Part of its unit below which a change of a number is hidden by rounding."""

_ZERO = 1e-9
"""Part of a variance below which nothing is left of it but rounding errors."""

_RECORD = 0.01
"""Part of a record by which a cell grows: small beside 1, large beside rounding errors of a fit."""

_PREDICTED = {"accuracy", "log_loss"}
"""Numbers about all attributes together, which a run has only where one marginal holds them."""


@dataclass(frozen=True, slots=True, eq=False)
class Slopes:
    """Numbers of an answer, and their derivatives by counts.

    Args:
        attributes: Of the formula.
        names: Where each number stands in the answer.
        values: Before they are rounded, shape ``(numbers,)``.
        units: To which they are rounded.
        parts: For some attributes their factor m(T), and the derivatives in each of their cells, shape
            ``(numbers, cells)``.
        sizes: Levels of the attributes.
    """

    attributes: Clique
    names: tuple[tuple[str, ...], ...]
    values: FloatArray
    units: FloatArray
    parts: Mapping[Clique, tuple[int, FloatArray]]
    sizes: Mapping[str, int]

    def slopes(self, codes: IntArray) -> FloatArray:
        """Derivatives, ``(numbers, cells)``, in cells of ``codes``, ``(cells, attributes)``."""
        total = np.zeros((len(self.values), len(codes)))
        for clique, (factor, values) in self.parts.items():
            place = np.zeros(len(codes), dtype=np.int64)
            for name in clique:
                place = place * self.sizes[name] + codes[:, self.attributes.index(name)]
            total += factor * values[:, place]
        return total

    def influence(self, table: FloatArray) -> float:
        """The largest change of a number by one record, in standard errors of the number.

        The record is left out, or gets another level of one attribute, among those that somebody has:
        the attacker knows its other attributes. The standard error is that of the infinitesimal
        jackknife [1]_ without the record.

        References:
            .. [1] B. Efron, *The Jackknife, the Bootstrap and Other Resampling Plans*, SIAM, 1982.

        Args:
            table: Records in each cell, axes in the order of ``attributes``.

        Returns:
            Infinity if there are too many cells to say.
        """
        if not len(self.values):  # such as curves without a step: no number, no influence
            return 0.0
        if table.size * len(self.values) > _MOST_NUMBERS:
            return np.inf
        is_observed = [
            table.sum(axis=tuple(other for other in range(table.ndim) if other != axis)) > 0
            for axis in range(table.ndim)
        ]
        table = table[np.ix_(*is_observed)]
        slopes = self.slopes(every_cell(list(map(np.flatnonzero, is_observed))))
        counts, records = table.reshape(-1), float(table.sum())
        held = counts > 0
        centred = slopes - (slopes @ counts / records)[:, None]
        squares = np.square(centred) @ counts
        left = squares[:, None] - np.square(centred[:, held]) * (records / (records - 1))
        change = _largest_changes(centred.reshape(-1, *table.shape), held)
        visible = change > _INVISIBLE * self.units[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            figures = np.where(left > _ZERO * squares[:, None], change / np.sqrt(left), np.inf)
        return float(np.where(visible, figures, 0.0).max(initial=0.0))


def _largest_changes(slopes: FloatArray, held: Mask) -> FloatArray:
    """Largest change of each number by a record in each cell that holds one.

    Args:
        slopes: About their mean, shape ``(numbers, *levels)``.
        held: Which cells hold records, in row-major order.
    """
    own = slopes.reshape(len(slopes), -1)[:, held]
    change = np.abs(own)
    for axis in range(1, slopes.ndim):
        for end in (slopes.min(axis=axis, keepdims=True), slopes.max(axis=axis, keepdims=True)):
            other = np.broadcast_to(end, slopes.shape).reshape(len(slopes), -1)[:, held]
            change = np.maximum(change, np.abs(other - own))
    return change


def answers_needed(question: CheckedQuestion, cliques: Sequence[Clique]) -> int:
    """Count the answers that the derivatives of one need, by the schema."""
    domain = question.coding.domain
    return sum(
        prod(domain.size(name) for name in clique) for clique, factor in _factors(cliques) if factor
    )


def slopes_of(question: CheckedQuestion, margins: RecordMargins, rules: Rules) -> Slopes:
    """The derivatives of an answer's numbers.

    Raises:
        TooLargeError: They need more than ``MOST_ANSWERS`` answers.
        NoEstimateError: A record more in some cell, and there is no answer of these numbers.
    """
    if answers_needed(question, question.cliques) > MOST_ANSWERS:
        raise TooLargeError(
            what="The number of cells of the analysis", limit=MOST_ANSWERS, advice=FEWER_TERMS
        )
    attributes = question.formula.attributes
    cells = margins.occupied(attributes)
    domain = margins.domain.project(attributes)
    base = plain_answer(question, RecordMargins.of(Dataset(domain, cells.codes), cells.counts))
    numbers = [one for one in _numbers(question, base, rules) if np.isfinite(one.value)]
    centre = cells.codes[np.argmax(cells.counts)]

    def slope(codes: IntArray) -> FloatArray:
        more = RecordMargins.of(
            Dataset(domain, np.vstack([cells.codes, codes])), np.append(cells.counts, _RECORD)
        )
        values = {one.name: one.value for one in numbers_of(plain_answer(question, more), USUAL_RULES)}
        moved = np.array([values.get(one.name, np.nan) for one in numbers])
        return (moved - [one.value for one in numbers]) / _RECORD

    parts = {}
    for clique, factor in _factors(question.cliques):
        if not factor:
            continue
        axes, rows = [attributes.index(name) for name in clique], []
        for levels in np.ndindex(*(domain.sizes[axis] for axis in axes)):
            codes = centre.copy()
            codes[axes] = levels
            rows.append(slope(codes))
        parts[clique] = factor, np.array(rows).T.reshape(len(numbers), len(rows))
    if not all(np.all(np.isfinite(values)) for _, values in parts.values()):
        raise NoEstimateError(kind=question.kind, problem="a number is not defined nearby")
    return Slopes(
        attributes,
        tuple(one.name for one in numbers),
        np.array([one.value for one in numbers]),
        np.array([one.unit for one in numbers]),
        parts,
        dict(zip(attributes, domain.sizes, strict=True)),
    )


def _factors(cliques: Sequence[Clique]) -> list[tuple[Clique, int]]:
    """All subsets of cliques and their factors."""
    sets = {
        frozenset(inside): inside
        for clique in cliques
        for size in range(len(clique) + 1)
        for inside in combinations(clique, size)
    }
    return [
        (clique, sum((-1) ** (len(other) - len(one)) for other in sets if one <= other))
        for one, clique in sets.items()
    ]


def _numbers(question: CheckedQuestion, base: AnalysisAnswer, rules: Rules) -> Iterator[Number]:
    """The numbers that a run would release; of a curve those at the times that are told."""
    if question.kind is Analysis.KAPLAN_MEIER:
        base = coarse(base, rules)
    together = any({*question.formula.attributes} <= {*clique} for clique in question.cliques)
    for one in numbers_of(base, rules):
        if together or one.name[-1] not in _PREDICTED:
            yield one
