"""Sampling from a reduced space, after Boedihardjo, Strohmer and Vershynin."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from gencard.core.coding import StructuralZeros, impossible_cells
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.errors import NotConvergedError
from gencard.core.generators.contract import rng_of
from gencard.core.generators.family import LogLinear, independent
from gencard.core.generators.junction_tree import check_cells
from gencard.core.generators.support_model import SupportModel
from gencard.core.generators.targets import (
    TargetMeans,
    check_belongs,
    check_functions,
    check_settings,
    every_cell,
    number_of_functions,
    values_on,
)
from gencard.core.generators.with_moments import Dual, largest_entropy
from gencard.core.statistics.psi import Measurement, Psi, reconcile
from gencard.core.types import FloatArray

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
        points: Size of the reduced space.
        seed: From which the points are drawn.
        max_cells: Bound on the cells of psi's marginals, and on points times functions.
        max_functions: Bound on the rows of the linear program.

    Raises:
        InvalidNumberError: The tolerance is not positive, or a bound is below 1.

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
        self._product().check(cliques, domain)
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
            weights = _smoothest(psi, points)
        rows = np.flatnonzero(weights > _LEAST)
        return SupportModel(points.take(rows), weights[rows])

    def check_functions(self, functions: int, domain: Domain) -> None:
        """See ``LinearGenerator.check_functions``."""
        points = min(self.points, domain.cells)
        check_functions(functions, points, self.max_functions, self.max_cells)

    def _reduced(self, psi: Psi, domain: Domain) -> Dataset:
        """The points, each once."""
        if domain.cells <= self.points:
            impossible = impossible_cells(domain, self.structural_zeros)
            return every_cell(domain).take(np.flatnonzero(~impossible))
        # Of one attribute what is assumed of all that psi does not name.
        marginals = psi.measurements or (
            Measurement(domain.attributes[:1], np.ones(domain.sizes[:1], dtype=np.int64)),
        )
        model = self._product().fit(Psi(domain, marginals), domain)
        points = model.sample(self.points, rng=rng_of(self.seed))
        return Dataset(domain, np.unique(points.codes, axis=0))

    def _product(self) -> LogLinear:
        return independent(self.structural_zeros, max_cells=self.max_cells)


def _smoothest(psi: Psi, points: Dataset) -> FloatArray:
    """The density of largest entropy, penalised for missing noisy psi; its marginals made to agree."""
    marginals = reconcile(Psi(psi.domain, psi.measurements)).measurements if psi.measurements else ()
    consistent = Psi(psi.domain, marginals, psi.linear)
    values, targets = values_on(consistent, points), TargetMeans.of(consistent)
    try:
        return largest_entropy(Dual(values, targets), _SETTLED, _MOST_STEPS)
    except NotConvergedError:  # few points, far from psi: psi is paid for, and a fit must not fail now
        return nearest_density(values, targets.means)[0]


def nearest_density(values: FloatArray, means: FloatArray) -> tuple[FloatArray, float]:
    r"""The h from zero up, of sum 1, with the least :math:`\max_f |\sum_z h(z) f(z) - b_f|`.

    Boedihardjo, Strohmer, Vershynin (arXiv 2109.01748), Algorithm 1, step 2; by HiGHS's simplex method.

    Args:
        values: f(z), shape ``(functions, points)``.
        means: b, shape ``(functions,)``.

    Returns:
        h, shape ``(points,)``, and the least value.

    Raises:
        NotConvergedError: The solver finds no answer.
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
