"""Evidence of several tries pooled into one p-value.

A leak that one audit misses shows in several: a generator that is submitted until it passes adds to
the evidence against it with each try. Who submits versions without a leak in between dilutes a pool of
all tries, and nothing else: so the newest tries, and those of the same bytes, are pooled by themselves
too (``windows``), each at its part of the level.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy import stats

SMALLEST_P = 1e-300
"""Smaller p-values count as this one; z has then about 37 standard errors."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One test in one try.

    Args:
        p_value: Two-sided where the test has a direction.
        direction: 1, -1, or 0 for a test without a direction; see ``CheckResult``.
        weight: Positive, fixed before the try: its z counts in this proportion.
    """

    p_value: float
    direction: int
    weight: float


def pooled_p_value(evidence: Sequence[Evidence]) -> float:
    r"""One p-value of a test in several independent tries.

    Tests with a direction in every try are pooled by Stouffer's method with weights [1]_: with
    :math:`z_k = d_k \Phi^{-1}(1 - p_k / 2)`, the sum :math:`\sum w_k z_k / \sqrt{\sum w_k^2}` is
    standard normal without a leak, and is tested on both sides. Others are pooled by Fisher's method
    [2]_: :math:`-2 \sum \log p_k` has a chi-squared distribution with two degrees of freedom for each
    try, or lies below it where p-values are discrete (a p-value of 1 adds nothing; in Stouffer's method
    it would outweigh all others). One try alone keeps its p-value.

    >>> round(pooled_p_value([Evidence(0.05, 1, 1.0), Evidence(0.05, 1, 1.0)]), 4)
    0.0056
    >>> round(pooled_p_value([Evidence(0.05, 1, 1.0), Evidence(0.05, -1, 1.0)]), 4)
    1.0

    References:
        .. [1] T. Liptak, "On the combination of independent tests" (1958); S. Stouffer et al.,
           "The American Soldier", vol. 1 (1949).
        .. [2] R. A. Fisher, "Statistical Methods for Research Workers", 4th edition (1932), 21.1.
    """
    if len(evidence) == 1:
        return evidence[0].p_value
    p_values = np.maximum([one.p_value for one in evidence], SMALLEST_P)
    directions = np.array([one.direction for one in evidence])
    if not directions.all():
        return float(stats.chi2.sf(-2 * np.log(p_values).sum(), 2 * len(evidence)))
    weights = np.array([one.weight for one in evidence])
    z = directions * stats.norm.isf(p_values / 2)
    return 2 * float(stats.norm.sf(abs(float(weights @ z)) / sqrt(float(weights @ weights))))


def windows(same_bytes: Sequence[bool]) -> tuple[tuple[int, ...], ...]:
    """Which tries are pooled together: positions, oldest first; the last one is the try that is judged.

    The newest 1, 2, 4, ... tries, all of them, and all of the same bytes as the last one; each set once.
    Their number depends on the number of tries and on digests alone, never on an outcome.

    >>> windows([True, False, True])
    ((2,), (1, 2), (0, 1, 2), (0, 2))
    """
    number = len(same_bytes)
    lengths = [2**power for power in range(number.bit_length()) if 2**power < number]
    newest = [tuple(range(number - length, number)) for length in (*lengths, number)]
    same = tuple(position for position in range(number) if same_bytes[position])
    return tuple(dict.fromkeys([*newest, same]))


def pooled_over_windows(evidence: Sequence[Evidence], same_bytes: Sequence[bool]) -> float:
    """The smallest p-value of all windows, times their number (Bonferroni), at most 1.

    Args:
        evidence: One test in every try, oldest first.
        same_bytes: For each try, whether it had the bytes of the last one; the last is True.
    """
    sets = windows(same_bytes)
    smallest = min(pooled_p_value([evidence[position] for position in positions]) for positions in sets)
    return min(1.0, len(sets) * smallest)
