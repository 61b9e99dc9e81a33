r"""Statistics that are chi-squared, or nearly, where records are drawn from the original table.

With counts o and s of the k cells, :math:`r = \sum s / \sum o`, :math:`c = \sum s / N`, the expected
:math:`E = (o + s) c` and the differences :math:`d = s - r o`:

.. math:: VW = \sum d^2 / E, \quad FT = 4 \sum (\sqrt{s} - \sqrt{r o})^2, \quad
   G = 2 \sum s \ln \frac{s / S}{o / O}, \quad WMabsDD = \sum \frac{|d|}{\sqrt{E}} \Big/ \sqrt{2 / \pi}

The original is taken as given, so each is expected to be about k - 1; WMabsDD, whose terms are absolute
values of normal deviates, k - 1/2. G looks only at cells that hold both kinds of records: S and O are
the sums over those, and what stands in other cells does not count.

References:
    G. Raab, B. Nowok, C. Dibben, "Assessing, visualizing and improving the utility of synthetic data",
    2021, arXiv:2109.12717.
"""

from math import pi, sqrt

import numpy as np

from gencard.core.utility.tables.table_pair import Cells, TablePair


def voas_williamson(pair: TablePair) -> float:
    """VW; 0 where the shares agree."""
    return float(np.sum(_differences(pair) ** 2 / _expected(pair)))


def freeman_tukey(pair: TablePair) -> float:
    """FT; 0 where the shares agree."""
    return float(4 * np.sum((np.sqrt(pair.synthetic) - np.sqrt(pair.ratio * pair.original)) ** 2))


def weighted_differences(pair: TablePair) -> float:
    """WMabsDD; 0 where the shares agree."""
    return float(np.sum(np.abs(_differences(pair)) / np.sqrt(_expected(pair))) / sqrt(2 / pi))


def likelihood_ratio(pair: TablePair) -> tuple[float, int]:
    """G and its degrees of freedom: the cells that hold both kinds of records, less one; 0 at least."""
    both = (pair.original > 0) & (pair.synthetic > 0)
    if not both.any():
        return 0.0, 0
    ours, theirs = pair.original[both], pair.synthetic[both]
    logarithms = np.log((theirs / theirs.sum()) / (ours / ours.sum()))
    return float(2 * np.sum(theirs * logarithms)), len(ours) - 1


def _differences(pair: TablePair) -> Cells:
    return pair.synthetic - pair.ratio * pair.original


def _expected(pair: TablePair) -> Cells:
    return (pair.original + pair.synthetic) * pair.synthetic_share
