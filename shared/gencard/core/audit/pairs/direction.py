"""Directions in the space of tables, kept as one small table for each block."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.statistics.counting import count_all
from gencard.core.statistics.marginals import coefficients, table_of
from gencard.core.types import FloatArray

_ROUNDING = 1e-13
"""Above it is every difference of one record."""


@dataclass(frozen=True, slots=True, eq=False)
class Direction:
    """``beta``: a table on each clique; a record's value is the sum of its entries.

    Args:
        tables: One table per clique, of the clique's sizes.
    """

    domain: Domain
    cliques: tuple[Clique, ...]
    tables: tuple[FloatArray, ...]

    def __neg__(self) -> "Direction":
        return Direction(self.domain, self.cliques, tuple(-table for table in self.tables))

    def of(self, codes: Sequence[NDArray[Any]]) -> FloatArray:
        """Values of records, given one array of codes for each attribute of the domain."""
        pairs = zip(self.cliques, self.tables, strict=True)
        return sum(
            (table[tuple(codes[axis] for axis in self.domain.axes(clique))] for clique, table in pairs),
            start=np.zeros(codes[0].shape),
        )

    def value(self, dataset: Dataset) -> float:
        """``<beta, table>`` in shares: the mean value of the records.

        Equal marginals give equal values to the last bit.
        """
        marginals = dict(zip(self.cliques, count_all(dataset, self.cliques), strict=True))
        return self.product(marginals) / len(dataset)

    def product(self, marginals: Mapping[Clique, NDArray[Any]]) -> float:
        """``<beta, table>`` of the table with these marginals, in their unit."""
        pairs = zip(self.cliques, self.tables, strict=True)
        return sum(float(np.vdot(table, marginals[clique])) for clique, table in pairs)

    @property
    def largest(self) -> float:
        """The largest entry of any table, without its sign."""
        return max((float(np.abs(table).max()) for table in self.tables), default=0.0)

    def moved_by(self, axes: Clique, context: Clique) -> "Direction":
        """The part that a cube move on ``axes`` within one ``context`` can change.

        A table that leaves out an attribute of the cube, and sees nothing but the cube and its
        context, gains at one corner what it loses at the next.
        """
        cube, attributes = set(axes), {*axes, *context}
        moving = [
            (clique, table)
            for clique, table in zip(self.cliques, self.tables, strict=True)
            if axes[0] in clique and (cube <= set(clique) or not attributes >= set(clique))
        ]
        return Direction(self.domain, tuple(c for c, _ in moving), tuple(t for _, t in moving))


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """Coordinates in some blocks, one block after the other in one vector.

    Coordinates are in shares, not counts: those of a dataset's marginals divided by its number of
    records, so that datasets of different length can be compared.

    Args:
        kept: For blocks that are used in part, orthonormal rows that span the part.
    """

    domain: Domain
    cliques: tuple[Clique, ...]
    kept: Mapping[Clique, FloatArray] = field(default_factory=dict)

    @property
    def dimensions(self) -> tuple[int, ...]:
        """Number of coordinates of each block."""
        return tuple(
            len(self.kept[clique]) if clique in self.kept else prod(self._shape(clique))
            for clique in self.cliques
        )

    @property
    def parts(self) -> tuple[slice, ...]:
        """Positions of the coordinates of each block in the vector."""
        ends = np.cumsum([0, *self.dimensions]).tolist()
        return tuple(slice(begin, end) for begin, end in pairwise(ends))

    def shares(self, dataset: Dataset) -> list[FloatArray]:
        """The marginal on each clique, in shares of the records."""
        return [count / len(dataset) for count in count_all(dataset, self.cliques)]

    def coordinates(self, shares: Sequence[NDArray[Any]]) -> FloatArray:
        """Coordinates of one table for each clique, as one vector."""
        pairs = zip(self.cliques, shares, strict=True)
        return np.concatenate([self._within(clique, coefficients(share)) for clique, share in pairs])

    def difference(self, low: Dataset, high: Dataset) -> FloatArray:
        """Coordinates of ``high`` minus those of ``low``, without what is rounding alone."""
        # Coordinates are in floats, so equal marginals may differ in the last bit: such a difference
        # must not count as evidence.
        change = self.coordinates(self.shares(high)) - self.coordinates(self.shares(low))
        return np.where(np.abs(change) > _ROUNDING, change, 0.0)

    def tables(self, vector: FloatArray) -> list[FloatArray]:
        """The tables that have these coordinates, each in its own block alone."""
        pairs = zip(self.cliques, self.parts, strict=True)
        return [table_of(self._whole(clique, vector[part])) for clique, part in pairs]

    def marginals(self, vector: FloatArray, cliques: Sequence[Clique]) -> list[FloatArray]:
        """Marginals of the one table that has these coordinates and 0 in every other block."""
        blocks = list(zip(self.cliques, self.tables(vector), strict=True))
        return [self._marginal(clique, blocks) for clique in cliques]

    def _marginal(self, clique: Clique, blocks: Sequence[tuple[Clique, FloatArray]]) -> FloatArray:
        total = np.zeros(self.domain.project(clique).sizes)
        for inside, table in blocks:
            if set(inside) <= set(clique) and table.any():
                shape = [self.domain.size(name) if name in inside else 1 for name in clique]
                total += table.reshape(shape) * (table.size / total.size)
        return total

    def direction(self, tables: Sequence[FloatArray]) -> Direction:
        """One table for each clique as a direction; those that are 0 are left out."""
        pairs = [pair for pair in zip(self.cliques, tables, strict=True) if pair[1].any()]
        return Direction(self.domain, tuple(c for c, _ in pairs), tuple(t for _, t in pairs))

    def random_direction(self, *, rng: np.random.Generator) -> Direction:
        """An independent random table in each block, of about length 1."""
        normal = rng.standard_normal(self.parts[-1].stop)
        blocks = zip(self.tables(normal), self.dimensions, strict=True)
        return self.direction([table / np.sqrt(dimension) for table, dimension in blocks])

    def _shape(self, clique: Clique) -> tuple[int, ...]:
        return tuple(size - 1 for size in self.domain.project(clique).sizes)

    def _within(self, clique: Clique, block: FloatArray) -> FloatArray:
        """Coordinates in the part of a block that is looked at."""
        return self.kept[clique] @ block.ravel() if clique in self.kept else block.ravel()

    def _whole(self, clique: Clique, part: FloatArray) -> FloatArray:
        """Coordinates in the block of the vector with these in its part."""
        block = part @ self.kept[clique] if clique in self.kept else part
        return block.reshape(self._shape(clique))
