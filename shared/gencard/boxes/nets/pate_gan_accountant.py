r"""Privacy that noisy votes spend, exactly: the composition of discrete Laplace noise on one count.

A record belongs to one teacher, so replacing it moves the number of teachers that vote "real" by one at
most. Of discrete Laplace noise of scale b on a count that moves by one, the privacy loss is either
:math:`\varepsilon_0` or :math:`-\varepsilon_0` with :math:`\varepsilon_0 = 1/b`, never between: the
ratio of the probabilities of an integer is :math:`e^{1/b}` on one side and :math:`e^{-1/b}` on the
other. The chance of the former is :math:`p = 1 / (1 + e^{-\varepsilon_0})`: it is randomised response,
the worst of all mechanisms with :math:`\varepsilon_0`. Of T votes, each chosen in the knowledge of those
before, the loss is at worst :math:`(2X - T) \varepsilon_0` with X of the binomial law [1]_, and

.. math:: \delta(\varepsilon) = \sum_x P[X = x] \, [1 - e^{\varepsilon - (2x - T) \varepsilon_0}]_+

Nothing here depends on a record: neither how far the teachers agree, nor where training stops. The
moments accountants of [2]_ and [3]_ bound the same loss by its moments, so never by less, where they do
not look at the votes; where they do, what they call spent is itself computed from records.

References:
    .. [1] P. Kairouz, S. Oh, P. Viswanath, "The Composition Theorem for Differential Privacy",
       ICML 2015, Theorem 3.3.
    .. [2] N. Papernot et al., "Semi-supervised Knowledge Transfer for Deep Learning from Private
       Training Data", ICLR 2017, section 3.
    .. [3] J. Jordon, J. Yoon, M. van der Schaar, "PATE-GAN: Generating Synthetic Data with Differential
       Privacy Guarantees", ICLR 2019, section 4.
    .. [4] M. Bun, T. Steinke, "Concentrated Differential Privacy", TCC 2016, Prop. 1.4 and Lemma 1.7.
"""

from decimal import Decimal
from fractions import Fraction
from math import ceil, floor, inf, nextafter, sqrt

import numpy as np

_ABOVE = 1 + 1e-6
"""More than the rounding errors of a sum of probabilities."""

_WIDE = 12
"""Standard deviations of X that are summed term by term; what lies beyond counts in full."""

MOST_VOTES = 1_000_000


def delta_of_votes(votes: int, scale: float, epsilon: float) -> float:
    """The least delta that T votes keep at an epsilon, rounded up.

    Args:
        votes: T, from 0 up.
        scale: Parameter b of the noise, in votes.
    """
    from scipy.special import expit  # noqa: PLC0415 - half of the start of every other box
    from scipy.stats import binom  # noqa: PLC0415

    one = nextafter(1 / scale, inf)
    share = float(expit(one))
    half = _WIDE * sqrt(votes * share * (1 - share)) + 1
    least = floor((votes + epsilon / one) / 2)
    low = max(least, 0, floor(votes * share - half))
    high = min(votes, floor(votes * share + half))
    places = np.arange(low, high + 1)
    over = np.maximum((2 * places - votes) * one - epsilon, 0.0)
    delta = float(binom.pmf(places, votes, share) @ -np.expm1(-over)) + binom.sf(high, votes, share)
    if low > least:
        delta += binom.cdf(low - 1, votes, share)
    return min(1.0, _ABOVE * float(delta))


def rho_of_votes(votes: int, scale: float) -> Decimal:
    r"""ZCDP of T votes, to nine places, rounded up: :math:`T \varepsilon_0^2 / 2` [4]_.

    Args:
        votes: T, from 0 up.
        scale: Parameter b of the noise, in votes.
    """
    rho = Fraction(votes) / (2 * Fraction(scale) ** 2)
    return Decimal(ceil(rho * 10**9)) / 10**9


def votes_of(scale: float, epsilon: float, delta: float, *, most: int = MOST_VOTES) -> int:
    """The largest number of votes, up to ``most``, that keep (epsilon, delta)."""

    def kept(votes: int) -> bool:
        return delta_of_votes(votes, scale, epsilon) <= delta

    if kept(most):
        return most
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if kept(middle) else (low, middle)
    return low


def scale_of(votes: int, epsilon: float, delta: float) -> float:
    """The least noise, to a thousandth, rounded up, for so many votes to keep (epsilon, delta)."""
    low, high = 0.0, 1.0
    while delta_of_votes(votes, high, epsilon) > delta:
        low, high = high, 2 * high
    while high - low > high / 1000:
        middle = (low + high) / 2
        is_private = delta_of_votes(votes, middle, epsilon) <= delta
        low, high = (low, middle) if is_private else (middle, high)
    return high
