r"""How well propensity scores tell synthetic records from original ones, by their order.

With the score t of each record and F, the distribution functions of the original and of the synthetic
records' scores, over cells of o original and s synthetic records each:

.. math:: U = \sum_{i, j} s_i o_j \Big( [t_i > t_j] + \frac{1}{2} [t_i = t_j] \Big), \quad
   PO50 = \frac{1}{N} \Big( \sum s [t > a] + \sum o [t \le a] \Big) - \frac{1}{2}, \quad
   SPECKS = \sup_t |F_s(t) - F_o(t)|

A table has the score that a saturated model gives to each record of the cell, the share of synthetic
records in it, :math:`s / (s + o)`, and a is their share c of all; with the shares p of the original and
q of the synthetic records, t is above c where q is above p. SPECKS, the Kolmogorov-Smirnov distance of
the scores, is total variation then: scores put the cells in the order of q / p, and the distribution
functions are furthest apart where that passes 1. The scores of other models are guesses at a = 1/2, as
in R's synthpop.
"""

import numpy as np

from gencard.core.utility.tables.table_pair import Cells, TablePair

_DIGITS = 10
"""Scores that agree so far are equal: a fit is no more exact."""


def mann_whitney(pair: TablePair) -> float:
    """U: pairs of a synthetic and an original record where the former has the higher score.

    A tie counts half. Half of all pairs where the tables agree, and never less.
    """
    scores = pair.synthetic / (pair.original + pair.synthetic)
    return _pairs_won(*_by_score(scores, pair.original, pair.synthetic))


def over_half_right(pair: TablePair) -> float:
    """PO50: share of the records that the best guess tells right, less 1/2.

    The guess is "synthetic" in the cells that hold more of the synthetic share than of the original.
    At equal sizes it is half of total variation; else it also follows the sizes.
    """
    ours, theirs = pair.shares
    right = np.where(theirs > ours, pair.synthetic, pair.original)
    return float(right.sum() / pair.records - 0.5)


def score_ranks(scores: Cells, original: Cells, synthetic: Cells) -> tuple[float, float, float]:
    """SPECKS, PO50 in shares of the records, and U, of the scores of some model.

    Args:
        scores: Of each cell, shape ``(k,)``.
        original: Records in each; ``synthetic`` likewise. Neither is 0 in all.
    """
    scores = np.round(scores, _DIGITS)
    right = np.where(scores > 0.5, synthetic, original).sum() / (original.sum() + synthetic.sum())
    ours, theirs = _by_score(scores, original, synthetic)
    apart = np.cumsum(ours) / ours.sum() - np.cumsum(theirs) / theirs.sum()
    return float(np.abs(apart).max()), float(right) - 0.5, _pairs_won(ours, theirs)


def _by_score(scores: Cells, original: Cells, synthetic: Cells) -> tuple[Cells, Cells]:
    """Records of each score, the lowest score first."""
    places = np.unique(scores, return_inverse=True)[1].reshape(-1)
    ours, theirs = (np.bincount(places, counts).astype(float) for counts in (original, synthetic))
    return ours, theirs


def _pairs_won(ours: Cells, theirs: Cells) -> float:
    return float(np.sum(theirs * (np.cumsum(ours) - ours / 2)))
