"""Trees of attributes: mutual information of pairs, and the tree that keeps most of it.

References:
    C. K. Chow, C. N. Liu, "Approximating discrete probability distributions with dependence trees", IEEE
    Trans. Inf. Theory 14(3), 1968.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.domain import Clique
from gencard.core.statistics.marginals import total

_STEP = 2.0**-40
"""Mutual information is rounded to whole steps, so that no last bit of a logarithm chooses an edge."""


def information_tree(tables: Mapping[Clique, NDArray[Any]]) -> tuple[Clique, ...]:
    """The edges of the tree of most mutual information (Chow and Liu), the strongest first.

    Ties go to the first pair. Pairs that are independent to within rounding are no edges.

    Args:
        tables: The two-way marginal of each pair.
    """
    return heaviest_tree(
        {pair: round(mutual_information(counts) / _STEP) for pair, counts in tables.items()}
    )


def mutual_information(counts: NDArray[Any]) -> float:
    r""":math:`\sum_{ij} p_{ij} \log(p_{ij} / p_{i.} p_{.j})` of a two-way marginal, in nats."""
    shares = counts / total(counts)
    independent = shares.sum(axis=1, keepdims=True) * shares.sum(axis=0, keepdims=True)
    present = shares > 0
    return float(np.sum(shares[present] * np.log(shares[present] / independent[present])))


def heaviest_tree(weights: Mapping[Clique, int]) -> tuple[Clique, ...]:
    """The edges of the tree, or forest, of largest sum of weights, by Kruskal's algorithm."""
    group = {name: name for pair in weights for name in pair}
    chosen = []
    for one, other in sorted(weights, key=lambda pair: -weights[pair]):
        if weights[one, other] > 0 and group[one] != group[other]:
            chosen.append((one, other))
            joined, left = group[one], group[other]
            group = {name: joined if of == left else of for name, of in group.items()}
    return tuple(chosen)
