"""Newton's method on the dual of maximum entropy."""

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from gencard.core.errors import NotConvergedError
from gencard.core.generators.functions import Goals
from gencard.core.types import FloatArray

_RIDGE = 1e-12
"""Added to the Hessian, which is singular where functions depend on each other."""

_ROUNDING = 1e-6
"""How far below zero rounding may put an entropy."""

_SHORTEST = 2.0**-40


@dataclass(frozen=True, slots=True, eq=False)
class Dual:
    r""":math:`\log \sum_x e^{\theta f(x)} - \theta b + \frac12 \sum_j s_j^2 \theta_j^2`, convex.

    Its least value is the largest entropy of a distribution :math:`p \propto e^{\theta f}` whose means
    of f are b; a mean with noise of stddev s is missed by :math:`s^2 \theta`, which is what a quadratic
    penalty of weight :math:`1 / s^2` on the miss leaves (M. Dudík, S. Phillips, R. Schapire, "Maximum
    Entropy Density Estimation with Generalized Regularization", JMLR 8, 2007, section 4).

    Args:
        values: The functions on each point, shape ``(functions, points)``.
        goals: b and s.
    """

    values: FloatArray
    goals: Goals

    def value(self, potentials: FloatArray) -> float:
        penalty = 0.5 * np.square(self.goals.stddevs * potentials).sum()
        return float(logsumexp(potentials @ self.values) - potentials @ self.goals.means + penalty)

    @property
    def least(self) -> float:
        """What no value is below where goals without noise are means of some distribution at all."""
        return -np.inf if self.goals.stddevs.any() else -_ROUNDING

    def distribution(self, potentials: FloatArray) -> FloatArray:
        """The probability of each point."""
        exponents = potentials @ self.values
        distribution: FloatArray = np.exp(exponents - logsumexp(exponents))
        return distribution

    def gradient(self, potentials: FloatArray, distribution: FloatArray) -> FloatArray:
        missed: FloatArray = self.values @ distribution - self.goals.means
        return missed + np.square(self.goals.stddevs) * potentials

    def step(self, gradient: FloatArray, distribution: FloatArray) -> FloatArray:
        """Newton's: the Hessian is the covariance of the functions, and the penalty's."""
        means = self.values @ distribution
        hessian = (self.values * distribution) @ self.values.T - np.outer(means, means)
        hessian[np.diag_indices_from(hessian)] += np.square(self.goals.stddevs) + _RIDGE
        return np.asarray(np.linalg.solve(hessian, -gradient), dtype=np.float64)


def largest_entropy(dual: Dual, tolerance: float, most_steps: int) -> FloatArray:
    """The probability of each point.

    Where psi lies on the boundary of what is possible the potentials have no limit, but the
    distribution has: each step brings it nearer by a factor of about e.

    Args:
        tolerance: Largest distance of a mean from its goal.

    Raises:
        NotConvergedError: No distribution on the points has these means, or it takes too many steps.
    """
    potentials = np.zeros(len(dual.values))
    for _ in range(most_steps):
        distribution = dual.distribution(potentials)
        gradient = dual.gradient(potentials, distribution)
        if np.abs(gradient).max() <= tolerance:
            return distribution
        potentials = _descended(dual, potentials, dual.step(gradient, distribution), gradient)
        if dual.value(potentials) < dual.least:
            raise NotConvergedError(problem="no distribution on the allowed cells has these statistics")
    raise NotConvergedError(problem=f"a mean is off by more than {tolerance:g} after {most_steps} steps")


def _descended(dual: Dual, start: FloatArray, step: FloatArray, gradient: FloatArray) -> FloatArray:
    """Along the step, halved until it goes down far enough (Armijo)."""
    before, slope = dual.value(start), float(gradient @ step)
    length, rounding = 1.0, 1e-14 * (1 + abs(before))
    while dual.value(start + length * step) > before + 1e-4 * length * slope + rounding:
        length /= 2
        if length < _SHORTEST:
            raise NotConvergedError(problem="no step comes closer to these statistics")
    return start + length * step
