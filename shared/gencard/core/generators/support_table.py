"""A distribution on a list of records, seen through the marginals of their weights."""

from collections.abc import Sequence

import numpy as np

from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.generators.goals import Table
from gencard.core.statistics.counting import cell_numbers


class SupportTable:
    """Weights on records as the blocks of a fit: a marginal is a count of weights, scaling a look-up.

    Args:
        support: The records.
        weights: One for each, zero or more, with sum 1; scaled in place.
        blocks: The cliques whose marginals are fitted.
    """

    def __init__(self, support: Dataset, weights: Table, blocks: Sequence[Clique]) -> None:
        self.blocks = tuple(blocks)
        self.factors = [weights]
        self._sizes = [support.domain.project(block).sizes for block in self.blocks]
        self._cells = [
            cell_numbers([support.column(name) for name in block], sizes)
            for block, sizes in zip(self.blocks, self._sizes, strict=True)
        ]

    def marginal(self, block: int) -> Table:
        sizes = self._sizes[block]
        cells = int(np.prod(sizes))
        counted = np.bincount(self._cells[block], self.factors[0], minlength=cells)
        return np.asarray(counted, dtype=np.float64).reshape(sizes)

    def scale(self, block: int, ratio: Table) -> None:
        self.factors[0] *= ratio.ravel().take(self._cells[block])
