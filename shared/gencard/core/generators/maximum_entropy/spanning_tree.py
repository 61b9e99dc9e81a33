"""The best tree of pairs: Chow and Liu's approximation, from psi alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.coding import StructuralZeros
from gencard.core.domain import Clique, Domain
from gencard.core.generators.admitted import admitted
from gencard.core.generators.maximum_entropy.graphical import Graphical
from gencard.core.generators.maximum_entropy.parts import implied, pairs, pairs_inside, restricted
from gencard.core.generators.maximum_entropy.tree_model import TreeModel
from gencard.core.statistics.psi import Psi
from gencard.core.statistics.table import total

_STEP = 2.0**-40
"""Mutual information is rounded to whole steps, so that no last bit of a logarithm chooses an edge."""


@dataclass(frozen=True, slots=True)
class SpanningTree:
    """The tree of pairs with the largest sum of mutual information (Chow, Liu 1968).

    Edges are pairs of attributes whose marginal psi determines; where psi holds too few of them the
    tree is a forest. Of all distributions on such trees it is the nearest to psi's records in
    Kullback-Leibler divergence. It meets the marginals of its edges, and of all others only what the
    tree implies.

    Args:
        structural_zeros: Cells that stay zero; those of attributes outside the domain say nothing.
        tolerance: Largest L1 distance of a fitted marginal from psi, in shares.
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
        self._graphical()

    def check(self, cliques: Sequence[Clique], domain: Domain) -> None:
        """Raises ModelTooLargeError where the largest tree that psi may choose is over the bound."""
        cells = {pair: domain.project(pair).cells for pair in pairs_inside(cliques, domain)}
        self._graphical().check([*_kruskal(cells), *((name,) for c in cliques for name in c)], domain)

    def fit(self, psi: Psi, domain: Domain) -> TreeModel:
        """Choose the edges and fit their marginals; raises as ``Graphical.fit`` does."""
        self.check(psi.cliques, domain)
        psi = admitted(psi, domain)
        return self._graphical().fit(restricted(psi, edges(psi)), domain)

    def _graphical(self) -> Graphical:
        return Graphical(self.structural_zeros, self.tolerance, self.max_cells, self.most_sweeps)


def edges(psi: Psi) -> tuple[Clique, ...]:
    """The edges of the tree, those with most mutual information first; psi must agree with itself.

    Kruskal's algorithm; ties go to the first pair in the domain's order. Pairs that are independent to
    within rounding are no edges.
    """
    candidates = pairs(psi)
    weights = {
        pair: round(mutual_information(measurement.values) / _STEP)
        for pair, measurement in zip(candidates, implied(psi, candidates), strict=True)
    }
    return _kruskal(weights)


def mutual_information(counts: NDArray[Any]) -> float:
    r""":math:`\sum_{ij} p_{ij} \log(p_{ij} / p_{i.} p_{.j})` of a two-way marginal, in nats."""
    shares = counts / total(counts)
    independent = shares.sum(axis=1, keepdims=True) * shares.sum(axis=0, keepdims=True)
    present = shares > 0
    return float(np.sum(shares[present] * np.log(shares[present] / independent[present])))


def _kruskal(weights: Mapping[Clique, int]) -> tuple[Clique, ...]:
    group = {name: name for pair in weights for name in pair}
    chosen = []
    for one, other in sorted(weights, key=lambda pair: -weights[pair]):
        if weights[one, other] > 0 and group[one] != group[other]:
            chosen.append((one, other))
            joined, left = group[one], group[other]
            group = {name: joined if of == left else of for name, of in group.items()}
    return tuple(chosen)
