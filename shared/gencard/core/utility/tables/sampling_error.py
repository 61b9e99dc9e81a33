r"""How far the shares of n rows lie from the shares p that they are drawn from, by chance alone.

Total variation is :math:`TV = \frac{1}{2} \sum_i |p_i - q_i|` with the shares q of the rows. The count
of a cell is binomial, and its mean absolute deviation known in closed form [1]_:

.. math:: E |p_i - q_i| = \frac{2}{n} \nu_i (1 - p_i) P(B(n, p_i) = \nu_i), \quad
   \nu_i = \lfloor n p_i \rfloor + 1

With :math:`s_i^2 = p_i (1 - p_i) / n - (E |p_i - q_i|)^2`, the variance of :math:`|p_i - q_i|`, and the
squared correlation of two counts :math:`\rho_{ij}^2 = p_i p_j / ((1 - p_i)(1 - p_j))`,

.. math:: Var(TV) \approx \frac{1}{4} \Big( \sum_i s_i^2 + \sum_{i \ne j} \rho_{ij}^2 s_i s_j \Big)

which is exact for two cells, and for many rows an upper bound: absolute values of normal deviates are
correlated by at most :math:`\rho^2`.

References:
    .. [1] A. de Moivre, 1730; P. Diaconis, S. Zabell, "Closed Form Summation for Classical
       Distributions: Variations on a Theme of De Moivre", Statistical Science 6, 1991.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammainccinv, xlog1py, xlogy

Shares = NDArray[np.float64]


def expected_variation(shares: Shares, rows: int) -> float:
    """Total variation expected between ``shares`` and those of so many rows drawn from them."""
    return float(_deviations(_uncertain(shares), rows).sum() / 2)


def variation_bound(shares: Shares, rows: int, probability: float) -> float:
    """A total variation that is exceeded with about this probability, or less.

    The quantile of the gamma distribution with the mean and the variance above, and one row more,
    since counts are whole. It is an approximation: ``tests/core/test_sampling_error.py`` tries it.
    """
    uncertain = _uncertain(shares)
    deviations = _deviations(uncertain, rows)
    mean, variance = float(deviations.sum() / 2), _variance(uncertain, deviations, rows)
    if variance == 0:
        return mean + 1 / rows
    quantile = gammainccinv(mean**2 / variance, probability)
    return float(quantile * variance / mean + 1 / rows)


def _uncertain(shares: Shares) -> Shares:
    """The cells whose count is not known in advance."""
    return shares[(shares > 0) & (shares < 1)]


def _deviations(shares: Shares, rows: int) -> Shares:
    """Mean absolute deviation of each cell's share."""
    nearest = np.minimum(np.floor(rows * shares) + 1, rows)
    log_chance = (
        xlogy(nearest, shares)
        + xlog1py(rows - nearest, -shares)
        - betaln(rows - nearest + 1, nearest + 1)
        - np.log(rows + 1)
    )
    found: Shares = 2 * nearest * (1 - shares) * np.exp(log_chance) / rows
    return found


def _variance(shares: Shares, deviations: Shares, rows: int) -> float:
    """Variance of the total variation; the sum over pairs is a square less its diagonal."""
    stddevs = np.sqrt(np.maximum(shares * (1 - shares) / rows - deviations**2, 0.0))
    shared = stddevs * shares / (1 - shares)
    return float((stddevs @ stddevs + shared.sum() ** 2 - shared @ shared) / 4)
