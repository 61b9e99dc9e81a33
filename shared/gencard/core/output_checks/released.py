"""An answer as it leaves: every number rounded to what its standard error earns."""

from dataclasses import replace
from itertools import permutations

import numpy as np

from gencard.core.answers.answer import Answer, Coefficients, Scalar, Table
from gencard.core.answers.design import Question
from gencard.core.answers.kinds import answered
from gencard.core.answers.margins import Margins, PsiMargins, records_of
from gencard.core.domain import Clique
from gencard.core.errors import GencardError
from gencard.core.output_checks import rounding
from gencard.core.output_checks.models import coarse
from gencard.core.output_checks.rules import Rules
from gencard.core.statistics.formula import Analysis
from gencard.core.statistics.marginals import maximal, project
from gencard.core.statistics.psi import Measurement, Psi
from gencard.core.types import FloatArray

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

_FEW = 100
"""Degrees of freedom up to which they are those of a model, not of the records."""


def released(answer: Answer, rules: Rules) -> Answer:
    """The answer with rounded numbers.

    Counts become multiples of the rounding base. Coefficients are rounded to two digits of their
    standard errors, and so are scalars and means that have one. Other numbers are rounded as if their
    standard error were their size over the square root of the number of records, or half of one over it
    where they are bounded. Notes stay: they name levels, never records.
    """
    if answer.kind == Analysis.KAPLAN_MEIER:
        answer = coarse(answer, rules)
    return replace(
        answer,
        n=_count(answer.n, rules),
        coefficients=None if answer.coefficients is None else _coefficients(answer.coefficients, rules),
        scalars=tuple(_scalar(one, answer.n, rules) for one in answer.scalars),
        tables=tuple(_table(one, answer.n, rules) for one in answer.tables),
    )


def _count(number: float, rules: Rules) -> float:
    return float(rounding.counts(np.array([number]), rules.checks.rounding)[0])


def _coefficients(one: Coefficients, rules: Rules) -> Coefficients:
    params = tuple(map(rounding.to_error, one.params, map(float, one.bse)))
    covariance = rounding.covariance(np.reshape(one.covariance, (len(one.names),) * 2))
    degrees = None if one.degrees is None else _count(one.degrees, rules)
    return replace(
        one,
        params=params,
        covariance=tuple(tuple(map(float, row)) for row in covariance),
        degrees=degrees,
    )


def _scalar(one: Scalar, records: float, rules: Rules) -> Scalar:
    value, error = one.value, one.standard_error
    if value is not None:
        value = _number(one.name, value, error, records, rules)
    return replace(
        one,
        value=value,
        standard_error=None if error is None else rounding.to_digits(error, 2),
        degrees=tuple(_count(degree, rules) if degree > _FEW else degree for degree in one.degrees),
        pvalue=None if one.pvalue is None else rounding.of_probability(one.pvalue),
    )


def _number(name: str, value: float, error: float | None, records: float, rules: Rules) -> float:
    if error is not None:
        return rounding.to_error(value, error)
    name = _kind_of_number(name)
    if name in _COUNTS:
        return _count(value, rules)
    if name in _PVALUES:
        return rounding.of_probability(value)
    return (
        rounding.of_share(value, records, rules.checks.rounding)
        if name in _SHARES
        else rounding.of_size(value, records)
    )


def _kind_of_number(name: str) -> str:
    """The name without what tells several apart: "counts" of "counts[sex × edu]"."""
    return name.partition("[")[0]


def _table(table: Table, records: float, rules: Rules) -> Table:
    """Columns of a table of groups by their names; of another table, by the table's name."""
    errors = _errors(table)
    rows = []
    for row, error in zip(table.values, errors, strict=True):
        sizes = dict(zip(table.column_names, row, strict=True))
        own = sizes.get("nobs") or records
        rows.append(
            tuple(
                None if value is None else _cell(table.name, column, value, error, own, rules)
                for column, value in sizes.items()
            )
        )
    return replace(table, values=tuple(rows))


def _cell(
    table: str, column: str, value: float, error: float | None, records: float, rules: Rules
) -> float:
    if column in _BY_MEAN and error:
        return rounding.to_error(value, error)
    if column == "time":
        return value
    if column == "survival":
        return rounding.of_share(value, records, rules.checks.rounding)
    if column in {"std_mean", "std_err"}:
        return rounding.to_digits(value, 2)
    table = _kind_of_number(table)
    name = column if column in _COUNTS | _PVALUES else table
    if name == table and table not in _COUNTS | _PVALUES and abs(value) <= 1:
        return rounding.of_share(value, records, rules.checks.rounding)
    return _number(name, value, None, records, rules)


def _errors(table: Table) -> list[float | None]:
    """The standard error of the mean of each row of a table of groups."""
    if "std_mean" not in table.column_names:
        return [None] * len(table.values)
    place = table.column_names.index("std_mean")
    return [row[place] for row in table.values]


def numbers_in(answer: Answer) -> int:
    """How many numbers an answer tells: a covariance matrix counts once for each pair of names."""
    coefficients = answer.coefficients
    of_model = (
        0 if coefficients is None else len(coefficients.names) * (len(coefficients.names) + 3) // 2
    )
    of_tables = sum(
        value is not None for table in answer.tables for row in table.values for value in row
    )
    of_scalars = sum(
        1 + (one.pvalue is not None) + (one.standard_error is not None) for one in answer.scalars
    )
    return 1 + of_model + of_tables + of_scalars


ROUNDED_FIRST = {
    Analysis.CROSSTAB,
    Analysis.NAIVE_BAYES,
    Analysis.CORRESPONDENCE,
    Analysis.CHOW_LIU,
}
"""Kinds all of whose numbers are computed from counts that are rounded before."""

_NOTE = "all numbers are computed from counts that are rounded to multiples of {base}"

_MOST_TURNS = 20
"""Passes over the tables that narrow the intervals of rounded counts: each is a valid bound."""


def of_rounded_counts(question: Question, exact: Answer, margins: Margins, rules: Rules) -> Answer:
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
    own = PsiMargins.of(psi)
    try:
        answer = answered(question, own)
    except GencardError:
        counts = (one for one in exact.tables if _kind_of_number(one.name) in _COUNTS)
        answer = Answer(exact.kind, exact.formula, records_of(own), tables=tuple(counts))
    notes = (*answer.notes, _NOTE.format(base=base))
    return replace(answer, rests_on=exact.rests_on, notes=notes)


def _rounded_tables(question: Question, margins: Margins, base: int) -> dict[Clique, FloatArray]:
    """The widest tables that a question needs."""
    return {
        clique: rounding.counts(margins.counts(clique), base) for clique in maximal(question.cliques)
    }


def undoes_rounding(question: Question, margins: Margins, rules: Rules) -> bool:
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
    least[one] = np.maximum(lower, low - (upper.sum(axis=away, keepdims=True) - upper))
    most[one] = np.minimum(upper, high - (lower.sum(axis=away, keepdims=True) - lower))
