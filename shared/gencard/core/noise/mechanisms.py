r"""Exact discrete noise: how much a privacy budget requires, and who draws it.

A record is in one cell of every marginal. Adding or removing one moves one count of each marginal by 1
(L1 = L2 = 1); replacing one moves two (L1 = 2, L2 = :math:`\sqrt 2`). The number of records is a count
like any other: it is never released apart from the marginals, under either relation. What a record does
to a linear statistic follows from its functions' declared values: see ``sensitivity``. Where the noise
protects a person with at most k records, ``AddedNoise.moved`` has what they do together.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from gencard.core.card.budget import Neighbouring
from gencard.core.card.noise import AddedNoise, Noise
from gencard.core.statistics.linear import LinearStatistic
from gencard.core.statistics.psi import LinearMeasurement, Measurement, Psi
from gencard.core.types import Counts, FloatArray, IntArray

_LARGEST = 2**53
"""Noisy counts are clamped here: beyond, a float is not the integer that it stands for."""

_LARGEST_SUM = 2**62
"""The same for sums, which are 64 bits wide."""


def noisy(psi: Psi, privacy: AddedNoise, noise: Noise, weights: Sequence[int] = ()) -> Psi:
    """Exact psi with noise on every count and every sum, zeros included; each stddev says how much.

    Args:
        weights: Parts of the budget, one for each marginal and then each linear statistic; empty for
            equal parts.
    """
    marginals = len(psi.measurements)
    budgets = privacy.parts(weights or [1] * (marginals + len(psi.linear)))
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


def noisy_marginal(
    exact: Measurement, privacy: AddedNoise, noise: Noise, budget: Fraction
) -> Measurement:
    """One marginal with noise that spends ``budget``, epsilon or rho, all of it."""
    scale = privacy.scale(privacy.moved, budget)
    counts = privacy.draw(noise, _whole(exact.values), scale)
    return Measurement(exact.clique, np.clip(counts, -_LARGEST, _LARGEST), privacy.stddev(scale))


def _noisy_sums(
    exact: LinearMeasurement, privacy: AddedNoise, noise: Noise, budget: Fraction
) -> LinearMeasurement:
    scales = sum_scales(exact.statistic, privacy, budget)
    sums = [
        privacy.draw(noise, _whole(exact.values[place : place + 1]), scale)
        for place, scale in enumerate(scales)
    ]
    stddevs = np.array([privacy.stddev(scale) for scale in scales])
    return LinearMeasurement(
        exact.statistic, np.clip(np.concatenate(sums), -_LARGEST_SUM, _LARGEST_SUM), stddevs
    )


def _whole(values: Counts) -> IntArray:
    return np.asarray(values, dtype=np.int64)


def scales(privacy: AddedNoise, weights: Sequence[int]) -> tuple[float, ...]:
    r"""The parameter of each marginal's noise, in records, rounded up.

    A marginal of weight w gets the share :math:`s = w / \sum w` of the budget; what is spent adds up.

    Args:
        weights: One whole number from 1 up for each marginal.
    """
    return tuple(privacy.scale(privacy.moved, budget) for budget in privacy.parts(weights))


def sum_scales(statistic: LinearStatistic, privacy: AddedNoise, budget: Fraction) -> tuple[float, ...]:
    r"""The parameter of the noise on each sum of a linear statistic, in numerators, rounded up.

    Each sum gets noise in proportion to its function's largest value :math:`M_j`: to one share of the
    budget, the functions :math:`f_j / M_j` are one statistic with sensitivity :math:`L_1` or
    :math:`L_2`, on which noise of one scale falls.
    """
    moved = sensitivity(
        statistic, privacy.neighbouring, privacy.norm, most_records=privacy.most_records or 1
    )
    return tuple(
        privacy.scale(function.largest**privacy.norm * moved, budget) for function in statistic.functions
    )


_PAIRS = 10**8
"""Differences of functions between two cells that are looked at, to find the largest."""

_ROUNDED_UP = Fraction(10**9 + 1, 10**9)
"""Above every error of rounding in sums of so few floats."""


def sensitivity(
    statistic: LinearStatistic, neighbouring: Neighbouring | None, norm: int, *, most_records: int = 1
) -> Fraction:
    r"""The largest :math:`\sum_j |\Delta_j / M_j|^p` over neighbouring datasets, hardly rounded up.

    :math:`M_j` is the largest value of function j. Adding or removing a record of cell x moves each sum
    by :math:`f_j(x)`, replacing it by :math:`f_j(x) - f_j(y)`: the worst cell, or pair of cells, is
    looked for; of too many pairs, twice the worst cell is taken (for p = 2, four times).

    A person with at most k > 1 records moves the sums by a point of k times the convex hull of 0 and all
    cells, a person replaced by the difference of two. A norm is convex, so it is largest at corners: k
    records in the worst cell, or in each cell of the worst pair, of which one may be "no record".

    Args:
        norm: p, 1 or 2: the L1 sensitivity, or the square of the L2 one.
        most_records: k. A person of k = 1 is a record.
    """
    scaled = statistic.scaled
    if most_records > 1:
        nobody = np.zeros((len(scaled), 1))
        scaled = np.concatenate([nobody, scaled], axis=1)
    return Fraction(most_records) ** norm * _worst(scaled, neighbouring, norm)


def _worst(scaled: FloatArray, neighbouring: Neighbouring | None, norm: int) -> Fraction:
    """The worst cell, or pair of cells; values of shape ``(functions, cells)``."""
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
