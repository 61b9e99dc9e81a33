"""Rules for the cells of tables, for models and survival curves, and for numbers that programs give."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gencard.analysis.answers.answer import AnalysisAnswer, AnswerTable
from gencard.core.policy import USUAL_RULES, Rule, Rules, RuleVerdict, breaking
from gencard.core.program_outputs import FIT, Number, Output, OutputKind
from gencard.core.types import FloatArray, IntArray

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
    few = records - parameters < rules.checks.freedom
    return breaking([(Rule.FREEDOM, few), (Rule.SATURATED, cells is not None and parameters >= cells)])


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
        largest: The largest value; 0 in an empty group.
        several_largest: Sum of as many as the (n, k) rule says.
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
        largest = np.where(groups.largest == 0, np.inf, groups.largest)
        rest = (groups.totals - groups.two_largest) / largest
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
