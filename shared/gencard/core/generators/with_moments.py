"""Maximum entropy with any linear statistics: means, moments, sums by group, and marginals."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from gencard.core.coding import StructuralZeros, impossible_cells
from gencard.core.domain import Clique, Domain
from gencard.core.errors import NotConvergedError
from gencard.core.generators.junction_tree import check_cells
from gencard.core.generators.models import TableModel
from gencard.core.generators.targets import (
    TargetMeans,
    check_belongs,
    check_functions,
    check_settings,
    every_cell,
    informative_marginals,
    number_of_functions,
    values_on,
)
from gencard.core.statistics.marginals import others
from gencard.core.statistics.psi import Psi
from gencard.core.types import FloatArray

_RIDGE = 1e-12
"""Added to the Hessian, which is singular where functions depend on each other."""

_ROUNDING = 1e-6
"""Largest distance below zero to which rounding may move an entropy."""

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
        targets: b and s.
    """

    values: FloatArray
    targets: TargetMeans

    def value(self, potentials: FloatArray) -> float:
        penalty = 0.5 * np.square(self.targets.stddevs * potentials).sum()
        return float(
            scipy.special.logsumexp(potentials @ self.values) - potentials @ self.targets.means + penalty
        )

    @property
    def least(self) -> float:
        """Lower bound of the objective if targets without noise are means of some distribution."""
        return -np.inf if self.targets.stddevs.any() else -_ROUNDING

    def distribution(self, potentials: FloatArray) -> FloatArray:
        """The probability of each point."""
        exponents = potentials @ self.values
        distribution: FloatArray = np.exp(exponents - scipy.special.logsumexp(exponents))
        return distribution

    def gradient(self, potentials: FloatArray, distribution: FloatArray) -> FloatArray:
        residual: FloatArray = self.values @ distribution - self.targets.means
        return residual + np.square(self.targets.stddevs) * potentials

    def step(self, gradient: FloatArray, distribution: FloatArray) -> FloatArray:
        """Newton's: the Hessian is the covariance of the functions, and the penalty's."""
        means = self.values @ distribution
        hessian = (self.values * distribution) @ self.values.T - np.outer(means, means)
        hessian[np.diag_indices_from(hessian)] += np.square(self.targets.stddevs) + _RIDGE
        return np.asarray(np.linalg.solve(hessian, -gradient), dtype=np.float64)


def largest_entropy(dual: Dual, tolerance: float, most_steps: int) -> FloatArray:
    """The probability of each point.

    Where psi lies on the boundary of what is possible the potentials have no limit, but the
    distribution has: each step brings it nearer by a factor of about e.

    Args:
        tolerance: Largest distance of a mean from its target.

    Raises:
        NotConvergedError: No distribution on the points has these means, or it takes too many steps.
    """
    potentials = np.zeros(len(dual.values))
    for _ in range(most_steps):
        distribution = dual.distribution(potentials)
        gradient = dual.gradient(potentials, distribution)
        if np.abs(gradient).max() <= tolerance:
            return distribution
        step = dual.step(gradient, distribution)
        # Along the step, halved until the value falls far enough (Armijo).
        before, slope = dual.value(potentials), float(gradient @ step)
        length, rounding = 1.0, 1e-14 * (1 + abs(before))
        while dual.value(potentials + length * step) > before + 1e-4 * length * slope + rounding:
            length /= 2
            if length < _SHORTEST:
                raise NotConvergedError(problem="no step comes closer to these statistics")
        potentials = potentials + length * step
        if dual.value(potentials) < dual.least:
            raise NotConvergedError(problem="no distribution on the allowed cells has these statistics")
    raise NotConvergedError(problem=f"a mean is off by more than {tolerance:g} after {most_steps} steps")


@dataclass(frozen=True, slots=True)
class MaximumEntropy:
    r"""The table of largest entropy whose means of all functions of psi are psi's.

    It has the form :math:`p(x) \propto e^{\sum_j \theta_j f_j(x)}` (E. T. Jaynes, "Information Theory
    and Statistical Mechanics", 1957), and is found by Newton's method on the dual, with one dimension
    for each function: a cell of a marginal is one too, so for marginals alone other methods are
    faster. Noisy psi is met as nearly as its noise allows: see ``Dual``.

    The means are met to far below the noise of sampling; unlike sums and products alone, the last bits
    are those of the machine's linear algebra.

    Args:
        structural_zeros: Cells that stay zero; those of attributes outside the domain say nothing.
        tolerance: Largest distance of a function's mean from psi, in units of its largest value.
        max_cells: Bound on the domain's cells, and on cells times functions; a fit takes up to 24
            bytes for each.
        max_functions: Bound on the dimension.
        most_steps: Give up after so many.

    Raises:
        InvalidNumberError: The tolerance is not positive, or a bound is below 1.
    """

    structural_zeros: tuple[StructuralZeros, ...] = ()
    tolerance: float = 1e-9
    max_cells: int = 20_000_000
    max_functions: int = 2_000
    most_steps: int = 200

    def __post_init__(self) -> None:
        check_settings(
            self.tolerance,
            max_cells=self.max_cells,
            max_functions=self.max_functions,
            most_steps=self.most_steps,
        )

    def check(self, cliques: Sequence[Clique], domain: Domain) -> None:
        """See ``Generator.check``.

        Raises:
            ModelTooLargeError: The domain has more than ``max_cells`` cells.
            TooLargeError: There are too many functions, or too many for so many cells.
        """
        check_cells(domain, [domain.attributes], self.max_cells)
        self.check_functions(sum(domain.project(clique).cells for clique in cliques), domain)

    def fit(self, psi: Psi, domain: Domain) -> TableModel:
        """Fit psi; see ``Generator.fit``.

        Raises:
            TooLargeError: See ``check``.
            InvalidPsiError: psi does not belong to the domain or contradicts itself.
            NotConvergedError: No table has these statistics, or it takes too many steps.
        """
        self.check(psi.cliques, domain)
        self.check_functions(number_of_functions(psi), domain)
        check_belongs(psi, domain)
        # 1 for each cell that may hold records, 0 where structure or an exact count says none.
        allowed = np.where(impossible_cells(domain, self.structural_zeros), 0.0, 1.0)
        for marginal in informative_marginals(psi) if psi.exact else ():
            ascending = np.argsort(domain.axes(marginal.clique))
            some = np.transpose(marginal.values > 0, ascending)
            allowed *= np.expand_dims(some, others(domain.attributes, marginal.clique))
        cells = np.flatnonzero(allowed)
        if not len(cells):
            raise NotConvergedError(problem="structural zeros contradict psi")
        dual = Dual(values_on(psi, every_cell(domain).take(cells)), TargetMeans.of(psi))
        table = np.zeros(domain.cells)
        table[cells] = largest_entropy(dual, self.tolerance, self.most_steps)
        return TableModel(domain, table.reshape(domain.sizes))

    def check_functions(self, functions: int, domain: Domain) -> None:
        """See ``LinearGenerator.check_functions``."""
        check_functions(functions, domain.cells, self.max_functions, self.max_cells)
