r"""The trade-off curve of Gaussian noise: how well two normal distributions, mu apart, are told apart.

Whoever guesses "in" with probability x where a record is out guesses it with at most
:math:`\Phi(\Phi^{-1}(x) + \mu)` where it is in. Such a generator is (epsilon, delta)-differentially
private for every epsilon, with

.. math:: \delta(\varepsilon) = \Phi\Big(-\frac{\varepsilon}{\mu} + \frac{\mu}{2}\Big)
   - e^\varepsilon \Phi\Big(-\frac{\varepsilon}{\mu} - \frac{\mu}{2}\Big)

References:
    J. Dong, A. Roth, W. Su, "Gaussian Differential Privacy", arXiv 1905.02383, Corollary 2.13.
"""

from math import exp, log, sqrt

from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr, ndtri


def least_share(share: float, mu: float) -> float:
    """The least probability with a record of outputs that have probability ``share`` without it."""
    return float(ndtr(ndtri(share) - mu))


def delta_of_curve(mu: float, epsilon: float) -> float:
    """delta, 0 to 1, at an epsilon; mu is above 0."""
    over = epsilon + float(log_ndtr(-epsilon / mu - mu / 2))
    return float(ndtr(-epsilon / mu + mu / 2)) - exp(over)


def epsilon_of_curve(mu: float, delta: float) -> float:
    r"""The least epsilon at a delta between 0 and 1.

    It is at most :math:`\mu^2/2 + \mu \sqrt{2 \ln 1/\delta}`, by the tail of a normal distribution.
    """
    if not mu or delta_of_curve(mu, 0.0) <= delta:
        return 0.0
    most = mu * mu / 2 + mu * sqrt(-2 * log(delta))
    return float(brentq(lambda epsilon: delta_of_curve(mu, epsilon) / delta - 1, 0.0, most))
