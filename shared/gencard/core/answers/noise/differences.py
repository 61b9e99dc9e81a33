"""Noise in answers from few tables: standard errors and intervals widened, by differences of counts.

Each count is moved by one standard deviation of its noise, up and down, and the analysis done again. The
difference is the derivative that first order needs; the curvature, what first order leaves out.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp, log, sqrt
from typing import NamedTuple

import numpy as np
from scipy import stats

from gencard.core.answers.answer import Answer, Scalar, Table, coefficients_of
from gencard.core.answers.design import Block
from gencard.core.answers.margins import Margins, Occupied, occupied_of
from gencard.core.answers.noise.reconciled import covariance_of
from gencard.core.domain import Clique, Domain
from gencard.core.errors import GencardError, NoiseDrownsError
from gencard.core.statistics.marginals import project
from gencard.core.types import FloatArray

MOST_CELLS = 400
"""Counts that are moved; answers from more have no standard errors but those of the bootstrap."""

_MOST_CURVED = 0.25
"""Largest shift that curvature makes, in standard errors."""

_STD_MEAN = "std_mean"

_Z = float(stats.norm.isf(0.025))

Analysis = Callable[[Margins], Answer]


class Point(NamedTuple):
    """A number of an answer that has an interval, and half the interval's width, below and above."""

    value: float
    below: float
    above: float


@dataclass(frozen=True, slots=True, eq=False)
class Moved:
    """Margins of the tables of an analysis; narrower ones are summed out of the first that has them."""

    whole: Margins
    tables: dict[Clique, FloatArray]

    @property
    def domain(self) -> Domain:
        return self.whole.domain

    def counts(self, clique: Clique) -> FloatArray:
        for attributes, table in self.tables.items():
            if set(clique) <= set(attributes):
                counts: FloatArray = project(table, attributes, tuple(clique))
                return counts
        return self.whole.counts(clique)

    def variances(self, clique: Clique) -> FloatArray:
        return self.whole.variances(clique)

    def occupied(self, clique: Clique) -> Occupied:
        return occupied_of(self.counts(clique))

    def source(self, clique: Clique) -> Clique:
        return self.whole.source(clique)


def widened(answer: Answer, analysis: Analysis, margins: Margins, cliques: Sequence[Clique]) -> Answer:
    """The answer with standard errors and intervals that know the noise.

    Raises:
        NoiseDrownsError: The answer is not nearly linear over the noise, or it vanishes within it.
    """
    points = _points(answer)
    cells = sum(margins.domain.project(clique).cells for clique in cliques)
    if not points:
        return answer
    if cells > MOST_CELLS:
        return _without_intervals(answer)
    tables = {clique: margins.counts(clique) for clique in cliques}
    gradients, shift = [], np.zeros(len(points))
    middle = np.array([point.value for point in points])
    for clique, table in tables.items():
        steps = np.asarray(np.sqrt(margins.variances(clique)), dtype=np.float64)
        values = np.empty((len(points), table.size))
        for place, cell in enumerate(np.ndindex(table.shape)):
            both = (_stepped(table, cell, float(step)) for step in (steps[cell], -steps[cell]))
            up, down = (
                _values(analysis, Moved(margins, {**tables, clique: one}), points) for one in both
            )
            values[:, place] = (up - down) / (2 * steps[cell]) if steps[cell] else 0.0
            shift += (up + down - 2 * middle) / 2
        gradients.append(Block(clique, np.arange(len(points)), values))
    covariance = covariance_of(margins, gradients, len(points))
    total = np.sqrt(np.diag(covariance) + np.array([max(p.below, p.above) / _Z for p in points]) ** 2)
    if np.any(np.abs(shift) > _MOST_CURVED * total):
        raise NoiseDrownsError
    return _with_covariance(answer, covariance)


def _stepped(table: FloatArray, cell: tuple[int, ...], step: float) -> FloatArray:
    shifted = table.copy()
    shifted[cell] += step
    return shifted


def _values(analysis: Analysis, margins: Margins, points: Sequence[Point]) -> FloatArray:
    try:
        values = np.array([point.value for point in _points(analysis(margins))])
    except GencardError:
        raise NoiseDrownsError from None
    if len(values) != len(points):
        raise NoiseDrownsError
    return values


def _points(answer: Answer) -> list[Point]:
    """Coefficients, then scalars with a standard error, then rows of tables with bounds."""
    points = []
    if answer.coefficients is not None:
        errors = answer.coefficients.bse
        points += [
            Point(value, _Z * error, _Z * error)
            for value, error in zip(answer.coefficients.params, errors, strict=True)
        ]
    for scalar in answer.scalars:
        if scalar.value is not None and scalar.standard_error is not None:
            points.append(Point(scalar.value, *(_Z * scalar.standard_error,) * 2))
    points += [point for table in answer.tables for point in _bounded(table)]
    return points


def _bounded(table: Table) -> Iterator[Point]:
    """Of each row its number, before the columns ``lower`` and ``upper``; ratios as logarithms."""
    if "lower" not in table.column_names:
        return
    place = _place(table)
    low, high = (table.column_names.index(name) for name in ("lower", "upper"))
    for row in table.values:
        value, lower, upper = row[place], row[low], row[high]
        if value is None or lower is None or upper is None:
            continue
        if _is_ratio(table):
            value, lower, upper = log(value), log(lower), log(upper)
        yield Point(value, value - lower, upper - value)


def _place(table: Table) -> int:
    columns = [name for name in ("estimate", "mean", "share") if name in table.column_names]
    return table.column_names.index(columns[0]) if columns else 0


def _is_ratio(table: Table) -> bool:
    return table.name.startswith("ratios")


def _with_covariance(answer: Answer, covariance: FloatArray) -> Answer:
    errors = iter(np.sqrt(np.diag(covariance)))
    coefficients = answer.coefficients
    if coefficients is not None:
        size = len(coefficients.names)
        known = np.reshape(coefficients.covariance, (size, size)) + covariance[:size, :size]
        params = np.array(coefficients.params)
        coefficients = coefficients_of(coefficients.names, params, known, coefficients.degrees)
        for _ in range(size):
            next(errors)
    scalars = tuple(_scalar(scalar, errors) for scalar in answer.scalars)
    tables = tuple(_table(table, errors) for table in answer.tables)
    return replace(answer, coefficients=coefficients, scalars=scalars, tables=tables)


def _scalar(scalar: Scalar, errors: Iterator[float]) -> Scalar:
    if scalar.value is None or scalar.standard_error is None:
        return scalar
    error = sqrt(scalar.standard_error**2 + next(errors) ** 2)
    pvalue = None if scalar.pvalue is None else float(2 * stats.norm.sf(abs(scalar.value) / error))
    return replace(scalar, standard_error=error, pvalue=pvalue)


def _table(table: Table, errors: Iterator[float]) -> Table:
    if "lower" not in table.column_names:
        return table
    low, high = (table.column_names.index(name) for name in ("lower", "upper"))
    rows = []
    for row in table.values:
        one = next(_bounded(replace(table, row_names=table.row_names[:1], values=(row,))), None)
        if one is None:
            rows.append(row)
            continue
        extra = _Z * next(errors)
        ends = one.value - sqrt(one.below**2 + extra**2), one.value + sqrt(one.above**2 + extra**2)
        values = list(row)
        values[low], values[high] = map(exp, ends) if _is_ratio(table) else ends
        if _STD_MEAN in table.column_names:
            place = table.column_names.index(_STD_MEAN)
            values[place] = sqrt((values[place] or 0.0) ** 2 + (extra / _Z) ** 2)
        rows.append(tuple(values))
    return replace(table, values=tuple(rows))


def _without_intervals(answer: Answer) -> Answer:
    """What an interval without the noise would say is left out."""
    scalars = tuple(replace(scalar, standard_error=None, pvalue=None) for scalar in answer.scalars)
    tables = tuple(map(_unbounded, answer.tables))
    return replace(answer, coefficients=None, scalars=scalars, tables=tables)


def _unbounded(table: Table) -> Table:
    places = [i for i, name in enumerate(table.column_names) if name not in {"lower", "upper"}]
    columns = tuple(table.column_names[place] for place in places)
    rows = tuple(tuple(row[place] for place in places) for row in table.values)
    return replace(table, column_names=columns, values=rows)
