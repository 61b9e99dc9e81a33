"""Numbers of an answer that follow from others, computed from these after they are rounded.

An analyst chooses the level of an interval (``alpha``) and the value that a t test is about. Each choice
is another function of the same estimate: if every end were rounded by itself, many choices would tell
the estimate to any digit, and degrees of freedom or a p-value the number of records. So intervals, test
statistics and p-values come from the rounded estimate, standard error and number of records.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import atanh, isfinite, log, nan, pi, sqrt, tanh

from scipy import special

from gencard.analysis.answers.answer import AnalysisAnswer, AnswerTable, Scalar, finite
from gencard.analysis.answers.correlations import correlation_pvalue
from gencard.analysis.output_checks import rounding
from gencard.core.statistics.formula import Analysis

LIKELIHOODS = {"llf", "llnull", "aic", "bic"}
"""Sums over all records of numbers that one record may change by several units."""

_STEP_OF_Z = 0.1
"""Unit of a normal deviate, whose standard error is 1, to two digits of it."""

_DIGITS = 10
"""Digits of what is read back from exact numbers, so that no rounding error of these stays in it."""


def is_count(one: Scalar, place: int) -> bool:
    """Whether degrees of freedom follow from a number of records, and not from numbers of levels."""
    return place > 0 or one.name == "tvalue"


def derived(exact: AnalysisAnswer, rounded: AnalysisAnswer) -> AnalysisAnswer:
    """The rounded answer, with what follows from its numbers computed from these and ``exact`` ones."""
    pairs = zip(exact.tables, rounded.tables, strict=True)
    tables = tuple(_table(*pair, exact, rounded) for pair in pairs)
    rounded = replace(rounded, tables=tables)
    before = {one.name: one for one in exact.scalars}
    values: dict[str, Scalar] = {}
    for one in rounded.scalars:
        exactly, values[one.name] = before[one.name], one
        if exactly.pvalue is not None and not exactly.degrees:  # of a normal deviate alone
            values[one.name] = replace(one, pvalue=_by_deviate(exactly.pvalue, 1.0))
    for name, value in _following(before, values, exact, rounded):
        if name in values:
            values[name] = replace(values[name], value=finite(value))
    scalars = {name: _with_pvalue(before[name], one, rounded) for name, one in values.items()}
    return replace(rounded, scalars=tuple(scalars.values()))


def _following(
    before: Mapping[str, Scalar],
    values: Mapping[str, Scalar],
    exact: AnalysisAnswer,
    rounded: AnalysisAnswer,
) -> Iterator[tuple[str, float]]:
    """Names and values of scalars, in an order in which each follows from earlier ones."""
    if rounded.kind == Analysis.LINEAR:
        one, n = rounded.coefficients, max(rounded.n, 1.0)
        squares, share = (_or_nan(values[name].value) for name in ("ssr", "rsquared"))
        if one is None or one.degrees is None:
            return
        model = 0.0
        if "fvalue" in values:
            model = values["fvalue"].degrees[0]
            _, (_, share), *_ = _of_variances(values["fvalue"], n)
            yield "rsquared", share
        yield "scale", rounding.to_digits(squares / one.degrees, 4)
        # not by n - 1: n and the degrees are rounded each by itself, and may then be the same number
        yield "rsquared_adj", rounding.to_digits(1 - (1 + model / one.degrees) * (1 - share), 4)
        if squares > 0:
            llf = -n / 2 * (log(2 * pi) + log(squares / n) + 1)
            llf = rounding.to_error(llf, 10 * rounding.error_of_size(llf, n))
            yield "llf", llf
            yield "aic", 2 * len(one.names) - 2 * llf
            yield "bic", rounding.to_digits(log(n) * len(one.names) - 2 * llf, rounding.MOST_DIGITS)
    elif "llf" in values and "aic" in values:
        yield from _of_likelihood(before, values, rounded)
    elif rounded.kind == Analysis.ANOVA and "fvalue" in values:
        yield from _of_variances(values["fvalue"], rounded.n)
    elif rounded.kind == Analysis.TTEST and "tvalue" in values:
        yield from _of_means(before["tvalue"], exact, rounded)


def _of_likelihood(
    before: Mapping[str, Scalar], values: Mapping[str, Scalar], rounded: AnalysisAnswer
) -> Iterator[tuple[str, float]]:
    """AIC and BIC from the rounded log-likelihood; McFadden's share from the test against the null."""
    llf = values["llf"].value
    exact = [before[name].value for name in ("aic", "llf")]
    if llf is None or exact[0] is None or exact[1] is None:
        return
    parameters = round((exact[0] + 2 * exact[1]) / 2)
    yield "aic", 2 * parameters - 2 * llf
    bic = log(max(rounded.n, 1.0)) * parameters - 2 * llf
    yield "bic", rounding.to_digits(bic, rounding.MOST_DIGITS)
    null = values["llnull"].value if "llnull" in values else None
    if null and "llr" in values:
        yield "prsquared", rounding.to_digits(_or_nan(values["llr"].value) / (-2 * null), 3)


def _of_variances(one: Scalar, records: float) -> Iterator[tuple[str, float]]:
    """Sizes of the effect from the F ratio."""
    degrees, f = one.degrees, _or_nan(one.value)
    explained = f * degrees[0] / (f * degrees[0] + degrees[1])
    yield "eta_squared", rounding.to_digits(explained, 3)
    yield "rsquared", rounding.to_digits(explained, 3)
    above = degrees[0] * (f - 1)
    yield "omega_squared", rounding.to_digits(above / (above + max(records, 1.0)), 3)


def _or_nan(value: float | None) -> float:
    """A number to compute with: what follows from one that is not defined is not defined either."""
    return nan if value is None else value


def _of_means(
    before: Scalar, exact: AnalysisAnswer, rounded: AnalysisAnswer
) -> Iterator[tuple[str, float]]:
    """The t test of the value that the analyst chose, which the exact t and estimate give back."""
    if exact.coefficients is None or rounded.coefficients is None or before.value is None:
        return
    error, exact_error = float(rounded.coefficients.bse[0]), float(exact.coefficients.bse[0])
    tested = exact.coefficients.params[0] - before.value * exact_error
    size = abs(exact.coefficients.params[0]) + abs(before.value) * exact_error
    tested = round(tested / size, _DIGITS) * size if size else 0.0
    estimate = rounded.coefficients.params[0]
    yield "tvalue", round((estimate - tested) / error, 3) + 0.0 if error else nan
    rows = rounded.tables[0].values
    if len(rows) == 2:
        sizes, deviations = ([float(row[place] or 0.0) for row in rows] for place in (0, 3))
        squares = sum((n - 1) * one**2 for n, one in zip(sizes, deviations, strict=True))
        spread = sqrt(max(squares, 0.0) / max(sum(sizes) - 2, 1.0))
        yield "cohens_d", rounding.to_digits(estimate / spread, 3) if spread else nan


def _by_deviate(pvalue: float, moved: float) -> float:
    """The p-value of ``moved`` times the normal deviate of another one, to the unit of a deviate."""
    deviate = -float(special.ndtri(pvalue / 2)) * moved
    if not isfinite(deviate):
        return 0.0
    return rounding.of_probability(2 * float(special.ndtr(-round(deviate / _STEP_OF_Z) * _STEP_OF_Z)))


def _with_pvalue(before: Scalar, one: Scalar, rounded: AnalysisAnswer) -> Scalar:
    """The p-value of the rounded statistic."""
    value, degrees = one.value, one.degrees
    if before.pvalue is None or value is None:
        return one
    if rounded.kind == Analysis.CORRELATION:
        pvalue = rounded.table("pvalues").values[0][1]
    elif one.standard_error:
        pvalue = float(2 * special.ndtr(-abs(value) / one.standard_error))
    elif one.name == "tvalue":
        pvalue = float(2 * special.stdtr(degrees[0], -abs(value)))
    elif len(degrees) > 1:
        pvalue = float(special.fdtrc(degrees[0], degrees[1], max(value, 0.0)))
    elif degrees and degrees[0] > 0:
        pvalue = float(special.chdtrc(degrees[0], max(value, 0.0)))
    else:
        return one
    return replace(one, pvalue=None if pvalue is None else rounding.of_probability(pvalue))


def _table(
    before: AnswerTable, table: AnswerTable, exact: AnalysisAnswer, rounded: AnalysisAnswer
) -> AnswerTable:
    if "std_mean" in table.column_names:
        rows = zip(before.values, table.values, strict=True)
        columns = table.column_names
        return replace(table, values=tuple(_of_group(columns, *pair) for pair in rows))
    if table.name == "anova":
        return _of_squares(before, table)
    if rounded.kind == Analysis.CORRELATION and table.name in {"lower", "upper", "pvalues"}:
        return _of_pairs(table, exact, rounded)
    return table


_Row = tuple[float | None, ...]


def _of_group(columns: tuple[str, ...], before: _Row, row: _Row) -> _Row:
    """Variance, standard error and interval of a group from its rounded mean, spread and size."""
    exact, own = (dict(zip(columns, one, strict=True)) for one in (before, row))
    deviation, mean, size = own["std"], own["mean"], own["nobs"] or 0.0
    if deviation is None or mean is None or size <= 1:
        return tuple(None if name not in {"nobs", "mean", "std"} else own[name] for name in columns)
    error = rounding.to_digits(deviation / sqrt(size), 2)
    # Half of ``alpha``, read back from the interval of the exact mean.
    exact_mean, upper, exact_error = (exact[name] or 0.0 for name in ("mean", "upper", "std_mean"))
    share = 0.0
    if exact_error and exact["upper"] is not None:
        share = float(special.stdtr((exact["nobs"] or 2.0) - 1, -(upper - exact_mean) / exact_error))
        share = rounding.to_digits(share, _DIGITS)
    reach = -float(special.stdtrit(size - 1, share)) if share > 0 else nan
    half = reach * error if error else 0.0
    unit = rounding.unit_by_error(mean, error)
    own |= {"var": rounding.to_digits(deviation**2, 4), "std_mean": error}
    own |= {"lower": finite(mean - half), "upper": finite(mean + half)}
    return tuple(
        rounding.to_unit(value, unit) if name in {"lower", "upper"} and value is not None else value
        for name, value in own.items()
    )


def _of_squares(before: AnswerTable, table: AnswerTable) -> AnswerTable:
    """Sums of squares from rounded F ratios, and from the rounded residual one."""
    terms = before.values[:-1]
    residual = table.values[-1][0] or 0.0
    degrees = max(table.values[-1][1] or 0.0, 1.0)
    rows: list[_Row] = []
    for _, freedom, f, _ in terms:
        if f is None or not freedom:
            rows.append((None if freedom else 0.0, freedom, None, None))
            continue
        ratio = rounding.to_error(f, rounding.error_of_test(f, (freedom, degrees)))
        squares = rounding.to_digits(ratio * freedom * residual / degrees, 4)
        pvalue = rounding.of_probability(float(special.fdtrc(freedom, degrees, max(ratio, 0.0))))
        rows.append((squares, freedom, ratio, pvalue))
    return replace(table, values=(*rows, (residual, degrees, None, None)))


def _of_pairs(table: AnswerTable, exact: AnalysisAnswer, rounded: AnalysisAnswer) -> AnswerTable:
    """Intervals and p-values of correlations from the rounded ones."""
    parts = {
        name: (exact.table(name).values, rounded.table(name).values)
        for name in ("correlation", "nobs", table.name)
    }
    rows = []
    for i, row in enumerate(table.values):
        numbers = [[one[i][j] for pair in parts.values() for one in pair] for j in range(len(row))]
        rows.append(tuple(_of_pair(table.name, numbers[j]) for j in range(len(row))))
    return replace(table, values=tuple(rows))


def _of_pair(name: str, numbers: list[float | None]) -> float | None:
    """An end of an interval, or the p-value; r, number of records and end, each exact and rounded."""
    r, rounded_r, n, size, end, _ = numbers
    if r is None or rounded_r is None or n is None or size is None or end is None:
        return None
    if name == "pvalues":
        # By Student's t, or by the normal deviate of Kendall's tau, whichever the exact one is by.
        by_t = correlation_pvalue(r, n)
        if abs(by_t - end) <= 1e-9 * max(by_t, end):
            return finite(rounding.of_probability(correlation_pvalue(rounded_r, size)))
        return _by_deviate(end, abs(rounded_r / r)) if r else 1.0
    if min(n, size) <= 3 or abs(rounded_r) >= 1 or abs(end) >= 1 or abs(r) >= 1:
        return None
    deviate = round((atanh(end) - atanh(r)) * sqrt(n - 3), _DIGITS - 4)
    return rounding.to_digits(tanh(atanh(rounded_r) + deviate / sqrt(size - 3)), 3)
