"""The marginals that a table should have, and scaling it towards them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.domain import Clique
from gencard.core.statistics.table import others, sum_out, total
from gencard.core.types import Table

_TINY = 1e-300
"""Divisor in place of zero: 0 / _TINY is 0, and no share divided by it overflows."""


@dataclass(frozen=True, slots=True, eq=False)
class Goal:
    """A marginal in shares, laid out for one table.

    Args:
        clique: The attributes.
        shares: As many axes as the table has, those outside the clique of size 1; sums to 1.
        others: The axes outside the clique.
    """

    clique: Clique
    shares: Table
    others: tuple[int, ...]

    @classmethod
    def of(cls, clique: Clique, values: NDArray[Any], attributes: Clique) -> "Goal":
        """The goal of a marginal for a table on ``attributes``; ``values`` has the clique's axes."""
        ascending = np.argsort([attributes.index(name) for name in clique])
        sizes = dict(zip(clique, values.shape, strict=True))
        shares = np.ascontiguousarray(np.transpose(values, ascending)) / total(values)
        return cls(
            clique,
            shares.reshape([sizes.get(name, 1) for name in attributes]),
            others(attributes, clique),
        )

    def error(self, table: Table) -> float:
        """L1 distance between the table's marginal and the goal, in shares."""
        return total(np.abs(self._marginal(table) - self.shares))

    def scale(self, table: Table) -> None:
        """Give the table this marginal, in place; cells that are zero stay zero."""
        table *= quotient(self.shares, self._marginal(table))

    def has_room(self, table: Table) -> bool:
        """Whether the table has a cell above zero wherever the goal is above zero."""
        return not np.any((self.shares > 0) & (self._marginal(table) == 0))

    def _marginal(self, table: Table) -> Table:
        return sum_out(table, self.others)


def worst_error(table: Table, goals: Sequence[Goal]) -> float:
    """Largest L1 distance of any goal, in shares; not a number where the table holds none."""
    return float(np.max([goal.error(table) for goal in goals], initial=0.0))


def quotient(one: Table, other: Table) -> Table:
    """Cell by cell, 0 / 0 being 0."""
    ratio: Table = one / np.maximum(other, _TINY)
    return ratio
