r"""Rules for models: degrees of freedom, saturation, and on how many records a fitted value rests.

ACRO checks degrees of freedom alone. A model of a thousand records may still hold the value of one: its
dummy variable. The leverage of a record, the diagonal of :math:`H = X (X'X)^{-1} X'`, is how much of its
own fitted value comes from itself: 1 / n for the mean of a group of n. So no leverage may be above
1 / threshold, which for a group is the threshold itself, and holds for every way to write it: dummies,
other contrasts, level values of the analyst's own, products.
"""

import numpy as np
from numpy.typing import NDArray

from gencard.core.output_checks.rules import Rule, Rules, Verdict, breaking
from gencard.core.types import FloatArray

_TOLERANCE = 1e-9
"""Of singular values, relative to the largest; a smaller one belongs to an aliased column."""


def of_model(records: float, parameters: int, cells: int | None, rules: Rules) -> Verdict:
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


def of_test(records: float, parameters: int, rules: Rules) -> Verdict:
    """Rules for a test statistic or a measure of association: degrees of freedom, as in ACRO."""
    return breaking([(Rule.FREEDOM, records - parameters < rules.checks.freedom)])


def of_features(matrix: FloatArray, counts: NDArray[np.number], rules: Rules) -> Verdict:
    """The rule of leverage for a model matrix.

    Args:
        matrix: Shape ``(cells, columns)``: the row of the records of each cell.
        counts: Records in each cell; cells without any do not matter.
    """
    threshold = rules.checks.threshold
    return breaking(
        [(Rule.LEVERAGE, bool(threshold) and largest_leverage(matrix, counts) * threshold > 1 + 1e-9)]
    )


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
    rows = rows / np.where(scale == 0, 1.0, scale)  # so that no unit hides a column from the tolerance
    left, sizes, _ = np.linalg.svd(rows * np.sqrt(counts[occupied])[:, None], full_matrices=False)
    kept = sizes > sizes.max(initial=0.0) * _TOLERANCE
    of_cells = np.square(left[:, kept]).sum(axis=1)
    return float(np.round((of_cells / counts[occupied]).max(), 12))
