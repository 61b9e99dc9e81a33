"""A distribution on a list of records, seen through the marginals of their weights."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.statistics.counting import cell_numbers
from gencard.core.types import Table


class SupportTable:
    """Weights on records as the blocks of a fit: a marginal is a count of weights, scaling a look-up.

    Cell numbers are computed where they are needed and kept for one block only, so memory grows with
    records times attributes and not with records times marginals.

    Args:
        support: The records.
        weights: One for each, zero or more, with sum 1; scaled in place.
        blocks: The cliques whose marginals are fitted.
    """

    def __init__(self, support: Dataset, weights: Table, blocks: Sequence[Clique]) -> None:
        self.blocks = tuple(blocks)
        self.factors = [weights]
        self._sizes = [support.domain.project(block).sizes for block in self.blocks]
        self._support = support
        self._latest: tuple[int, NDArray[np.intp]] = (-1, np.zeros(0, dtype=np.intp))

    def marginal(self, block: int) -> Table:
        """The weight in each cell of a block; shape as the block's sizes, sum as the weights'."""
        sizes = self._sizes[block]
        cells = int(np.prod(sizes))
        counted = np.bincount(self._cells(block), self.factors[0], minlength=cells)
        return np.asarray(counted, dtype=np.float64).reshape(sizes)

    def scale(self, block: int, ratio: Table) -> None:
        """Multiply the weight of each record by the ratio of its cell, in place."""
        self.factors[0] *= ratio.ravel().take(self._cells(block))

    def _cells(self, block: int) -> NDArray[np.intp]:
        """The cell of each record in a block, the last attribute running fastest."""
        if self._latest[0] != block:
            columns = [self._support.column(name) for name in self.blocks[block]]
            self._latest = block, cell_numbers(columns, self._sizes[block]).astype(np.intp, copy=False)
        return self._latest[1]
