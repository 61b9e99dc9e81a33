r"""Exact discrete noise: how much a privacy budget requires, and who draws it.

A record is in one cell of every marginal. Adding or removing one moves one count of each marginal by 1
(L1 = L2 = 1); replacing one moves two (L1 = 2, L2 = :math:`\sqrt 2`). The number of records is a count
like any other: it is never released apart from the marginals, under either relation. What a record does
to a linear statistic follows from its functions' declared values: see ``sensitivity``.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import exp, expm1, inf, isqrt, nextafter, sqrt
from typing import Protocol

import numpy as np

from gencard.core.card.budget import Mechanism, Neighbouring, Privacy
from gencard.core.errors import InvalidInputError
from gencard.core.statistics.linear import LinearStatistic
from gencard.core.statistics.psi import LinearMeasurement, Measurement, Psi
from gencard.core.types import Counts, IntArray

_LARGEST = 2**53
"""Noisy counts are clamped here: beyond, a float is not the integer that it stands for."""

_LARGEST_SUM = 2**62
"""The same for sums, which are 64 bits wide."""

_LEAST_STDDEV = 1e-9
"""Noise too small to be seen is noise all the same: a stddev of 0 would say that counts are exact."""

_FINE = 2**40


class Noise(Protocol):
    """Draws exact discrete noise from a cryptographic source; ``controller/noise.py`` has the one."""

    def laplace(self, counts: IntArray, scale: float) -> IntArray:
        r"""Add to each count k with probability proportional to :math:`e^{-|k| / scale}`."""
        ...

    def gaussian(self, counts: IntArray, scale: float) -> IntArray:
        r"""Add to each count k with probability proportional to :math:`e^{-k^2 / (2\, scale^2)}`."""
        ...

    def choose(self, scores: IntArray, scale: float) -> int:
        r"""The position i with probability proportional to :math:`e^{scores_i / scale}`."""
        ...


def noisy(psi: Psi, privacy: Privacy, noise: Noise, weights: Sequence[int] = ()) -> Psi:
    """Exact psi with noise on every count and every sum, zeros included; each stddev says how much.

    Args:
        weights: Parts of the budget, one for each marginal and then each linear statistic; empty for
            equal parts.
    """
    marginals = len(psi.measurements)
    budgets = parts(privacy, weights or [1] * (marginals + len(psi.linear)))
    return Psi(
        psi.domain,
        tuple(
            noisy_marginal(exact, privacy, noise, budget)
            for exact, budget in zip(psi.measurements, budgets[:marginals], strict=True)
        ),
        tuple(
            _noisy_sums(exact, privacy, noise, budget)
            for exact, budget in zip(psi.linear, budgets[marginals:], strict=True)
        ),
    )


def noisy_marginal(exact: Measurement, privacy: Privacy, noise: Noise, budget: Fraction) -> Measurement:
    """One marginal with noise that spends ``budget``, epsilon or rho, all of it."""
    scale = count_scale(privacy, budget)
    counts = _draw(privacy, noise, exact.values, scale)
    return Measurement(
        exact.clique, np.clip(counts, -_LARGEST, _LARGEST), stddev_of(privacy.mechanism, scale)
    )


def _noisy_sums(
    exact: LinearMeasurement, privacy: Privacy, noise: Noise, budget: Fraction
) -> LinearMeasurement:
    scales = sum_scales(exact.statistic, privacy, budget)
    sums = [
        _draw(privacy, noise, exact.values[place : place + 1], scale)
        for place, scale in enumerate(scales)
    ]
    stddevs = np.array([stddev_of(privacy.mechanism, scale) for scale in scales])
    return LinearMeasurement(
        exact.statistic, np.clip(np.concatenate(sums), -_LARGEST_SUM, _LARGEST_SUM), stddevs
    )


def _draw(privacy: Privacy, noise: Noise, values: Counts, scale: float) -> IntArray:
    draw = noise.laplace if privacy.mechanism is Mechanism.LAPLACE else noise.gaussian
    return draw(np.asarray(values, dtype=np.int64), scale)


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
    return tuple(count_scale(privacy, budget) for budget in parts(privacy, weights))


def count_scale(privacy: Privacy, budget: Fraction) -> float:
    """The parameter of the noise on one marginal that spends ``budget``, epsilon or rho."""
    return _scale(privacy.mechanism, moved(privacy), budget)


def sum_scales(statistic: LinearStatistic, privacy: Privacy, budget: Fraction) -> tuple[float, ...]:
    r"""The parameter of the noise on each sum of a linear statistic, in numerators, rounded up.

    Each sum gets noise in proportion to its function's largest value :math:`M_j`: to one share of the
    budget, the functions :math:`f_j / M_j` are one statistic with sensitivity :math:`L_1` or
    :math:`L_2`, on which noise of one scale falls.
    """
    norm = 1 if privacy.mechanism is Mechanism.LAPLACE else 2
    moved = sensitivity(statistic, privacy.neighbouring, norm)
    return tuple(
        _scale(privacy.mechanism, function.largest**norm * moved, budget)
        for function in statistic.functions
    )


def parts(privacy: Privacy, weights: Sequence[int]) -> list[Fraction]:
    """The budget, epsilon or rho, divided by weights.

    Raises:
        InvalidInputError: The privacy is that of exact counts.
    """
    budget = privacy.epsilon or privacy.rho
    if budget is None:
        raise InvalidInputError(field="privacy", problem="specifies no noise")
    return [Fraction(weight, sum(weights)) * Fraction(budget) for weight in weights]


def moved(privacy: Privacy) -> Fraction:
    """What a record does to a marginal: its L1 sensitivity, and the square of L2."""
    return Fraction(2 if privacy.neighbouring is Neighbouring.REPLACE_ONE else 1)


def _scale(mechanism: Mechanism, moved: Fraction, budget: Fraction) -> float:
    """From an L1 sensitivity, or from the square of an L2 one."""
    return (
        _above(moved / budget) if mechanism is Mechanism.LAPLACE else _root_above(moved / (2 * budget))
    )


def choice_scale(mechanism: Mechanism, sensitivity: Fraction, budget: Fraction) -> float:
    r"""The parameter of a choice by the exponential mechanism, in units of its scores, rounded up.

    The probabilities' ratios for two neighbours lie within a range of :math:`2 \Delta / b` on the log
    scale. That is pure epsilon [1]_; and a range of :math:`\eta` is :math:`\eta^2 / 8` of zCDP [2]_.
    Hence :math:`b = 2 \Delta / \epsilon`, or :math:`b = \Delta / \sqrt{2 \rho}`.

    Args:
        mechanism: Laplace for a budget in epsilon, Gaussian for one in rho.
        sensitivity: :math:`\Delta`, the most that any score moves between neighbours.

    References:
        .. [1] F. McSherry, K. Talwar, "Mechanism Design via Differential Privacy", FOCS 2007, Theorem 6.
        .. [2] M. Cesar, R. Rogers, "Bounding, Concentrating, and Truncating", ALT 2021, Corollary 8.
    """
    if mechanism is Mechanism.LAPLACE:
        return _above(2 * sensitivity / budget)
    return _root_above(sensitivity**2 / (2 * budget))


def stddev_of(mechanism: Mechanism, scale: float) -> float:
    r"""Standard deviation of one draw, in records.

    Discrete Laplace: :math:`\sqrt{2 q} / (1 - q)` with :math:`q = e^{-1/b}`. Discrete Gaussian: from
    :math:`\sigma = 4` on its parameter, to more digits than a float has; below, the sum itself.
    """
    if mechanism is Mechanism.LAPLACE:
        stddev = sqrt(2 * exp(-1 / scale)) / -expm1(-1 / scale)
    elif scale >= 4:
        stddev = scale
    else:
        steps = np.arange(1.0, 200.0)
        with np.errstate(over="ignore", under="ignore"):
            weights = np.exp(-((steps / scale) ** 2) / 2)
        stddev = sqrt(2 * float(steps**2 @ weights) / (1 + 2 * float(weights.sum())))
    return max(stddev, _LEAST_STDDEV)


def _above(number: Fraction) -> float:
    """The smallest float that is not below an exact number."""
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else nextafter(nearest, inf)


def _root_above(number: Fraction) -> float:
    """A float not below the square root of an exact number, and hardly above."""
    fine = _FINE**2
    root = isqrt(number.numerator * fine // number.denominator) + 1
    return _above(Fraction(root, _FINE))


_PAIRS = 10**8
"""Differences of functions between two cells that are looked at, to find the largest."""

_ROUNDED_UP = Fraction(10**9 + 1, 10**9)
"""Above every error of rounding in sums of so few floats."""


def sensitivity(statistic: LinearStatistic, neighbouring: Neighbouring | None, norm: int) -> Fraction:
    r"""The largest :math:`\sum_j |\Delta_j / M_j|^p` over neighbouring datasets, hardly rounded up.

    :math:`M_j` is the largest value of function j. Adding or removing a record of cell x moves each sum
    by :math:`f_j(x)`, replacing it by :math:`f_j(x) - f_j(y)`: the worst cell, or pair of cells, is
    looked for; of too many pairs, twice the worst cell is taken (for p = 2, four times).

    Args:
        norm: p, 1 or 2: the L1 sensitivity, or the square of the L2 one.
    """
    scaled = statistic.scaled
    if neighbouring is not Neighbouring.REPLACE_ONE:
        return _slightly_above(float((np.abs(scaled) ** norm).sum(axis=0).max()))
    varying = scaled[np.ptp(scaled, axis=1) > 0]
    if varying.size * scaled.shape[1] > _PAIRS:
        return _slightly_above(float(2**norm * (np.abs(varying) ** norm).sum(axis=0).max()))
    return _slightly_above(
        max(float((np.abs(varying - cell[:, None]) ** norm).sum(axis=0).max()) for cell in varying.T)
    )


def _slightly_above(worst: float) -> Fraction:
    """A statistic that no record moves gets the noise of a count all the same."""
    return Fraction(worst or 1.0) * _ROUNDED_UP
