"""Every number of an answer, by kind: how the noise of psi enters it, or that it is left out.

A number that no rule names is left out of answers from noisy psi. So a new number has to be judged here
before noisy psi gives it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import compress
from math import exp, log
from typing import NamedTuple

from gencard.analysis.answers.answer import AnalysisAnswer
from gencard.core.statistics.formula import Analysis

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
        error: The standard error.
        bounds: The ends of the interval.
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
            SCALARS,
            ("log_oddsratio", "log_riskratio"),
            Use.INTERVAL,
            error=("", "standard_error"),
            pvalue=("", "pvalue"),
        ),
    ),
    Analysis.MEANS: _MEANS,
    Analysis.QUANTILES: (NoiseRule("cumulative shares"),),
    Analysis.TTEST: (*_MEANS, NoiseRule(SCALARS, ("cohens_d", "auc"))),
    Analysis.ANOVA: _MEANS,
    Analysis.CORRELATION: (
        NoiseRule(
            "correlation",
            (),
            Use.INTERVAL,
            CORRELATION,
            bounds=(("lower", ""), ("upper", "")),
            pvalue=("pvalues", ""),
        ),
        NoiseRule("nobs"),
        # The interval of the only pair is in the tables.
        NoiseRule(
            SCALARS,
            ("pearsonr", "spearmanr", "kendalltau"),
            Use.INTERVAL,
            CORRELATION,
            pvalue=("", "pvalue"),
        ),
    ),
    Analysis.POLYCHORIC: (
        NoiseRule("correlation", (), Use.INTERVAL, error=("standard errors", "")),
        NoiseRule("nobs"),
        NoiseRule(SCALARS, ("rho",), Use.INTERVAL, error=("", "standard_error")),
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
    name = _base(address.row) if address.place == SCALARS else address.column
    if address.place == SCALARS and address.column != "value":
        return None
    for rule in RULES[kind]:
        if rule.place == _base(address.place) and (not rule.columns or name in rule.columns):
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
    place, name = _base(address.place), address.column
    if place == SCALARS:
        names = [one for rule in RULES[kind] if rule.place == SCALARS for one in rule.columns]
        others = [other for rule in RULES[kind] if rule.place == SCALARS for other in rule.others]
        again = (SCALARS, _base(address.row)) in MADE_AGAIN.get(kind, ())
        beside = _base(address.row) in names and ("", name) in others
        return Use.INTERVAL if again or beside else Use.LEFT_OUT
    for rule in RULES[kind]:
        for other_place, column in rule.others:
            if place == (other_place or rule.place) and name == (column or name):
                return Use.INTERVAL
    return Use.INTERVAL if (place, name) in MADE_AGAIN.get(kind, ()) else Use.LEFT_OUT


def _base(name: str) -> str:
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


_P_VALUES = frozenset({"pvalue", "PR(>F)"})


def without_errors(answer: AnalysisAnswer) -> AnalysisAnswer:
    """The answer without standard errors, bounds and p values, which follow from other numbers."""
    others = {(rule.place, other) for rules in RULES.values() for rule in rules for other in rule.others}
    beside = {(place or own, column) for own, (place, column) in others} | {
        (SCALARS, "standard_error"),
        (SCALARS, "pvalue"),
    }
    kept = {
        at: value
        for at, value in numbers_of(answer).items()
        if at.column not in _P_VALUES
        and not beside.intersection({(_base(at.place), at.column), (_base(at.place), "")})
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
    names = (_base(one.row if one.place == SCALARS else one.place) for one in addresses)
    return tuple(dict.fromkeys(names))
