"""Tests of whether two samples have one distribution; corrections for many tests; pooling over tries.

A leak that one audit misses shows in several: a generator that is submitted until it passes adds to
the evidence against it with each try. Submitting versions without a leak in between dilutes a pool of
all tries, but no other pool: so the newest tries, and those of the same bytes, are pooled by themselves
too (``windows``), each at its part of the level.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
import scipy

from gencard.core.types import FloatArray


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two means compared.

    Args:
        gap: Mean of ``high`` minus mean of ``low``.
        error: Standard error of the gap.
        freedom: Degrees of freedom of Student's distribution.
        p_value: Two-sided.
    """

    gap: float
    error: float
    freedom: float
    p_value: float

    @property
    def direction(self) -> int:
        """Sign of the gap: 1, -1, or 0 where the means are equal."""
        return (self.gap > 0) - (self.gap < 0)

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Confidence interval of the gap."""
        reach = float(scipy.special.stdtrit(self.freedom, 0.5 + confidence / 2)) * self.error
        return self.gap - reach, self.gap + reach

    def smallest_detectable(self, level: float, power: float = 0.8) -> float:
        """About the smallest true gap that a test at ``level`` finds with this probability."""
        reach = scipy.special.stdtrit(self.freedom, 1 - level / 2) + scipy.special.stdtrit(
            self.freedom, power
        )
        return float(reach) * self.error


def welch(low: FloatArray, high: FloatArray) -> Comparison:
    """Compare the means of two samples of unequal variance.

    A generator without randomness gives two constants, for which t is 0/0. Equal constants are no
    evidence (p = 1); unequal ones are proof (p = 0).
    """
    gap = float(high.mean() - low.mean())
    if np.ptp(low) == 0 and np.ptp(high) == 0:
        unequal = bool(low[0] != high[0])
        return Comparison(gap if unequal else 0.0, 0.0, 1.0, 0.0 if unequal else 1.0)
    parts = np.array([low.var(ddof=1) / len(low), high.var(ddof=1) / len(high)])
    error = float(np.sqrt(parts.sum()))
    shares = parts / parts.sum()
    freedom = 1 / float(shares[0] ** 2 / (len(low) - 1) + shares[1] ** 2 / (len(high) - 1))
    return Comparison(gap, error, freedom, 2 * float(scipy.special.stdtr(freedom, -abs(gap) / error)))


def brown_forsythe(low: FloatArray, high: FloatArray) -> float:
    """p-value for equal spread: Welch's test on the distances from each sample's median.

    M. Brown, A. Forsythe, "Robust tests for the equality of variances", JASA 69 (1974).
    """
    return welch(np.abs(low - np.median(low)), np.abs(high - np.median(high))).p_value


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values: rejecting those up to a level keeps it over all of them together.

    >>> holm([0.01, 0.04, 0.03])
    (0.03, 0.06, 0.06)
    """
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(order), 0, -1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(np.asarray(p_values)[order] * factors))
    return tuple(float(p_value) for p_value in adjusted)


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
    # A p-value of 0 would have an infinite z, which no later try could outweigh.
    p_values = np.maximum([one.p_value for one in evidence], SMALLEST_P)
    directions = np.array([one.direction for one in evidence])
    if not directions.all():
        return float(scipy.special.chdtrc(2 * len(evidence), -2 * np.log(p_values).sum()))
    weights = np.array([one.weight for one in evidence])
    z = directions * -scipy.special.ndtri(p_values / 2)
    return 2 * float(scipy.special.ndtr(-abs(float(weights @ z)) / sqrt(float(weights @ weights))))


def windows(same_bytes: Sequence[bool]) -> tuple[tuple[int, ...], ...]:
    """Return the positions of tries that are pooled, oldest first; the last one is judged.

    The newest 1, 2, 4, ... tries, all of them, and all of the same bytes as the last one; each set once.
    Their number depends on the number of tries and on digests alone, never on an outcome.

    >>> windows([True, False, True])
    ((2,), (1, 2), (0, 1, 2), (0, 2))
    """
    number = len(same_bytes)
    # A leak may begin at any try, and honest tries before it dilute its evidence. Doubling lengths keep
    # the number of windows, and so the Bonferroni factor, logarithmic in the number of tries.
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
