"""How far one record can move a linear statistic."""

from fractions import Fraction

import numpy as np

from gencard.core.card.budget import Neighbouring
from gencard.core.statistics.linear import LinearStatistic

_PAIRS = 10**8
"""Differences of functions between two cells that are looked at, to find the largest."""

_ROUNDED_UP = Fraction(10**9 + 1, 10**9)
"""Above every error of rounding in sums of so few floats."""


def sensitivity(statistic: LinearStatistic, neighbouring: Neighbouring | None, norm: int) -> Fraction:
    r"""The largest :math:`\sum_j |\Delta_j / M_j|^p` over neighbouring datasets, hardly rounded up.

    :math:`M_j` is the largest value of function j. Adding or removing a record of cell x moves each sum
    by :math:`f_j(x)`, replacing it by :math:`f_j(x) - f_j(y)`: the worst cell, or pair of cells, is
    looked for; of too many pairs, twice the worst cell is taken (for p = 2, four times).

    Args:
        norm: p, 1 or 2: the L1 sensitivity, or the square of the L2 one.
    """
    scaled = statistic.scaled
    if neighbouring is not Neighbouring.REPLACE_ONE:
        return _above(float((np.abs(scaled) ** norm).sum(axis=0).max()))
    varying = scaled[np.ptp(scaled, axis=1) > 0]
    if varying.size * scaled.shape[1] > _PAIRS:
        return _above(float(2**norm * (np.abs(varying) ** norm).sum(axis=0).max()))
    return _above(
        max(float((np.abs(varying - cell[:, None]) ** norm).sum(axis=0).max()) for cell in varying.T)
    )


def _above(worst: float) -> Fraction:
    """A statistic that no record moves gets the noise of a count all the same."""
    return Fraction(worst or 1.0) * _ROUNDED_UP
