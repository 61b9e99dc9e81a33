"""A distribution on a list of records."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset, code_dtype
from gencard.core.domain import Clique, Domain
from gencard.core.errors import DomainMismatchError, InvalidNumberError
from gencard.core.generators.sampling import Ladder, raw_words, scale_to_one
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


_BLOCK_ROWS = 2**16


@dataclass(frozen=True, slots=True, eq=False)
class SupportModel:
    """Independent records, each the support's record ``i`` with probability ``weights[i]``.

    Args:
        support: Records that a model drew, not real ones.
        weights: Shape ``(len(support),)``, zero or more; scaled to sum to 1. Read-only.
        residual: Mean total variation of the marginals from those that were fitted; None where the
            method does not state it.

    Raises:
        DomainMismatchError: There is not one weight for each record.
        InvalidNumberError: A weight is negative or not finite, or all are zero.
    """

    support: Dataset
    weights: NDArray[np.float64]
    residual: float | None = None
    _shares: Ladder = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.weights.shape != (len(self.support),):
            raise DomainMismatchError(problem="the support needs one weight for each record")
        weights = np.array(self.weights, dtype=np.float64)
        scale_to_one(weights, "weights")
        weights.flags.writeable = False
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "_shares", Ladder.of(weights[None, :]))

    @property
    def domain(self) -> Domain:
        """The attributes of the records."""
        return self.support.domain

    def marginal(self, clique: Clique) -> NDArray[np.float64]:
        """Probabilities on a clique, axes in its order; they sum to 1."""
        return SupportTable(self.support, self.weights, [clique]).marginal(0)

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        """Draw records by inversion, one 64-bit word each; ``sample(a + b)`` is one after the other.

        Raises:
            InvalidNumberError: ``rows`` is negative.
            InvalidInputError: The bit generator's words have fewer than 64 bits.
        """
        if rows < 0:
            raise InvalidNumberError(field="rows", expected="zero or more")
        narrow = code_dtype(max(self.domain.sizes))
        codes = np.empty((rows, len(self.domain)), dtype=narrow, order="F")
        for begin in range(0, rows, _BLOCK_ROWS):
            block = codes[begin : begin + _BLOCK_ROWS]
            drawn = self._shares.shares(raw_words(rng, len(block), 1)[:, 0] >> np.uint64(1))
            for axis in range(len(self.domain)):
                block[:, axis] = self.support.codes[:, axis].take(drawn)
        return Dataset(self.domain, codes)
