r"""Differential privacy: exact discrete noise, how much a budget requires, and what all cards spend.

A record is in one cell of every marginal. Adding or removing one moves one count of each marginal by 1
(L1 = L2 = 1); replacing one moves two (L1 = 2, L2 = :math:`\sqrt 2`). The number of records is a count
like any other: it is never released apart from the marginals, under either relation. What a record does
to a linear statistic follows from its functions' declared values: see ``sensitivity``. Where the noise
protects a person with at most k records, ``AddedNoise.moved`` has what they do together.

What all noisy cards of a dataset spend together is kept in exact decimals, rounded up. Budgets of the
same kind add up: epsilons of Laplace noise [1]_, rhos of Gaussian noise [2]_. Cards of a dataset must
have one neighbouring relation; that is for its policy to see to.

References:
    .. [1] C. Dwork, A. Roth, "The Algorithmic Foundations of Differential Privacy", 2014, Theorem 3.16.
    .. [2] M. Bun, T. Steinke, "Concentrated Differential Privacy", TCC 2016, Lemma 1.7, Prop. 1.4.
    .. [3] C. Canonne, G. Kamath, T. Steinke, "The Discrete Gaussian for Differential Privacy",
       NeurIPS 2020, Proposition 12 with the Renyi divergence of zCDP.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import exp, log, log1p

import numpy as np

from gencard.core.card.budget import ZERO, Neighbouring
from gencard.core.card.privacy import AddedNoise, Noise
from gencard.core.card.sums import product_ends
from gencard.core.coding import Coding
from gencard.core.errors import InvalidInputError
from gencard.core.statistics.linear import LinearStatistic
from gencard.core.statistics.psi import (
    HistogramMeasurement,
    LinearMeasurement,
    Measurement,
    Psi,
    SumMeasurement,
)

# Sums of products of units are whole numbers of any size. Values are divided by the largest product L
# that a record can have, so that one record moves a cell by at most 1. A person has at most k records.
# Noise is drawn about 0 by samplers of 64 bits and added to the sum. If its scale is above
# ``LARGEST_SCALE``, the sum is first divided by a power of two g and rounded down: a record then moves a
# quotient by at most L / g + 1. The noise is never multiplied and added to a sum that is not so rounded:
# the remainder of the sum would be exact.

LARGEST_SCALE = 2.0**50
"""Largest parameter of noise that the samplers are given: draws then fit 64 bits."""


@dataclass(frozen=True, slots=True)
class SumNoise:
    """Noise on the cells of one sum.

    Args:
        scale: Parameter of the noise on a quotient.
        divisor: g, a power of two; 1 where sums are not divided.
        counts_scale: Parameter of the noise on the counts of the population; 0 where they are not
            measured with the sum.
    """

    scale: float
    divisor: int
    counts_scale: float

    def stddev(self, privacy: AddedNoise) -> float:
        """Return the standard deviation of the noise on the sum of a cell, in products of units."""
        return self.divisor * privacy.stddev(self.scale)

    def added(self, values: Sequence[int], privacy: AddedNoise, noise: Noise) -> tuple[int, ...]:
        drawn = privacy.draw(noise, np.zeros(len(values), dtype=np.int64), self.scale).tolist()
        pairs = zip(values, drawn, strict=True)
        # Floor first, then add noise: value + draw * divisor would release value mod divisor exactly.
        return tuple((value // self.divisor + draw) * self.divisor for value, draw in pairs)


def sum_noise(
    ends: tuple[int, int], cells: int, privacy: AddedNoise, budget: Fraction, *, counted: bool
) -> SumNoise:
    """Return the noise that spends a budget on one sum, and on its counts if they are measured.

    Args:
        ends: Least and largest product of units, or 0, by declaration; see ``sums.product_ends``.
        counted: Counts of the population are measured by the same budget.
    """
    divisor = 1
    while True:
        moved = sum_sensitivity(ends, cells, privacy, counted=counted, divisor=divisor)
        scale = privacy.scale(moved, budget)
        if scale <= LARGEST_SCALE:
            break
        divisor *= 2
    of_counts = sum_sensitivity((0, 1), cells, privacy, counted=True)
    return SumNoise(scale, divisor, privacy.scale(of_counts, budget) if counted else 0.0)


def sum_sensitivity(
    ends: tuple[int, int], cells: int, privacy: AddedNoise, *, counted: bool, divisor: int = 1
) -> Fraction:
    r"""Return the L1 sensitivity of a sum's cells (``norm`` 1), or the square of the L2 one.

    Let :math:`l \le 0 \le h` be the ends, :math:`L = \max(h, -l)`, and k a person's records. Added or
    removed, k records move one cell by at most :math:`k L`. Replaced, they move one cell by at most
    :math:`k (h - l)`, or two by :math:`k L` each: L1 :math:`2 k L`, squared L2
    :math:`k^2 \max((h-l)^2, 2 L^2)`. With counts, in units of 1 and L, each block alone is moved so, and
    both by the same records: twice the norm of one block.

    Args:
        counted: The counts of the cells are released with the sums, with noise of the same law in units
            of 1 in place of L; the sensitivity is that of both, in units of the sums.
        divisor: Sums are divided by it and rounded down, which moves each cell by at most 1 more.
    """
    low, high = ends
    most, norm = privacy.most_records or 1, privacy.norm
    rounding = int(divisor > 1)
    largest = Fraction(max(high, -low, 1), divisor) + rounding
    span = Fraction(max(high - low, 1), divisor) + rounding
    replaced = privacy.neighbouring is Neighbouring.REPLACE_ONE
    if counted:
        return (most * largest) ** norm * (4 if replaced else 2)
    if not replaced:
        return (most * largest) ** norm
    if cells == 1:
        return (most * span) ** norm
    # A replaced person moves one cell by k span or two cells by k largest each, whichever is worse.
    return most * 2 * largest if norm == 1 else most**2 * max(span**2, 2 * largest**2)


_LARGEST = 2**53
"""Noisy counts are clamped here: beyond, a float is not the integer that it stands for."""

_LARGEST_SUM = 2**62
"""The same for sums, which are 64 bits wide."""


def noisy(
    psi: Psi,
    privacy: AddedNoise,
    noise: Noise,
    weights: Sequence[int] = (),
    coding: Coding | None = None,
) -> Psi:
    """Exact psi with noise on every count and every sum, zeros included; each stddev says how much.

    Args:
        weights: Parts of the budget, one for each marginal, linear statistic, histogram and sum, in
            this order; empty for equal parts.
        coding: Required where psi has sums: the largest products follow from it.
    """
    marginals = len(psi.measurements)
    numbers = marginals + len(psi.linear)
    sums = numbers + len(psi.histograms)
    budgets = privacy.parts(weights or [1] * (sums + len(psi.sums)))
    of_marginals = zip(psi.measurements, budgets[:marginals], strict=True)
    of_linear = zip(psi.linear, budgets[marginals:numbers], strict=True)
    of_histograms = zip(psi.histograms, budgets[numbers:sums], strict=True)
    of_sums = zip(psi.sums, budgets[sums:], strict=True)
    return Psi(
        psi.domain,
        tuple(noisy_marginal(exact, privacy, noise, budget) for exact, budget in of_marginals),
        tuple(_noisy_sums(exact, privacy, noise, budget) for exact, budget in of_linear),
        tuple(_noisy_histogram(exact, privacy, noise, budget) for exact, budget in of_histograms),
        tuple(_noisy_sum(exact, privacy, noise, budget, coding) for exact, budget in of_sums),
    )


def _noisy_histogram(
    exact: HistogramMeasurement, privacy: AddedNoise, noise: Noise, budget: Fraction
) -> HistogramMeasurement:
    """A histogram is a marginal on finer cells."""
    cells = Measurement((exact.attribute,), np.array(exact.counts))
    drawn = noisy_marginal(cells, privacy, noise, budget)
    return HistogramMeasurement(exact.attribute, tuple(drawn.values.tolist()), drawn.stddev)


def _noisy_sum(
    exact: SumMeasurement, privacy: AddedNoise, noise: Noise, budget: Fraction, coding: Coding | None
) -> SumMeasurement:
    if coding is None:
        raise InvalidInputError(field="coding", problem="is required for noise on sums")
    ends, counted = product_ends(coding, exact.sum.of), bool(exact.counts)
    how = sum_noise(ends, len(exact.values), privacy, budget, counted=counted)
    values = how.added(exact.values, privacy, noise)
    if not counted:
        return SumMeasurement(exact.sum, values, how.stddev(privacy))
    counts = tuple(privacy.draw(noise, np.array(exact.counts), how.counts_scale).tolist())
    counts_stddev = privacy.stddev(how.counts_scale)
    return SumMeasurement(exact.sum, values, how.stddev(privacy), counts, counts_stddev)


def noisy_marginal(
    exact: Measurement, privacy: AddedNoise, noise: Noise, budget: Fraction
) -> Measurement:
    """One marginal with noise that spends ``budget``, epsilon or rho, all of it."""
    scale = privacy.scale(privacy.moved, budget)
    # Zeros get noise like all other counts: leaving them exact would disclose which cells are empty.
    # Clamping afterwards is post-processing and costs no privacy.
    counts = privacy.draw(noise, np.asarray(exact.values, dtype=np.int64), scale)
    return Measurement(exact.clique, np.clip(counts, -_LARGEST, _LARGEST), privacy.stddev(scale))


def _noisy_sums(
    exact: LinearMeasurement, privacy: AddedNoise, noise: Noise, budget: Fraction
) -> LinearMeasurement:
    scales = sum_scales(exact.statistic, privacy, budget)
    values = np.asarray(exact.values, dtype=np.int64)
    sums = [privacy.draw(noise, values[place : place + 1], scale) for place, scale in enumerate(scales)]
    stddevs = np.array([privacy.stddev(scale) for scale in scales])
    clipped = np.clip(np.concatenate(sums), -_LARGEST_SUM, _LARGEST_SUM)
    return LinearMeasurement(exact.statistic, clipped, stddevs)


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
    sensitivity_factor = sensitivity(
        statistic, privacy.neighbouring, privacy.norm, most_records=privacy.most_records or 1
    )
    return tuple(
        privacy.scale(function.largest**privacy.norm * sensitivity_factor, budget)
        for function in statistic.functions
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
    # A function that is the same in all cells does not move if one record replaces another.
    varying = scaled[np.ptp(scaled, axis=1) > 0]
    if neighbouring is not Neighbouring.REPLACE_ONE:
        worst = float((np.abs(scaled) ** norm).sum(axis=0).max())
    elif varying.size * scaled.shape[1] > _PAIRS:
        # |a - b| <= |a| + |b| and (a - b)^2 <= 2 a^2 + 2 b^2: no pair moves more than 2^p times the
        # worst cell. Too much noise is safe, too little is not.
        worst = float(2**norm * (np.abs(varying) ** norm).sum(axis=0).max())
    else:
        moves = (np.abs(varying - cell[:, None]) ** norm for cell in varying.T)
        worst = max(float(move.sum(axis=0).max()) for move in moves)
    # A statistic that no record moves gets the noise of a count all the same.
    return Fraction(most_records) ** norm * Fraction(worst or 1.0) * _ROUNDED_UP


USUAL_DELTA = Decimal("1e-6")
"""At which an epsilon is given where no delta is named."""

_EXACT = Context(prec=60)
_PLACES = Decimal("1e-9")
_SHOWN = Decimal("1e-4")
_MARGIN = Decimal("1e-30")
"""Above every error of rounding in a bound, whose terms have 60 digits."""


@lru_cache(maxsize=256)
def epsilon_of(rho: Decimal, delta: Decimal) -> Decimal:
    r"""An epsilon such that rho-zCDP is (epsilon, delta)-differential privacy; nine places, rounded up.

    The least over :math:`\alpha > 1` of :math:`\rho \alpha + \log(1 - 1/\alpha) - \log(\delta \alpha) /
    (\alpha - 1)` [3]_. Every alpha gives a true bound: it is looked for in floats, and the bound at what
    was found is computed in decimals.
    """
    if rho == 0:
        return ZERO
    # Floats only choose alpha. Every alpha gives a valid bound, so their rounding can cost tightness but
    # never correctness.
    alpha = Decimal(1 + exp(_best(float(rho), log(float(delta)))))
    with localcontext(_EXACT):
        exact = rho * alpha + (1 - 1 / alpha).ln() - (delta * alpha).ln() / (alpha - 1)
    bound = exact + _MARGIN
    return max(ZERO, bound.quantize(_PLACES, rounding=ROUND_CEILING, context=_EXACT))


@lru_cache(maxsize=256)
def rho_of(epsilon: Decimal, delta: Decimal) -> Decimal:
    """The largest rho, to nine places, whose ``epsilon_of`` is at most ``epsilon``."""
    low, high = ZERO, max(epsilon, Decimal(1)) + 1
    while high - low > _PLACES:
        middle = ((low + high) / 2).quantize(_PLACES, rounding=ROUND_FLOOR, context=_EXACT)
        low, high = (middle, high) if epsilon_of(middle, delta) <= epsilon else (low, middle)
    return low


def rho_of_pure(epsilon: Decimal) -> Decimal:
    r"""Pure epsilon as zCDP: :math:`\epsilon^2 / 2` [2]_; exact."""
    with localcontext(_EXACT):
        return epsilon * epsilon / 2


def together(epsilons: Collection[Decimal], rho: Decimal, delta: Decimal) -> Decimal:
    """An epsilon that holds, at ``delta``, for all releases together; nine places, rounded up.

    Args:
        epsilons: Epsilon of each release with Laplace noise.
        rho: Sum over all releases with Gaussian noise.

    Returns:
        The smaller of two true bounds: pure epsilons added to what rho gives, or all of it as zCDP.
    """
    with localcontext(_EXACT):
        as_rho = sum(map(rho_of_pure, epsilons), rho)
        return min(sum(epsilons, epsilon_of(rho, delta)), epsilon_of(as_rho, delta))


def in_words(epsilon: Decimal, delta: Decimal) -> str:
    """A guarantee for people, its epsilon rounded up to four places.

    >>> in_words(Decimal("0.98765"), Decimal("0.000001"))
    'epsilon 0.9877 at delta 1e-6'
    """
    shown_epsilon = epsilon.quantize(_SHOWN, rounding=ROUND_CEILING, context=_EXACT)
    return f"epsilon {shown_epsilon.normalize():f} at delta {delta.normalize():e}"


def _best(rho: float, log_delta: float) -> float:
    r""":math:`\log(\alpha - 1)` at the least bound, by thirds; the bound falls, then rises."""

    def bound(place: float) -> float:
        over = exp(place)
        return rho * (1 + over) - log1p(1 / over) - (log_delta + log1p(over)) / over

    low, high = -30.0, 60.0
    for _ in range(200):
        third = (high - low) / 3
        if low + third == low:
            break  # thirds only shrink: no later step moves it
        is_left = bound(low + third) < bound(high - third)
        low, high = (low, high - third) if is_left else (low + third, high)
    return low
