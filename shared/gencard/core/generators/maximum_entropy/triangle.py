"""A big table that is never written out while it is fitted: the product of three small ones."""

from collections.abc import Sequence

import numpy as np

from gencard.core.coding import StructuralZeros
from gencard.core.domain import Clique, Domain
from gencard.core.generators.maximum_entropy.block_table import clear
from gencard.core.types import Table

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
        self.factors[0] /= domain.cells
        for block, factor, sizes in zip(self.blocks, self.factors, self._sizes, strict=True):
            inside = [zero for zero in zeros if set(zero.clique) <= set(block)]
            clear(factor.reshape(sizes), block, inside)

    def marginal(self, block: int) -> Table:
        first, second, third = self.factors
        if block == 0:
            rest = _contract(second.T, third.T)
        elif block == 1:
            rest = _contract(first.T, third)
        else:
            rest = _contract(first, second)
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
    if sum(cells[one] * cells[other] for one, other in _SIDES) * _SAVING > domain.cells:
        return None
    return (
        _attributes(domain, part_of, 0),
        _attributes(domain, part_of, 1),
        _attributes(domain, part_of, 2),
    )


def _attributes(domain: Domain, part_of: dict[str, int], part: int) -> Clique:
    return tuple(name for name in domain.attributes if part_of[name] == part)
