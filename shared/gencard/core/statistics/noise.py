r"""How much noise a privacy budget asks for, and who draws it.

A record is in one cell of every marginal. Adding or removing one moves one count of each marginal by 1
(L1 = L2 = 1); replacing one moves two (L1 = 2, L2 = :math:`\sqrt 2`). The number of records is a count
like any other: it is never released apart from the marginals, under either relation.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import exp, expm1, inf, isqrt, nextafter, sqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gencard.core.budget import Mechanism, Neighbouring, Privacy
from gencard.core.errors import InvalidInputError
from gencard.core.statistics.psi import Measurement, Psi

Integers = NDArray[np.int64]

_LARGEST = 2**53
"""Noisy counts are clamped here: beyond, a float is not the integer that it stands for."""

_LEAST_STDDEV = 1e-9
"""Noise too small to be seen is noise all the same: a stddev of 0 would say that counts are exact."""

_FINE = 2**40


class Noise(Protocol):
    """Draws exact discrete noise from a cryptographic source; ``controller/noise.py`` has the one."""

    def laplace(self, counts: Integers, scale: float) -> Integers:
        r"""Add to each count k with probability proportional to :math:`e^{-|k| / scale}`."""
        ...

    def gaussian(self, counts: Integers, scale: float) -> Integers:
        r"""Add to each count k with probability proportional to :math:`e^{-k^2 / (2\, scale^2)}`."""
        ...


def noisy(psi: Psi, privacy: Privacy, noise: Noise, weights: Sequence[int] = ()) -> Psi:
    """Exact psi with noise on every count, zeros included; each stddev says how much.

    Args:
        weights: Parts of the budget, one for each marginal; empty for equal parts.
    """
    draw = noise.laplace if privacy.mechanism is Mechanism.LAPLACE else noise.gaussian
    measurements = []
    for exact, scale in zip(
        psi.measurements, scales(privacy, weights or [1] * len(psi.cliques)), strict=True
    ):
        counts = draw(np.asarray(exact.values, dtype=np.int64), scale)
        clamped = np.clip(counts, -_LARGEST, _LARGEST)
        measurements.append(Measurement(exact.clique, clamped, stddev_of(privacy.mechanism, scale)))
    return Psi(psi.domain, tuple(measurements))


def scales(privacy: Privacy, weights: Sequence[int]) -> tuple[float, ...]:
    r"""The parameter of each marginal's noise, in records, rounded up.

    A marginal of weight w gets the share :math:`s = w / \sum w` of the budget. Laplace noise of scale
    :math:`b = L_1 / (s \epsilon)` spends :math:`s \epsilon` [1]_; discrete Gaussian noise with
    :math:`\sigma^2 = L_2^2 / (2 s \rho)` spends :math:`s \rho` [2]_. Both add up over the marginals.

    Args:
        weights: One whole number from 1 up for each marginal.

    Raises:
        InvalidInputError: The privacy is that of exact counts.

    References:
        .. [1] A. Ghosh, T. Roughgarden, M. Sundararajan, "Universally Utility-maximizing Privacy
           Mechanisms", STOC 2009 (the discrete mechanism).
        .. [2] C. Canonne, G. Kamath, T. Steinke, "The Discrete Gaussian for Differential Privacy",
           NeurIPS 2020, Theorem 14.
    """
    moved = 2 if privacy.neighbouring is Neighbouring.REPLACE_ONE else 1
    budget = privacy.epsilon or privacy.rho
    if budget is None:
        raise InvalidInputError(field="privacy", problem="asks for no noise")
    spent = [Fraction(weight, sum(weights)) * Fraction(budget) for weight in weights]
    if privacy.mechanism is Mechanism.LAPLACE:
        return tuple(_above(moved / share) for share in spent)
    return tuple(_root_above(moved / (2 * share)) for share in spent)


def stddev_of(mechanism: Mechanism, scale: float) -> float:
    r"""Standard deviation of one draw, in records.

    Discrete Laplace: :math:`\sqrt{2 q} / (1 - q)` with :math:`q = e^{-1/b}`. Discrete Gaussian: from
    :math:`\sigma = 4` on its parameter, to more digits than a float has; below, the sum itself.
    """
    if mechanism is Mechanism.LAPLACE:
        found = sqrt(2 * exp(-1 / scale)) / -expm1(-1 / scale)
    elif scale >= 4:
        found = scale
    else:
        steps = np.arange(1.0, 200.0)
        with np.errstate(over="ignore", under="ignore"):
            weights = np.exp(-((steps / scale) ** 2) / 2)
        found = sqrt(2 * float(steps**2 @ weights) / (1 + 2 * float(weights.sum())))
    return max(found, _LEAST_STDDEV)


def _above(number: Fraction) -> float:
    """The smallest float that is not below an exact number."""
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else nextafter(nearest, inf)


def _root_above(number: Fraction) -> float:
    """A float not below the square root of an exact number, and hardly above."""
    fine = _FINE**2
    root = isqrt(number.numerator * fine // number.denominator) + 1
    return _above(Fraction(root, _FINE))
