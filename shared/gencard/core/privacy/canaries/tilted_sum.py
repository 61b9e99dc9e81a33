r"""How likely a sum of independent whole numbers is small, also where that is very unlikely.

Masses :math:`f(k)` are tilted to :math:`f(k) e^{-\theta k} / M`, so that the sum of m falls near the
bound K; then they are convolved by the fast Fourier transform and tilted back:

.. math:: P[S \le K] = M^m \sum_{s \le K} f_\theta^{*m}(s)\, e^{\theta s}

Sums beyond the transform's length come back as smaller ones, which can only add to the probability;
short transforms are long enough for all, long ones for twelve standard deviations.
"""

from math import log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.optimize import brentq

from gencard.core.types import FloatArray

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
    length = next_fast_len(_length(masses, steps, terms), real=True)
    sums = irfft(_power(rfft(masses, length), terms), length)[: len(steps)]
    inside = float(np.maximum(sums, 0.0) @ np.exp(tilt * (steps - steps[-1])))
    return min(0.0, terms * (peak + log(scale)) + tilt * float(steps[-1]) + log(inside))


def _log_masses(log_cdf: FloatArray) -> FloatArray:
    """Natural log of P[number = k]; minus infinity where there is none."""
    with np.errstate(divide="ignore"):
        rest: FloatArray = log_cdf[1:] + np.log(-np.expm1(log_cdf[:-1] - log_cdf[1:]))
    return np.concatenate([log_cdf[:1], rest])


def _power(numbers: NDArray[np.complex128], exponent: int) -> NDArray[np.complex128]:
    """By repeated squaring, some ten times as fast as ``**`` on complex numbers."""
    found = numbers if exponent % 2 else np.ones_like(numbers)
    for _ in range(exponent.bit_length() - 1):
        exponent //= 2
        numbers = numbers * numbers
        if exponent % 2:
            found = found * numbers
    return found


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
    return float(brentq(excess, low, high, rtol=1e-3))
