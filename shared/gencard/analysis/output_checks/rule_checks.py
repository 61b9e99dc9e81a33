"""Rules for the cells of tables, for models and survival curves, and for numbers that programs give."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import atanh, isfinite, log, nan, pi, sqrt, tanh

import numpy as np
from numpy.typing import NDArray
from scipy import special

from gencard.analysis.answers.answer import AnalysisAnswer, AnswerTable, Scalar, finite
from gencard.analysis.answers.correlations import correlation_pvalue
from gencard.analysis.output_checks import rounding
from gencard.core.policy import USUAL_RULES, Rule, Rules, RuleVerdict, breaking
from gencard.core.program_outputs import FIT, Number, Output, OutputKind
from gencard.core.statistics.formula import Analysis
from gencard.core.types import FloatArray, IntArray

# Numbers of an answer that follow from others, computed from these after they are rounded.
#
# An analyst chooses the level of an interval (``alpha``) and the value that a t test is about. Each
# choice is another function of the same estimate: if every end were rounded by itself, many choices
# would tell the estimate to any digit, and degrees of freedom or a p-value the number of records. So
# intervals, test statistics and p-values come from the rounded estimate, standard error and number of
# records.


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


# Rules for models and survival curves.
#
# Of models: degrees of freedom, saturation, and on how many records a fitted value rests.
#
# ACRO checks degrees of freedom alone. A model of a thousand records may still hold the value of one:
# its dummy variable. The leverage of a record, the diagonal of :math:`H = X (X'X)^{-1} X'`, is how much
# of its own fitted value comes from itself: 1 / n for the mean of a group of n. So no leverage may be
# above 1 / threshold, which for a group is the threshold itself, and holds for every way to write it:
# dummies, other contrasts, level values of the analyst's own, products.
#
# Survival curves are told only at times that no single event moves. Each time of an event is the time of
# a person. So a curve is told at declared times by which enough events have come since the last one, and
# ends where too few are at risk. ACRO 1.0 calls every survival table a failure (its degrees of freedom
# are those of a table of single times), and mitigates by steps of at least ten records that leave, by
# event or censoring. Here it is ten events, and ten at risk.


_TOLERANCE = 1e-9
"""Smallest singular value, relative to the largest, of a column that is not aliased."""


def of_model(records: float, parameters: int, cells: int | None, rules: Rules) -> RuleVerdict:
    """Rules for all numbers of a model together.

    Args:
        parameters: Columns of the model matrix that are estimated.
        cells: Different rows of the model matrix; None where a feature is a number, or where there is
            one feature alone: that is a table of means, for which leverage is the threshold.
    """
    return breaking(
        [
            (Rule.FREEDOM, records - parameters < rules.checks.freedom),
            (Rule.SATURATED, cells is not None and parameters >= cells),
        ]
    )


def of_test(records: float, parameters: int, rules: Rules) -> RuleVerdict:
    """Rules for a test statistic or a measure of association: degrees of freedom, as in ACRO."""
    return breaking([(Rule.FREEDOM, records - parameters < rules.checks.freedom)])


def of_features(matrix: FloatArray, counts: NDArray[np.number], rules: Rules) -> RuleVerdict:
    """The rule of leverage for a model matrix.

    Args:
        matrix: Shape ``(cells, columns)``: the row of the records of each cell.
        counts: Records in each cell; cells without any do not matter.
    """
    return breaking([(Rule.LEVERAGE, is_heavy(largest_leverage(matrix, counts), rules))])


def is_heavy(leverage: float, rules: Rules) -> bool:
    """Whether a leverage says that a fitted value rests on fewer records than the threshold."""
    threshold = rules.checks.threshold
    return bool(threshold) and leverage * threshold > 1 + 1e-9


def largest_leverage(matrix: FloatArray, counts: NDArray[np.number]) -> float:
    """The largest leverage of any record, 0 to 1.

    >>> largest_leverage(np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([90, 4]))
    0.25
    """
    occupied = counts > 0
    rows = matrix[occupied]
    if not rows.size:
        return 0.0
    scale = np.abs(rows).max(axis=0)
    # The tolerance is relative to the largest singular value, so a column in small units would look
    # aliased.
    rows = rows / np.where(scale == 0, 1.0, scale)
    left, sizes, _ = np.linalg.svd(rows * np.sqrt(counts[occupied])[:, None], full_matrices=False)
    nonzero = sizes > sizes.max(initial=0.0) * _TOLERANCE
    of_cells = np.square(left[:, nonzero]).sum(axis=1)
    # Rows are weighted by the root of their number, so the squared length of a row of U is the leverage
    # of all records of the cell together. Rounded, so that 1 / threshold is not missed by the last bit.
    return float(np.round((of_cells / counts[occupied]).max(), 12))


def coarse(answer: AnalysisAnswer, rules: Rules) -> AnalysisAnswer:
    """The answer with each curve at few of its times; the estimate at these is that of all times."""
    return replace(answer, tables=tuple(coarse_table(table, rules) for table in answer.tables))


def coarse_table(table: AnswerTable, rules: Rules) -> AnswerTable:
    """A curve at the times by which enough events have come; ``events`` are those since the row before.

    >>> from gencard.analysis.answers.regressions import COLUMNS
    >>> rows = ((1.0, 40.0, 6.0, 0.85, 0.06), (2.0, 30.0, 6.0, 0.68, 0.07), (3.0, 9.0, 9.0, 0.0, 0.0))
    >>> coarse_table(AnswerTable("survival", ("1", "2", "3"), COLUMNS, rows), Rules()).values
    ((2.0, 30.0, 12.0, 0.68, 0.07),)
    """
    at_risk, events = table.column_names.index("at_risk"), table.column_names.index("events")
    names, rows, waiting = [], [], 0.0
    for name, row in zip(table.row_names, table.values, strict=True):
        waiting += row[events] or 0.0
        if waiting >= rules.survival and (row[at_risk] or 0.0) >= rules.survival:
            names.append(name)
            rows.append((*row[:events], waiting, *row[events + 1 :]))
            waiting = 0.0
    return replace(table, row_names=tuple(names), values=tuple(rows))


def of_curves(answer: AnalysisAnswer, rules: Rules) -> RuleVerdict:
    """Rules for the curves: each group is large enough for a step."""
    steps = [len(coarse_table(table, rules).values) for table in answer.tables]
    return breaking([(Rule.SURVIVAL, not all(steps) or not steps)])


Broken = dict[Rule, NDArray[np.bool_]]
"""For each rule, which cells break it; all of one shape."""


@dataclass(frozen=True, slots=True, eq=False)
class Contributions:
    """Contributions of records to the sum of each group; arrays of one shape, an entry for each group.

    Args:
        counts: Records with a value.
        totals: Sum of the values.
        largest: The largest value; 0 in an empty group.
        two_largest: Sum of the two largest values.
        several_largest: Sum of as many as the (n, k) rule says.
        negative: Whether a value is below 0.
        constant: Whether all values are the same.
        missing: Whether some record has no value.
    """

    counts: IntArray
    totals: FloatArray
    largest: FloatArray
    two_largest: FloatArray
    several_largest: FloatArray
    negative: NDArray[np.bool_]
    constant: NDArray[np.bool_]
    missing: NDArray[np.bool_]


def contributions(groups: IntArray, values: FloatArray, *, cells: int, most: int) -> Contributions:
    """Contributions of records to the groups that they are in.

    Args:
        groups: The group of each record, 0 to ``cells - 1``.
        values: One for each record; NaN where it is missing.
        most: The n of the (n, k) rule.
    """
    missing = np.isnan(values)
    absent = np.bincount(groups[missing], minlength=cells) > 0
    inside, numbers = groups[~missing], values[~missing]
    # Largest values first inside each group, so that one pass gives the largest, the two largest and the
    # n largest for the rules.
    order = np.lexsort((-numbers, inside))
    inside, numbers = inside[order], numbers[order]
    counts = np.bincount(inside, minlength=cells)
    place = np.arange(len(inside)) - (np.cumsum(counts) - counts)[inside]

    def largest(number: int) -> FloatArray:
        few = place < number
        return np.bincount(inside[few], numbers[few], minlength=cells).astype(np.float64)

    smallest = np.full(cells, np.inf)
    np.minimum.at(smallest, inside, numbers)
    return Contributions(
        counts=counts,
        totals=largest(len(inside)),
        largest=largest(1),
        two_largest=largest(2),
        several_largest=largest(most),
        negative=np.bincount(inside, numbers < 0, minlength=cells) > 0,
        constant=(counts > 0) & (smallest == largest(1)),
        missing=absent,
    )


def of_counts(
    counts: NDArray[np.number], rules: Rules, possible: NDArray[np.bool_] | None = None
) -> Broken:
    """Rules for a table of counts.

    Args:
        possible: Cells that can hold a record; others are structural zeros and always pass.
    """
    few = (counts < rules.checks.threshold) & (counts > 0)
    empty = (counts == 0) & rules.checks.zeros
    if possible is not None:
        few, empty = few & possible, empty & possible
    return {Rule.THRESHOLD: few, Rule.ZERO: empty}


def of_sums(groups: Contributions, rules: Rules) -> Broken:
    """Rules for sums and means of groups: threshold, (n, k), p per cent; in ACRO linear aggregations."""
    checks = rules.checks
    # Shares of a total mean nothing with negative values. They are not passed: rule NEGATIVE marks them.
    defined = (groups.counts > 0) & ~groups.negative
    with np.errstate(divide="ignore", invalid="ignore"):
        share = groups.several_largest / groups.totals
        rest = (groups.totals - groups.two_largest) / np.where(
            groups.largest == 0, np.inf, groups.largest
        )
    dominated = share >= checks.dominance_percent / 100
    close = rest < checks.remainder_percent / 100
    return {
        Rule.THRESHOLD: groups.counts < checks.threshold,
        Rule.DOMINANCE: defined & dominated & bool(checks.dominance_count),
        Rule.REMAINDER: defined & close & bool(checks.remainder_percent),
        Rule.NEGATIVE: groups.negative,
        Rule.MISSING: groups.missing & rules.missing,
    }


def of_magnitudes(groups: Contributions, rules: Rules) -> Broken:
    """Rules for sums of magnitudes: those of sums, and no contribution is more than half of a group."""
    broken = of_sums(groups, rules)
    return broken | {Rule.DOMINANCE: broken[Rule.DOMINANCE] | (2 * groups.largest > groups.totals)}


def of_spreads(groups: Contributions, rules: Rules) -> Broken:
    """Rules for variances and standard deviations, with one degree of freedom less than records."""
    return {
        Rule.FREEDOM: groups.counts - 1 < rules.checks.freedom,
        Rule.SAME: groups.constant,
        Rule.MISSING: groups.missing & rules.missing,
    }


def of_quantiles(counts: NDArray[np.number], level: float, rules: Rules) -> Broken:
    """Rules for a quantile: as many records as the threshold says on either side of it.

    ACRO asks for the threshold in the group alone, and passes a smallest or largest value.
    """
    # A quantile is the value of a record: with few records on one side of it, it discloses an extreme
    # value.
    side = counts * min(level, 1 - level)
    return {
        **of_counts(counts, rules),
        Rule.RANK: side < rules.checks.threshold,
        Rule.EXTREME: np.full(counts.shape, level in (0.0, 1.0)),
    }


def verdicts(broken: Broken) -> list[RuleVerdict]:
    """One verdict for each cell, in the order of the cells."""
    names, masks = list(broken), [np.ravel(mask) for mask in broken.values()]
    return [breaking(zip(names, row, strict=True)) for row in zip(*masks, strict=True)]


_UNKNOWN = RuleVerdict((Rule.UNKNOWN,))

Verdicts = tuple[tuple[RuleVerdict, ...], ...]
"""Verdicts on the numbers of one output, one tuple for each row."""


def judged_outputs(outputs: Sequence[Output], rules: Rules = USUAL_RULES) -> tuple[Verdicts, ...]:
    """Judge each number of a program's outputs.

    Counts and degrees of freedom are those that the program states beside its numbers. So a green number
    is one that the program says is safe: it helps a steward to read, and is worth no more than the text
    of the program.

    Args:
        rules: Their threshold of records, also for what stands in a row with a count, and the least
            residual degrees of freedom of a model.
    """
    # Residual degrees of freedom of each model that says them.
    degrees = {
        one.name.removesuffix(FIT): one.values[one.row_names.index("df_resid")][0]
        for one in outputs
        if one.name.endswith(FIT) and "df_resid" in one.row_names
    }
    return tuple(
        tuple(_of_output_row(output, row, degrees.get(output.name), rules) for row in output.values)
        for output in outputs
    )


def _of_output_row(
    output: Output, row: Sequence[Number], degrees: Number, rules: Rules
) -> tuple[RuleVerdict, ...]:
    cells = dict(zip(output.column_names, row, strict=True))
    counts = [cells[name] for name in output.counts]
    few = any(count is None or count < rules.checks.threshold for count in counts)
    about = Rule.SURVIVAL if output.kind is OutputKind.CURVE else Rule.THRESHOLD
    if few:
        others = breaking([(about, True)])
    elif output.kind is not OutputKind.COEFFICIENTS or degrees is None:
        others = _UNKNOWN
    else:
        others = breaking([(Rule.FREEDOM, degrees < rules.checks.freedom)])
    return tuple(
        _of_stated_count(value, rules) if name in output.counts else others
        for name, value in cells.items()
    )


def _of_stated_count(value: Number, rules: Rules) -> RuleVerdict:
    if value is None:
        return _UNKNOWN
    few = 0 < value < rules.checks.threshold
    return breaking([(Rule.THRESHOLD, few), (Rule.ZERO, rules.checks.zeros and value == 0)])
