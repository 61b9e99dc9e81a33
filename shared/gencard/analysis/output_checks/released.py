"""An answer as it leaves: every number rounded to what its standard error earns.

Numbers that follow from others are computed again from the rounded ones (``derived``): an interval for
any level that the analyst chooses, or a test of any value, then says no more than the estimate does.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from math import prod, sqrt

import numpy as np

from gencard.analysis.answers.answer import AnalysisAnswer, AnswerTable, Coefficients, Scalar, base_name
from gencard.analysis.answers.design import CheckedQuestion
from gencard.analysis.answers.kinds import answered, plain_answer
from gencard.analysis.answers.margins import (
    Margins,
    Mask,
    PsiMargins,
    RecordMargins,
    check_size,
    every_cell,
    records_of,
)
from gencard.analysis.output_checks import rounding
from gencard.analysis.output_checks.derived import LIKELIHOODS, derived, is_count
from gencard.analysis.output_checks.rule_checks import coarse
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.errors import GencardError, NoEstimateError
from gencard.core.policy import USUAL_RULES, Rules
from gencard.core.statistics.formula import Analysis
from gencard.core.statistics.marginals import maximal, project
from gencard.core.statistics.psi import Measurement, Psi
from gencard.core.types import FloatArray, IntArray

_COUNTS = {"at_risk", "events", "nevents", "counts", "count", "confusion", "nobs", "n"}
"""Names of tables and columns that hold numbers of records."""

_SHARES = {
    "rsquared", "rsquared_adj", "prsquared", "accuracy", "baseline", "cramers_v", "phi", "pearsonr",
    "spearmanr", "kendalltau", "auc", "mutual_information", "lambda", "eta_squared", "omega_squared",
    "wilks_lambda", "normal_error",
}  # fmt: skip
"""Names of scalars between -1 and 1."""

_BY_MEAN = {"mean", "lower", "upper"}
_PVALUES = {"pvalue", "pvalues"}


def released(answer: AnalysisAnswer, rules: Rules) -> AnalysisAnswer:
    """The answer with rounded numbers.

    Counts become multiples of the rounding base, and so do degrees of freedom that follow from numbers
    of records. Coefficients are rounded to two digits of their standard errors, and so are scalars and
    means that have one. Test statistics are rounded to two digits of their standard deviation,
    likelihoods to one digit of their standard error. Other numbers are rounded as if their standard
    error were their size over the square root of the number of records, or half of one over it where
    they are bounded. Notes stay: they name levels, never records.
    """
    if answer.kind == Analysis.KAPLAN_MEIER:
        answer = coarse(answer, rules)
    rounded = replace(
        answer,
        n=_count(answer.n, rules),
        coefficients=None if answer.coefficients is None else _coefficients(answer.coefficients, rules),
        scalars=tuple(_scalar(one, answer.n, rules) for one in answer.scalars),
        tables=tuple(_table(one, answer, rules) for one in answer.tables),
    )
    # Rounded first, then derived: a statistic of the exact numbers beside the rounded ones would let an
    # attacker solve for the digits that rounding took away.
    return derived(answer, rounded)


def _count(number: float, rules: Rules) -> float:
    return float(rounding.counts(np.array([number]), rules.checks.rounding)[0])


def _coefficients(one: Coefficients, rules: Rules) -> Coefficients:
    params = tuple(map(rounding.to_error, one.params, map(float, one.bse)))
    covariance = rounding.covariance(np.reshape(one.covariance, (len(one.names),) * 2))
    degrees = None if one.degrees is None else max(_count(one.degrees, rules), 1.0)
    rows = tuple(tuple(map(float, row)) for row in covariance)
    return replace(one, params=params, covariance=rows, degrees=degrees)


def _scalar(one: Scalar, records: float, rules: Rules) -> Scalar:
    return replace(
        one,
        value=None if one.value is None else rounding.to_unit(one.value, _unit(one, records, rules)),
        standard_error=None if one.standard_error is None else rounding.to_digits(one.standard_error, 2),
        degrees=tuple(
            max(_count(degree, rules), 1.0) if is_count(one, place) else degree
            for place, degree in enumerate(one.degrees)
        ),
        pvalue=None if one.pvalue is None else rounding.of_probability(one.pvalue),
    )


def _unit(one: Scalar, records: float, rules: Rules) -> float:
    value, name = one.value or 0.0, base_name(one.name)
    if one.standard_error is not None:
        return rounding.unit_by_error(value, one.standard_error)
    if one.degrees and not is_count(one, 0):
        return rounding.unit_by_error(value, rounding.error_of_test(value, one.degrees))
    return _unit_of_number(name, value, records, rules)


def _unit_of_number(name: str, value: float, records: float, rules: Rules) -> float:
    if name in _COUNTS:
        return float(rules.checks.rounding)
    if name in _PVALUES:
        return max(rounding.unit_by_digits(value, 2), 1e-5)
    if name in _SHARES:
        error = rounding.error_of_share(records, rules.checks.rounding)
    else:
        error = rounding.error_of_size(value, records) * (10 if name in LIKELIHOODS else 1)
    return rounding.unit_by_error(value, error)


def _table(table: AnswerTable, answer: AnalysisAnswer, rules: Rules) -> AnswerTable:
    """Columns of a table of groups by their names; of another table, by the table's name."""
    rows = (
        tuple(
            rounding.to_unit(value, unit) if value is not None and unit else value
            for value, unit in zip(row, units, strict=True)
        )
        for row, units in zip(table.values, _units(table, answer, rules), strict=True)
    )
    return replace(table, values=tuple(rows))


def _units(table: AnswerTable, answer: AnalysisAnswer, rules: Rules) -> Iterator[tuple[float, ...]]:
    """The unit of each number of a table; 0 for what is public, such as a time."""
    errors = _errors(table, answer)
    for place, row in enumerate(table.values):
        sizes = dict(zip(table.column_names, row, strict=True))
        own = sizes.get("nobs") or answer.n
        freedom = float(rules.checks.rounding) if table.row_names[place] == "Residual" else 0.0
        yield tuple(
            freedom
            if column == "df"
            else _unit_of_cell(table.name, column, value or 0.0, errors.get((place, column)), own, rules)
            for column, value in sizes.items()
        )


def _unit_of_cell(
    table: str, column: str, value: float, error: float | None, records: float, rules: Rules
) -> float:
    if error:
        return rounding.unit_by_error(value, error)
    if column == "time":
        return 0.0
    if column in {"std_mean", "std_err"}:
        return rounding.unit_by_digits(value, 2)
    table = base_name(table)
    if column == "survival":
        return _unit_of_number("accuracy", value, records, rules)
    name = column if column in _COUNTS | _PVALUES else table
    if name == table and table not in _COUNTS | _PVALUES and abs(value) <= 1:
        name = "accuracy"
    return _unit_of_number(name, value, records, rules)


def _errors(table: AnswerTable, answer: AnalysisAnswer) -> dict[tuple[int, str], float]:
    """Standard errors of numbers that may be near 0 though they are not small, by row and column."""
    if "std_mean" in table.column_names:
        place = table.column_names.index("std_mean")
        return {
            (number, name): float(row[place] or 0.0)
            for number, row in enumerate(table.values)
            for name in _BY_MEAN
        }
    if table.column_names == ("mean", "std"):
        return {
            (number, "mean"): float(row[1] or 0.0) / sqrt(max(answer.n, 1.0))
            for number, row in enumerate(table.values)
        }
    if "eigenvalue" in table.column_names:
        # By their average size: small eigenvalues are as coarse as large ones.
        values = [row[0] or 0.0 for row in table.values]
        ratios = [row[1] or 0.0 for row in table.values]
        average = sum(values) / max(sum(ratios), 1e-9) / max(len(values), 1)
        return {
            (place, "eigenvalue"): sqrt(2 / max(answer.n, 2.0)) * max(value, average)
            for place, value in enumerate(values)
        }
    return _errors_of_classifier(table, answer) if answer.kind == Analysis.DISCRIMINANT else {}


def _errors_of_classifier(table: AnswerTable, answer: AnalysisAnswer) -> dict[tuple[int, str], float]:
    if table.name == "covariance":
        # Standard errors of covariances of normal numbers, which may be near 0.
        numbers = np.array(table.values, dtype=np.float64)
        products = np.outer(np.diag(numbers), np.diag(numbers))
        errors = np.sqrt((products + numbers**2) / max(answer.n, 1.0))
        return {
            (place, name): float(error)
            for place, row in enumerate(errors)
            for name, error in zip(table.column_names, row, strict=True)
        }
    if table.name not in {"means", "coef"}:
        return {}
    priors = [float(row[0] or 0.0) for row in answer.table("priors").values]
    if table.name == "coef":  # the constants of linear functions hold the log size of a class
        return {
            (place, table.column_names[0]): (1 + abs(row[0] or 0.0)) / sqrt(max(prior * answer.n, 1.0))
            for place, (row, prior) in enumerate(zip(table.values, priors, strict=True))
        }
    # Means of features in classes, from the variances inside the classes.
    within = answer.table("covariance")
    variances = {name: float(within.values[i][i] or 0.0) for i, name in enumerate(within.column_names)}
    return {
        (place, name): sqrt(variance / max(prior * answer.n, 1.0))
        for place, prior in enumerate(priors)
        for name, variance in variances.items()
    }


@dataclass(frozen=True, slots=True)
class Number:
    """A number of an answer before it is rounded.

    Args:
        name: Place of the number in the answer.
        unit: The released number is its nearest multiple.
    """

    name: tuple[str, ...]
    value: float
    unit: float


_DERIVED = {
    "aic", "bic", "scale", "rsquared", "rsquared_adj", "tvalue", "cohens_d", "prsquared",
    "eta_squared", "omega_squared",
}  # fmt: skip
_DERIVED_COLUMNS = {"var", "std_mean", "lower", "upper", "df", "F", "PR(>F)"}
_DERIVED_TABLES = {"lower", "upper", "pvalues"}


def numbers_of(answer: AnalysisAnswer, rules: Rules) -> Iterator[Number]:
    """The numbers that the released answer's others follow from; counts and what is public left out."""
    if answer.coefficients is not None:
        yield from _of_coefficients(answer.coefficients)
    for one in answer.scalars:
        least_squares = answer.kind == Analysis.LINEAR and one.name == "llf"
        is_own = not least_squares and base_name(one.name) not in _DERIVED | _COUNTS
        if one.value is not None and is_own:
            yield Number(("scalar", one.name), one.value, _unit(one, answer.n, rules))
    for table in answer.tables:
        if table.name == "anova":
            yield from _of_variances(table, answer.n)
        elif base_name(table.name) not in _COUNTS | _DERIVED_TABLES:
            units = _units(table, answer, rules)
            for names, row, own in zip(table.row_names, table.values, units, strict=True):
                for column, value, unit in zip(table.column_names, row, own, strict=True):
                    if value is not None and unit and column not in _DERIVED_COLUMNS | _COUNTS:
                        yield Number(("table", table.name, names, column), value, unit)


def _of_coefficients(one: Coefficients) -> Iterator[Number]:
    """Estimates, standard errors, and correlations of estimates, which are told to two decimals."""
    errors = one.bse
    for name, value, error in zip(one.names, one.params, map(float, errors), strict=True):
        yield Number(("params", name), value, rounding.unit_by_error(value, error))
        yield Number(("bse", name), error, rounding.unit_by_digits(error, 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        related = np.nan_to_num(np.array(one.covariance) / np.outer(errors, errors))
    for row, column in zip(*np.triu_indices(len(one.names), 1), strict=True):
        yield Number(("related", one.names[row], one.names[column]), float(related[row, column]), 0.01)


def _of_variances(table: AnswerTable, records: float) -> Iterator[Number]:
    """F ratios, and the residual sum of squares."""
    residual, degrees = (table.values[-1][place] or 0.0 for place in (0, 1))
    unit = rounding.unit_by_error(residual, rounding.error_of_size(residual, records))
    yield Number(("table", "anova", "Residual", "sum_sq"), residual, unit)
    for name, (_, freedom, f, _) in zip(table.row_names, table.values, strict=True):
        if f is not None and freedom:
            error = rounding.error_of_test(f, (freedom, degrees))
            yield Number(("table", "anova", name, "F"), f, rounding.unit_by_error(f, error))


def numbers_in(answer: AnalysisAnswer) -> int:
    """Count the numbers that an answer discloses: a covariance matrix has one for each pair of names."""
    names = 0 if answer.coefficients is None else len(answer.coefficients.names)
    values = (value for table in answer.tables for row in table.values for value in row)
    of_tables = sum(value is not None for value in values)
    of_scalars = sum(
        1 + (one.pvalue is not None) + (one.standard_error is not None) for one in answer.scalars
    )
    return 1 + names * (names + 3) // 2 + of_tables + of_scalars


ROUNDED_FIRST = {Analysis.CROSSTAB, Analysis.NAIVE_BAYES, Analysis.CORRESPONDENCE, Analysis.CHOW_LIU}
"""Kinds all of whose numbers are computed from counts that are rounded before.

They are judged by their cells, without influence: ``judgement.COUNTED`` builds on them.
"""

_NOTE = "all numbers are computed from counts that are rounded to multiples of {base}"

_MOST_TURNS = 20
"""Passes over the tables that narrow the intervals of rounded counts: each is a valid bound."""


def of_rounded_counts(
    question: CheckedQuestion, exact: AnalysisAnswer, margins: Margins, rules: Rules
) -> AnalysisAnswer:
    """The answer that the rounded tables of a question give; other kinds stay as they are.

    Expected counts, residuals, test statistics and ratios of exact counts would tell the counts that
    their rounding hides. As functions of the rounded counts they tell nothing more. A table inside
    another one is its sum, and so is the number of records. If the rounded counts have no answer, only
    they are left.
    """
    base = rules.checks.rounding
    if base <= 1 or question.kind not in ROUNDED_FIRST:
        return exact
    tables = _rounded_tables(question, margins, base)
    domain = margins.domain.covered_by(list(tables))
    psi = Psi(domain, tuple(Measurement(clique, table) for clique, table in tables.items()))
    own = PsiMargins(psi)
    try:
        answer = answered(question, own)
    except GencardError:
        counts = tuple(one for one in exact.tables if base_name(one.name) in _COUNTS)
        answer = AnalysisAnswer(exact.kind, exact.formula, records_of(own), tables=counts)
    notes = (*answer.notes, _NOTE.format(base=base))
    return replace(answer, rests_on=exact.rests_on, notes=notes)


def _rounded_tables(question: CheckedQuestion, margins: Margins, base: int) -> dict[Clique, FloatArray]:
    """The widest tables that a question needs."""
    return {
        clique: rounding.counts(margins.counts(clique), base) for clique in maximal(question.cliques)
    }


def undoes_rounding(question: CheckedQuestion, margins: Margins, rules: Rules) -> bool:
    """Whether several rounded tables leave fewer than three values to a count.

    Tables that share attributes have the same sums over the others. A count that is rounded up in one
    table may only be so if others are; with few cells that leaves few values, or one.
    """
    base = rules.checks.rounding
    if base <= 1 or question.kind not in ROUNDED_FIRST:
        return False
    tables = _rounded_tables(question, margins, base)
    least = {
        clique: np.where(table > 0, np.maximum(np.ceil(table - base / 2), rules.checks.threshold), 0)
        for clique, table in tables.items()
    }
    most = {
        clique: np.where(table > 0, np.floor(table + base / 2), 0) for clique, table in tables.items()
    }
    before = {clique: most[clique] - least[clique] for clique in tables}
    for _ in range(_MOST_TURNS):
        for one, other in permutations(tables, 2):
            _narrow(one, other, least, most)
    return any(
        bool(np.any(most[clique] - least[clique] < np.minimum(before[clique], 2))) for clique in tables
    )


def _narrow(
    one: Clique, other: Clique, least: dict[Clique, FloatArray], most: dict[Clique, FloatArray]
) -> None:
    """Narrow the intervals of the cells of one table by the sums of another one."""
    shared = tuple(name for name in one if name in other)
    away = tuple(axis for axis, name in enumerate(one) if name not in shared)
    low, high = (np.expand_dims(project(bounds[other], other, shared), away) for bounds in (least, most))
    lower, upper = least[one], most[one]
    # A cell is at least the least sum less the most that all others can have, and at most the reverse
    # (shuttle algorithm of L. Buzzigoli and A. Giusti).
    least[one] = np.maximum(lower, low - (upper.sum(axis=away, keepdims=True) - upper))
    most[one] = np.minimum(upper, high - (lower.sum(axis=away, keepdims=True) - lower))


# By how much each number of an answer changes with the count of each cell.
#
# An answer is a function of the tables of a few cliques, so its derivative by the count of a cell is a
# sum of functions, one for each clique. Such a sum is known in all cells from its values at a cell c and
# at those that differ from c in the attributes of one clique:
#
# .. math:: g(x) = \sum_T m(T)\, g(c \text{ with } x_T), \quad
#    m(T) = \sum_{S \supseteq T} (-1)^{|S| - |T|}
#
# over the subsets T and S of the cliques. Each value is a difference of two answers.


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
    needed = answers_needed(question, question.cliques)
    check_size(needed, MOST_ANSWERS, "The number of cells of the analysis")
    attributes = question.formula.attributes
    cells = margins.occupied(attributes)
    domain = margins.domain.project(attributes)
    base = plain_answer(question, RecordMargins.of(Dataset(domain, cells.codes), cells.counts))
    numbers = [one for one in _numbers(question, base, rules) if np.isfinite(one.value)]
    centre = cells.codes[np.argmax(cells.counts)]

    def slope(codes: IntArray) -> FloatArray:
        dataset = Dataset(domain, np.vstack([cells.codes, codes]))
        more = RecordMargins.of(dataset, np.append(cells.counts, _RECORD))
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
