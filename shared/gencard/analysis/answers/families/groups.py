r"""Comparisons of groups from a table of groups by the levels of a response.

With :math:`n_{gk}` records of group g at level k, whose value is :math:`v_k`, sums over records are
:math:`\sum_k n_{gk} v_k^p`: means, variances and all tests below are those of the coded records.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Protocol

import numpy as np
from scipy import special

from gencard.analysis.answers.families.contingency import Test
from gencard.core.types import FloatArray, IntArray


class GroupMeans(Protocol):
    """Numbers that the table of means needs, one for each group."""

    @property
    def sizes(self) -> FloatArray: ...
    @property
    def means(self) -> FloatArray: ...
    @property
    def variances(self) -> FloatArray: ...


class Comparable(GroupMeans, Protocol):
    """Numbers that comparisons of means need besides."""

    @property
    def within(self) -> float: ...


@dataclass(frozen=True, slots=True)
class SummedGroups:
    """Records by group, of which sums of the values and of their squares are known.

    Args:
        sizes: Records of each group.
        means: Of the values.
        variances: With one degree of freedom less than records; NaN for a single record, and where
            only ``within`` is known.
        within: Sum of squared differences from the group's mean, over all groups.
    """

    sizes: FloatArray
    means: FloatArray
    variances: FloatArray
    within: float


@dataclass(frozen=True, slots=True)
class Groups:
    """Records by group and value.

    Args:
        counts: Shape ``(groups, levels)``, in records; each group holds some.
        values: Shape ``(levels,)``, ascending where ranks matter.
    """

    counts: FloatArray
    values: FloatArray

    @property
    def sizes(self) -> FloatArray:
        """Records of each group."""
        sizes: FloatArray = self.counts.sum(axis=1)
        return sizes

    @property
    def means(self) -> FloatArray:
        """Mean value of each group."""
        with np.errstate(divide="ignore", invalid="ignore"):  # noise leaves some sizes at 0
            means: FloatArray = self.counts @ self.values / self.sizes
        return means

    @property
    def squares(self) -> FloatArray:
        """Sum of squared differences from the group's mean; from differences, as nothing cancels."""
        squares: FloatArray = np.sum(self.counts * (self.values - self.means[:, None]) ** 2, axis=1)
        return squares

    @property
    def variances(self) -> FloatArray:
        """Variance of each group, with divisor n - 1; NaN for a single record."""
        with np.errstate(divide="ignore", invalid="ignore"):
            variances: FloatArray = self.squares / (self.sizes - 1)
        return np.where(self.sizes > 1, variances, np.nan)

    @property
    def within(self) -> float:
        """Sum of squared differences from the group's mean, over all groups."""
        return float(self.squares.sum())

    @property
    def ranked(self) -> "Groups":
        """The same records with mid-ranks in the place of values."""
        totals = self.counts.sum(axis=0)
        return Groups(self.counts, np.cumsum(totals) - (totals - 1) / 2)

    def about(self, centres: FloatArray) -> "Groups":
        """Absolute distances from a centre of each group, as further values."""
        distances = np.abs(self.values - centres[:, None])
        values, places = np.unique(distances, return_inverse=True)
        counts = np.zeros((len(self.counts), len(values)))
        rows = np.arange(len(self.counts))[:, None]
        np.add.at(counts, (rows, places.reshape(distances.shape)), self.counts)
        return Groups(counts, values)


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean or a difference of two, its standard error and degrees of freedom."""

    value: float
    standard_error: float
    degrees: float


def pooled(groups: Comparable) -> Difference:
    """First mean less second, where both variances are equal (Student's t test)."""
    n, degrees = groups.sizes, float(groups.sizes.sum() - 2)
    variance = groups.within / degrees
    return Difference(_first_less_second(groups), sqrt(variance * (1 / n).sum()), degrees)


def welch(groups: GroupMeans) -> Difference:
    """First mean less second, with Welch's degrees of freedom for unequal variances."""
    parts = groups.variances / groups.sizes
    degrees = parts.sum() ** 2 / np.sum(parts**2 / (groups.sizes - 1))
    return Difference(_first_less_second(groups), sqrt(parts.sum()), float(degrees))


def _first_less_second(groups: GroupMeans) -> float:
    return float(groups.means[0] - groups.means[1])


def mann_whitney(groups: Groups) -> tuple[float, float]:
    """U of the first group and its two-sided p value, by the normal approximation with ties.

    With continuity correction, as in R and scipy.
    """
    (one, other), ranked, n = groups.sizes, groups.ranked, groups.sizes.sum()
    u = float(ranked.counts[0] @ ranked.values - one * (one + 1) / 2)
    spread = sqrt(one * other / 12 * ((n + 1) - _ties(groups) / (n * (n - 1))))
    z = (max(u, one * other - u) - one * other / 2 - 0.5) / spread
    return u, min(1.0, 2 * float(special.ndtr(-z)))


def kruskal(groups: Groups) -> Test:
    """The Kruskal-Wallis test, H corrected for ties."""
    ranked, n = groups.ranked, groups.sizes.sum()
    h = 12 / (n * (n + 1)) * np.sum(groups.sizes * (ranked.means - (n + 1) / 2) ** 2)
    return Test.chi2(float(h / (1 - _ties(groups) / (n**3 - n))), len(groups.sizes) - 1)


def _ties(groups: Groups) -> float:
    totals = groups.counts.sum(axis=0)
    return float(np.sum(totals**3 - totals))


def between(groups: GroupMeans) -> float:
    """Sum of squares of the groups' means about the overall one, over all records."""
    mean = groups.sizes @ groups.means / groups.sizes.sum()
    return float(np.sum(groups.sizes * (groups.means - mean) ** 2))


def one_way(groups: Comparable) -> tuple[float, tuple[float, float]]:
    """Fisher's F that all means are equal, and its degrees of freedom; some group varies."""
    degrees = (float(len(groups.sizes) - 1), float(groups.sizes.sum() - len(groups.sizes)))
    f = (between(groups) / degrees[0]) / (groups.within / degrees[1])
    return f, degrees


def welch_anova(groups: GroupMeans) -> tuple[float, tuple[float, float], float]:
    """Welch's F for unequal variances, its degrees of freedom and its p value."""
    weights, k = groups.sizes / groups.variances, len(groups.sizes)
    mean = weights @ groups.means / weights.sum()
    spread = np.sum((1 - weights / weights.sum()) ** 2 / (groups.sizes - 1))
    between = np.sum(weights * (groups.means - mean) ** 2) / (k - 1)
    statistic = float(between / (1 + 2 * (k - 2) / (k**2 - 1) * spread))
    degrees = (float(k - 1), float((k**2 - 1) / (3 * spread)))
    return statistic, degrees, float(special.fdtrc(*degrees, statistic))


def bartlett(groups: Comparable) -> Test:
    """Bartlett's test that all variances are equal."""
    n, k, degrees = groups.sizes.sum(), len(groups.sizes), groups.sizes - 1
    pooled_variance = groups.within / (n - k)
    statistic = (n - k) * np.log(pooled_variance) - np.sum(degrees * np.log(groups.variances))
    scale = 1 + (np.sum(1 / degrees) - 1 / (n - k)) / (3 * (k - 1))
    return Test.chi2(float(statistic / scale), k - 1)


def distances_from_medians(groups: Groups) -> Groups:
    """Absolute distances: their one-way F is Levene's test, in the form of Brown and Forsythe."""
    return groups.about(medians(groups))


def medians(groups: Groups) -> FloatArray:
    """Median of each group; between two records, the mean of their values, as numpy's."""
    low, high = (quantile_places(groups.counts, 0.5, upper=upper) for upper in (False, True))
    middle: FloatArray = (groups.values[low] + groups.values[high]) / 2
    return middle


def quantile_places(counts: FloatArray, q: float, *, upper: bool = False) -> IntArray:
    """The level in which the ``q`` quantile of each group lies; shape ``(groups,)``.

    It is the first level up to which at least the share ``q`` of the group stands (type 1 of Hyndman
    and Fan, 1996); with ``upper`` the first up to which more than that stands.
    """
    cumulative, sizes = np.cumsum(counts, axis=1), counts.sum(axis=1, keepdims=True)
    slack = 1e-9 * sizes  # a share such as 0.1 of 30 is not a whole number in binary
    enough = cumulative > q * sizes + slack if upper else cumulative >= q * sizes - slack
    enough &= counts > 0
    last = counts.shape[1] - 1 - np.argmax(counts[:, ::-1] > 0, axis=1)
    places: IntArray = np.where(enough.any(axis=1), np.argmax(enough, axis=1), last)
    return places


def mean_intervals(groups: GroupMeans, alpha: float = 0.05) -> FloatArray:
    """Student's interval of each group's mean; shape ``(2, groups)``."""
    with np.errstate(divide="ignore", invalid="ignore"):
        half = -special.stdtrit(groups.sizes - 1, alpha / 2) * np.sqrt(groups.variances / groups.sizes)
    return np.array([groups.means - half, groups.means + half])
