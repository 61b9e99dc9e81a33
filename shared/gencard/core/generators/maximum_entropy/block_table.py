"""A table that is fitted block by block: what the fit sees of it, and the plain form."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from gencard.core.coding import StructuralZeros
from gencard.core.domain import Clique, Domain
from gencard.core.statistics.cover import cover
from gencard.core.statistics.table import others, sum_out
from gencard.core.types import Table

_BLOCK_CELLS = 2**15
"""Cells of a block of a plain table: small beside the table, large enough to hold many cliques."""


class Blocks(Protocol):
    """A table of probabilities, seen through blocks: attribute sets whose marginals are small.

    A sweep asks for the blocks in their order and scales each before it asks for the next.

    Args:
        blocks: The attributes of each block, in the order of its axes.
        factors: Arrays whose product is the table; the fit may extrapolate them in place.
    """

    blocks: tuple[Clique, ...]
    factors: list[Table]

    def marginal(self, block: int) -> Table:
        """The table summed to a block; a new array."""
        ...

    def scale(self, block: int, ratio: Table) -> None:
        """Multiply the table by a function of the block's cells."""
        ...


class BlockTable(Blocks, Protocol):
    """A table on a whole domain that can be written out."""

    def expanded(self) -> Table:
        """Every cell, axes in the order of the domain."""
        ...


class PlainTable:
    """The table in memory as it is, uniform at first outside the structural zeros."""

    def __init__(
        self, domain: Domain, cliques: Sequence[Clique], zeros: Sequence[StructuralZeros]
    ) -> None:
        self.blocks = cover(domain, cliques, _BLOCK_CELLS)
        table = np.full(domain.sizes, 1.0 / domain.cells)
        clear(table, domain.attributes, zeros)
        self.factors = [table]
        self._others = [others(domain.attributes, block) for block in self.blocks]

    def marginal(self, block: int) -> Table:
        axes = self._others[block]
        summed = sum_out(self.factors[0], axes)
        return np.squeeze(summed, axis=axes) if axes else summed.copy()

    def scale(self, block: int, ratio: Table) -> None:
        self.factors[0] *= np.expand_dims(ratio, self._others[block])

    def expanded(self) -> Table:
        return self.factors[0]


def clear(table: Table, attributes: Clique, zeros: Sequence[StructuralZeros]) -> None:
    """Set the cells that cannot occur to zero, in place; ``table`` has one axis per attribute."""
    for zero in zeros:
        for cell in zero.cells:
            code = dict(zip(zero.clique, cell, strict=True))
            table[tuple(code.get(name, slice(None)) for name in attributes)] = 0.0
