r"""Bounds on epsilon from the sum nu of the distances of m canaries to their closest rows.

**The published bound** holds in the unit cube.
A generator of n rows that never saw the canaries comes to nu or less with a probability of at most the
volume of :math:`n^m` bodies; epsilon-differential privacy multiplies it by :math:`e^{m \varepsilon}`:

.. math:: p = \min\Big(1, \frac{1}{(md)!} \Big(e^{\varepsilon}
   \frac{2 \pi^{d/2} n \Gamma(d)}{\Gamma(d/2)} \nu^d\Big)^m\Big)

.. math:: \varepsilon_{lower} = \max\Big(0, \ln \frac{\Gamma(d/2)\, (\beta\, (md)!)^{1/m}}
   {2 \pi^{d/2} n \Gamma(d)\, \nu^d}\Big)

The published text rejects a claim where nu *exceeds* the threshold; nearness is the evidence, so it is
rejected where nu is at or below it. Valid for every m, n and d, under both neighbouring relations, and
for pure differential privacy alone. One canary that was not memorised hides many: see ``counts``.

**The refined bound** uses the distribution of the sum instead of a volume. Under replace-one
epsilon-differential privacy, given the rows and all other canaries, each distance is within r with
probability at most

.. math:: G(r) = \frac{q(r)}{q(r) + e^{-\varepsilon} (1 - q(r))}

so the distances dominate independent draws from G, and :math:`p = P[\sum R_i \le \nu]`. It is computed
with numbers rounded down to a grid, which makes p too large rather than too small. Always at least as
strong as the published sum but for that, and valid for levels, where the distance is Hamming's.
Pure differential privacy alone; under add-remove a replacement is two steps, and epsilon halves.

**The tail** of a sum of independent whole numbers is computed also where floats would underflow: masses
:math:`f(k)` are tilted to :math:`f(k) e^{-\theta k} / M`, so that the sum of m falls near the bound K;
then they are convolved by the fast Fourier transform and tilted back:

.. math:: P[S \le K] = M^m \sum_{s \le K} f_\theta^{*m}(s)\, e^{\theta s}

Sums beyond the transform's length come back as smaller ones, which can only add to the probability;
short transforms are long enough for all, long ones for twelve standard deviations.
"""

from math import inf, lgamma, log, pi, sqrt

import numpy as np
import scipy
from numpy.typing import NDArray

from gencard.core.card.budget import Neighbouring
from gencard.core.errors import ComputationError, InvalidNumberError
from gencard.core.types import FloatArray
from gencard.measures.privacy.canaries.canaries import Reconstruction
from gencard.measures.privacy.canaries.epsilon_bound import (
    Cube,
    EpsilonBound,
    LogPValue,
    check_beta,
    check_epsilon,
    log_chance,
    smallest_epsilon,
    steps_of,
    tilted_chance,
)


def published_log_p(nu: float, m: int, n: int, d: int, *, epsilon: float) -> float:
    """Natural log of p of a sum of distances ``nu`` if the generator is epsilon-differentially private.

    Args:
        m: Number of canaries.
        n: Number of rows.
        d: Number of attributes.

    Raises:
        InvalidNumberError: A number below 1, nu negative, or no epsilon.
    """
    check_epsilon(epsilon)
    return min(0.0, m * (epsilon + _log_growth(nu, m, n, d)) - lgamma(m * d + 1))


def epsilon_lower(nu: float, m: int, n: int, d: int, *, beta: float) -> float:
    """The epsilon, in nats, at which p is beta; infinite at nu = 0. Raises as ``published_log_p``."""
    check_beta(beta)
    growth = _log_growth(nu, m, n, d)
    return max(0.0, (log(beta) + lgamma(m * d + 1)) / m - growth)


def published_bound(
    reconstruction: Reconstruction, *, beta: float, neighbouring: Neighbouring
) -> EpsilonBound:
    """The bound of one run.

    Raises:
        ComputationError: The canaries are levels, of which the theorem does not speak.
        InvalidNumberError: beta is not above 0 and at most 1/2.
    """
    if not isinstance(reconstruction.space, Cube):
        raise ComputationError(
            problem="the published sum applies to numbers only; levels have other bounds"
        )
    sizes = len(reconstruction.radii), reconstruction.rows, reconstruction.space.attributes
    return EpsilonBound(epsilon_lower(reconstruction.nu, *sizes, beta=beta), 0.0, beta, neighbouring)


def _log_growth(nu: float, m: int, n: int, d: int) -> float:
    """Natural log of what each canary contributes to p, without epsilon."""
    if min(m, n, d) < 1:
        raise InvalidNumberError(field="The numbers of canaries, rows and attributes", expected="from 1")
    if not 0 <= nu < inf:
        raise InvalidNumberError(field="nu", expected="finite and at least 0")
    log_nu = log(nu) if nu else -inf
    return log(2) + d / 2 * log(pi) + lgamma(d) - lgamma(d / 2) + log(n) + d * log_nu


_COARSE = 2**10
"""Steps that a first guess is made with."""


def refined_log_p(
    reconstruction: Reconstruction, *, epsilon: float, neighbouring: Neighbouring
) -> float:
    """Natural log of p of the sum of distances if the generator is epsilon-differentially private.

    Raises:
        InvalidNumberError: epsilon is negative or not finite.
    """
    check_epsilon(epsilon)
    return _log_p(reconstruction)(epsilon * steps_of(neighbouring))


def sum_bound(
    reconstruction: Reconstruction, *, beta: float, neighbouring: Neighbouring
) -> EpsilonBound:
    """The bound of one run.

    Raises:
        InvalidNumberError: beta is not above 0 and at most 1/2.
    """
    check_beta(beta)
    guess = smallest_epsilon(_log_p(reconstruction, coarse=True), beta)
    epsilon = smallest_epsilon(_log_p(reconstruction), beta, guess=guess) / steps_of(neighbouring)
    return EpsilonBound(epsilon, 0.0, beta, neighbouring)


def _log_p(reconstruction: Reconstruction, *, coarse: bool = False) -> LogPValue:
    """Natural log of p by the epsilon of replacing one record; coarsely, only about that."""
    terms = len(reconstruction.radii)
    edges = reconstruction.space.edges(reconstruction.nu, terms)
    step = max(1, len(edges) // _COARSE) if coarse else 1
    log_q = log_chance(reconstruction.space, edges[step - 1 :: step], reconstruction.rows)
    return lambda epsilon: log_sum_at_most(tilted_chance(log_q, epsilon), terms)


_FEW = 2**11
"""Steps on which the tilt is found."""

_SPREADS = 12
"""Standard deviations that a transform holds."""

_SHORT = 2**12
"""Steps that are always added."""


def log_sum_at_most(log_cdf: FloatArray, terms: int) -> float:
    """Natural log of P[sum <= K] for so many independent numbers 0, 1, ...

    Args:
        log_cdf: ln P[number <= k] for k = 0..K, not decreasing, the first finite; shape ``(K + 1,)``.
    """
    steps = np.arange(len(log_cdf), dtype=np.float64)
    tilt = _tilt(log_cdf, terms)
    tilted = _log_masses(log_cdf) - tilt * steps
    peak = float(tilted.max())
    masses = np.exp(tilted - peak)
    scale = float(masses.sum())
    masses /= scale
    length = scipy.fft.next_fast_len(_length(masses, steps, terms), real=True)
    sums = scipy.fft.irfft(_power(scipy.fft.rfft(masses, length), terms), length)[: len(steps)]
    inside = float(np.maximum(sums, 0.0) @ np.exp(tilt * (steps - steps[-1])))
    return min(0.0, terms * (peak + log(scale)) + tilt * float(steps[-1]) + log(inside))


def _log_masses(log_cdf: FloatArray) -> FloatArray:
    """Natural log of P[number = k]; minus infinity where there is none."""
    with np.errstate(divide="ignore"):
        rest: FloatArray = log_cdf[1:] + np.log(-np.expm1(log_cdf[:-1] - log_cdf[1:]))
    return np.concatenate([log_cdf[:1], rest])


def _power(numbers: NDArray[np.complex128], exponent: int) -> NDArray[np.complex128]:
    """By repeated squaring, some ten times as fast as ``**`` on complex numbers."""
    product = numbers if exponent % 2 else np.ones_like(numbers)
    for _ in range(exponent.bit_length() - 1):
        exponent //= 2
        numbers = numbers * numbers
        if exponent % 2:
            product = product * numbers
    return product


def _length(masses: FloatArray, steps: FloatArray, terms: int) -> int:
    """How long a transform is to be, so that next to no sum is beyond."""
    mean = float(masses @ steps)
    spread = sqrt(terms * float(masses @ (steps - mean) ** 2))
    far = max(terms * mean, float(steps[-1])) + _SPREADS * (spread + 1)
    return len(steps) + min((terms - 1) * len(steps), max(int(far) - len(steps), _SHORT))


def _tilt(log_cdf: FloatArray, terms: int) -> float:
    """A theta, at least 0, with which the expected sum is about K, or less without tilting.

    Any theta gives the same sum; it is found on some of the steps.
    """
    step = max(1, len(log_cdf) // _FEW)
    log_masses = _log_masses(log_cdf[step - 1 :: step])
    steps = np.arange(len(log_masses), dtype=np.float64) * step

    def excess(theta: float) -> float:
        tilted = log_masses - theta * steps
        masses = np.exp(tilted - tilted.max())
        return float(terms * (masses @ steps) / masses.sum()) - (len(log_cdf) - 1)

    if excess(0.0) <= 0:
        return 0.0
    low, high = 0.0, terms / len(log_cdf)
    while excess(high) > 0:
        low, high = high, 2 * high
    return float(scipy.optimize.brentq(excess, low, high, rtol=1e-3))
