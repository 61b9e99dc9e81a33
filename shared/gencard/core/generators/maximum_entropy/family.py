"""One maximum-entropy family: distributions with marginals of psi, by name.

The names differ in which marginals of psi they use and in how the table is held:

=============  ==================================  ==============================================
name           marginals                           table
=============  ==================================  ==============================================
ipf            all                                 every cell, or three tables (``Triangle``)
graphical      all                                 a junction tree
spanning-tree  the best tree of pairs              a junction tree
independent    one-way                             a junction tree (without zeros: single attributes)
saturated      the one on all attributes           every cell; nothing is left to fit
=============  ==================================  ==============================================
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gencard.core.coding import StructuralZeros
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidInputError, InvalidNumberError, NotConvergedError
from gencard.core.generators.maximum_entropy.block_table import (
    Blocks,
    BlockTable,
    PlainTable,
    TreeTable,
    clear,
)
from gencard.core.generators.maximum_entropy.fitting import NOISY, check_room, fit, relax
from gencard.core.generators.maximum_entropy.junction_tree import (
    JunctionTree,
    check_cells,
    edges,
    heaviest_tree,
)
from gencard.core.generators.maximum_entropy.table_model import TableModel
from gencard.core.generators.maximum_entropy.tree_model import TreeModel
from gencard.core.generators.maximum_entropy.triangle import Triangle, three_parts
from gencard.core.generators.targets import (
    TargetMarginal,
    admitted,
    check_settings,
    inside,
    pairs_inside,
    restricted,
    zeros_inside,
)
from gencard.core.statistics.marginals import project
from gencard.core.statistics.psi import Measurement, Psi
from gencard.core.types import Table


@dataclass(frozen=True, slots=True)
class _Scaled:
    """Settings of every fit by scaling, and the scaling itself.

    Exact psi is met within ``tolerance``. Noisy psi is reconciled first; marginals that then agree
    with each other may still be those of no table, and the fit ends where it comes no nearer. Only sums,
    products, quotients and comparisons of floats in a fixed order: the same bits on every machine.

    Args:
        structural_zeros: Cells that stay zero; those of attributes outside the domain say nothing.
        tolerance: Largest L1 distance of a fitted marginal from psi, in shares. The default is far
            below the noise of sampling, which is about 1 / sqrt(rows).
        max_cells: Refuse models whose tables have more cells together.
        most_sweeps: Give up after so many.

    Raises:
        InvalidNumberError: The tolerance is not positive, or a bound is below 1.
    """

    structural_zeros: tuple[StructuralZeros, ...] = ()
    tolerance: float = 1e-4
    max_cells: int = 50_000_000
    most_sweeps: int = 10_000

    def __post_init__(self) -> None:
        check_settings(self.tolerance, max_cells=self.max_cells, most_sweeps=self.most_sweeps)

    def _scale(
        self, table: Blocks, marginals: Sequence[Measurement], *, exact: bool, zeros: bool
    ) -> None:
        """Give a table the marginals, in place."""
        targets = [
            [
                TargetMarginal.of(m.clique, m.values, block)
                for m in marginals
                if set(m.clique) <= set(block)
            ]
            for block in table.blocks
        ]
        if not exact:
            relax(table, targets, self.tolerance, self.most_sweeps, steepest=NOISY)
            return
        if zeros:
            check_room(table, targets)
        fit(table, targets, self.tolerance, self.most_sweeps)


@dataclass(frozen=True, slots=True)
class Ipf(_Scaled):
    r"""Iterative proportional fitting: the table of maximum entropy that has the marginals of psi.

    A uniform table is scaled to each marginal in turn, over and over (Deming, Stephan 1940). The limit
    is :math:`\prod_C f_C(x_C)`. Attributes that psi does not name are uniform and independent.
    A fit takes up to 64 bytes a cell.
    """

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
        table = _whole(domain, psi.measurements, zeros)
        self._scale(table, psi.measurements, exact=exact, zeros=bool(zeros))
        return TableModel(domain, table.expanded())


@dataclass(frozen=True, slots=True)
class Graphical(_Scaled):
    r"""The same distribution on a junction tree: the model of Private-PGM (McKenna et al. 2019).

    No table is larger than a clique of the tree. Three steps:

    1. Triangulate the graph of the cliques, link its maximal cliques to a tree, bound their cells.
    2. Cut the tree wherever psi itself holds the marginal on a separator: given that marginal, the
       maximum-entropy problems on both sides are separate ones. A spanning tree falls into its edges.
    3. Scale each piece to its marginals, one clique of the tree after another, with messages between.
    """

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


@dataclass(frozen=True, slots=True)
class Independent(Graphical):
    """The product of the one-way marginals that psi determines; what psi says of pairs is not used.

    With structural zeros it is the nearest to it that has them: quasi-independence (Goodman 1968), the
    distribution of maximum entropy with these one-way marginals and no mass in those cells.
    """

    def check(self, cliques: Sequence[Clique], domain: Domain) -> None:
        """Raises ModelTooLargeError where the tables are over the bound: those of zeros may be large."""
        Graphical.check(self, [(name,) for clique in cliques for name in clique], domain)

    def fit(self, psi: Psi, domain: Domain) -> TreeModel:
        """Fit the one-way marginals of psi; raises as ``Graphical.fit`` does."""
        return Graphical.fit(self, restricted(admitted(psi, domain), []), domain)


@dataclass(frozen=True, slots=True)
class SpanningTree(Graphical):
    """The tree of pairs with the largest sum of mutual information (Chow, Liu 1968).

    Edges are pairs of attributes whose marginal psi determines; where psi holds too few of them the
    tree is a forest. Of all distributions on such trees it is the nearest to psi's records in
    Kullback-Leibler divergence. It meets the marginals of its edges, and of all others only what the
    tree implies.
    """

    def check(self, cliques: Sequence[Clique], domain: Domain) -> None:
        """Raises ModelTooLargeError where the largest tree that psi may choose is over the bound."""
        cells = {pair: domain.project(pair).cells for pair in pairs_inside(cliques, domain)}
        Graphical.check(self, [*heaviest_tree(cells), *((name,) for c in cliques for name in c)], domain)

    def fit(self, psi: Psi, domain: Domain) -> TreeModel:
        """Choose the edges and fit their marginals; raises as ``Graphical.fit`` does."""
        self.check(psi.cliques, domain)
        psi = admitted(psi, domain)
        return Graphical.fit(self, restricted(psi, edges(psi)), domain)


@dataclass(frozen=True, slots=True)
class Saturated:
    r"""The marginal on all attributes as it is: cell x has probability :math:`(n_x + \alpha) / n`.

    This is ``catall`` of synthpop, whose ``priorn`` is ``alpha`` times the number of cells. With
    ``alpha`` zero only the combinations that psi counts are ever drawn.

    Args:
        structural_zeros: Cells that stay zero; those of attributes outside the domain say nothing.
        alpha: Prior count added to each cell that is no structural zero, in records.
        max_cells: Refuse larger domains.

    Raises:
        InvalidNumberError: ``alpha`` is negative or not finite, or the bound is below 1.
    """

    structural_zeros: tuple[StructuralZeros, ...] = ()
    alpha: float = 0.0
    max_cells: int = 50_000_000

    def __post_init__(self) -> None:
        check_settings(max_cells=self.max_cells)
        if not (np.isfinite(self.alpha) and self.alpha >= 0):
            raise InvalidNumberError(field="alpha", expected="a finite number, zero or more")

    def check(self, cliques: Sequence[Clique], domain: Domain) -> None:
        """See ``Generator.check``.

        Raises:
            ModelTooLargeError: The domain has more than ``max_cells`` cells.
            InvalidInputError: No clique holds all attributes of the domain.
        """
        check_cells(domain, [domain.attributes], self.max_cells)
        if not any(set(clique) >= set(domain.attributes) for clique in cliques):
            problem = "the saturated model needs one marginal on all attributes"
            raise InvalidInputError(field="marginals", problem=problem)

    def fit(self, psi: Psi, domain: Domain) -> TableModel:
        """Take the marginal on all attributes; see ``Generator.fit``.

        Raises:
            ModelTooLargeError, InvalidInputError: See ``check``.
            InvalidPsiError: psi does not belong to the domain or contradicts itself.
            NotConvergedError: Exact psi counts records in a structural zero, or none are left.
        """
        self.check(psi.cliques, domain)
        psi = admitted(psi, domain)
        whole = next(m for m in psi.measurements if set(m.clique) == set(domain.attributes))
        counts = project(whole.values, whole.clique, domain.attributes).astype(np.float64)
        table = counts + self.alpha
        clear(table, domain.attributes, zeros_inside(self.structural_zeros, domain))
        if not table.any() or (psi.exact and np.any((table == 0) & (counts > 0))):
            raise NotConvergedError(problem="structural zeros contradict psi")
        return TableModel(domain, table)


def _whole(
    domain: Domain, marginals: Sequence[Measurement], zeros: Sequence[StructuralZeros]
) -> BlockTable:
    """One clique's table in the smallest form that holds what the fit can reach."""
    targets = [m.clique for m in marginals] or [domain.attributes]
    parts = three_parts(domain, [*targets, *(zero.clique for zero in zeros)])
    return Triangle(domain, parts, zeros) if parts else PlainTable(domain, targets, zeros)
