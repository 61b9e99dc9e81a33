r"""Lower bounds on epsilon that an audit of one run proves, and the spaces that canaries are drawn from.

The rows that come within r of a canary are at most those in n balls of radius r, so that

.. math:: q(r) = \min(1, n\, |B_r|)

bounds the probability that some row lies within r, with :math:`|B_r|` the share of the space in a ball:
:math:`\pi^{d/2} r^d / \Gamma(d/2 + 1)` in the unit cube, and among records the number of cells in a
Hamming ball by the number of all cells. Taking codes for points of a cube would promise far too little
chance: an honest generator was refuted in every run on eight binary attributes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import log, pi
from typing import Protocol

import numpy as np
import scipy

from gencard.core.card.budget import Neighbouring
from gencard.core.domain import Domain
from gencard.core.errors import ComputationError, InvalidNumberError
from gencard.core.types import FloatArray


class Space(Protocol):
    """A space with a distance and a uniform distribution."""

    def log_ball(self, radii: FloatArray) -> FloatArray:
        """Natural log of a ball's share of the space, by its radius; above 0 where a ball is larger."""
        ...

    def edges(self, total: float, terms: int) -> FloatArray:
        """Upper ends of the steps that distances are rounded down in, so that a sum of ``terms``
        distances is at most ``total`` only if their steps add up to at most ``len(edges) - 1``.
        """
        ...


@dataclass(frozen=True, slots=True)
class Cube:
    """The unit cube with Euclidean distance.

    Args:
        attributes: Number of numeric attributes, each scaled to 0..1.

    Raises:
        InvalidNumberError: There is none.
    """

    attributes: int

    def __post_init__(self) -> None:
        if self.attributes < 1:
            raise InvalidNumberError(field="The number of attributes", expected="at least 1")

    def log_ball(self, radii: FloatArray) -> FloatArray:
        """Return the logarithms, as in the protocol; a radius of 0 has no volume."""
        half = self.attributes / 2
        with np.errstate(divide="ignore"):
            logs: FloatArray = (
                half * log(pi) - scipy.special.gammaln(half + 1) + self.attributes * np.log(radii)
            )
        return logs

    def edges(self, total: float, terms: int) -> FloatArray:
        """Return the edges, as in the protocol; rounding costs at most 1/100 of epsilon or so.

        That holds up to 4,000 terms x d.
        """
        steps = int(np.clip(64 * terms * self.attributes, 2**12, 2**18))
        return np.arange(1.0, steps + 2.0) * (total / steps)


@dataclass(frozen=True, slots=True)
class HammingSpace:
    """The cells of a domain with Hamming distance: the number of attributes that differ."""

    domain: Domain

    @property
    def balls(self) -> tuple[int, ...]:
        """Cells within each distance 0, 1, ..., d of a cell; the same for all."""
        shells = [1]
        for size in self.domain.sizes:
            farther = [0, *((size - 1) * count for count in shells)]
            shells = [a + b for a, b in zip([*shells, 0], farther, strict=True)]
        return tuple(sum(shells[: radius + 1]) for radius in range(len(shells)))

    def log_ball(self, radii: FloatArray) -> FloatArray:
        """Return the logarithms, as in the protocol."""
        logs = np.array([log(ball) for ball in self.balls]) - log(self.domain.cells)
        whole = np.minimum(np.floor(radii), len(self.domain)).astype(np.int64)
        return logs[whole]

    def edges(self, total: float, terms: int) -> FloatArray:
        """Return the edges, as in the protocol; Hamming distances are whole, nothing is rounded."""
        return np.arange(0.0, min(int(total), terms * len(self.domain)) + 1.0)


def log_chance(space: Space, radii: FloatArray, rows: int) -> FloatArray:
    """Natural log of q: the probability that one of ``rows`` blind rows lies within each radius."""
    return np.minimum(0.0, log(rows) + space.log_ball(radii))


def tilted_chance(log_q: FloatArray, epsilon: float) -> FloatArray:
    r"""Natural log of G: what ``log_q`` becomes at most under replace-one epsilon-differential privacy.

    .. math:: G = \frac{q}{q + e^{-\varepsilon} (1 - q)}
    """
    with np.errstate(divide="ignore"):
        log_odds = epsilon + log_q - np.log(-np.expm1(log_q))
    grown: FloatArray = -np.logaddexp(0.0, -log_odds)
    return grown


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
    """Number of neighbouring steps that replace one record: one, or a removal and an addition."""
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
    return float(scipy.optimize.brentq(lambda epsilon: log_p(epsilon) - target, low, high, xtol=1e-11))


def _around(log_p: LogPValue, target: float, guess: float) -> tuple[float, float]:
    """Some epsilon that is refuted, or 0, and one above it, both near the guess."""
    low, step = guess, 1 / 32
    while low > 0 and log_p(low) >= target:
        low, step = max(0.0, low - step), 2 * step
    return low, low + step
