"""Graphical models on a junction tree: the model of Private-PGM, fitted by scaling."""

from collections.abc import Sequence
from dataclasses import dataclass

from gencard.core.coding import StructuralZeros
from gencard.core.domain import Clique, Domain
from gencard.core.generators.admitted import admitted, check_settings, zeros_inside
from gencard.core.generators.goals import Goal
from gencard.core.generators.maximum_entropy.block_table import Blocks, BlockTable, PlainTable
from gencard.core.generators.maximum_entropy.fitting import check_room, fit
from gencard.core.generators.maximum_entropy.junction_tree import JunctionTree
from gencard.core.generators.maximum_entropy.parts import inside
from gencard.core.generators.maximum_entropy.relaxation import NOISY, relax
from gencard.core.generators.maximum_entropy.tree_model import TreeModel
from gencard.core.generators.maximum_entropy.tree_table import TreeTable
from gencard.core.generators.maximum_entropy.triangle import Triangle, three_parts
from gencard.core.statistics.psi import Measurement, Psi
from gencard.core.types import Table

Zeros = tuple[StructuralZeros, ...]


@dataclass(frozen=True, slots=True)
class Graphical:
    r"""The distribution of maximum entropy with the marginals of psi, on a junction tree.

    It is the model of Private-PGM (McKenna, Sheldon, Miklau 2019): :math:`\prod_C f_C(x_C)`, which is
    also what ``Ipf`` finds; here no table is larger than a clique of the tree. Three steps:

    1. Triangulate the graph of the cliques, link its maximal cliques to a tree, bound their cells.
    2. Cut the tree wherever psi itself holds the marginal on a separator: given that marginal, the
       maximum-entropy problems on both sides are separate ones. A spanning tree falls into its edges.
    3. Scale each piece to its marginals, one clique of the tree after another, with messages between.

    Exact psi is met within ``tolerance``. Noisy psi is reconciled first; marginals that then agree
    with each other may still be those of no table, and the fit ends where it comes no nearer.

    Args:
        structural_zeros: Cells that stay zero; those of attributes outside the domain say nothing.
        tolerance: Largest L1 distance of a fitted marginal from psi, in shares.
        max_cells: Refuse trees whose cliques have more cells together.
        most_sweeps: Give up after so many.

    Raises:
        InvalidNumberError: The tolerance is not positive, or a bound is below 1.
    """

    structural_zeros: Zeros = ()
    tolerance: float = 1e-4
    max_cells: int = 50_000_000
    most_sweeps: int = 10_000

    def __post_init__(self) -> None:
        check_settings(self.tolerance, max_cells=self.max_cells, most_sweeps=self.most_sweeps)

    def check(self, cliques: Sequence[Clique], domain: Domain) -> None:
        """Raises ModelTooLargeError where the tree is over the bound; it names its largest cliques."""
        self._tree(cliques, domain)

    def fit(self, psi: Psi, domain: Domain) -> TreeModel:
        """Fit psi; see ``Generator.fit``.

        Raises:
            ModelTooLargeError: The tree has more than ``max_cells`` cells; names its largest cliques.
            InvalidPsiError: psi does not belong to the domain or contradicts itself.
            NotConvergedError: Structural zeros leave no room for psi, or it takes too many sweeps.
        """
        tree = self._tree(psi.cliques, domain)
        psi = admitted(psi, domain)
        tables: dict[int, Table] = {}
        for piece in tree.pieces(psi.cliques):
            tables.update(zip(piece, self._fitted(psi, domain, tree, piece), strict=True))
        return TreeModel(domain, tree, tuple(tables[clique] for clique in range(len(tables))))

    def _tree(self, cliques: Sequence[Clique], domain: Domain) -> JunctionTree:
        """One that holds the cliques and the structural zeros, within the bound."""
        zeros = zeros_inside(self.structural_zeros, domain)
        named = [clique for clique in cliques if set(clique) <= set(domain.attributes)]
        return JunctionTree.of(domain, [*named, *(zero.clique for zero in zeros)], self.max_cells)

    def _fitted(self, psi: Psi, domain: Domain, tree: JunctionTree, piece: Sequence[int]) -> list[Table]:
        """The marginals on the cliques of one piece."""
        cliques = [tree.cliques[number] for number in piece]
        zeros = [
            zero for zero in self.structural_zeros if any(set(zero.clique) <= set(c) for c in cliques)
        ]
        marginals = inside(psi, cliques)
        table = (
            TreeTable(domain, tree, piece, zeros)
            if len(piece) > 1
            else _whole(domain.project(cliques[0]), marginals, zeros)
        )
        self._scale(table, marginals, exact=psi.exact, zeros=bool(zeros))
        return table.marginals() if isinstance(table, TreeTable) else [table.expanded()]

    def _scale(
        self, table: Blocks, marginals: Sequence[Measurement], *, exact: bool, zeros: bool
    ) -> None:
        goals = [
            [Goal.of(m.clique, m.values, block) for m in marginals if set(m.clique) <= set(block)]
            for block in table.blocks
        ]
        if not exact:
            relax(table, goals, self.tolerance, self.most_sweeps, steepest=NOISY)
            return
        if zeros:
            check_room(table, goals)
        fit(table, goals, self.tolerance, self.most_sweeps)


def _whole(
    domain: Domain, marginals: Sequence[Measurement], zeros: Sequence[StructuralZeros]
) -> BlockTable:
    """One clique's table in the smallest form that holds what the fit can reach."""
    goals = [m.clique for m in marginals] or [domain.attributes]
    parts = three_parts(domain, [*goals, *(zero.clique for zero in zeros)])
    return Triangle(domain, parts, zeros) if parts else PlainTable(domain, goals, zeros)
