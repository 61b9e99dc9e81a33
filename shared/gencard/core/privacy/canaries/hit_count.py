r"""The reconstruction audit by counting: how many of m canaries have a row within a radius.

With :math:`G(r)` as in ``refined_sum`` and K canaries within r, which is fixed before the run,

.. math:: p = P[B(m, G(r)) \ge K]

Canaries that were not memorised do no harm, so it finds most where a generator copies some records.
Valid for numbers and for levels; pure differential privacy alone; under add-remove epsilon halves.
"""

from dataclasses import dataclass
from math import exp, inf, log

import numpy as np
from scipy.special import betaincinv, betaln, logit, logsumexp, xlog1py

from gencard.core.card.budget import Neighbouring
from gencard.core.errors import InvalidNumberError
from gencard.core.privacy.canaries.canaries import Reconstruction
from gencard.core.privacy.canaries.canary_space import Space, log_chance, tilted_chance
from gencard.core.privacy.canaries.epsilon_bound import EpsilonBound, check_beta, check_epsilon, steps_of


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
        chance = float(betaincinv(self.hits, self.canaries - self.hits + 1, beta))
        log_odds = self.log_q - log(-np.expm1(self.log_q))
        return max(0.0, float(logit(chance)) - log_odds)


def hit_count(found: Reconstruction, radius: float) -> HitCount:
    """Count the canaries within ``radius``, which must not depend on the rows.

    Raises:
        InvalidNumberError: The radius is negative or not finite, or 0 among numbers.
    """
    log_q = log_q_of(found.space, radius, found.rows)
    return HitCount(len(found.radii), int(np.sum(found.radii <= radius)), log_q)


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
    found = float(log_chance(space, np.array([radius]), rows)[0])
    if found == -inf:
        raise InvalidNumberError(field="The radius", expected="above 0 among numbers")
    return found


def _log_tail(trials: int, hits: int, log_chance: float) -> float:
    """Natural log of P[B(trials, chance) >= hits], where floats have no room for it too."""
    counts = np.arange(hits, trials + 1)
    logs = -betaln(counts + 1, trials - counts + 1) - log(trials + 1)
    logs += counts * log_chance + xlog1py(trials - counts, -exp(log_chance))
    return min(0.0, float(logsumexp(logs)))
