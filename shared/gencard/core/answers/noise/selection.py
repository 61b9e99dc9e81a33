r"""Widen intervals that are given only because noise left enough to estimate from.

An interval is refused where noise moves what it divides by, such as the records of a rare cell, by
more than a quarter. That is decided on the noisy counts, for nothing else says how rare a cell is. A
cell that is too rare is answered when noise made it larger: among such answers an interval of first
order covers half as often as it says. An answer near the bound is therefore given an interval that also
covers what is usual among answers that passed the bound by luck.

With the quantity in units of its noise, z, answers need z of 4. If the truth is 2.75 below, one answer
in 300 is given, at z below 4.9 mostly, which a logarithm overstates by log(4.9 / 1.25); this is 3.4
times the half-width 1.96 / 4.9. If the truth is 1 below, answers of z up to 5.15 are usual, and the
factor is 1.4.
"""

import numpy as np

MOST_MOVED = 0.25
"""Largest relative standard deviation of what an estimate divides by, 1 / z."""

_NEAR, _FAR = 4.9, 5.6
"""z up to which intervals are widened most, and from which not at all."""

_MOST_WIDENED = 3.4


def widening(moved: float) -> float:
    """Factor of a standard error.

    Args:
        moved: 1 / z.

    >>> [round(widening(1 / z), 2) for z in (4, 5.25, 6)]
    [3.4, 2.2, 1.0]
    """
    z = 1 / moved if moved > 0 else np.inf
    return float(np.interp(z, (_NEAR, _FAR), (_MOST_WIDENED, 1.0)))
