"""Findings from rows about planted canaries: bounds on epsilon, and numbers that bound nothing.

Four statistics are chosen before the run, and each gets a quarter of the level, so that all bounds hold
together with probability 1 - beta.
"""

from dataclasses import dataclass
from math import exp, inf, lgamma, log, pi, sqrt

import numpy as np
import scipy
from numpy.typing import NDArray

from gencard.core.card.budget import Neighbouring
from gencard.core.dataset import Dataset, check_same_domain
from gencard.core.domain import Clique
from gencard.core.errors import ComputationError, InvalidNumberError
from gencard.core.types import FloatArray
from gencard.measures.privacy.attacks import Membership
from gencard.measures.privacy.canaries import (
    Cube,
    EpsilonBound,
    LogPValue,
    Planted,
    Reconstruction,
    Space,
    check_beta,
    check_epsilon,
    log_chance,
    points_of,
    reconstruct_cells,
    reconstruct_points,
    smallest_epsilon,
    steps_of,
    tilted_chance,
)

# Bounds on epsilon from the sum nu of the distances of m canaries to their closest rows.
#
# **The published bound** holds in the unit cube.
# A generator of n rows that never saw the canaries comes to nu or less with a probability of at most the
# volume of :math:`n^m` bodies; epsilon-differential privacy multiplies it by :math:`e^{m \varepsilon}`:
#
# .. math:: p = \min\Big(1, \frac{1}{(md)!} \Big(e^{\varepsilon}
#    \frac{2 \pi^{d/2} n \Gamma(d)}{\Gamma(d/2)} \nu^d\Big)^m\Big)
#
# .. math:: \varepsilon_{lower} = \max\Big(0, \ln \frac{\Gamma(d/2)\, (\beta\, (md)!)^{1/m}}
#    {2 \pi^{d/2} n \Gamma(d)\, \nu^d}\Big)
#
# The published text rejects a claim where nu *exceeds* the threshold; nearness is the evidence, so it is
# rejected where nu is at or below it. Valid for every m, n and d, under both neighbouring relations, and
# for pure differential privacy alone. One canary that was not memorised hides many; see the hits below.
#
# **The refined bound** uses the distribution of the sum instead of a volume. Under replace-one
# epsilon-differential privacy, given the rows and all other canaries, each distance is within r with
# probability at most
#
# .. math:: G(r) = \frac{q(r)}{q(r) + e^{-\varepsilon} (1 - q(r))}
#
# so the distances dominate independent draws from G, and :math:`p = P[\sum R_i \le \nu]`. It is computed
# with numbers rounded down to a grid, which makes p too large rather than too small. Always at least as
# strong as the published sum but for that, and valid for levels, where the distance is Hamming's.
# Pure differential privacy alone; under add-remove a replacement is two steps, and epsilon halves.
#
# **The tail** of a sum of independent whole numbers is computed also where floats would underflow:
# masses :math:`f(k)` are tilted to :math:`f(k) e^{-\theta k} / M`, so that the sum of m falls near
# the bound K; then they are convolved by the fast Fourier transform and tilted back:
#
# .. math:: P[S \le K] = M^m \sum_{s \le K} f_\theta^{*m}(s)\, e^{\theta s}
#
# Sums beyond the transform's length come back as smaller ones, which can only add to the probability;
# short transforms are long enough for all, long ones for twelve standard deviations.


def published_log_p(nu: float, m: int, n: int, d: int, *, epsilon: float) -> float:
    """Natural log of p of a sum of distances ``nu`` if the generator is epsilon-differentially private.

    Args:
        m: Number of canaries.
        n: Number of rows.
        d: Number of attributes.
    """
    check_epsilon(epsilon)
    return min(0.0, m * (epsilon + _log_growth(nu, m, n, d)) - lgamma(m * d + 1))


def epsilon_lower(nu: float, m: int, n: int, d: int, *, beta: float) -> float:
    """The epsilon, in nats, at which p is beta; infinite at nu = 0."""
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
    """Natural log of p of the sum of distances if the generator is epsilon-differentially private."""
    check_epsilon(epsilon)
    return _log_p(reconstruction)(epsilon * steps_of(neighbouring))


def sum_bound(
    reconstruction: Reconstruction, *, beta: float, neighbouring: Neighbouring
) -> EpsilonBound:
    """The bound of one run."""
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
    # The length of a transform beyond which next to no sum lies.
    mean = float(masses @ steps)
    spread = sqrt(terms * float(masses @ (steps - mean) ** 2))
    far = max(terms * mean, float(steps[-1])) + _SPREADS * (spread + 1)
    most = len(steps) + min((terms - 1) * len(steps), max(int(far) - len(steps), _SHORT))
    length = scipy.fft.next_fast_len(most, real=True)
    sums = scipy.fft.irfft(_power(scipy.fft.rfft(masses, length), terms), length)[: len(steps)]
    inside = float(np.maximum(sums, 0.0) @ np.exp(tilt * (steps - steps[-1])))
    return min(0.0, terms * (peak + log(scale)) + tilt * float(steps[-1]) + log(inside))


def _log_masses(log_cdf: FloatArray) -> FloatArray:
    """Natural log of P[number = k]; minus infinity where there is none."""
    with np.errstate(divide="ignore"):
        rest: FloatArray = log_cdf[1:] + np.log(-np.expm1(log_cdf[:-1] - log_cdf[1:]))
    return np.concatenate([log_cdf[:1], rest])


def _power(numbers: NDArray[np.complex128], exponent: int) -> NDArray[np.complex128]:
    """Raise to a power by repeated squaring: about ten times as fast as ``**`` on complex numbers."""
    product = numbers if exponent % 2 else np.ones_like(numbers)
    for _ in range(exponent.bit_length() - 1):
        exponent //= 2
        numbers = numbers * numbers
        if exponent % 2:
            product = product * numbers
    return product


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


# Bounds on epsilon from counts: canaries with a row within a radius, and guesses of membership.
#
# **Hits.** With :math:`G(r)` as above and K canaries within r, which is fixed before the run,
#
# .. math:: p = P[B(m, G(r)) \ge K]
#
# Canaries that were not memorised do no harm, so it finds most where a generator copies some records.
# Valid for numbers and for levels; pure differential privacy alone; under add-remove epsilon halves.
#
# **Guesses** (Steinke's audit of one run) bound epsilon at a given delta. Each of m canaries is put in
# with probability 1/2; from the output, r of them are guessed in or out and the rest left open, and v
# guesses are right. If the generator is (epsilon, delta)-differentially private, with :math:`B \sim B(r,
# e^\varepsilon / (1 + e^\varepsilon))`,
#
# .. math:: p = P[B \ge v] + 2 m \delta \max_{1 \le i \le v} \frac{P[v > B \ge v - i]}{i}
#
# Unlike the reconstruction bounds it is valid for delta above 0, as of generators with Gaussian noise.
#
# References:
#     T. Steinke, M. Nasr, M. Jagielski, "Privacy Auditing with One (1) Training Run", arXiv 2305.08846.


@dataclass(frozen=True, slots=True)
class HitCount:
    """Canaries found.

    Args:
        hits: How many have a row within the radius.
        log_q: ln of the probability that a blind generator hits one, at most 0.
    """

    canaries: int
    hits: int
    log_q: float

    def __post_init__(self) -> None:
        if not 0 <= self.hits <= self.canaries or self.canaries < 1:
            raise InvalidNumberError(field="The number of hits", expected="from 0 to that of canaries")
        if not -inf < self.log_q <= 0:
            raise InvalidNumberError(field="log_q", expected="finite and at most 0")

    def log_p_value(self, *, epsilon: float, neighbouring: Neighbouring) -> float:
        """Natural log of p of so many hits if the generator is epsilon-differentially private."""
        check_epsilon(epsilon)
        grown = tilted_chance(np.array([self.log_q]), epsilon * steps_of(neighbouring))
        # Of P[B(canaries, chance) >= hits], where floats have no room for it too.
        trials, log_chance = self.canaries, float(grown[0])
        counts = np.arange(self.hits, trials + 1)
        logs = -scipy.special.betaln(counts + 1, trials - counts + 1) - log(trials + 1)
        logs += counts * log_chance + scipy.special.xlog1py(trials - counts, -exp(log_chance))
        return min(0.0, float(scipy.special.logsumexp(logs)))

    def bound(self, *, beta: float, neighbouring: Neighbouring) -> EpsilonBound:
        """The bound of one run: 0 without hits, or where a blind generator hits all."""
        check_beta(beta)
        epsilon = 0.0  # at which p is beta, if neighbouring means to replace one record
        if self.hits and self.log_q:
            chance = float(scipy.special.betaincinv(self.hits, self.canaries - self.hits + 1, beta))
            log_odds = self.log_q - log(-np.expm1(self.log_q))
            epsilon = max(0.0, float(scipy.special.logit(chance)) - log_odds)
        return EpsilonBound(epsilon / steps_of(neighbouring), 0.0, beta, neighbouring)


def hit_count(reconstruction: Reconstruction, radius: float) -> HitCount:
    """Count the canaries within ``radius``, which must not depend on the rows."""
    log_q = log_q_of(reconstruction.space, radius, reconstruction.rows)
    return HitCount(len(reconstruction.radii), int(np.sum(reconstruction.radii <= radius)), log_q)


def log_q_of(space: Space, radius: float, rows: int) -> float:
    """Natural log of the probability, at most, that one of so many blind rows lies within a radius.

    It is 0 where the radius, or the number of rows, is too large for any bound.
    """
    if rows < 1:
        raise InvalidNumberError(field="The number of rows", expected="at least 1")
    if not 0 <= radius < inf:
        raise InvalidNumberError(field="The radius", expected="finite and at least 0")
    log_q = float(log_chance(space, np.array([radius]), rows)[0])
    if log_q == -inf:
        raise InvalidNumberError(field="The radius", expected="above 0 among numbers")
    return log_q


_LEAST = 2.0**-1022
"""For a p that floats have no room for."""


@dataclass(frozen=True, slots=True)
class Guesses:
    """Guesses about which canaries were in. Which ones to leave open does not depend on the truth.

    Args:
        canaries: m, each in or out by a fair coin.
        guesses: r, how many were guessed.
        correct: v, how many guesses were right.
    """

    canaries: int
    guesses: int
    correct: int

    def __post_init__(self) -> None:
        if not 0 <= self.correct <= self.guesses <= self.canaries or self.canaries < 1:
            raise InvalidNumberError(
                field="Right guesses, guesses and canaries", expected="in ascending order, from 0"
            )

    def p_value(self, *, epsilon: float, delta: float) -> float:
        """Probability, at most, of so many right guesses."""
        check_epsilon(epsilon)
        _check_delta(delta)
        # Tails of the binomial at v, v - 1, ..., 0 give all differences.
        tails = scipy.stats.binom.sf(
            self.correct - 1 - np.arange(self.correct + 1), self.guesses, scipy.special.expit(epsilon)
        )
        by_count = (tails[1:] - tails[0]) / np.arange(1, self.correct + 1)
        rest = 2 * self.canaries * delta * float(by_count.max(initial=0.0))
        return min(1.0, float(tails[0]) + rest)

    def bound(self, *, delta: float, beta: float, neighbouring: Neighbouring) -> EpsilonBound:
        """The bound of one run.

        Args:
            neighbouring: Add-remove where a canary was in or out; replace-one where, by the coin, it
                or another record was in.
        """
        check_beta(beta)
        _check_delta(delta)
        if not self.correct:
            epsilon = 0.0
        elif not delta:
            chance = scipy.special.betaincinv(self.correct, self.guesses - self.correct + 1, beta)
            epsilon = max(0.0, float(scipy.special.logit(chance)))
        else:
            epsilon = smallest_epsilon(
                lambda one: log(self.p_value(epsilon=one, delta=delta) or _LEAST), beta
            )
        return EpsilonBound(epsilon, delta, beta, neighbouring)


def _check_delta(delta: float) -> None:
    if not 0 <= delta < 1:
        raise InvalidNumberError(field="delta", expected="at least 0 and below 1")


STATISTICS = 4
"""Number of bounds that share the level."""

_BLIND = "there are so many rows, or so few cells, that random rows find every canary"


@dataclass(frozen=True, slots=True)
class CanaryPlan:
    """Choices that are fixed before the run.

    Args:
        beta: Probability, 0 to 1/2, that any of the bounds is too high.
        delta: Of the claims (epsilon, delta) that guesses are to bound.
        radius: In how many attributes a row may differ from a canary that it hits.
        guesses: Of how many canaries, those nearest to a row, it is guessed that they were put in.
        numbers: Attributes whose codes are in the order of numbers.

    Raises:
        InvalidNumberError: One of them is out of range.
    """

    beta: float
    delta: float
    radius: int
    guesses: int
    numbers: Clique = ()

    def __post_init__(self) -> None:
        check_beta(self.beta)
        _check_delta(self.delta)
        if self.radius < 0 or self.guesses < 1:
            raise InvalidNumberError(
                field="The radius and the guesses", expected="at least 0 and at least 1"
            )


@dataclass(frozen=True, slots=True)
class CanaryFinding:
    """One statistic.

    Args:
        bound: What follows, or None where the theorem does not apply.
        refusal: Why it does not, else empty.
    """

    statistic: str
    seen: str
    bound: EpsilonBound | None
    refusal: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class CanaryFindings:
    """Results of one run with canaries.

    Args:
        membership: By distance, canaries put in beside those left out. It bounds nothing.
    """

    canaries: int
    put_in: int
    rows: int
    findings: tuple[CanaryFinding, ...]
    membership: Membership

    def against(
        self, epsilon: float, delta: float, neighbouring: Neighbouring
    ) -> tuple[CanaryFinding, ...]:
        """Findings that contradict a claim; those that do not speak of such claims do not."""
        return tuple(
            each
            for each in self.findings
            if each.bound is not None
            and (each.bound.delta >= delta and each.bound.neighbouring is neighbouring)
            and each.bound.refutes(epsilon, delta, neighbouring)
        )


def canary_findings(
    planted: Planted, synthetic: Dataset, plan: CanaryPlan, *, rng: np.random.Generator
) -> CanaryFindings:
    """Look for canaries in all rows that a generator made of the dataset they were planted in.

    Args:
        rng: For what rounding took from numbers, and to break ties; never seen by the generator.

    Raises:
        DomainMismatchError: The rows are over other attributes.
        InvalidDatasetError: There is no row, or all canaries were put in, or none.
        InvalidNumberError: More guesses than canaries.
    """
    check_same_domain(planted.dataset.domain, synthetic.domain)
    if plan.guesses > len(planted.points):
        raise InvalidNumberError(field="The number of guesses", expected="at most that of canaries")
    every = reconstruct_cells(planted.cells, synthetic).radii
    findings = (
        _published(planted, synthetic, plan, rng),
        *_among_cells(planted, synthetic, plan),
        _guessed(planted, every, plan, rng),
    )
    shares = every / len(synthetic.domain)
    membership = Membership(shares[planted.put_in], shares[~planted.put_in])
    return CanaryFindings(
        len(planted.points), int(planted.put_in.sum()), len(synthetic), findings, membership
    )


def _published(
    planted: Planted, synthetic: Dataset, plan: CanaryPlan, rng: np.random.Generator
) -> CanaryFinding:
    """Bound epsilon by the numeric attributes, with a random point in each row's cell."""
    if not plan.numbers:
        refusal = "no attribute is numeric, and the theorem covers numbers only"
        return CanaryFinding("published sum", "", None, refusal)
    axes = list(synthetic.domain.axes(plan.numbers))
    canaries = planted.points[planted.put_in][:, axes]
    reconstruction = reconstruct_points(canaries, points_of(synthetic, rng=rng)[:, axes])
    bound = published_bound(
        reconstruction, beta=plan.beta / STATISTICS, neighbouring=planted.neighbouring
    )
    return CanaryFinding("published sum", f"nu = {reconstruction.nu:.4g}", bound)


def _among_cells(
    planted: Planted, synthetic: Dataset, plan: CanaryPlan
) -> tuple[CanaryFinding, CanaryFinding]:
    """Bound epsilon by all attributes, as levels."""
    reconstruction = reconstruct_cells(planted.cells.take(np.flatnonzero(planted.put_in)), synthetic)
    count, beta = hit_count(reconstruction, plan.radius), plan.beta / STATISTICS
    by_sum = sum_bound(reconstruction, beta=beta, neighbouring=planted.neighbouring)
    by_count = count.bound(beta=beta, neighbouring=planted.neighbouring)
    blind = log_q_of(reconstruction.space, 0, reconstruction.rows) == 0, count.log_q == 0
    return (
        _finding("refined sum", f"nu = {reconstruction.nu:.4g}", by_sum, blind[0]),
        _finding("count", f"{count.hits} of {count.canaries} found", by_count, blind[1]),
    )


def _finding(statistic: str, seen: str, bound: EpsilonBound, blind: bool) -> CanaryFinding:
    """Blind rows that are sure to find every canary leave no bound."""
    return CanaryFinding(statistic, seen, None if blind else bound, _BLIND if blind else "")


def _guessed(
    planted: Planted, radii: FloatArray, plan: CanaryPlan, rng: np.random.Generator
) -> CanaryFinding:
    """Guess that the nearest canaries were put in, ties in random order, and leave the others open."""
    shuffled = rng.permutation(len(radii))
    nearest = shuffled[np.argsort(radii[shuffled], kind="stable")][: plan.guesses]
    correct = int(planted.put_in[nearest].sum())
    guesses = Guesses(len(radii), plan.guesses, correct)
    bound = guesses.bound(
        delta=plan.delta, beta=plan.beta / STATISTICS, neighbouring=planted.neighbouring
    )
    return CanaryFinding("guesses", f"{correct} of {plan.guesses} correct", bound)
