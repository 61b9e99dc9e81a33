r"""Rules for models and survival curves.

Of models: degrees of freedom, saturation, and on how many records a fitted value rests.

ACRO checks degrees of freedom alone. A model of a thousand records may still hold the value of one: its
dummy variable. The leverage of a record, the diagonal of :math:`H = X (X'X)^{-1} X'`, is how much of its
own fitted value comes from itself: 1 / n for the mean of a group of n. So no leverage may be above
1 / threshold, which for a group is the threshold itself, and holds for every way to write it: dummies,
other contrasts, level values of the analyst's own, products.

Survival curves are told only at times that no single event moves. Each time of an event is the time of a
person. So a curve is told at declared times by which enough events have come since the last one, and
ends where too few are at risk. ACRO 1.0 calls every survival table a failure (its degrees of freedom are
those of a table of single times), and mitigates by steps of at least ten records that leave, by event or
censoring. Here it is ten events, and ten at risk.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gencard.analysis.answers.answer import AnalysisAnswer, AnswerTable
from gencard.analysis.answers.survival import COLUMNS
from gencard.core.policy import Rule, Rules, RuleVerdict, breaking
from gencard.core.types import FloatArray

_TOLERANCE = 1e-9
"""Smallest singular value, relative to the largest, of a column that is not aliased."""

_AT_RISK, _EVENTS = COLUMNS.index("at_risk"), COLUMNS.index("events")


def of_model(records: float, parameters: int, cells: int | None, rules: Rules) -> RuleVerdict:
    """Rules for all numbers of a model together.

    Args:
        records: In the model.
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

    >>> rows = ((1.0, 40.0, 6.0, 0.85, 0.06), (2.0, 30.0, 6.0, 0.68, 0.07), (3.0, 9.0, 9.0, 0.0, 0.0))
    >>> coarse_table(AnswerTable("survival", ("1", "2", "3"), COLUMNS, rows), Rules()).values
    ((2.0, 30.0, 12.0, 0.68, 0.07),)
    """
    names, rows, waiting = [], [], 0.0
    for name, row in zip(table.row_names, table.values, strict=True):
        waiting += row[_EVENTS] or 0.0
        if waiting >= rules.survival and (row[_AT_RISK] or 0.0) >= rules.survival:
            names.append(name)
            rows.append((*row[:_EVENTS], waiting, *row[_EVENTS + 1 :]))
            waiting = 0.0
    return replace(table, row_names=tuple(names), values=tuple(rows))


def of_curves(answer: AnalysisAnswer, rules: Rules) -> RuleVerdict:
    """Rules for the curves: each group is large enough for a step."""
    steps = [len(coarse_table(table, rules).values) for table in answer.tables]
    return breaking([(Rule.SURVIVAL, not all(steps) or not steps)])
