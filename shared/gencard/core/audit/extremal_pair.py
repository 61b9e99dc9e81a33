"""Two datasets with equal psi, as far apart as integer moves can take them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gencard.core.audit.blocks import minimal
from gencard.core.audit.cells import Cells
from gencard.core.audit.direction import Direction
from gencard.core.audit.moves import climb, leads
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.errors import ComputationError, NoExtremalPairError
from gencard.core.statistics.marginal import count_all

MOST_PASSES = 3
_LEAST_RISE = 0.02


@dataclass(frozen=True, slots=True, eq=False)
class ExtremalPair:
    """Datasets that agree on every released marginal and differ outside Phi.

    Args:
        low: The side with the smaller ``<beta, table>``.
        high: The side with the larger one.
        moved: Records of one side that the other side does not hold.
    """

    low: Dataset
    high: Dataset
    moved: int


def extremal_pair(dataset, cliques, beta, *, rng) -> ExtremalPair:
    high = ascend(Cells.of(dataset), cliques, beta, rng=rng)
    low = ascend(Cells.of(dataset), cliques, -beta, rng=rng)
    return ExtremalPair(low.shuffled(rng=rng), high.shuffled(rng=rng), 0)


def ascend(cells: Cells, cliques: Sequence[Clique], beta: Direction, *, rng: np.random.Generator) -> Cells:
    moves = [led for axes in minimal(beta.reach) for led in leads(axes, cliques)]
    for _ in range(MOST_PASSES):
        before = cells
        for axes in moves:
            cells = climb(cells, cliques, axes, beta, rng=rng)
        if cells is before:
            break
    return cells
