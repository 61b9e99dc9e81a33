"""The released tables, and what they say about tables that were not released."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.psi_risk.bounds import CellBounds, Margins, cell_bounds
from gencard.core.statistics.closure import maximal
from gencard.core.statistics.counting import count_all
from gencard.core.statistics.marginals import project
from gencard.core.types import Counts

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
        """Those of some records.

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
        """Which levels of the target a record with certain keys can have, as far as the tables tell.

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
