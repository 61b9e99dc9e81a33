"""The answer to an analysis, the same from psi, from a checked run and from a reviewed one.

Each of its numbers is named here with the way in which the noise of psi enters it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import compress
from math import exp, log
from typing import NamedTuple

import numpy as np
import scipy

from gencard.core.domain import Clique
from gencard.core.json_codecs import Json, written
from gencard.core.statistics.formula import Analysis
from gencard.core.typed_json import PLAIN
from gencard.core.types import FloatArray

EXACT = "exact"
"""Value of ``noise`` for an answer or number without noise."""

NOISE = "noise"
"""The table of what noise adds to standard errors, and of its spread in numbers without an interval."""


@dataclass(frozen=True, slots=True)
class Coefficients:
    """Estimates of a model, under the names of statsmodels.

    Args:
        names: One for each coefficient, such as ``C(sex)[T.male]``.
        covariance: Covariance of the estimates, one row for each; includes the noise of psi, if any.
        statistic: "t" or "z".
        degrees: Residual degrees of freedom; None for z.

    >>> Coefficients(("x",), (1.96,), ((1.0,),)).pvalues.round(3).tolist()
    [0.05]
    """

    names: tuple[str, ...]
    params: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    statistic: str = "z"
    degrees: float | None = None

    @property
    def bse(self) -> FloatArray:
        """Standard errors."""
        return np.sqrt(np.diag(np.reshape(self.covariance, (len(self.names),) * 2)))

    @property
    def tvalues(self) -> FloatArray:
        """Estimates in units of their standard errors: t or z, as ``statistic`` says."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios: FloatArray = np.asarray(self.params) / self.bse
        return ratios

    @property
    def pvalues(self) -> FloatArray:
        """Two-sided p-values, by the normal or Student's distribution."""
        below = -np.abs(self.tvalues)
        if self.degrees is None:
            share = scipy.special.ndtr(below)
        else:
            share = scipy.special.stdtr(self.degrees, below)
        return np.asarray(2 * np.asarray(share, dtype=np.float64))

    def conf_int(self, alpha: float = 0.05) -> FloatArray:
        """Lower and upper ends of the 1 - ``alpha`` intervals, shape ``(coefficients, 2)``."""
        if alpha == 0:
            reach = np.inf
        elif self.degrees is None:
            reach = -float(scipy.special.ndtri(alpha / 2))
        else:
            reach = -float(scipy.special.stdtrit(self.degrees, alpha / 2))
        half = reach * self.bse
        return np.stack([np.asarray(self.params) - half, np.asarray(self.params) + half], axis=1)


@dataclass(frozen=True, slots=True)
class Scalar:
    """One number of an answer.

    Args:
        name: Name as in statsmodels or in statistics: llf, deviance, rsquared, chi2, cramers_v.
        value: The number; None if the records do not define it.
        standard_error: Standard error; None if the number has none.
        degrees: Degrees of freedom of a test: one number, or those of numerator and denominator.
        pvalue: P value, if the number is the statistic of a test.
    """

    name: str
    value: float | None
    standard_error: float | None = None
    degrees: tuple[float, ...] = ()
    pvalue: float | None = None


@dataclass(frozen=True, slots=True)
class AnswerTable:
    """A table of numbers; None where the records do not define one."""

    name: str
    row_names: tuple[str, ...]
    column_names: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True, slots=True)
class AnalysisAnswer:
    """Answer to an analysis.

    Args:
        kind: The analysis, such as "logistic".
        formula: Formula of the question, as it was read.
        n: Number of records that the answer is about.
        coefficients: Coefficients of the model; None if the answer has no model.
        rests_on: The measured marginals that were used.
        noise: "exact", or which noise the measurements have.
        notes: Notes for the reader, each a sentence.
        sums: The sums of numbers that were used, in words.
    """

    kind: str
    formula: str
    n: float
    coefficients: Coefficients | None = None
    scalars: tuple[Scalar, ...] = ()
    tables: tuple[AnswerTable, ...] = ()
    rests_on: tuple[Clique, ...] = ()
    noise: str = EXACT
    notes: tuple[str, ...] = ()
    sums: tuple[str, ...] = field(default=(), metadata=written(omit=True))

    def __getitem__(self, name: str) -> float | None:
        """The value of a scalar, such as ``answer["llf"]``.

        Raises:
            KeyError: There is none of this name.
        """
        return self.scalar(name).value

    def scalar(self, name: str) -> Scalar:
        """Raises KeyError where there is none of this name."""
        for scalar in self.scalars:
            if scalar.name == name:
                return scalar
        raise KeyError(name)

    def table(self, name: str) -> AnswerTable:
        """Raises KeyError where there is none of this name."""
        for table in self.tables:
            if table.name == name:
                return table
        raise KeyError(name)

    def to_json(self) -> Json:
        """The one form of documents, bundles and signed answers."""
        json: Json = _ANSWER.write(self)
        return json

    @classmethod
    def of_json(cls, json: object) -> "AnalysisAnswer":
        """The inverse of ``to_json``; raises InvalidInputError where the form is another one."""
        answer: AnalysisAnswer = _ANSWER.read(json, "answer")
        return answer


_ANSWER = PLAIN.codec(AnalysisAnswer)


def numbers_in_json(answer: object) -> int:
    """Count the numbers that a JSON value holds, at any depth; of a covariance matrix each pair once."""
    if isinstance(answer, dict):
        whole = sum(map(numbers_in_json, answer.values()))
        size = len(answer.get("covariance", ()))
        return whole - size * (size - 1) // 2
    if isinstance(answer, list):
        return sum(map(numbers_in_json, answer))
    return int(isinstance(answer, int | float) and not isinstance(answer, bool))


def finite(value: float) -> float | None:
    """A number that JSON can hold; None for what is not defined."""
    return float(value) if np.isfinite(value) else None


def table_of(
    name: str, rows: tuple[str, ...], columns: tuple[str, ...], values: FloatArray
) -> AnswerTable:
    """A table of an array of shape ``(rows, columns)``; NaN is not defined."""
    return AnswerTable(name, rows, columns, tuple(tuple(map(finite, row)) for row in values))


def coefficients_of(
    names: tuple[str, ...], params: FloatArray, covariance: FloatArray, degrees: float | None = None
) -> Coefficients:
    """Coefficients of arrays; t where degrees of freedom are given, else z."""
    rows = tuple(tuple(map(float, row)) for row in covariance)
    statistic = "z" if degrees is None else "t"
    return Coefficients(names, tuple(map(float, params)), rows, statistic, degrees)


# Every number of an answer, by kind: how the noise of psi enters it, or that it is left out.
#
# A number that no rule names is left out of answers from noisy psi. So a new number has to be judged
# here before noisy psi gives it.


COEFFICIENTS, SCALARS = "coefficients", "scalars"
"""Places of numbers that are in no table."""

RECORDS = "n"
"""Place of the number of records."""


class Use(StrEnum):
    """Way in which the noise of psi enters a number."""

    INTERVAL = "interval"
    """The standard error, interval or p value of the number includes the noise."""

    SPREAD = "spread"
    """The number has no interval, even from records; a table has the standard deviation of its noise."""

    GIVEN = "given"
    """The number follows from the question and the schema."""

    LEFT_OUT = "left out"


class Address(NamedTuple):
    """Place of a number: in a table, or among scalars or coefficients."""

    place: str
    row: str
    column: str


@dataclass(frozen=True, slots=True)
class SymmetricScale:
    """A function on which an interval is symmetric, and its inverse."""

    there: Callable[[float], float]
    back: Callable[[float], float]


IDENTITY = SymmetricScale(float, float)
LOG = SymmetricScale(log, exp)
CORRELATION = SymmetricScale(float, lambda value: min(1.0, max(-1.0, value)))
"""Noise in a correlation is symmetric about it, not about Fisher's transform of it."""

Beside = tuple[str, str]
"""A number that belongs to another one: its place and column; "" for those of the other one."""


@dataclass(frozen=True, slots=True)
class NoiseRule:
    """Rule for some numbers: the way in which noise enters them, and the numbers that say so.

    Args:
        place: A table, or ``SCALARS``; names in brackets after it do not count.
        columns: Columns of the table, or names of scalars; all where there are none.
        scale: Scale on which errors and bounds are symmetric.
        pvalue: P value of the test that the number is 0 on its scale.
        size: Column with the records that the row rests on.
    """

    place: str
    columns: tuple[str, ...] = ()
    use: Use = Use.SPREAD
    scale: SymmetricScale = IDENTITY
    error: Beside | None = None
    bounds: tuple[Beside, Beside] | None = None
    pvalue: Beside | None = None
    size: str = ""

    def beside(self, address: Address, other: Beside) -> Address:
        """The address of a number that belongs to the one at an address."""
        place, column = other
        brackets = address.place[len(self.place) :]
        return Address(
            place + brackets if place else address.place, address.row, column or address.column
        )

    @property
    def others(self) -> tuple[Beside, ...]:
        """The numbers that belong to each number of the rule."""
        return tuple(one for one in (self.error, *(self.bounds or ()), self.pvalue) if one)


_BOUNDS = (("", "lower"), ("", "upper"))
_TABLES = (("lower", ""), ("upper", ""))
_ERROR, _PVALUE = ("", "standard_error"), ("", "pvalue")
_MEANS = (
    NoiseRule("means", ("mean",), Use.INTERVAL, error=("", "std_mean"), bounds=_BOUNDS, size="nobs"),
    NoiseRule("means", ("var", "std"), size="nobs"),
    NoiseRule("means", ("nobs",)),
)

RULES: Mapping[Analysis, tuple[NoiseRule, ...]] = {
    Analysis.LINEAR: (),
    Analysis.LOGISTIC: (),
    Analysis.MULTINOMIAL: (),
    Analysis.ORDINAL: (),
    Analysis.POISSON: (),
    Analysis.LOGLINEAR: (NoiseRule(SCALARS, ("df_resid",), Use.GIVEN),),
    Analysis.CROSSTAB: (
        NoiseRule("shares", ("share",), Use.INTERVAL, bounds=_BOUNDS),
        NoiseRule("shares", ("nobs",)),
        NoiseRule("counts"),
        NoiseRule("row shares"),
        NoiseRule("column shares"),
        NoiseRule("ratios", ("estimate",), Use.INTERVAL, LOG, bounds=_BOUNDS),
        # The interval of a ratio is in the table "ratios", or that of its logarithm.
        NoiseRule(SCALARS, ("oddsratio", "riskratio", "oddsratio_pooled"), Use.INTERVAL, LOG),
        NoiseRule(
            SCALARS, ("log_oddsratio", "log_riskratio"), Use.INTERVAL, error=_ERROR, pvalue=_PVALUE
        ),
    ),
    Analysis.MEANS: _MEANS,
    Analysis.QUANTILES: (NoiseRule("cumulative shares"),),
    Analysis.TTEST: (*_MEANS, NoiseRule(SCALARS, ("cohens_d", "auc"))),
    Analysis.ANOVA: _MEANS,
    Analysis.CORRELATION: (
        NoiseRule("correlation", (), Use.INTERVAL, CORRELATION, bounds=_TABLES, pvalue=("pvalues", "")),
        NoiseRule("nobs"),
        # The interval of the only pair is in the tables.
        NoiseRule(
            SCALARS, ("pearsonr", "spearmanr", "kendalltau"), Use.INTERVAL, CORRELATION, pvalue=_PVALUE
        ),
    ),
    Analysis.POLYCHORIC: (
        NoiseRule("correlation", (), Use.INTERVAL, error=("standard errors", "")),
        NoiseRule("nobs"),
        NoiseRule(SCALARS, ("rho",), Use.INTERVAL, error=_ERROR),
    ),
    Analysis.COMPONENTS: tuple(
        map(NoiseRule, ("explained_variance", "components", "loadings", "attributes"))
    ),
    Analysis.CORRESPONDENCE: tuple(
        map(NoiseRule, ("inertias", "coordinates", "contributions", "masses"))
    ),
    Analysis.NAIVE_BAYES: (
        NoiseRule("probabilities"),
        NoiseRule("class_prior"),
        NoiseRule("features", ("mutual_information",)),
    ),
    Analysis.CHOW_LIU: (NoiseRule("probabilities"), NoiseRule("edges"), NoiseRule("mutual_information")),
    Analysis.DISCRIMINANT: (
        *map(NoiseRule, ("priors", "means", "covariance", "coef", "scalings")),
        *map(NoiseRule, ("explained_variance_ratio", "distances")),
        NoiseRule(SCALARS, ("normal_error",)),
    ),
    Analysis.KAPLAN_MEIER: (
        NoiseRule("survival", ("survival",), Use.INTERVAL, error=("", "std_err"), size="at_risk"),
        NoiseRule("survival", ("at_risk", "events")),
        NoiseRule("survival", ("time",), Use.GIVEN),
    ),
    Analysis.COX: (NoiseRule(SCALARS, ("nevents",)),),
}
"""Coefficients have no rule: all kinds give them with the noise in their covariance."""

_OF_ITSELF = ("correlation", "distances")
"""Square tables whose diagonal is 1 or 0 whatever the records are."""

MADE_AGAIN: Mapping[Analysis, tuple[tuple[str, str], ...]] = {
    Analysis.TTEST: ((SCALARS, "tvalue"),),
    Analysis.ANOVA: (("anova", "df"), ("anova", "F"), ("anova", "PR(>F)")),
}
"""Tests that are made again, from estimates and their covariance with the noise."""


def rule_of(kind: Analysis, address: Address) -> NoiseRule | None:
    """The rule that names a number itself; None for numbers that belong to another one, or to none."""
    if (address.place, address.row) in {(place, address.column) for place in _OF_ITSELF}:
        return NoiseRule(address.place, use=Use.GIVEN)
    name = base_name(address.row) if address.place == SCALARS else address.column
    if address.place == SCALARS and address.column != "value":
        return None
    for rule in RULES[kind]:
        if rule.place == base_name(address.place) and (not rule.columns or name in rule.columns):
            return rule
    return None


def use_of(kind: Analysis, address: Address) -> Use:
    """Judge any number of an answer: the way in which the noise enters it.

    >>> use_of(Analysis.MEANS, Address("means", "f", "std_mean")), use_of(
    ...     Analysis.LINEAR, Address(SCALARS, "rsquared", "value")
    ... )
    (<Use.INTERVAL: 'interval'>, <Use.LEFT_OUT: 'left out'>)
    """
    if address.place in {COEFFICIENTS, RECORDS}:
        return Use.INTERVAL if address.place == COEFFICIENTS else Use.SPREAD
    if rule := rule_of(kind, address):
        return rule.use
    place, name = base_name(address.place), address.column
    if place == SCALARS:
        names = [one for rule in RULES[kind] if rule.place == SCALARS for one in rule.columns]
        others = [other for rule in RULES[kind] if rule.place == SCALARS for other in rule.others]
        again = (SCALARS, base_name(address.row)) in MADE_AGAIN.get(kind, ())
        beside = base_name(address.row) in names and ("", name) in others
        return Use.INTERVAL if again or beside else Use.LEFT_OUT
    for rule in RULES[kind]:
        for other_place, column in rule.others:
            if place == (other_place or rule.place) and name == (column or name):
                return Use.INTERVAL
    return Use.INTERVAL if (place, name) in MADE_AGAIN.get(kind, ()) else Use.LEFT_OUT


def base_name(name: str) -> str:
    """The name without what tells several apart: "counts" of "counts[sex × edu]"."""
    return name.partition("[")[0]


Numbers = dict[Address, float | None]


def numbers_of(answer: AnalysisAnswer) -> Numbers:
    """Every number of an answer; degrees of freedom belong to tests, covariances to coefficients."""
    numbers: Numbers = {Address(RECORDS, "", ""): answer.n}
    if answer.coefficients is not None:
        names, params = answer.coefficients.names, answer.coefficients.params
        numbers |= {
            Address(COEFFICIENTS, name, ""): param for name, param in zip(names, params, strict=True)
        }
    for scalar in answer.scalars:
        for column in ("value", "standard_error", "pvalue"):
            numbers[Address(SCALARS, scalar.name, column)] = getattr(scalar, column)
    for table in answer.tables:
        for row, values in zip(table.row_names, table.values, strict=True):
            for column, value in zip(table.column_names, values, strict=True):
                numbers[Address(table.name, row, column)] = value
    return numbers


def without_errors(answer: AnalysisAnswer) -> AnalysisAnswer:
    """The answer without standard errors, bounds and p values, which follow from other numbers."""
    others = {(rule.place, other) for rules in RULES.values() for rule in rules for other in rule.others}
    beside = {(place or own, column) for own, (place, column) in others}
    beside |= {(SCALARS, "standard_error"), (SCALARS, "pvalue")}
    kept = {
        at: value
        for at, value in numbers_of(answer).items()
        if at.column not in {"pvalue", "PR(>F)"}
        and not beside.intersection({(base_name(at.place), at.column), (base_name(at.place), "")})
    }
    return rebuilt(answer, kept)


def rebuilt(answer: AnalysisAnswer, numbers: Numbers) -> AnalysisAnswer:
    """The answer with some of its numbers changed; scalars, columns and tables left empty are gone."""
    scalars = []
    for one in answer.scalars:
        value, error, pvalue = (
            numbers.get(Address(SCALARS, one.name, column))
            for column in ("value", "standard_error", "pvalue")
        )
        degrees = () if pvalue is None else one.degrees
        if value is not None:
            scalars.append(
                replace(one, value=value, standard_error=error, pvalue=pvalue, degrees=degrees)
            )
    tables = []
    for table in answer.tables:
        rows = [
            [numbers.get(Address(table.name, row, column)) for column in table.column_names]
            for row in table.row_names
        ]
        some = [any(row[place] is not None for row in rows) for place in range(len(table.column_names))]
        if any(some):
            columns = tuple(compress(table.column_names, some))
            values = tuple(tuple(compress(row, some)) for row in rows)
            tables.append(replace(table, column_names=columns, values=values))
    return replace(answer, scalars=tuple(scalars), tables=tuple(tables))


def names_of(addresses: Iterable[Address]) -> tuple[str, ...]:
    """Names of numbers for people, each once: of scalars, and of tables."""
    names = (base_name(one.row if one.place == SCALARS else one.place) for one in addresses)
    return tuple(dict.fromkeys(names))
