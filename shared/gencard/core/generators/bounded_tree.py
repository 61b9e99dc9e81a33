"""The model on a junction tree of bounded size that comes nearest to psi, chosen from psi alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gencard.core.coding import StructuralZeros
from gencard.core.domain import Clique, Domain
from gencard.core.generators.admitted import zeros_inside
from gencard.core.generators.graphical import Graphical
from gencard.core.generators.junction_tree import JunctionTree
from gencard.core.generators.parts import implied, pairs, restricted
from gencard.core.generators.spanning_tree import edges
from gencard.core.generators.tree_model import TreeModel
from gencard.core.statistics.psi import Counts, Psi
from gencard.core.statistics.table import total

_AT_ONCE = 4
"""Pairs that are added before the next fit."""


@dataclass(frozen=True, slots=True)
class BoundedTree:
    """Pairs are added to the spanning tree, the worst fitted first, while the junction tree stays small.

    Args:
        graphical: How a choice of pairs is fitted; its ``max_cells`` bounds the spanning tree.
        most_cells: Bound on the cells of the tree's cliques together, for what is added.
    """

    graphical: Graphical
    most_cells: int

    def fit(self, psi: Psi, domain: Domain) -> TreeModel:
        """Choose and fit; psi must agree with itself. Raises as ``Graphical.fit`` does."""
        zeros = zeros_inside(self.graphical.structural_zeros, domain)
        chosen = list(edges(psi))
        left = {
            pair: marginal.values / total(marginal.values)
            for pair, marginal in zip(pairs(psi), implied(psi, pairs(psi)), strict=True)
            if pair not in chosen
        }
        while True:
            model = self.graphical.fit(restricted(psi, chosen), domain)
            added = self._addition(model, chosen, left, zeros)
            if not added:
                return model
            chosen.extend(added)
            left = {pair: shares for pair, shares in left.items() if pair not in added}

    def _addition(
        self,
        model: TreeModel,
        chosen: Sequence[Clique],
        left: Mapping[Clique, Counts],
        zeros: Sequence[StructuralZeros],
    ) -> list[Clique]:
        """The worst pairs that leave the tree within its bound, at most ``_AT_ONCE``."""
        errors = {pair: total(np.abs(model.marginal(pair) - left[pair])) for pair in left}
        added: list[Clique] = []
        for pair in sorted(left, key=lambda pair: -errors[pair]):
            wanted = [*chosen, *added, pair, *(zero.clique for zero in zeros)]
            if errors[pair] > self.graphical.tolerance and self._fits(model.domain, wanted):
                added.append(pair)
            if len(added) == _AT_ONCE:
                break
        return added

    def _fits(self, domain: Domain, cliques: Sequence[Clique]) -> bool:
        tree = JunctionTree.of(domain, cliques)
        return sum(domain.project(clique).cells for clique in tree.cliques) <= self.most_cells
