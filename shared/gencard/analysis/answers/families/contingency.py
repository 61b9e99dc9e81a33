r"""Statistics of contingency tables: independence, association, ratios of 2 x 2 tables and their strata.

With counts :math:`n_{rc}`, expected counts :math:`e_{rc} = n_{r.} n_{.c} / n`:

.. math:: \chi^2 = \sum (n - e)^2 / e, \quad G = 2 \sum n \ln (n / e), \quad
   V = \sqrt{\chi^2 / (n (\min(r, c) - 1))}

Rows and columns without records are left out before: they have no expected count.

References:
    A. Agresti, *Categorical Data Analysis*, 3rd edition, 2013, sections 2.3, 3.2, 6.4.
"""

from dataclasses import dataclass
from math import log, nan, sqrt

import numpy as np
from scipy import special

from gencard.core.errors import InvalidInputError
from gencard.core.types import FloatArray


@dataclass(frozen=True, slots=True)
class Test:
    """A chi-squared test: statistic, degrees of freedom, p value."""

    statistic: float
    degrees: int
    pvalue: float

    @classmethod
    def chi2(cls, statistic: float, degrees: int) -> "Test":
        """Test a statistic that is chi-squared by hypothesis; p is 1 without degrees of freedom."""
        pvalue = float(special.chdtrc(degrees, statistic)) if degrees else 1.0
        return cls(float(statistic), degrees, pvalue)


def expected_counts(table: FloatArray) -> FloatArray:
    """Counts where rows and columns are independent."""
    expected: FloatArray = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    return expected


def pearson(table: FloatArray, *, correction: bool = False) -> Test:
    """Pearson's test of independence; with Yates' continuity correction where there is one degree.

    The corrected difference is at most the difference itself, as in R and scipy.
    """
    expected = expected_counts(table)
    differences = np.abs(table - expected)
    if correction and freedom(table) == 1:
        differences = differences - np.minimum(0.5, differences)
    return Test.chi2(float(np.sum(differences**2 / expected)), freedom(table))


def likelihood_ratio(table: FloatArray) -> Test:
    """The likelihood-ratio test of independence, G."""
    terms = special.rel_entr(table, expected_counts(table))
    return Test.chi2(2 * float(terms.sum()), freedom(table))


def freedom(table: FloatArray) -> int:
    """Degrees of freedom of independence."""
    return int(np.prod([size - 1 for size in table.shape]))


def cramers_v(table: FloatArray) -> float:
    """Cramér's V, 0 to 1; NaN where a side has a single level."""
    smaller = min(table.shape) - 1
    return sqrt(pearson(table).statistic / (table.sum() * smaller)) if smaller > 0 else nan


def adjusted_residuals(table: FloatArray) -> FloatArray:
    """Differences from independence in standard errors, as Agresti's standardized residuals."""
    expected = expected_counts(table)
    rows, columns = (table.sum(axis=axis) / table.sum() for axis in (1, 0))
    variances = expected * np.outer(1 - rows, 1 - columns)
    scale = np.sqrt(np.where(variances > 0, variances, np.inf))
    residuals: FloatArray = (table - expected) / scale
    return residuals


def log_ratios(table: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Logarithms of odds ratio and risk ratio of a 2 x 2 table, and their covariance.

    The risk is the share of the first column in a row; ratios are first row to second. Both are
    functions of the logits of two binomial shares, so the covariance is theirs by the delta method.

    Raises:
        InvalidInputError: A count is 0 (or below, under noise): a ratio is 0 or infinite.
    """
    if not np.all(table > 0):
        raise InvalidInputError(field="table", problem="has an empty cell, so it has no odds ratio")
    (a, b), (c, d) = table.tolist()
    odds, risk = log(a) - log(b) - log(c) + log(d), log(a / (a + b)) - log(c / (c + d))
    shared = 1 / a - 1 / (a + b) + 1 / c - 1 / (c + d)
    full = 1 / a + 1 / b + 1 / c + 1 / d
    # cov(logit p, log p) = Var(p) / (p (1 - p) p) = 1 / (n p) = 1 / a, in each row.
    return np.array([odds, risk]), np.array([[full, 1 / a + 1 / c], [1 / a + 1 / c, shared]])


@dataclass(frozen=True, slots=True)
class Strata:
    """A 2 x 2 table in each of k strata; ``counts`` has shape ``(2, 2, k)``.

    Strata whose rows or columns are all empty say nothing; they are left out.
    """

    counts: FloatArray

    @classmethod
    def of(cls, counts: FloatArray) -> "Strata":
        """Select the strata of ``counts`` in which both rows and both columns hold records.

        Raises:
            InvalidInputError: There is none.
        """
        occupied = (counts.sum(axis=0) > 0).all(axis=0) & (counts.sum(axis=1) > 0).all(axis=0)
        if not occupied.any():
            raise InvalidInputError(
                field="strata", problem="no stratum has records in both rows and both columns"
            )
        return cls(counts[:, :, occupied])

    @property
    def sizes(self) -> FloatArray:
        """Records in each stratum."""
        sizes: FloatArray = self.counts.sum(axis=(0, 1))
        return sizes

    def pooled_odds(self) -> tuple[float, float]:
        """Logarithm of the Mantel-Haenszel odds ratio, and its standard error.

        The variance is that of Robins, Breslow and Greenland (Biometrics 42, 1986), which holds for few
        large strata and for many small ones.
        """
        (a, b), (c, d), n = self.counts[0], self.counts[1], self.sizes
        same, cross = a * d / n, b * c / n
        if not (same.sum() > 0 and cross.sum() > 0):
            raise InvalidInputError(
                field="strata", problem="have too many empty cells for an odds ratio"
            )
        concordant, discordant = (a + d) / n, (b + c) / n
        variance = np.sum(concordant * same) / same.sum() ** 2
        variance += np.sum(concordant * cross + discordant * same) / (same.sum() * cross.sum())
        variance += np.sum(discordant * cross) / cross.sum() ** 2
        return log(same.sum() / cross.sum()), sqrt(variance / 2)

    def no_association(self) -> Test:
        """The Mantel-Haenszel test that all odds ratios are 1, without continuity correction."""
        (a, b), (c, d), n = self.counts[0], self.counts[1], self.sizes
        difference = np.sum(a - (a + b) * (a + c) / n)
        variance = np.sum((a + b) * (c + d) * (a + c) * (b + d) / (n**2 * np.maximum(n - 1, 1)))
        return Test.chi2(float(difference**2 / variance), 1)

    def equal_odds(self) -> Test:
        """The Breslow-Day test that all odds ratios are equal, without Tarone's adjustment."""
        (a, b), (c, _), n = self.counts[0], self.counts[1], self.sizes
        ratio = np.exp(self.pooled_odds()[0])
        row, column = a + b, a + c
        # The count of the first cell that has this odds ratio solves a quadratic equation.
        leading, linear = 1 - ratio, n - row - column + ratio * (row + column)
        root = np.sqrt(np.maximum(linear**2 + 4 * leading * ratio * row * column, 0))
        first = 2 * ratio * row * column / (linear + root)
        others = (row - first, column - first, n - row - column + first)
        variance = 1 / (1 / first + sum(1 / other for other in others))
        return Test.chi2(float(np.sum((a - first) ** 2 / variance)), len(n) - 1)


def share_intervals(counts: FloatArray, alpha: float = 0.05) -> FloatArray:
    """Wilson's interval of each cell's share of all; shape ``(2, k)``, lower and upper bounds."""
    n = counts.sum()
    shares = np.clip(counts / n, 0.0, 1.0)  # noise leaves some below 0: their sampling error is of 0
    z = -float(special.ndtri(alpha / 2))
    centre = (shares + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(shares * (1 - shares) / n + z**2 / (4 * n**2))
    return np.array([centre - half, centre + half])
