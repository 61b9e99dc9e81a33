r"""Distances between the shares p of an original table and the shares q of a synthetic one, from 0 to 1.

.. math:: TV = \frac{1}{2} \sum |p - q|, \quad
   JSD = \frac{1}{2} \sum \Big( p \log_2 \frac{p}{h} + q \log_2 \frac{q}{h} \Big), \quad
   dBhatt = \sqrt{1 - \sum \sqrt{p q}}

with :math:`h = (p + q) / 2`. Each is 0 where the shares agree and 1 where no cell holds both kinds.
"""

from math import log, sqrt

import numpy as np
from scipy.special import rel_entr

from gencard.core.utility.table_pair import TablePair


def total_variation(pair: TablePair) -> float:
    """Share of the records that would have to move."""
    ours, theirs = pair.shares
    return float(np.abs(ours - theirs).sum() / 2)


def jensen_shannon(pair: TablePair) -> float:
    """Jensen-Shannon divergence, in bits."""
    ours, theirs = pair.shares
    mixed = (ours + theirs) / 2
    return float(np.sum(rel_entr(ours, mixed) + rel_entr(theirs, mixed)) / (2 * log(2)))


def bhattacharyya(pair: TablePair) -> float:
    r"""Bhattacharyya distance, as :math:`\sqrt{\frac{1}{2} \sum (\sqrt{p} - \sqrt{q})^2}`.

    That is the same number, and nothing cancels where the tables are near each other.
    """
    ours, theirs = pair.shares
    return sqrt(float(np.sum((np.sqrt(ours) - np.sqrt(theirs)) ** 2)) / 2)
