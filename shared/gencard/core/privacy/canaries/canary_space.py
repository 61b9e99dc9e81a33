r"""Where canaries are drawn uniformly, and how likely n rows chosen blindly come near one.

The rows that come within r of a canary are at most those in n balls of radius r, so that

.. math:: q(r) = \min(1, n\, |B_r|)

bounds the probability that some row lies within r, with :math:`|B_r|` the share of the space in a ball:
:math:`\pi^{d/2} r^d / \Gamma(d/2 + 1)` in the unit cube, and among records the number of cells in a
Hamming ball by the number of all cells. Taking codes for points of a cube would promise far too little
chance: an honest generator was refuted in every run on eight binary attributes.
"""

from dataclasses import dataclass
from math import log, pi
from typing import Protocol

import numpy as np
from scipy.special import gammaln

from gencard.core.domain import Domain
from gencard.core.errors import InvalidNumberError
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
        """As in the protocol; a radius of 0 has no volume."""
        half = self.attributes / 2
        with np.errstate(divide="ignore"):
            logs: FloatArray = half * log(pi) - gammaln(half + 1) + self.attributes * np.log(radii)
        return logs

    def edges(self, total: float, terms: int) -> FloatArray:
        """As in the protocol; rounding costs at most about 1/100 of epsilon up to 4,000 terms x d."""
        steps = int(np.clip(64 * terms * self.attributes, 2**12, 2**18))
        return np.arange(1.0, steps + 2.0) * (total / steps)


@dataclass(frozen=True, slots=True)
class Cells:
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
        """As in the protocol."""
        logs = np.array([log(ball) for ball in self.balls]) - log(self.domain.cells)
        whole = np.minimum(np.floor(radii), len(self.domain)).astype(np.int64)
        return logs[whole]

    def edges(self, total: float, terms: int) -> FloatArray:
        """As in the protocol; Hamming distances are whole, nothing is rounded."""
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
