"""Support raking: maximum entropy on a drawn support, for marginals whose junction tree is too big."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.coding import StructuralZeros
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.errors import NotConvergedError, TooLargeError
from gencard.core.generators.admitted import admitted, check_settings, zeros_inside
from gencard.core.generators.block_table import clear
from gencard.core.generators.bounded_tree import BoundedTree
from gencard.core.generators.functions import every_cell
from gencard.core.generators.goals import Goal, worst_error
from gencard.core.generators.graphical import Graphical
from gencard.core.generators.junction_tree import check_cells
from gencard.core.generators.relaxation import NOISY, relax
from gencard.core.generators.replay import rng_of
from gencard.core.generators.support_model import SupportModel
from gencard.core.generators.support_table import SupportTable
from gencard.core.statistics.closure import maximal
from gencard.core.statistics.psi import Psi

_SEED = 0
"""Every support is drawn with the same words, so that psi alone decides what it is."""

_ENOUGH = 1e-4
"""L1 distance of every marginal at which raking ends before it stops gaining."""

_START = 1e-2
"""Largest L1 distance of the start's marginals: the weights do the rest."""


@dataclass(frozen=True, slots=True)
class SupportRaking:
    r"""Weights on records that a smaller model drew, raked to every marginal of psi.

    The marginals of all pairs of 15 attributes have a junction tree of one clique, with more cells than
    any memory holds. Instead ``support`` records are drawn from a model q that fits, on a junction tree
    of at most ``tree_cells`` cells chosen from psi; then IPF on their weights finds the distribution on
    the support that is nearest to q and has psi's marginals. As q has the form :math:`\prod f_{ij}`, so
    does the limit of many records: it is the maximum-entropy model, estimated by importance sampling.
    Domains of no more cells than ``support`` are their own support, and the fit is plain IPF.

    Cells of psi that no record of the support falls into are missed, hence a tolerance above rounding.
    psi alone decides: the support is drawn with fixed words.

    Args:
        structural_zeros: Cells that stay zero; those of attributes outside the domain say nothing.
        tolerance: Largest mean total variation of the fitted marginals from exact psi; beyond it there
            is no model. Noisy psi is met as nearly as it comes.
        support: Number of records of the support.
        tree_cells: Bound on the cells of the model that draws them.
        max_cells: Bound on the cells of psi's marginals, and on records times marginals.
        most_sweeps: Bound on the work.

    Raises:
        InvalidNumberError: The tolerance is not positive, or a bound is below 1.
    """

    structural_zeros: tuple[StructuralZeros, ...] = ()
    tolerance: float = 5e-3
    support: int = 2**18
    tree_cells: int = 100_000
    max_cells: int = 50_000_000
    most_sweeps: int = 100

    def __post_init__(self) -> None:
        check_settings(
            self.tolerance,
            support=self.support,
            tree_cells=self.tree_cells,
            max_cells=self.max_cells,
            most_sweeps=self.most_sweeps,
        )

    def check(self, cliques: Sequence[Clique], domain: Domain) -> None:
        """See ``Generator.check``.

        Raises:
            ModelTooLargeError: The marginals have more than ``max_cells`` cells; names the largest.
            TooLargeError: So has the table of records by marginals.
        """
        check_cells(domain, cliques, self.max_cells)
        if min(self.support, domain.cells) * len(cliques) > self.max_cells:
            raise TooLargeError(what="Records of the support times marginals", limit=self.max_cells)

    def fit(self, psi: Psi, domain: Domain) -> SupportModel:
        """Fit psi; see ``Generator.fit``.

        Raises:
            TooLargeError: See ``check``.
            InvalidPsiError: psi does not belong to the domain or contradicts itself.
            NotConvergedError: Exact psi is missed by more than the tolerance, or structural zeros leave
                no room for it.
        """
        self.check(psi.cliques, domain)
        psi = admitted(psi, domain)
        support, weights = self._drawn(psi, domain)
        widest = set(maximal(psi.cliques))
        marginals = [m for m in psi.measurements if m.clique in widest]
        table = SupportTable(support, weights, [m.clique for m in marginals])
        goals = [[Goal.of(m.clique, m.values, m.clique)] for m in marginals]
        steepest = np.inf if psi.exact else NOISY
        relax(table, goals, _ENOUGH, self.most_sweeps, steepest=steepest)
        if psi.exact and not _mean_variation(table, goals) <= self.tolerance:
            raise NotConvergedError(
                problem=f"the mean total variation of the marginals is over {self.tolerance:g}"
            )
        kept = np.flatnonzero(weights)
        return SupportModel(support.take(kept), weights[kept])

    def _drawn(self, psi: Psi, domain: Domain) -> tuple[Dataset, NDArray[np.float64]]:
        """The support, and the weights it starts with."""
        if domain.cells > self.support:
            start = Graphical(self.structural_zeros, _START, self.max_cells)
            model = BoundedTree(start, self.tree_cells).fit(psi, domain)
            return model.sample(self.support, rng=rng_of(_SEED)), np.full(self.support, 1 / self.support)
        table = np.full(domain.sizes, 1 / domain.cells)
        clear(table, domain.attributes, zeros_inside(self.structural_zeros, domain))
        return every_cell(domain), table.ravel()


def _mean_variation(table: SupportTable, goals: Sequence[Sequence[Goal]]) -> float:
    """Mean total variation of the marginals from their goals: half the mean L1 distance."""
    errors = [worst_error(table.marginal(block), inside) for block, inside in enumerate(goals)]
    return 0.5 * float(np.mean(errors))
