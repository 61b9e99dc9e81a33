"""A table that is fitted block by block: written out, as three factors, or as a junction tree."""

from collections.abc import Sequence
from math import prod
from typing import Protocol

import numpy as np

from gencard.core.coding import StructuralZeros
from gencard.core.domain import Clique, Domain
from gencard.core.generators.maximum_entropy.junction_tree import JunctionTree
from gencard.core.statistics.counting import cover
from gencard.core.statistics.marginals import others, sum_out, total
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
        for place in zero.places(attributes):
            table[place] = 0.0


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
        # Each block divides by the levels that it adds to its parent, so that the product of all blocks
        # is uniform.
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


Parts = tuple[Clique, Clique, Clique]

_SIDES = ((0, 1), (0, 2), (1, 2))

_SAVING = 5
"""The table must have so many times the cells of the three blocks: below, it is as fast as it is."""


class Triangle:
    r"""A table on three parts of the attributes: :math:`P(r, u, v) = A(r, u) B(r, v) C(u, v)`.

    If every clique stays out of one part, then scaling to a marginal changes one factor only, so all
    that IPF can reach from the uniform table has this form. The marginal on two parts is their factor
    times the product of the other two, summed over the third part: for 936,000 cells that is work on
    tables of 4,000 to 16,000 cells, which stay in the cache.

    Args:
        domain: The attributes.
        parts: Three sets of them, as ``three_parts`` gives.
        zeros: Structural zeros, their cliques too out of one part each.
    """

    def __init__(self, domain: Domain, parts: Parts, zeros: Sequence[StructuralZeros]) -> None:
        self._domain = domain
        self._parts = parts
        cells = [domain.project(part).cells for part in parts]
        self.blocks = tuple(parts[one] + parts[other] for one, other in _SIDES)
        self._sizes = [domain.project(block).sizes for block in self.blocks]
        self.factors = [np.ones((cells[one], cells[other])) for one, other in _SIDES]
        # All other factors are 1: the table begins uniform, which makes the limit of IPF the table of
        # maximum entropy (I. Csiszar, "I-divergence geometry of probability distributions and
        # minimization problems", Annals of Probability 3, 1975).
        self.factors[0] /= domain.cells
        for block, factor, sizes in zip(self.blocks, self.factors, self._sizes, strict=True):
            inside = [zero for zero in zeros if set(zero.clique) <= set(block)]
            clear(factor.reshape(sizes), block, inside)

    def marginal(self, block: int) -> Table:
        first, second, third = self.factors
        if block == 0:
            # The marginal on two parts is their own factor times the other two factors, contracted over
            # the third part. The transposes put that part on the first axis, which `_contract` sums
            # over.
            rest = _contract(second.T, third.T)
        elif block == 1:
            rest = _contract(first.T, third)
        else:
            rest = _contract(first, second)
        # In place: `rest` is new, and a block may have 16,000 cells.
        rest *= self.factors[block]
        return rest.reshape(self._sizes[block])

    def scale(self, block: int, ratio: Table) -> None:
        factor = self.factors[block]
        factor *= ratio.reshape(factor.shape)

    def expanded(self) -> Table:
        first, second, third = self.factors
        table = first[:, :, None] * second[:, None, :]
        table *= third
        names = self._parts[0] + self._parts[1] + self._parts[2]
        order = [names.index(name) for name in self._domain.attributes]
        return np.ascontiguousarray(table.reshape(self._domain.project(names).sizes).transpose(order))


def _contract(one: Table, other: Table) -> Table:
    """Sum over k of ``one[k, i] * other[k, j]``: shape ``(i, j)``.

    Not a matrix product: the libraries for those add in an order, and fuse multiplications into
    additions, as suits each processor. Here each product is rounded once and added in the order of k,
    so that the bits are the same on every machine.
    """
    total = np.zeros((one.shape[1], other.shape[1]))
    term = np.empty_like(total)
    for left, right in zip(np.ascontiguousarray(one), np.ascontiguousarray(other), strict=True):
        np.dot(left[:, None], right[None, :], out=term)  # an outer product: nothing is added in it
        total += term
    return total


def three_parts(domain: Domain, cliques: Sequence[Clique]) -> Parts | None:
    """Split the attributes into three parts of like size such that each clique stays out of one.

    Pairs always do. Greedy, the largest attribute first; None where an attribute finds no place, or
    where the three blocks together would not be much smaller than the table.
    """
    # Greedy: an attribute of many levels, placed last, could no longer be balanced by others.
    part_of: dict[str, int] = {}
    cells = [1, 1, 1]
    for name in sorted(domain.attributes, key=domain.size, reverse=True):
        for part in sorted(range(3), key=cells.__getitem__):
            part_of[name] = part
            if not any({0, 1, 2} <= {part_of.get(other) for other in clique} for clique in cliques):
                break
        else:
            return None
        cells[part_of[name]] *= domain.size(name)
    # Three contractions in a sweep cost more per cell than sums over one array, so a small saving in
    # cells is none in time.
    if sum(cells[one] * cells[other] for one, other in _SIDES) * _SAVING > domain.cells:
        return None
    return (
        _attributes(domain, part_of, 0),
        _attributes(domain, part_of, 1),
        _attributes(domain, part_of, 2),
    )


def _attributes(domain: Domain, part_of: dict[str, int], part: int) -> Clique:
    return tuple(name for name in domain.attributes if part_of[name] == part)
