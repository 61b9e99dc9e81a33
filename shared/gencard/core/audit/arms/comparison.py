"""Tests of whether two samples have one distribution, and corrections for making many."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

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
        reach = float(stats.t.ppf(0.5 + confidence / 2, self.freedom)) * self.error
        return self.gap - reach, self.gap + reach

    def smallest_found(self, level: float, power: float = 0.8) -> float:
        """About the smallest true gap that a test at ``level`` finds with this probability."""
        reach = stats.t.ppf(1 - level / 2, self.freedom) + stats.t.ppf(power, self.freedom)
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
    return Comparison(gap, error, freedom, 2 * float(stats.t.sf(abs(gap) / error, freedom)))


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
