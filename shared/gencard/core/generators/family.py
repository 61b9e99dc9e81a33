"""One maximum-entropy family: log-linear distributions with marginals of psi, by name.

The names differ in which marginals of psi they use and in how the distribution is held:

=============  ==================================  ==============================================
name           marginals                           form
=============  ==================================  ==============================================
ipf            all                                 every cell, or three tables (``Triangle``)
graphical      all                                 a junction tree
spanning-tree  the best tree of pairs              a junction tree
independent    one-way                             a junction tree (without zeros: single attributes)
saturated      the one on all attributes           every cell; nothing is left to fit
=============  ==================================  ==============================================
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

import numpy as np

from gencard.core.coding import StructuralZeros, zeros_inside
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidInputError, InvalidNumberError, NotConvergedError
from gencard.core.generators.contract import (
    TargetMarginal,
    admitted,
    check_settings,
    inside,
    pairs_inside,
    restricted,
)
from gencard.core.generators.fitting import (
    NOISY,
    Blocks,
    BlockTable,
    PlainTable,
    TreeTable,
    Triangle,
    check_room,
    clear,
    fit,
    relax,
    three_parts,
)
from gencard.core.generators.junction_tree import JunctionTree, check_cells, edges, heaviest_tree
from gencard.core.generators.models import TableModel, TreeModel
from gencard.core.statistics.marginals import project
from gencard.core.statistics.psi import Measurement, Psi
from gencard.core.types import Table


class KeptMarginals(StrEnum):
    """Marginals of psi that the distribution keeps; of the others it has what these imply."""

    ALL = "all"
    BEST_TREE = "best tree of pairs"
    ONE_WAY = "one-way"
    WHOLE = "on all attributes"


class DistributionForm(StrEnum):
    """Form in which the distribution is stored: ``WHOLE`` always as a table."""

    TABLE = "table"
    TREE = "junction tree"


@dataclass(frozen=True, slots=True)
class LogLinear:
    r"""The distribution of largest entropy that has the marginals of psi.

    A uniform table is scaled to each marginal in turn, over and over (iterative proportional fitting;
    Deming, Stephan 1940). The limit is :math:`\prod_C f_C(x_C)`. Attributes that psi does not name are
    uniform and independent. Exact psi is met within ``tolerance``. Noisy psi is reconciled first;
    marginals that then agree with each other may still be those of no table, and the fit ends where it
    comes no nearer. Only sums, products, quotients and comparisons of floats in a fixed order: the same
    bits on every machine.

    A junction tree is the model of Private-PGM (McKenna et al. 2019): no table is larger than a clique
    of the tree. Three steps:

    1. Triangulate the graph of the cliques, link its maximal cliques to a tree, bound their cells.
    2. Cut the tree wherever psi itself holds the marginal on a separator: given that marginal, the
       maximum-entropy problems on both sides are separate ones. A spanning tree falls into its edges.
    3. Scale each piece to its marginals, one clique of the tree after another, with messages between.

    ``Use.BEST_TREE`` takes the tree of pairs with the largest sum of mutual information (Chow, Liu
    1968), a forest where psi determines too few pairs: of all such trees the nearest to psi's records
    in Kullback-Leibler divergence. ``Use.ONE_WAY`` is the product of the one-way marginals; with
    structural zeros the nearest to it that has them: quasi-independence (Goodman 1968). ``Use.WHOLE``
    takes the marginal on all attributes as it is: cell x has probability :math:`(n_x + \alpha) / n`,
    which is ``catall`` of synthpop, whose ``priorn`` is ``alpha`` times the number of cells.

    Args:
        structural_zeros: Cells that stay zero; those of attributes outside the domain say nothing.
        tolerance: Largest L1 distance of a fitted marginal from psi, in shares. The default is far
            below the noise of sampling, which is about 1 / sqrt(rows).
        max_cells: Refuse models whose tables have more cells together. A fit of a table takes up to 64
            bytes a cell.
        most_sweeps: Most sweeps of a fit before it gives up.
        alpha: Prior count that ``Use.WHOLE`` adds to each cell that is no structural zero, in records.
    """

    structural_zeros: tuple[StructuralZeros, ...] = ()
    tolerance: float = 1e-4
    max_cells: int = 50_000_000
    most_sweeps: int = 10_000
    alpha: float = 0.0
    use: KeptMarginals = field(default=KeptMarginals.ALL, kw_only=True)
    form: DistributionForm = field(default=DistributionForm.TABLE, kw_only=True)

    def __post_init__(self) -> None:
        check_settings(self.tolerance, max_cells=self.max_cells, most_sweeps=self.most_sweeps)
        if not (np.isfinite(self.alpha) and self.alpha >= 0):
            raise InvalidNumberError(field="alpha", expected="a finite number, zero or more")

    def check(self, cliques: Sequence[Clique], domain: Domain) -> None:
        """See ``Generator.check``.

        Raises:
            ModelTooLargeError: The table, or the largest tree that psi may choose, has more than
                ``max_cells`` cells; a tree names its largest cliques.
            InvalidInputError: ``Use.WHOLE``, and no clique holds all attributes of the domain.
        """
        if self.form is DistributionForm.TREE:
            self._tree(self._largest(cliques, domain), domain)
            return
        check_cells(domain, [domain.attributes], self.max_cells)
        is_whole = any(set(clique) >= set(domain.attributes) for clique in cliques)
        if self.use is KeptMarginals.WHOLE and not is_whole:
            problem = "the saturated model needs one marginal on all attributes"
            advice = (
                f"Add the marginal ({', '.join(domain.attributes)}), or use the generator ipf, which "
                "takes any marginals."
            )
            raise InvalidInputError(field="marginals", problem=problem, advice=advice)

    def fit(self, psi: Psi, domain: Domain) -> TableModel | TreeModel:
        """Fit psi; see ``Generator.fit``.

        Raises:
            ModelTooLargeError, InvalidInputError: See ``check``.
            InvalidPsiError: psi does not belong to the domain or contradicts itself.
            NotConvergedError: Structural zeros leave no room for psi, or it takes too many sweeps.
        """
        return (self.fit_tree if self.form is DistributionForm.TREE else self.fit_table)(psi, domain)

    def fit_table(self, psi: Psi, domain: Domain) -> TableModel:
        """Fit as ``fit`` does, and return the probability of every cell."""
        self.check(psi.cliques, domain)
        consistent = admitted(self._used(psi, domain), domain)
        zeros = zeros_inside(self.structural_zeros, domain)
        if self.use is KeptMarginals.WHOLE:
            whole = next(m for m in consistent.measurements if set(m.clique) == set(domain.attributes))
            counts = project(whole.values, whole.clique, domain.attributes).astype(np.float64)
            table: Table = counts + self.alpha
            clear(table, domain.attributes, zeros)
            if not table.any() or (consistent.exact and np.any((table == 0) & (counts > 0))):
                raise NotConvergedError(problem="structural zeros contradict psi")
            return TableModel(domain, table)
        return TableModel(domain, self._scaled(domain, consistent.measurements, zeros, exact=psi.exact))

    def fit_tree(self, psi: Psi, domain: Domain) -> TreeModel:
        """Fit as ``fit`` does, and return marginals on the cliques of a junction tree."""
        kept_psi = self._used(psi, domain)
        tree = self._tree(kept_psi.cliques, domain)
        consistent = admitted(kept_psi, domain)
        tables: dict[int, Table] = {}
        for piece in tree.pieces(consistent.cliques):
            cliques = [tree.cliques[number] for number in piece]
            zeros = [one for one in self.structural_zeros if any(map(set(one.clique).issubset, cliques))]
            marginals = inside(consistent, cliques)
            if len(piece) == 1:
                own = domain.project(cliques[0])
                tables[piece[0]] = self._scaled(own, marginals, zeros, exact=consistent.exact)
                continue
            table = TreeTable(domain, tree, piece, zeros)
            self._scale(table, marginals, exact=consistent.exact, zeros=bool(zeros))
            # In the order of the blocks: these marginals agree on what they share.
            tables.update((number, table.marginal(block)) for block, number in enumerate(piece))
        return TreeModel(domain, tree, tuple(tables[clique] for clique in range(len(tables))))

    def _largest(self, cliques: Sequence[Clique], domain: Domain) -> list[Clique]:
        """The cliques that a tree must hold; of those that psi may choose, the largest."""
        singles: list[Clique] = [(name,) for clique in cliques for name in clique]
        match self.use:
            case KeptMarginals.ONE_WAY:
                return singles
            case KeptMarginals.BEST_TREE:
                cells = {pair: domain.project(pair).cells for pair in pairs_inside(cliques, domain)}
                return [*heaviest_tree(cells), *singles]
            case _:
                return [*cliques]

    def _used(self, psi: Psi, domain: Domain) -> Psi:
        if self.use in (KeptMarginals.ALL, KeptMarginals.WHOLE):
            return psi
        self.check(psi.cliques, domain)
        consistent = admitted(psi, domain)
        return restricted(consistent, edges(consistent) if self.use is KeptMarginals.BEST_TREE else [])

    def _tree(self, cliques: Sequence[Clique], domain: Domain) -> JunctionTree:
        """One that holds the cliques and the structural zeros, within the bound."""
        zeros = zeros_inside(self.structural_zeros, domain)
        inside_cliques = [clique for clique in cliques if set(clique) <= set(domain.attributes)]
        inside_cliques += [zero.clique for zero in zeros]
        return JunctionTree.of(domain, inside_cliques, self.max_cells)

    def _scaled(
        self,
        domain: Domain,
        marginals: Sequence[Measurement],
        zeros: Sequence[StructuralZeros],
        *,
        exact: bool,
    ) -> Table:
        """Every cell of a fitted table, held while it is fitted in the smallest form that suffices."""
        targets = [m.clique for m in marginals] or [domain.attributes]
        parts = three_parts(domain, [*targets, *(zero.clique for zero in zeros)])
        table: BlockTable = (
            Triangle(domain, parts, zeros) if parts else PlainTable(domain, targets, zeros)
        )
        self._scale(table, marginals, exact=exact, zeros=bool(zeros))
        return table.expanded()

    def _scale(
        self, table: Blocks, marginals: Sequence[Measurement], *, exact: bool, zeros: bool
    ) -> None:
        targets = []
        for block in table.blocks:
            own = [m for m in marginals if set(m.clique) <= set(block)]
            targets.append([TargetMarginal.of(m.clique, m.values, block) for m in own])
        if not exact:
            relax(table, targets, self.tolerance, self.most_sweeps, steepest=NOISY)
            return
        if zeros:
            check_room(table, targets)
        fit(table, targets, self.tolerance, self.most_sweeps)


ipf = partial(LogLinear, use=KeptMarginals.ALL, form=DistributionForm.TABLE)
graphical = partial(LogLinear, use=KeptMarginals.ALL, form=DistributionForm.TREE)
spanning_tree = partial(LogLinear, use=KeptMarginals.BEST_TREE, form=DistributionForm.TREE)
independent = partial(LogLinear, use=KeptMarginals.ONE_WAY, form=DistributionForm.TREE)
saturated = partial(LogLinear, use=KeptMarginals.WHOLE, form=DistributionForm.TABLE)
