"""Iterative proportional fitting: the table of maximum entropy among those with the marginals of psi."""

from collections.abc import Sequence
from dataclasses import dataclass

from gencard.core.coding import StructuralZeros
from gencard.core.domain import Clique, Domain
from gencard.core.generators.admitted import admitted, check_settings, zeros_inside
from gencard.core.generators.goals import Goal
from gencard.core.generators.maximum_entropy.block_table import BlockTable, PlainTable
from gencard.core.generators.maximum_entropy.fitting import check_room, fit
from gencard.core.generators.maximum_entropy.junction_tree import check_cells
from gencard.core.generators.maximum_entropy.relaxation import NOISY, relax
from gencard.core.generators.maximum_entropy.table_model import TableModel
from gencard.core.generators.maximum_entropy.triangle import Triangle, three_parts
from gencard.core.statistics.psi import Psi


@dataclass(frozen=True, slots=True)
class Ipf:
    r"""Scale a uniform table to each marginal of psi in turn, over and over (Deming, Stephan 1940).

    The limit is the table :math:`\prod_C f_C(x_C)` with the marginals of psi: of all such tables the
    one of maximum entropy. Attributes that psi does not name are uniform and independent. Only sums,
    products, quotients and comparisons of floats in a fixed order: the same bits on every machine.
    Noisy psi is reconciled first; marginals that then agree with each other may still be those of no
    table, and the fit ends where it comes no nearer.

    Args:
        structural_zeros: Cells that stay zero; those of attributes outside the domain say nothing.
        tolerance: Largest L1 distance of a fitted marginal from psi, in shares. The default is far
            below the noise of sampling, which is about 1 / sqrt(rows).
        max_cells: Refuse larger domains; a fit takes up to 64 bytes a cell.
        most_sweeps: Give up after so many.

    Raises:
        InvalidNumberError: The tolerance is not positive, or a bound is not.
    """

    structural_zeros: tuple[StructuralZeros, ...] = ()
    tolerance: float = 1e-4
    max_cells: int = 50_000_000
    most_sweeps: int = 10_000

    def __post_init__(self) -> None:
        check_settings(self.tolerance, max_cells=self.max_cells, most_sweeps=self.most_sweeps)

    def check(self, cliques: Sequence[Clique], domain: Domain) -> None:  # noqa: ARG002
        """Raises ModelTooLargeError where the domain has more than ``max_cells`` cells."""
        check_cells(domain, [domain.attributes], self.max_cells)

    def fit(self, psi: Psi, domain: Domain) -> TableModel:
        """Fit psi; see ``Generator.fit``.

        Raises:
            ModelTooLargeError: The domain has more than ``max_cells`` cells.
            InvalidPsiError: psi does not belong to the domain or contradicts itself.
            NotConvergedError: Structural zeros leave no room for psi, or it takes too many sweeps.
        """
        self.check(psi.cliques, domain)
        exact = psi.exact
        psi = admitted(psi, domain)
        zeros = zeros_inside(self.structural_zeros, domain)
        table = _uniform(psi, domain, zeros)
        goals = [
            [Goal.of(m.clique, m.values, block) for m in psi.measurements if set(m.clique) <= set(block)]
            for block in table.blocks
        ]
        if not exact:
            relax(table, goals, self.tolerance, self.most_sweeps, steepest=NOISY)
            return TableModel(domain, table.expanded())
        if zeros:
            check_room(table, goals)
        fit(table, goals, self.tolerance, self.most_sweeps)
        return TableModel(domain, table.expanded())


def _uniform(psi: Psi, domain: Domain, zeros: Sequence[StructuralZeros]) -> BlockTable:
    """Where the fit starts, in the smallest form that holds what it can reach."""
    parts = three_parts(domain, [*psi.cliques, *(zero.clique for zero in zeros)])
    return Triangle(domain, parts, zeros) if parts else PlainTable(domain, psi.cliques, zeros)
