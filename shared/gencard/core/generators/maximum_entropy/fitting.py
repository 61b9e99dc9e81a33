"""The sweeps of iterative proportional fitting over the blocks of a table."""

from collections.abc import Sequence

import numpy as np

from gencard.core.errors import NotConvergedError
from gencard.core.generators.maximum_entropy.block_table import Blocks
from gencard.core.generators.targets import TargetMarginal, quotient, worst_error
from gencard.core.statistics.marginals import sum_out
from gencard.core.types import Table

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
        targets: For each block of the table.
        tolerance: Largest L1 distance of a marginal from its target, in shares.
        most_sweeps: Bound on the work.

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
    raise NotConvergedError(
        problem=f"a marginal is off by more than {tolerance:g} after {most_sweeps} sweeps"
    )


def _sweep(table: Blocks, targets: Targets, tolerance: float) -> float:
    """Settle each block in turn; the worst error found, each measured before its block was scaled."""
    # np.max passes a NaN on; max of Python may drop it, and a diverged fit would look converged.
    return float(
        np.max([_settle(table, block, inside, tolerance) for block, inside in enumerate(targets)])
    )


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
    """Refuse targets that ask for records in cells that are zero from the start.

    Raises:
        NotConvergedError: A target is above zero where the table's marginal is zero.
    """
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
        targets: For each block of the table.
        tolerance: Largest L1 distance of a marginal from its target at which to end at once, in shares.
        most_sweeps: Bound on the work.
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
        fitted_marginal *= _root(np.clip(ratio, 1 / steepest, steepest), halvings)
    table.scale(block, quotient(fitted_marginal, marginal))
    return worst_error(marginal, targets)


def _root(ratio: Table, halvings: int) -> Table:
    """``ratio ** (2 ** -halvings)``."""
    for _ in range(halvings):
        ratio = np.sqrt(ratio)
    return ratio
