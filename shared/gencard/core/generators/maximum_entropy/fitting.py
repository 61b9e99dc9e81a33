"""The sweeps of iterative proportional fitting over the blocks of a table."""

from collections.abc import Sequence

import numpy as np

from gencard.core.errors import NotConvergedError
from gencard.core.generators.goals import Goal, quotient, worst_error
from gencard.core.generators.maximum_entropy.block_table import Blocks
from gencard.core.types import Table

Goals = Sequence[Sequence[Goal]]
"""The goals that lie inside each block, laid out for its table."""

_ROUNDS = 2
"""Times that each goal of a block is met on the block's own table before the big one is scaled."""

_STEEPEST = 1e50
"""Bound on any one factor of a stride, so that no cell is lost to rounding."""


def fit(table: Blocks, goals: Goals, tolerance: float, most_sweeps: int) -> None:
    """Scale a table, in place, until every marginal is within ``tolerance`` of its goal.

    Ends after a sweep that found every block within the tolerance, and so changed nothing.

    Args:
        table: Uniform at first, outside its structural zeros.
        goals: For each block of the table.
        tolerance: Largest L1 distance of a marginal from its goal, in shares.
        most_sweeps: Bound on the work.

    Raises:
        NotConvergedError: A marginal is still off after ``most_sweeps``.
    """
    stride = _Stride(table.factors)
    with np.errstate(over="ignore", invalid="ignore"):  # a stride too far, which is taken back
        for _ in range(0, most_sweeps, 2):
            error = _sweep(table, goals, tolerance)
            if error <= tolerance:
                return
            if not stride.helped(error):
                continue
            stride.begin()
            error = _sweep(table, goals, tolerance)
            if error <= tolerance:
                return
            stride.extend(error)
    raise NotConvergedError(
        problem=f"a marginal is off by more than {tolerance:g} after {most_sweeps} sweeps"
    )


def _sweep(table: Blocks, goals: Goals, tolerance: float) -> float:
    """Settle each block in turn; the worst error found, each measured before its block was scaled."""
    return float(
        np.max([_settle(table, block, inside, tolerance) for block, inside in enumerate(goals)])
    )


def _settle(table: Blocks, block: int, goals: Sequence[Goal], tolerance: float) -> float:
    """Run IPF on the block's own small table, then scale the big one once by what it changed."""
    marginal = table.marginal(block)
    error = worst_error(marginal, goals)
    if not error <= tolerance:
        fitted = marginal.copy()
        for _ in range(_ROUNDS):
            for goal in goals:
                goal.scale(fitted)
        table.scale(block, quotient(fitted, marginal))
    return error


def check_room(table: Blocks, goals: Goals) -> None:
    """Refuse goals that ask for records in cells that are zero from the start.

    Raises:
        NotConvergedError: A goal is above zero where the table's marginal is zero.
    """
    for block, inside in enumerate(goals):
        marginal = table.marginal(block)
        for goal in inside:
            if not goal.has_room(marginal):
                clique = ", ".join(goal.clique)
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
        step = np.clip(step * step, 1 / _STEEPEST, _STEEPEST)
        total = total * step
    return total
