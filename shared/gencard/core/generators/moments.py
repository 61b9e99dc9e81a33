"""Generators that take any linear statistics: maximum entropy, and sampling from a reduced space."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from gencard.core.coding import StructuralZeros, impossible_cells
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.errors import NotConvergedError
from gencard.core.generators.contract import (
    TargetMeans,
    check_belongs,
    check_functions,
    check_settings,
    every_cell,
    informative_marginals,
    number_of_functions,
    rng_of,
    values_on,
)
from gencard.core.generators.family import independent
from gencard.core.generators.junction_tree import check_cells
from gencard.core.generators.models import TableModel
from gencard.core.generators.support import SupportModel
from gencard.core.statistics.marginals import others
from gencard.core.statistics.psi import Measurement, Psi, reconcile
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
        whole = scipy.special.logsumexp(potentials @ self.values)
        return float(whole - potentials @ self.targets.means + penalty)

    def distribution(self, potentials: FloatArray) -> FloatArray:
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
    """
    # Lower bound of the objective if targets without noise are means of some distribution.
    least = -np.inf if dual.targets.stddevs.any() else -_ROUNDING
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
        if dual.value(potentials) < least:
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
        check_functions(functions, domain.cells, self.max_functions, self.max_cells)


# Sampling from a reduced space, after Boedihardjo, Strohmer and Vershynin.

_LEAST = 1e-9
"""Weights below are the solver's rounding."""

_SETTLED = 1e-6
"""Slope of the penalised entropy at which the fit to noisy psi ends, in shares."""

_MOST_STEPS = 200


@dataclass(frozen=True, slots=True)
class ReducedSpace:
    r"""The density on some points that comes nearest to psi: Algorithm 1 of [1]_, mended for noise.

    The points are the reduced space. They are drawn from the product of the one-way marginals that psi
    determines, which costs no privacy and comes nearer with fewer points than the paper's uniform ones;
    a domain of no more cells is its own reduced space. Rows are independent draws from a density h on
    the points (the bootstrap).

    Exact psi: a linear program finds the h with the least :math:`\max_f |\sum_z h(z) f(z) - b_f|` over
    all functions f of psi with their means b, as in the paper.

    Noisy psi: that h is not used. Its error is bounded by the largest noise
    :math:`r = \max_f |\lambda_f|` and nothing makes it smaller: every h within r of b is as good as
    any other, and the solver returns a vertex, which lives on hardly more records than there are
    functions. The theorem bounds each mean and not their sum, so the total variation of a marginal of k
    cells may be as large as :math:`k r`, while setting negative counts to zero leaves about the mean
    noise in each cell. With n records, F functions and privacy epsilon the promise of [1]_ says
    something from :math:`n \ge 2 |F| \ln(|F| / \gamma) / (\epsilon \delta)` records on; below that the
    program fits noise. Instead marginals are reconciled, and h is the density of largest entropy with
    a quadratic penalty on each miss, by the inverse of its noise's variance (``Dual``).

    Args:
        structural_zeros: Cells that stay zero; those of attributes outside the domain say nothing.
        tolerance: Largest miss of exact psi, in shares; beyond it there is no model.
        max_cells: Bound on the cells of psi's marginals, and on points times functions.
        max_functions: Bound on the rows of the linear program.

    References:
        .. [1] M. Boedihardjo, T. Strohmer, R. Vershynin, "Privacy of Synthetic Data: A Statistical
           Framework", IEEE Trans. Inf. Theory 69(1), 2023, arXiv 2109.01748.
    """

    structural_zeros: tuple[StructuralZeros, ...] = ()
    tolerance: float = 1e-2
    points: int = 4_096
    seed: int = 0
    max_cells: int = 20_000_000
    max_functions: int = 2_000

    def __post_init__(self) -> None:
        check_settings(
            self.tolerance,
            points=self.points,
            max_cells=self.max_cells,
            max_functions=self.max_functions,
        )

    def check(self, cliques: Sequence[Clique], domain: Domain) -> None:
        """See ``Generator.check``.

        Raises:
            ModelTooLargeError: The marginals have more than ``max_cells`` cells.
            TooLargeError: There are too many functions, or too many for so many points.
        """
        check_cells(domain, cliques, self.max_cells)
        independent(self.structural_zeros, max_cells=self.max_cells).check(cliques, domain)
        self.check_functions(sum(domain.project(clique).cells for clique in cliques), domain)

    def fit(self, psi: Psi, domain: Domain) -> SupportModel:
        """Fit psi; see ``Generator.fit``.

        Raises:
            TooLargeError: See ``check``.
            InvalidPsiError: psi does not belong to the domain or contradicts itself.
            NotConvergedError: Exact psi is missed by more than the tolerance, or structural zeros leave
                no room for it.
        """
        self.check(psi.cliques, domain)
        self.check_functions(number_of_functions(psi), domain)
        check_belongs(psi, domain)
        points = self._reduced(psi, domain)
        if not len(points):
            raise NotConvergedError(problem="structural zeros contradict psi")
        if psi.exact:
            # the density whose largest miss of exact psi is least
            weights, miss = nearest_density(values_on(psi, points), TargetMeans.of(psi).means)
            if not miss <= self.tolerance:
                raise NotConvergedError(problem=f"a statistic is missed by more than {self.tolerance:g}")
        else:
            # The density of largest entropy, penalised for missing noisy psi; its marginals agree.
            marginals = reconcile(Psi(psi.domain, psi.measurements)) if psi.measurements else psi
            consistent = Psi(psi.domain, marginals.measurements, psi.linear)
            values, targets = values_on(consistent, points), TargetMeans.of(consistent)
            try:
                weights = largest_entropy(Dual(values, targets), _SETTLED, _MOST_STEPS)
            # few points, far from psi: psi is paid for, and a fit must not fail now
            except NotConvergedError:
                weights, _ = nearest_density(values, targets.means)
        rows = np.flatnonzero(weights > _LEAST)
        return SupportModel(points.take(rows), weights[rows])

    def check_functions(self, functions: int, domain: Domain) -> None:
        points = min(self.points, domain.cells)
        check_functions(functions, points, self.max_functions, self.max_cells)

    def _reduced(self, psi: Psi, domain: Domain) -> Dataset:
        if domain.cells <= self.points:
            impossible = impossible_cells(domain, self.structural_zeros)
            return every_cell(domain).take(np.flatnonzero(~impossible))
        # Of one attribute what is assumed of all that psi does not name.
        marginals = psi.measurements or (
            Measurement(domain.attributes[:1], np.ones(domain.sizes[:1], dtype=np.int64)),
        )
        product = independent(self.structural_zeros, max_cells=self.max_cells)
        model = product.fit(Psi(domain, marginals), domain)
        points = model.sample(self.points, rng=rng_of(self.seed))
        return Dataset(domain, np.unique(points.codes, axis=0))


def nearest_density(values: FloatArray, means: FloatArray) -> tuple[FloatArray, float]:
    r"""The h from zero up, of sum 1, with the least :math:`\max_f |\sum_z h(z) f(z) - b_f|`.

    Boedihardjo, Strohmer, Vershynin (arXiv 2109.01748), Algorithm 1, step 2; by HiGHS's simplex method.

    Args:
        values: f(z), shape ``(functions, points)``.
        means: b, shape ``(functions,)``.

    Returns:
        h, shape ``(points,)``, and the least value.
    """
    functions, points = values.shape
    matrix, slack = scipy.sparse.csr_array(values), scipy.sparse.csr_array(np.ones((functions, 1)))
    whole = scipy.sparse.csr_array(np.append(np.ones(points), 0.0)[None])
    solution = scipy.optimize.milp(
        c=np.append(np.zeros(points), 1.0),
        constraints=[
            scipy.optimize.LinearConstraint(scipy.sparse.hstack([matrix, -slack]), ub=means),
            scipy.optimize.LinearConstraint(scipy.sparse.hstack([matrix, slack]), lb=means),
            scipy.optimize.LinearConstraint(whole, 1.0, 1.0),
        ],
    )
    if solution.x is None:
        raise NotConvergedError(problem="the linear program has no solution")
    return np.maximum(solution.x[:-1], 0.0), float(solution.fun)
