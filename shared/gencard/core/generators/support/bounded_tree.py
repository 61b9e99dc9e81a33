"""The model on a junction tree of bounded size that comes nearest to psi, chosen from psi alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import pi

import numpy as np

from gencard.core.coding import StructuralZeros
from gencard.core.domain import Clique, Domain
from gencard.core.errors import NotConvergedError
from gencard.core.generators.contract import rng_of
from gencard.core.generators.maximum_entropy.family import LogLinear
from gencard.core.generators.maximum_entropy.junction_tree import cells_needed, edges
from gencard.core.generators.maximum_entropy.tree_model import TreeModel
from gencard.core.generators.support.support_model import SupportTable
from gencard.core.generators.targets import implied, pairs, restricted, zeros_inside
from gencard.core.statistics.marginals import total
from gencard.core.statistics.psi import Psi
from gencard.core.types import Counts

_AT_ONCE = 16
"""One pair in so many is added before the next fit, four at least."""

_MOST_LOOKED_AT = 64
"""Pairs that are looked at for one addition: each needs the size of a junction tree."""

_DRAWN = 2**16
"""Records that are drawn from a model to see which pairs it misses."""

_MOST_SWEEPS = 100
"""Of one fit with added pairs; where that is not enough, the model before is kept."""

_SEED = 0


@dataclass(frozen=True, slots=True)
class BoundedTree:
    """Pairs are added to the spanning tree, the worst fitted first, while the junction tree stays small.

    The errors of the pairs are those of records drawn from the model with a fixed seed, less the error
    that the draw itself has: the exact marginal of two attributes far apart in the tree may need a
    table that is too large, and there may be hundreds of them.

    Args:
        fitting: How a choice of pairs is fitted; its ``max_cells`` bounds the spanning tree.
        most_cells: Bound on the cells of the tree's cliques together, for what is added.
    """

    fitting: LogLinear
    most_cells: int

    def fit(self, psi: Psi, domain: Domain) -> TreeModel:
        """Choose and fit; psi must agree with itself. Raises as ``LogLinear.fit`` does."""
        zeros = zeros_inside(self.fitting.structural_zeros, domain)
        chosen = list(edges(psi))
        left = {
            pair: marginal.values / total(marginal.values)
            for pair, marginal in zip(pairs(psi), implied(psi, pairs(psi)), strict=True)
            if pair not in chosen
        }
        model = self.fitting.fit_tree(restricted(psi, chosen), domain)
        sweeps = min(_MOST_SWEEPS, self.fitting.most_sweeps)
        quick = replace(self.fitting, most_sweeps=sweeps)
        while left:
            added, looked_at = self._addition(model, chosen, left, zeros)
            left = {pair: shares for pair, shares in left.items() if pair not in looked_at}
            if not added:
                break
            chosen.extend(added)
            try:
                model = quick.fit_tree(restricted(psi, chosen), domain)
            except NotConvergedError:
                break
        return model

    def _addition(
        self,
        model: TreeModel,
        chosen: Sequence[Clique],
        left: Mapping[Clique, Counts],
        zeros: Sequence[StructuralZeros],
    ) -> tuple[list[Clique], set[Clique]]:
        """The worst pairs that leave the tree within its bound, and all pairs that were looked at.

        A pair that does not fit is not looked at again: the tree only grows.
        """
        errors = _errors(model, left)
        most = max(4, len(left) // _AT_ONCE)
        added: list[Clique] = []
        looked_at: set[Clique] = set()
        for pair in sorted(left, key=lambda pair: -errors[pair]):
            enough = len(added) == most or len(looked_at) == _MOST_LOOKED_AT
            if enough or errors[pair] <= self.fitting.tolerance:
                break
            looked_at.add(pair)
            wanted = [*chosen, *added, pair, *(zero.clique for zero in zeros)]
            if cells_needed(model.domain, wanted) <= self.most_cells:
                added.append(pair)
        return added, looked_at


def _errors(model: TreeModel, wanted: Mapping[Clique, Counts]) -> dict[Clique, float]:
    r"""L1 distance of each pair's marginal, seen in drawn records, less that of the draw.

    A share p of m records has the expected absolute error :math:`\sqrt{2 p (1 - p) / (\pi m)}`.
    """
    drawn = model.sample(_DRAWN, rng=rng_of(_SEED))
    table = SupportTable(drawn, np.full(_DRAWN, 1 / _DRAWN), list(wanted))
    return {
        pair: total(np.abs(table.marginal(block) - shares) - _draw_error(shares))
        for block, (pair, shares) in enumerate(wanted.items())
    }


def _draw_error(shares: Counts) -> Counts:
    error: Counts = np.sqrt(shares * (1 - shares) * (2 / (pi * _DRAWN)))
    return error
