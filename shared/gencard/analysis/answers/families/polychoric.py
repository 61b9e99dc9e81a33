r"""Polychoric correlation: that of two normal variables whose classes two ordered attributes are.

In two steps (Olsson 1979): thresholds :math:`\tau` from the margins, then the :math:`\rho` of largest
likelihood :math:`\sum n_c \log \pi_c(\rho, \tau)`. Its standard error includes that of the thresholds:
with :math:`g_c = d\rho / d n_c` along the equations of both steps, the delta method for a multinomial
table gives :math:`\sum_c n_c g_c^2`, for :math:`\sum_c n_c g_c = 0`.

References:
    U. Olsson, "Maximum likelihood estimation of the polychoric correlation coefficient",
    Psychometrika 44(4), 1979.
"""

from dataclasses import dataclass
from math import pi, sqrt

import numpy as np
from scipy import optimize, special

from gencard.analysis.answers.families.contingency import Test
from gencard.core.errors import InvalidInputError
from gencard.core.types import FloatArray

_BRACKETS = (0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)
"""Largest correlations that are tried; beyond the last one there is no finite estimate."""

_SMALLEST_SHARE = 1e-300


@dataclass(frozen=True, slots=True)
class Polychoric:
    """The correlation of the two variables behind a table, and its gradient by cell.

    Args:
        rho: The estimate.
        gradient: Change of ``rho`` with each count, of the table's shape.
        standard_error: That of sampling.
        fit: Likelihood-ratio test that the variables are normal; None without degrees of freedom.
    """

    rho: float
    gradient: FloatArray
    standard_error: float
    fit: Test | None


def polychoric(table: FloatArray) -> Polychoric:
    """Return the polychoric correlation of a table of counts.

    Each row and each column holds records, and there are at least two of each.

    Raises:
        InvalidInputError: The order of one attribute follows from the other: rho is 1 or -1.
    """
    thresholds = tuple(_thresholds(table.sum(axis=axis)) for axis in (1, 0))
    rho = _largest_likelihood(table, *thresholds)
    gradient = _gradient(table, _Cells(rho, *thresholds))
    shares = _Cells(rho, *thresholds).shares
    freedom = table.size - sum(table.shape)
    distance = 2 * float(special.rel_entr(table / table.sum(), shares).sum() * table.sum())
    return Polychoric(
        rho,
        gradient,
        sqrt(float(np.sum(table * gradient**2))),
        Test.chi2(distance, freedom) if freedom else None,
    )


def _thresholds(margin: FloatArray) -> FloatArray:
    """Between the classes, as normal deviates."""
    thresholds: FloatArray = special.ndtri(np.cumsum(margin)[:-1] / margin.sum())
    return thresholds


def _largest_likelihood(table: FloatArray, rows: FloatArray, columns: FloatArray) -> float:
    def score(rho: float) -> float:
        cells = _Cells(rho, rows, columns)
        return float(np.sum(table / cells.shares * cells.by_rho))

    for largest in _BRACKETS:
        if score(-largest) > 0 > score(largest):
            return float(optimize.brentq(score, -largest, largest, xtol=1e-14, rtol=1e-14))
    problem = "have no finite estimate: empty cells make the correlation 1 or -1"
    raise InvalidInputError(field="classes", problem=problem)


class _Cells:
    """Probabilities of the cells and their derivatives, at one rho and given thresholds."""

    def __init__(self, rho: float, rows: FloatArray, columns: FloatArray) -> None:
        self.rho, self.rows, self.columns = rho, rows, columns
        self._h, self._k = np.meshgrid(rows, columns, indexing="ij")
        self._s2 = (1 - rho) * (1 + rho)

    @property
    def shares(self) -> FloatArray:
        """Shape ``(rows, columns)``."""
        inside = bivariate_normal(self._h, self._k, self.rho)
        corners = np.zeros((len(self.rows) + 2, len(self.columns) + 2))
        corners[1:-1, 1:-1] = inside
        corners[-1, 1:-1], corners[1:-1, -1] = special.ndtr(self.columns), special.ndtr(self.rows)
        corners[-1, -1] = 1
        shares: FloatArray = np.maximum(np.diff(np.diff(corners, axis=0), axis=1), _SMALLEST_SHARE)
        return shares

    @property
    def density(self) -> FloatArray:
        """Density at each pair of thresholds: the derivative of a corner by rho."""
        h, k = self._h, self._k
        exponent = -(h**2 - 2 * self.rho * h * k + k**2) / (2 * self._s2)
        density: FloatArray = np.exp(exponent) / (2 * pi * sqrt(self._s2))
        return density

    @property
    def by_rho(self) -> FloatArray:
        """Derivative of the shares by rho."""
        return _differences(self.density)

    @property
    def by_rho_twice(self) -> FloatArray:
        h, k, rho, s2 = self._h, self._k, self.rho, self._s2
        slope = rho / s2 + (h * k * (1 + rho**2) - rho * (h**2 + k**2)) / s2**2
        return _differences(self.density * slope)

    def by_row(self, place: int) -> tuple[FloatArray, FloatArray]:
        """Derivatives by one threshold of the rows: of the shares, and of ``by_rho``."""
        h = self.rows[place]
        below = special.ndtr((self.columns - self.rho * h) / sqrt(self._s2))
        corner = np.concatenate([[0.0], np.exp(-(h**2) / 2) / sqrt(2 * pi) * below, [0.0]])
        corner[-1] = np.exp(-(h**2) / 2) / sqrt(2 * pi)
        first, second = (np.zeros((len(self.rows) + 1, len(self.columns) + 1)) for _ in range(2))
        first[place], first[place + 1] = np.diff(corner), -np.diff(corner)
        change = -self.density[place] * (h - self.rho * self.columns) / self._s2
        mixed = np.diff(np.concatenate([[0.0], change, [0.0]]))
        second[place], second[place + 1] = mixed, -mixed
        return first, second

    @property
    def turned(self) -> "_Cells":
        """With rows and columns exchanged."""
        return _Cells(self.rho, self.columns, self.rows)


def _differences(corners: FloatArray) -> FloatArray:
    """Return the share of each cell for a function of the inner corners that is 0 on the border."""
    return np.diff(np.diff(np.pad(corners, 1), axis=0), axis=1)


def _gradient(table: FloatArray, cells: _Cells) -> FloatArray:
    """Change of rho with each count, by implicit differentiation of the score."""
    shares, by_rho = cells.shares, cells.by_rho
    own = by_rho / shares
    curvature = float(np.sum(table * (cells.by_rho_twice / shares - own**2)))
    rows = _through_thresholds(table, cells)
    columns = _through_thresholds(table.T, cells.turned)
    gradient: FloatArray = -(own + rows[:, None] + columns[None, :]) / curvature
    return gradient


def _through_thresholds(table: FloatArray, cells: _Cells) -> FloatArray:
    """Change of the score with one more record in each row, because thresholds move."""
    shares, by_rho, n = cells.shares, cells.by_rho, table.sum()
    cumulative = np.cumsum(table.sum(axis=1))[:-1] / n
    change = np.zeros(len(table))
    for place, (share, threshold) in enumerate(zip(cumulative, cells.rows, strict=True)):
        first, second = cells.by_row(place)
        slope = float(np.sum(table * (second / shares - by_rho * first / shares**2)))
        up = (np.arange(len(table)) <= place) - share
        change += slope * up / n * sqrt(2 * pi) * np.exp(threshold**2 / 2)
    return change


def bivariate_normal(h: FloatArray, k: FloatArray, rho: float) -> FloatArray:
    """P(X <= h, Y <= k) of standard normal variables with correlation rho, by Owen's T function.

    References:
        D. B. Owen, "Tables for computing bivariate normal probabilities", Ann. Math. Stat. 27(4), 1956.

    >>> bivariate_normal(np.zeros(1), np.zeros(1), 0.5).round(6).tolist()
    [0.333333]
    """
    # T needs a ratio by h and by k: what is next to 0 stands for 0.
    h, k = (np.where(x == 0, _SMALLEST_SHARE, x) for x in (h, k))
    scale = sqrt((1 - rho) * (1 + rho))
    with np.errstate(over="ignore"):
        parts = special.owens_t(h, (k / h - rho) / scale) + special.owens_t(k, (h / k - rho) / scale)
    apart = np.where((h < 0) != (k < 0), 0.5, 0.0)
    probability: FloatArray = (special.ndtr(h) + special.ndtr(k)) / 2 - parts - apart
    return probability
