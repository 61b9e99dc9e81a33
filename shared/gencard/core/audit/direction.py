"""Directions in the space of tables, kept as one small table for each block."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.statistics.interactions import FloatArray, coefficients, table_of
from gencard.core.statistics.marginal import count_all


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """Coordinates of some blocks, one after the other in one vector.

    Shares, not counts: the coordinates of a dataset are those of its marginals divided by its
    number of records, so that datasets of different length can be compared.
    """

    domain: Domain
    cliques: tuple[Clique, ...]

    @property
    def parts(self) -> tuple[slice, ...]:
        """Where the coordinates of each block stand."""
        ends = np.cumsum([0, *(int(np.prod(shape)) for shape in self._shapes)])
        return tuple(slice(int(begin), int(end)) for begin, end in pairwise(ends))

    @property
    def _shapes(self) -> tuple[tuple[int, ...], ...]:
        sizes = (self.domain.project(clique).sizes for clique in self.cliques)
        return tuple(tuple(size - 1 for size in row) for row in sizes)

    def coordinates(self, dataset: Dataset) -> FloatArray:
        """Coordinates of a dataset, shape ``(dimension,)``, in shares of its records."""
        blocks = [coefficients(marginal).ravel() for marginal in count_all(dataset, self.cliques)]
        return np.concatenate(blocks) / len(dataset)

    def direction(self, vector: FloatArray) -> "Direction":
        """The direction with the given coordinates; blocks where all are 0 are left out."""
        blocks = zip(self.cliques, self.parts, self._shapes, strict=True)
        kept = [(clique, vector[part].reshape(shape)) for clique, part, shape in blocks if vector[part].any()]
        return Direction(self.domain, tuple(clique for clique, _ in kept), tuple(table_of(c) for _, c in kept))


@dataclass(frozen=True, slots=True, eq=False)
class Direction:
    """``beta``: a table on each clique; a record's value is the sum of its entries.

    Args:
        tables: One float table per clique, of the clique's sizes.
    """

    domain: Domain
    cliques: tuple[Clique, ...]
    tables: tuple[FloatArray, ...]

    def __neg__(self) -> "Direction":
        return Direction(self.domain, self.cliques, tuple(-table for table in self.tables))

    def value(self, dataset: Dataset) -> float:
        """``<beta, table>`` in shares: the mean value of the records.

        Equal marginals give equal values to the last bit.
        """
        counts = count_all(dataset, self.cliques)
        products = (float(np.vdot(table, count)) for table, count in zip(self.tables, counts, strict=True))
        return sum(products) / len(dataset)

    @property
    def largest(self) -> float:
        """The largest entry of any table, without its sign."""
        return max((float(np.abs(table).max()) for table in self.tables), default=0.0)

    def moved_by(self, axes: Clique, context: Clique) -> "Direction":
        """The part that a cube move on ``axes`` within one ``context`` can change.

        Tables that leave out an attribute of the cube and see nothing but the cube and its context
        gain at one corner what they lose at the next.
        """
        cube, seen = set(axes), {*axes, *context}
        kept = [
            (clique, table)
            for clique, table in zip(self.cliques, self.tables, strict=True)
            if axes[0] in clique and (cube <= set(clique) or not seen >= set(clique))
        ]
        return Direction(self.domain, tuple(c for c, _ in kept), tuple(t for _, t in kept))
