r"""Distances between the shares p of an original table and the shares q of a synthetic one, from 0 to 1.

.. math:: TV = \frac{1}{2} \sum |p - q|, \quad
   JSD = \frac{1}{2} \sum \Big( p \log_2 \frac{p}{h} + q \log_2 \frac{q}{h} \Big), \quad
   dBhatt = \sqrt{1 - \sum \sqrt{p q}}

with :math:`h = (p + q) / 2`. Each is 0 where the shares agree and 1 where no cell holds both kinds.
"""

from math import log, sqrt

import numpy as np
from scipy.special import rel_entr

from gencard.core.utility.tables.table_pair import TablePair


def total_variation(pair: TablePair) -> float:
    """Share of the records that would have to move."""
    ours, theirs = pair.shares
    return float(np.abs(ours - theirs).sum() / 2)


def jensen_shannon(pair: TablePair) -> float:
    """Jensen-Shannon divergence, in bits."""
    ours, theirs = pair.shares
    mixed = (ours + theirs) / 2
    return float(np.sum(rel_entr(ours, mixed) + rel_entr(theirs, mixed)) / (2 * log(2)))


def expected_jensen_shannon(freedom: int, synthetic: int, original: int | None = None) -> float:
    r"""What JSD is expected to be where the synthetic records are drawn from the original table itself.

    .. math:: E\,JSD \approx \frac{k - 1}{8 \ln 2} \cdot \frac{1}{n_2}

    with k cells and :math:`n_2` synthetic records. JSD is an f-divergence, in nats with
    :math:`f''(1) = 1/4`, so :math:`JSD = \frac{1}{8 \ln 2} \sum (q - p)^2 / p` to second order
    [1]_; and :math:`n_2 \sum (q - p)^2 / p` is Pearson's statistic, of mean :math:`k - 1`. The number
    :math:`n_1` of original records does not appear, since they are given. Where both tables are samples
    of one population, the variance of q - p is :math:`p (1 - p) (1/n_1 + 1/n_2)`, and

    .. math:: E\,JSD \approx \frac{k - 1}{8 \ln 2} \left( \frac{1}{n_1} + \frac{1}{n_2} \right).

    Both hold for any two sizes; the next term is of the order of :math:`\sum 1 / (n_2^2 p)`.

    Args:
        freedom: k - 1, cells that hold any record, less one.
        synthetic: :math:`n_2`.
        original: :math:`n_1`, where the original records are a sample too; None where they are given.

    References:
        .. [1] I. Csiszár, P. Shields, "Information Theory and Statistics: A Tutorial", 2004, Theorem
           4.1; JSD: J. Lin, IEEE Trans. Inf. Theory 37(1), 1991.

    >>> round(expected_jensen_shannon(9, 800), 6)
    0.002029
    """
    variance = 1 / synthetic + (1 / original if original else 0.0)
    return freedom * variance / (8 * log(2))


def bhattacharyya(pair: TablePair) -> float:
    r"""Bhattacharyya distance, as :math:`\sqrt{\frac{1}{2} \sum (\sqrt{p} - \sqrt{q})^2}`.

    That is the same number, and nothing cancels where the tables are near each other.
    """
    ours, theirs = pair.shares
    return sqrt(float(np.sum((np.sqrt(ours) - np.sqrt(theirs)) ** 2)) / 2)
