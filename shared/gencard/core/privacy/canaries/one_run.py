r"""Steinke's audit of one run: a lower bound on epsilon at a given delta, by guesses who was in.

Each of m canaries is put in with probability 1/2; from the output, r of them are guessed in or out and
the rest left open, and v guesses are right. If the generator is (epsilon, delta)-differentially private,
with :math:`B \sim B(r, e^\varepsilon / (1 + e^\varepsilon))`,

.. math:: p = P[B \ge v] + 2 m \delta \max_{1 \le i \le v} \frac{P[v > B \ge v - i]}{i}

Unlike the reconstruction bounds it is valid for delta above 0, as of generators with Gaussian noise.

References:
    T. Steinke, M. Nasr, M. Jagielski, "Privacy Auditing with One (1) Training Run", arXiv 2305.08846.
"""

from dataclasses import dataclass
from math import log

import numpy as np
from scipy.special import betaincinv, expit, logit
from scipy.stats import binom

from gencard.core.card.budget import Neighbouring
from gencard.core.errors import InvalidNumberError
from gencard.core.privacy.canaries.epsilon_bound import (
    EpsilonBound,
    check_beta,
    check_epsilon,
    smallest_epsilon,
)

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
            chance = betaincinv(self.correct, self.guesses - self.correct + 1, beta)
            return max(0.0, float(logit(chance)))
        return smallest_epsilon(lambda epsilon: log(self._p_value(epsilon, delta) or _LEAST), beta)

    def _p_value(self, epsilon: float, delta: float) -> float:
        """Tails of the binomial at v, v - 1, ..., 0 give all differences."""
        tails = binom.sf(self.correct - 1 - np.arange(self.correct + 1), self.guesses, expit(epsilon))
        by_count = (tails[1:] - tails[0]) / np.arange(1, self.correct + 1)
        rest = 2 * self.canaries * delta * float(by_count.max(initial=0.0))
        return min(1.0, float(tails[0]) + rest)


def _check_delta(delta: float) -> None:
    if not 0 <= delta < 1:
        raise InvalidNumberError(field="delta", expected="at least 0 and below 1")
