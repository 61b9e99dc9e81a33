r"""How well the share of synthetic records in a cell tells synthetic records from original ones.

That share, :math:`s / (s + o)`, is the propensity score that a saturated model gives to each record of
the cell, here t. With the shares p of the original and q of the synthetic records:

.. math:: U = \sum_{i, j} s_i o_j \Big( [t_i > t_j] + \frac{1}{2} [t_i = t_j] \Big), \quad
   PO50 = \frac{1}{N} \Big( \sum s [q > p] + \sum o [q \le p] \Big) - \frac{1}{2}, \quad
   SPECKS = \sup_t |F_s(t) - F_o(t)|

SPECKS, the Kolmogorov-Smirnov distance of the scores, is total variation: scores put the cells in the
order of q / p, and the distribution functions are furthest apart where that passes 1.
"""

import numpy as np

from gencard.core.utility.table_pair import TablePair


def mann_whitney(pair: TablePair) -> float:
    """U: pairs of a synthetic and an original record where the former has the higher score.

    A tie counts half. Half of all pairs where the tables agree, and never less.
    """
    scores = pair.synthetic / (pair.original + pair.synthetic)
    _, places = np.unique(scores, return_inverse=True)
    ours, theirs = (np.bincount(places, counts) for counts in (pair.original, pair.synthetic))
    return float(np.sum(theirs * (np.cumsum(ours) - ours / 2)))


def over_half_right(pair: TablePair) -> float:
    """PO50: share of the records that the best guess tells right, less 1/2.

    The guess is "synthetic" in the cells that hold more of the synthetic share than of the original.
    At equal sizes it is half of total variation; else it also follows the sizes.
    """
    ours, theirs = pair.shares
    right = np.where(theirs > ours, pair.synthetic, pair.original)
    return float(right.sum() / pair.records - 0.5)
