r"""Bounds on epsilon from counts: canaries with a row within a radius, and guesses of membership.

**Hits.** With :math:`G(r)` as in ``sums`` and K canaries within r, which is fixed before the run,

.. math:: p = P[B(m, G(r)) \ge K]

Canaries that were not memorised do no harm, so it finds most where a generator copies some records.
Valid for numbers and for levels; pure differential privacy alone; under add-remove epsilon halves.

**Guesses** (Steinke's audit of one run) bound epsilon at a given delta. Each of m canaries is put in
with probability 1/2; from the output, r of them are guessed in or out and the rest left open, and v
guesses are right. If the generator is (epsilon, delta)-differentially private, with :math:`B \sim B(r,
e^\varepsilon / (1 + e^\varepsilon))`,

.. math:: p = P[B \ge v] + 2 m \delta \max_{1 \le i \le v} \frac{P[v > B \ge v - i]}{i}

Unlike the reconstruction bounds it is valid for delta above 0, as of generators with Gaussian noise.

References:
    T. Steinke, M. Nasr, M. Jagielski, "Privacy Auditing with One (1) Training Run", arXiv 2305.08846.
"""

from dataclasses import dataclass
from math import exp, inf, log

import numpy as np
import scipy

from gencard.core.card.budget import Neighbouring
from gencard.core.errors import InvalidNumberError
from gencard.measures.privacy.canaries.canaries import Reconstruction
from gencard.measures.privacy.canaries.epsilon_bound import (
    EpsilonBound,
    Space,
    check_beta,
    check_epsilon,
    log_chance,
    smallest_epsilon,
    steps_of,
    tilted_chance,
)


@dataclass(frozen=True, slots=True)
class HitCount:
    """Canaries found.

    Args:
        canaries: How many were planted.
        hits: How many have a row within the radius.
        log_q: ln of the probability that a blind generator hits one, at most 0.

    Raises:
        InvalidNumberError: More hits than canaries, or a negative number of either; ``log_q`` above 0.
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
        """Natural log of p of so many hits if the generator is epsilon-differentially private.

        Raises:
            InvalidNumberError: epsilon is negative or not finite.
        """
        check_epsilon(epsilon)
        grown = tilted_chance(np.array([self.log_q]), epsilon * steps_of(neighbouring))
        return _log_tail(self.canaries, self.hits, float(grown[0]))

    def bound(self, *, beta: float, neighbouring: Neighbouring) -> EpsilonBound:
        """The bound of one run: 0 without hits, or where a blind generator hits all.

        Raises:
            InvalidNumberError: beta is not above 0 and at most 1/2.
        """
        check_beta(beta)
        epsilon = self._replace_one(beta) / steps_of(neighbouring)
        return EpsilonBound(epsilon, 0.0, beta, neighbouring)

    def _replace_one(self, beta: float) -> float:
        """The epsilon at which p is beta, if neighbouring means to replace one record."""
        if not self.hits or not self.log_q:
            return 0.0
        chance = float(scipy.special.betaincinv(self.hits, self.canaries - self.hits + 1, beta))
        log_odds = self.log_q - log(-np.expm1(self.log_q))
        return max(0.0, float(scipy.special.logit(chance)) - log_odds)


def hit_count(reconstruction: Reconstruction, radius: float) -> HitCount:
    """Count the canaries within ``radius``, which must not depend on the rows.

    Raises:
        InvalidNumberError: The radius is negative or not finite, or 0 among numbers.
    """
    log_q = log_q_of(reconstruction.space, radius, reconstruction.rows)
    return HitCount(len(reconstruction.radii), int(np.sum(reconstruction.radii <= radius)), log_q)


def log_q_of(space: Space, radius: float, rows: int) -> float:
    """Natural log of the probability, at most, that one of so many blind rows lies within a radius.

    It is 0 where the radius, or the number of rows, is too large for any bound.

    Raises:
        InvalidNumberError: The radius has no chance or is not finite, or there is no row.
    """
    if rows < 1:
        raise InvalidNumberError(field="The number of rows", expected="at least 1")
    if not 0 <= radius < inf:
        raise InvalidNumberError(field="The radius", expected="finite and at least 0")
    log_q = float(log_chance(space, np.array([radius]), rows)[0])
    if log_q == -inf:
        raise InvalidNumberError(field="The radius", expected="above 0 among numbers")
    return log_q


def _log_tail(trials: int, hits: int, log_chance: float) -> float:
    """Natural log of P[B(trials, chance) >= hits], where floats have no room for it too."""
    counts = np.arange(hits, trials + 1)
    logs = -scipy.special.betaln(counts + 1, trials - counts + 1) - log(trials + 1)
    logs += counts * log_chance + scipy.special.xlog1py(trials - counts, -exp(log_chance))
    return min(0.0, float(scipy.special.logsumexp(logs)))


_LEAST = 2.0**-1022
"""For a p that floats have no room for."""


@dataclass(frozen=True, slots=True)
class Guesses:
    """Guesses about which canaries were in. Which ones to leave open does not depend on the truth.

    Args:
        canaries: m, each in or out by a fair coin.
        guesses: r, how many were guessed.
        correct: v, how many guesses were right.

    Raises:
        InvalidNumberError: No canary, more guesses than canaries, or more right ones than guesses.
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
        """Probability, at most, of so many right guesses.

        Raises:
            InvalidNumberError: No epsilon, or delta is not in 0..1.
        """
        check_epsilon(epsilon)
        _check_delta(delta)
        return self._p_value(epsilon, delta)

    def bound(self, *, delta: float, beta: float, neighbouring: Neighbouring) -> EpsilonBound:
        """The bound of one run.

        Args:
            neighbouring: Add-remove where a canary was in or out; replace-one where, by the coin, it
                or another record was in.

        Raises:
            InvalidNumberError: delta is not in 0..1, or beta not above 0 and at most 1/2.
        """
        check_beta(beta)
        _check_delta(delta)
        return EpsilonBound(self._epsilon(delta, beta), delta, beta, neighbouring)

    def _epsilon(self, delta: float, beta: float) -> float:
        if not self.correct:
            return 0.0
        if not delta:
            chance = scipy.special.betaincinv(self.correct, self.guesses - self.correct + 1, beta)
            return max(0.0, float(scipy.special.logit(chance)))
        return smallest_epsilon(lambda epsilon: log(self._p_value(epsilon, delta) or _LEAST), beta)

    def _p_value(self, epsilon: float, delta: float) -> float:
        """Tails of the binomial at v, v - 1, ..., 0 give all differences."""
        tails = scipy.stats.binom.sf(
            self.correct - 1 - np.arange(self.correct + 1), self.guesses, scipy.special.expit(epsilon)
        )
        by_count = (tails[1:] - tails[0]) / np.arange(1, self.correct + 1)
        rest = 2 * self.canaries * delta * float(by_count.max(initial=0.0))
        return min(1.0, float(tails[0]) + rest)


def _check_delta(delta: float) -> None:
    if not 0 <= delta < 1:
        raise InvalidNumberError(field="delta", expected="at least 0 and below 1")
