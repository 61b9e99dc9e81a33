"""The sweeps of iterative proportional fitting over the blocks of a table."""

from collections.abc import Sequence
from math import prod
from typing import Protocol

import numpy as np

from gencard.core.coding import StructuralZeros
from gencard.core.domain import Clique, Domain
from gencard.core.errors import NotConvergedError
from gencard.core.generators.contract import TargetMarginal, quotient, worst_error
from gencard.core.generators.junction_tree import JunctionTree
from gencard.core.statistics.marginals import cover, others, sum_out, total
from gencard.core.types import Table

# A table that is fitted block by block: written out, as three factors, or as a junction tree.

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

    def scale(self, block: int, ratio: Table) -> None:
        """Multiply the table by a function of the block's cells."""


class BlockTable(Blocks, Protocol):
    """A table on a whole domain that can be written out."""

    def expanded(self) -> Table:
        """Every cell, axes in the order of the domain."""


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
        self.factors = []
        for clique, separator in zip(self.blocks, self._separators, strict=True):
            # Each block divides by the levels that it adds to its parent, so that the product of all
            # blocks is uniform.
            new = [domain.size(name) for name in clique if name not in separator]
            table = np.full(domain.project(clique).sizes, 1.0 / prod(new))
            clear(table, clique, [zero for zero in zeros if set(zero.clique) <= set(clique)])
            self.factors.append(table)

    def marginal(self, block: int) -> Table:
        if block == 0:
            for sender in range(len(self.blocks) - 1, 0, -1):
                self._send(sender, self._parents[sender])
        else:
            # Along the path from the last block: up to the parent, then down.
            sender = block - 1
            while sender != self._parents[block]:
                self._send(sender, self._parents[sender])
                sender = self._parents[sender]
            self._send(sender, block)
        table = self._product(block, without=None)
        table /= total(table)
        return table

    def scale(self, block: int, ratio: Table) -> None:
        self.factors[block] *= ratio

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
    names = domain.attributes
    first, second, third = (tuple(name for name in names if part_of[name] == part) for part in range(3))
    return first, second, third


Targets = Sequence[Sequence[TargetMarginal]]
"""The targets that lie inside each block, laid out for its table."""

_ROUNDS = 2
"""Times that each target of a block is met on the block's own table before the big one is scaled."""

_STEEPEST = 1e50
"""Bound on any one factor of a stride, so that no cell is lost to rounding."""


def fit(table: Blocks, targets: Targets, tolerance: float, most_sweeps: int) -> None:
    """Scale a table, in place, until every marginal is within ``tolerance`` of its target.

    Ends after a sweep that found every block within the tolerance, and so changed nothing.

    Args:
        table: Uniform at first, outside its structural zeros.
        tolerance: Largest L1 distance of a marginal from its target, in shares.

    Raises:
        NotConvergedError: A marginal is still off after ``most_sweeps``.
    """
    stride = _Stride(table.factors)
    with np.errstate(over="ignore", invalid="ignore"):  # a stride too far, which is taken back
        for _ in range(0, most_sweeps, 2):
            error = _sweep(table, targets, tolerance)
            if error <= tolerance:
                return
            if not stride.helped(error):
                continue
            stride.begin()
            error = _sweep(table, targets, tolerance)
            if error <= tolerance:
                return
            stride.extend(error)
    problem = f"a marginal is off by more than {tolerance:g} after {most_sweeps} sweeps"
    raise NotConvergedError(problem=problem)


def _sweep(table: Blocks, targets: Targets, tolerance: float) -> float:
    """Settle each block in turn; the worst error found, each measured before its block was scaled."""
    # np.max passes a NaN on; max of Python may drop it, and a diverged fit would look converged.
    errors = [_settle(table, block, inside, tolerance) for block, inside in enumerate(targets)]
    return float(np.max(errors))


def _settle(table: Blocks, block: int, targets: Sequence[TargetMarginal], tolerance: float) -> float:
    """Run IPF on the block's own small table, then scale the big one once by what it changed."""
    marginal = table.marginal(block)
    error = worst_error(marginal, targets)
    # Not `error > tolerance`, which is false for NaN.
    if not error <= tolerance:
        fitted_marginal = marginal.copy()
        for _ in range(_ROUNDS):
            for target in targets:
                target.scale(fitted_marginal)
        table.scale(block, quotient(fitted_marginal, marginal))
    return error


def check_room(table: Blocks, targets: Targets) -> None:
    """Refuse targets that ask for records in cells that are zero from the start."""
    for block, inside in enumerate(targets):
        marginal = table.marginal(block)
        for target in inside:
            if not target.has_room(marginal):
                clique = ", ".join(target.clique)
                raise NotConvergedError(problem=f"structural zeros contradict psi on ({clique})")


class _Stride:
    """Repeats the last sweep's step a growing number of times, for as long as that lowers the error.

    Where psi lies on the boundary (some cells without a structural zero must be empty all the same),
    plain IPF closes in on it like 1 / sweeps only. The step of a sweep is a ratio of factors; squaring
    it ``power`` times over and multiplying goes ``2 ** power`` steps at once, and keeps the table in
    the family in which the answer is unique. A stride that does not lower the error is taken back, and
    plain sweeps converge. Adaptive overrelaxation: R. Salakhutdinov, S. Roweis, ICML 2003.
    """

    def __init__(self, factors: Sequence[Table]) -> None:
        self._factors = factors
        self._power = 1
        self._error = np.inf
        self._before: list[Table] = []
        self._after: list[Table] = []

    def helped(self, error: float) -> bool:
        """Whether the last stride lowered the error; if not, it is taken back, the next is shorter."""
        if error < self._error or not self._after:
            return True
        for factor, after in zip(self._factors, self._after, strict=True):
            factor[...] = after
        self._after = []
        # Back by two: `extend` has made it longer by one since the stride that failed.
        self._power = max(1, self._power - 2)
        return False

    def begin(self) -> None:
        """Remember where the sweep begins whose step is to be repeated."""
        self._before = [factor.copy() for factor in self._factors]

    def extend(self, error: float) -> None:
        """Repeat the step since ``begin``, during which the worst error was ``error``."""
        self._error = error
        self._after = [factor.copy() for factor in self._factors]
        for factor, before in zip(self._factors, self._before, strict=True):
            np.multiply(factor, _repeated(quotient(factor, before), self._power), out=factor)
        self._power += 1


def _repeated(step: Table, power: int) -> Table:
    """``step ** (2 ** power - 1)``."""
    total = step
    for _ in range(power - 1):
        # 1 + 2 + 4 + ... + 2^(power - 1) = 2^power - 1 repetitions for `power` products.
        step = np.clip(step * step, 1 / _STEEPEST, _STEEPEST)
        total = total * step
    return total


_FINEST = 4
"""The last steps are the 2**4th roots of full ones."""

_GAIN = 0.99
"""A sweep that leaves more than this share of the smallest error so far has come no nearer."""

NOISY = 16.0
"""Bound on one step where psi is noisy: a count that noise made zero empties its cells bit by bit."""


def relax(
    table: Blocks, targets: Targets, tolerance: float, most_sweeps: int, *, steepest: float
) -> float:
    r"""Scale a table, in place, as near to its targets as it comes.

    Full steps are those of IPF; where they come no nearer, which is when no table has these marginals,
    steps are roots of them, ever smaller. Small steps tend to the table that has the least
    :math:`\sum_C KL(\mu_C, g_C)` of marginals from targets (Byrne 1993). Roots are repeated square
    roots, which are the same bits on every machine.

    Args:
        table: Uniform at first, outside its structural zeros.
        tolerance: Largest L1 distance of a marginal from its target at which to end at once, in shares.
        steepest: Bound on each factor of a step, and on its inverse; infinite for exact psi, whose
            zeros empty their cells at once.

    Returns:
        The largest L1 distance of a marginal from its target in the last sweep.
    """
    halvings, nearest = 0, np.inf
    for _ in range(most_sweeps):
        steps = (_ease(table, block, inside, halvings, steepest) for block, inside in enumerate(targets))
        error = max(steps)
        # No table has these marginals: full steps would cycle between them, damped ones settle.
        if error > _GAIN * nearest:
            halvings += 1
        nearest = min(nearest, error)
        if error <= tolerance or halvings > _FINEST:
            break
    return nearest


def _ease(
    table: Blocks, block: int, targets: Sequence[TargetMarginal], halvings: int, steepest: float
) -> float:
    """Scale one block by the root of a full step; the worst error found before."""
    marginal = table.marginal(block)
    fitted_marginal = marginal.copy()
    for target in targets:
        ratio = quotient(target.shares, sum_out(fitted_marginal, target.others))
        factor = np.clip(ratio, 1 / steepest, steepest)
        for _ in range(halvings):  # ratio ** 2 ** -halvings
            factor = np.sqrt(factor)
        fitted_marginal *= factor
    table.scale(block, quotient(fitted_marginal, marginal))
    return worst_error(marginal, targets)
