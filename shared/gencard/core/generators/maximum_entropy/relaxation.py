"""Fitting marginals that agree with each other, and are those of no table all the same."""

from collections.abc import Sequence

import numpy as np

from gencard.core.generators.goals import Goal, quotient, worst_error
from gencard.core.generators.maximum_entropy.block_table import Blocks
from gencard.core.generators.maximum_entropy.fitting import Goals
from gencard.core.statistics.table import sum_out
from gencard.core.types import Table

_FINEST = 4
"""The last steps are the 2**4th roots of full ones."""

_GAIN = 0.99
"""A sweep that leaves more than this share of the smallest error so far has come no nearer."""


NOISY = 16.0
"""Bound on one step where psi is noisy: a count that noise made zero empties its cells bit by bit."""


def relax(table: Blocks, goals: Goals, tolerance: float, most_sweeps: int, *, steepest: float) -> float:
    r"""Scale a table, in place, as near to its goals as it comes.

    Full steps are those of IPF; where they come no nearer, which is when no table has these marginals,
    steps are roots of them, ever smaller. Small steps tend to the table that has the least
    :math:`\sum_C KL(\mu_C, g_C)` of marginals from goals (Byrne 1993). Roots are square roots of square
    roots, which are the same bits on every machine.

    Args:
        table: Uniform at first, outside its structural zeros.
        goals: For each block of the table.
        tolerance: Largest L1 distance of a marginal from its goal at which to end at once, in shares.
        most_sweeps: Bound on the work.
        steepest: Bound on each factor of a step, and on its inverse; infinite for exact psi, whose
            zeros empty their cells at once.

    Returns:
        The largest L1 distance of a marginal from its goal in the last sweep.
    """
    halvings, nearest = 0, np.inf
    for _ in range(most_sweeps):
        steps = (_ease(table, block, inside, halvings, steepest) for block, inside in enumerate(goals))
        error = max(steps)
        if error > _GAIN * nearest:
            halvings += 1
        nearest = min(nearest, error)
        if error <= tolerance or halvings > _FINEST:
            break
    return nearest


def _ease(table: Blocks, block: int, goals: Sequence[Goal], halvings: int, steepest: float) -> float:
    """Scale one block by the root of a full step; the worst error found before."""
    marginal = table.marginal(block)
    fitted = marginal.copy()
    for goal in goals:
        ratio = quotient(goal.shares, sum_out(fitted, goal.others))
        fitted *= _root(np.clip(ratio, 1 / steepest, steepest), halvings)
    table.scale(block, quotient(fitted, marginal))
    return worst_error(marginal, goals)


def _root(ratio: Table, halvings: int) -> Table:
    """``ratio ** (2 ** -halvings)``."""
    for _ in range(halvings):
        ratio = np.sqrt(ratio)
    return ratio
