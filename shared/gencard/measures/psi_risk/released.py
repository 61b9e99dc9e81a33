r"""The released tables, and what they say about tables that were not released: bounds of each cell.

Every table of counts with the same marginals has its cells between these bounds. For two marginals
:math:`n_{ac}, n_{bc}` that share :math:`c` the bounds are those of Fréchet,

.. math:: \max(0, n_{ac} + n_{bc} - n_c) \le n_{abc} \le \min(n_{ac}, n_{bc}),

which are sharp wherever the released tables are decomposable [1]_. For others the **generalised
shuttle** [2]_ goes on: with bounds :math:`L \le n \le U`, the rest of each released sum bounds a part,

.. math:: U \gets \min(U, n_S - \sum_{others} L), \quad L \gets \max(L, n_S - \sum_{others} U),

until nothing changes. Of 3,389 open cells of random tables of three attributes with all pairs released,
integer programs tightened none (``tests/core/test_psi_risk.py`` has the referee), so none are run.

References:
    .. [1] A. Dobra, S. Fienberg, "Bounds for cell entries in contingency tables given marginal totals
       and decomposable graphs", PNAS 97(22), 2000.
    .. [2] L. Buzzigoli, A. Giusti, "An algorithm to calculate the lower and upper bounds of the
       elements of an array given its marginals", Statistical Data Protection, 1998.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.statistics.counting import count_all
from gencard.core.statistics.marginals import maximal, project
from gencard.core.types import Counts

Axes = tuple[int, ...]
"""Places of some attributes in a table, ascending."""

Margins = Mapping[Axes, Counts]
"""Released marginals of a table, by the axes they keep."""

_MOST_ROUNDS = 100
"""Far above what is needed: a bound that still moves is a valid bound too."""


@dataclass(frozen=True, slots=True, eq=False)
class CellBounds:
    """Least and largest count of each cell, both of the table's shape, in records."""

    lower: Counts
    upper: Counts


def cell_bounds(shape: tuple[int, ...], margins: Margins) -> CellBounds:
    """Bounds of each cell by the generalised shuttle algorithm.

    >>> bounds = cell_bounds((2, 2), {(0,): np.array([3, 1]), (1,): np.array([2, 2])})
    >>> bounds.lower.tolist(), bounds.upper.tolist()
    ([[1, 1], [0, 0]], [[2, 2], [1, 1]])

    Args:
        shape: Shape of the table.
        margins: At least one; together they must name every axis.
    """
    lower, upper = np.zeros(shape, dtype=np.int64), np.full(shape, np.iinfo(np.int64).max)
    spread = {axes: np.expand_dims(margin, _others(shape, axes)) for axes, margin in margins.items()}
    for margin in spread.values():
        np.minimum(upper, margin, out=upper)
    for _ in range(_MOST_ROUNDS):
        before = int(upper.sum() - lower.sum())
        for axes, margin in spread.items():
            away = _others(shape, axes)
            np.maximum(lower, margin - (upper.sum(axis=away, keepdims=True) - upper), out=lower)
            np.minimum(upper, margin - (lower.sum(axis=away, keepdims=True) - lower), out=upper)
        if int(upper.sum() - lower.sum()) == before:
            break
    return CellBounds(lower, upper)


def _others(shape: tuple[int, ...], axes: Axes) -> Axes:
    return tuple(axis for axis in range(len(shape)) if axis not in axes)


MOST_CELLS = 2_000_000
"""Cells of a table that is bounded: 16 MB of counts."""

MOST_KEPT = 10_000_000
"""Cells of all tables whose bounds are kept: 160 MB."""

WIDEST = 3
"""Attributes of a table that is bounded cell by cell; wider ones by the tables inside them."""


@dataclass(frozen=True, slots=True, eq=False)
class ReleasedTables:
    """Exact tables over a domain; their counts are those of one set of records.

    Args:
        tables: By clique, in the domain's order of attributes, none inside another one.
    """

    domain: Domain
    tables: dict[Clique, Counts]
    _bounds: dict[Clique, CellBounds] = field(default_factory=dict, init=False)

    @classmethod
    def of(cls, records: Dataset, cliques: Sequence[Clique]) -> "ReleasedTables":
        """Count the tables of some records.

        Raises:
            TooLargeError: They have too many cells.
            UnknownAttributeError: A clique names another attribute.
        """
        wide = maximal(map(records.domain.canonical, cliques))
        return cls(records.domain, dict(zip(wide, count_all(records, wide), strict=True)))

    def within(self, attributes: Clique) -> Margins:
        """The widest released tables inside a set of attributes, by the places of theirs in it."""
        inside = maximal(tuple(name for name in attributes if name in clique) for clique in self.tables)
        return {tuple(map(attributes.index, names)): self.marginal(names) for names in inside if names}

    def releases(self, attributes: Iterable[str]) -> bool:
        """Whether a table holds all these attributes."""
        names = set(attributes)
        return any(names <= set(clique) for clique in self.tables)

    def bounds(self, attributes: Clique) -> CellBounds:
        """Bounds of each cell of a table, kept once they are known; sharp where it was released."""
        if attributes not in self._bounds:
            if sum(bounds.lower.size for bounds in self._bounds.values()) > MOST_KEPT:
                self._bounds.clear()
            shape = self.domain.project(attributes).sizes
            self._bounds[attributes] = cell_bounds(shape, self.within(attributes))
        return self._bounds[attributes]

    def fits(self, attributes: Clique) -> bool:
        """Whether a table is small enough to be bounded."""
        return self.domain.project(attributes).cells <= MOST_CELLS

    def possible(self, keys: Clique, target: str) -> NDArray[np.bool_]:
        """Return the levels of the target that a record with certain keys can have, by the tables.

        Returns:
            Shape (sizes of the keys..., size of the target).
        """
        names = self.domain.canonical((*keys, target))
        upper = self.bounds(names).upper
        return np.moveaxis(upper > 0, names.index(target), -1)

    def parts(self, keys: Clique, target: str) -> list[Clique]:
        """The widest sets of the keys whose table with the target is bounded."""
        width = min(len(keys), WIDEST - 1)
        return [part for part in combinations(keys, width) if self.fits((*part, target))]

    def marginal(self, names: Clique) -> Counts:
        """The counts of some attributes that a released table holds, from the smallest that does."""
        wide = min((clique for clique in self.tables if set(names) <= set(clique)), key=self._cells)
        return project(self.tables[wide], wide, names)

    def _cells(self, clique: Clique) -> int:
        return self.tables[clique].size
