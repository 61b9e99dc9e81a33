"""A lower bound on epsilon: what an audit of one run proves, and which claims it speaks of."""

from collections.abc import Callable
from dataclasses import dataclass
from math import log

from scipy.optimize import brentq

from gencard.core.card.budget import Neighbouring
from gencard.core.errors import ComputationError, InvalidNumberError

LogPValue = Callable[[float], float]
"""ln p of an observation, by the epsilon that is claimed; increasing."""


@dataclass(frozen=True, slots=True)
class EpsilonBound:
    """With probability at least 1 - beta a generator's epsilon is not below this one.

    It holds for one statistic, chosen before the run. Of several, each needs its share of beta.

    Args:
        epsilon: In nats, at least 0; 0 says nothing, infinity refutes every epsilon.
        delta: Generators of this delta, or a smaller one, are bounded; 0 is pure differential privacy.
        beta: Probability, 0 to 1/2, that the bound is too high.
        neighbouring: The relation that epsilon is meant for.
    """

    epsilon: float
    delta: float
    beta: float
    neighbouring: Neighbouring

    def refutes(self, epsilon: float, delta: float, neighbouring: Neighbouring) -> bool:
        """Whether a claim of (epsilon, delta) is contradicted at level beta.

        Raises:
            ComputationError: The bound says nothing of such claims: their delta is larger than its
                own, or their neighbouring relation is another.
        """
        if delta > self.delta:
            raise ComputationError(problem="the bound is for a smaller delta than the claim's")
        if neighbouring is not self.neighbouring:
            raise ComputationError(problem="bound and claim have different neighbouring relations")
        return epsilon < self.epsilon


def check_beta(beta: float) -> None:
    """Refuse a level outside 0 to 1/2.

    Raises:
        InvalidNumberError: It is.
    """
    if not 0 < beta <= 0.5:
        raise InvalidNumberError(field="beta", expected="above 0 and at most 1/2")


def check_epsilon(epsilon: float) -> None:
    """Refuse what is no epsilon.

    Raises:
        InvalidNumberError: It is negative or not finite.
    """
    if not 0 <= epsilon < float("inf"):
        raise InvalidNumberError(field="epsilon", expected="finite and at least 0")


def steps_of(neighbouring: Neighbouring) -> int:
    """How many neighbouring steps replace one record: it is one step, or one is removed, one added."""
    return 1 if neighbouring is Neighbouring.REPLACE_ONE else 2


def smallest_epsilon(log_p: LogPValue, beta: float, *, guess: float = 0.0) -> float:
    """The epsilon at which p reaches beta, to 1e-11; all smaller ones are refuted. 0 where none is.

    Args:
        guess: Saves calls of ``log_p`` where it is near, and changes nothing else.
    """
    target = log(beta)
    low, high = _around(log_p, target, guess) if guess else (0.0, 1.0)
    if not low and log_p(0.0) >= target:
        return 0.0
    while log_p(high) < target:
        low, high = high, 2 * high
    return float(brentq(lambda epsilon: log_p(epsilon) - target, low, high, xtol=1e-11))


def _around(log_p: LogPValue, target: float, guess: float) -> tuple[float, float]:
    """Some epsilon that is refuted, or 0, and one above it, both near the guess."""
    low, step = guess, 1 / 32
    while low > 0 and log_p(low) >= target:
        low, step = max(0.0, low - step), 2 * step
    return low, low + step
