"""A table that is never written out: a product of potentials on the cliques of a junction tree."""

from collections.abc import Sequence
from math import prod

import numpy as np

from gencard.core.coding import StructuralZeros
from gencard.core.domain import Domain
from gencard.core.generators.maximum_entropy.block_table import clear
from gencard.core.generators.maximum_entropy.junction_tree import JunctionTree
from gencard.core.statistics.table import others, sum_out, total
from gencard.core.types import Table


class TreeTable:
    """One piece of a junction tree as the blocks of a fit, uniform at first outside the zeros.

    A block's marginal is its potential times the messages from its neighbours; a message is the
    sender's potential times what its other neighbours tell it, summed to the separator (Shenoy, Shafer
    1990; no division). Each message is scaled to sum to 1, so nothing vanishes on long trees.

    The blocks must be asked for in turn, each scaled before the next is asked for: what lies between
    two of them is then all that has to be sent. The first one collects from the whole piece.

    Args:
        domain: The attributes of the tree.
        tree: A junction tree.
        piece: Numbers of the cliques to hold, as ``JunctionTree.pieces`` gives them.
        zeros: Structural zeros, each inside some clique.
    """

    def __init__(
        self, domain: Domain, tree: JunctionTree, piece: Sequence[int], zeros: Sequence[StructuralZeros]
    ) -> None:
        self.blocks = tuple(tree.cliques[number] for number in piece)
        self._parents = [-1, *(piece.index(tree.parents[number]) for number in piece[1:])]
        self._separators = [(), *(tree.separator(number) for number in piece[1:])]
        self._below: list[list[int]] = [[] for _ in piece]
        for block, parent in enumerate(self._parents[1:], start=1):
            self._below[parent].append(block)
        self._messages: dict[tuple[int, int], Table] = {}
        self.factors = [self._uniform(domain, block, zeros) for block in range(len(piece))]

    def marginal(self, block: int) -> Table:
        if block == 0:
            for sender in range(len(self.blocks) - 1, 0, -1):
                self._send(sender, self._parents[sender])
        else:
            self._walk(block - 1, block)
        table = self._product(block, without=None)
        table /= total(table)
        return table

    def scale(self, block: int, ratio: Table) -> None:
        self.factors[block] *= ratio

    def marginals(self) -> list[Table]:
        """The marginals of all blocks, in their order; they agree on what they share."""
        return [self.marginal(block) for block in range(len(self.blocks))]

    def _uniform(self, domain: Domain, block: int, zeros: Sequence[StructuralZeros]) -> Table:
        clique = self.blocks[block]
        new = [domain.size(name) for name in clique if name not in self._separators[block]]
        table = np.full(domain.project(clique).sizes, 1.0 / prod(new))
        clear(table, clique, [zero for zero in zeros if set(zero.clique) <= set(clique)])
        return table

    def _walk(self, sender: int, target: int) -> None:
        """Send along the path: up to the target's parent, then down to it."""
        while sender != self._parents[target]:
            self._send(sender, self._parents[sender])
            sender = self._parents[sender]
        self._send(sender, target)

    def _send(self, sender: int, receiver: int) -> None:
        separator = self._separators[max(sender, receiver)]  # the lower one is the child
        outside = others(self.blocks[sender], separator)
        message = sum_out(self._product(sender, without=receiver), outside)
        message = np.squeeze(message, axis=outside)
        self._messages[sender, receiver] = np.expand_dims(
            message / total(message), others(self.blocks[receiver], separator)
        )

    def _product(self, block: int, *, without: int | None) -> Table:
        """The block's potential times the messages of its neighbours but one."""
        table = self.factors[block].copy()
        for neighbour in (self._parents[block], *self._below[block]):
            if neighbour not in (without, -1):
                table *= self._messages[neighbour, block]
        return table
