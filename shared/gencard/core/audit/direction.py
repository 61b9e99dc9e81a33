"""Directions in the space of tables, kept as one small table for each block."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from math import gcd, lcm, prod
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from gencard.core.coding import StructuralZeros, impossible_cells
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.statistics.linear import LinearStatistic
from gencard.core.statistics.marginals import coefficients, count, count_all, table_of
from gencard.core.types import FloatArray, IntArray

_ROUNDING = 1e-13
"""Coordinates, in shares of the records, that differ by less are taken as equal."""


@dataclass(frozen=True, slots=True, eq=False)
class Direction:
    """``beta``: a table on each clique; a record's value is the sum of its entries."""

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
            len(self.kept[clique])
            if clique in self.kept
            else prod(size - 1 for size in self.domain.project(clique).sizes)
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
        blocks = []
        for clique, share in zip(self.cliques, shares, strict=True):
            block = coefficients(share).ravel()
            blocks.append(self.kept[clique] @ block if clique in self.kept else block)
        return np.concatenate(blocks)

    def difference(self, low: Dataset, high: Dataset) -> FloatArray:
        """Coordinates of ``high`` minus those of ``low``, without what is rounding alone."""
        # Coordinates are in floats, so equal marginals may differ in the last bit: such a difference
        # must not count as evidence.
        change = self.coordinates(self.shares(high)) - self.coordinates(self.shares(low))
        return np.where(np.abs(change) > _ROUNDING, change, 0.0)

    def tables(self, vector: FloatArray) -> list[FloatArray]:
        """The tables that have these coordinates, each in its own block alone."""
        tables = []
        for clique, part in zip(self.cliques, self.parts, strict=True):
            block = vector[part] @ self.kept[clique] if clique in self.kept else vector[part]
            sizes = self.domain.project(clique).sizes
            tables.append(table_of(block.reshape([size - 1 for size in sizes])))
        return tables

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


# Integer moves that keep linear statistics too: the circuits of the matrix from table to psi.
#
# A circuit is a change of the table that keeps psi and touches so few cells that it is the only one on
# them, up to scale: whole numbers, found exactly. Every change that keeps psi is a sum of circuits.

_WIDEST = 60
"""Most cells of a circuit; its exact numbers grow with the cells, and must stay below ``_LARGEST``."""

_LARGEST = 2**62  # fits into the 64-bit integers of counts

MOST_TABLE_CELLS = 2_000
"""Cells of the full table up to which circuits are looked for."""

_MOST_CIRCUITS = 500
"""Tried on each side of a pair."""

_NONE = 1e-9
"""Below this part of the largest possible gain, and of the largest entry, is rounding."""


def along_circuits(
    dataset: Dataset,
    cliques: Sequence[Clique],
    linear: Sequence[LinearStatistic],
    beta: Direction,
    *,
    zeros: Sequence[StructuralZeros] = (),
) -> Dataset:
    """Take the circuits that raise ``<beta, table>``, the steepest first, as often as counts allow.

    Args:
        zeros: Cells that cannot occur; circuits that fill them are left out.

    Returns:
        A dataset with the same psi, in the order of the cells.
    """
    domain = dataset.domain
    cells = np.indices(domain.sizes).reshape(len(domain), -1)
    matrix, gains = psi_matrix(domain, cliques, linear), beta.of(list(cells))
    table = count(dataset, domain.attributes).ravel()
    bare = table == 0
    closed = impossible_cells(domain, zeros).ravel()
    for _ in range(_MOST_CIRCUITS):
        support, signs = _steepest(matrix, gains, bare, closed)
        change = only_change(matrix[:, support], signs)
        if change is None or gains[support] @ change <= 0:
            break
        losing = change < 0
        times = int((table[support[losing]] // -change[losing]).min())
        table[support] += times * change
        bare[support[table[support] < -change]] = True
    return Dataset(domain, np.repeat(cells.T, table, axis=0))


def psi_matrix(domain: Domain, cliques: Sequence[Clique], linear: Sequence[LinearStatistic]) -> IntArray:
    """From the full table to all of psi: one row for each count and each sum."""
    places = np.arange(domain.cells).reshape(domain.sizes)
    rows = [np.ones((1, domain.cells), dtype=np.int64)]
    for clique in cliques:
        cells = _cells(domain, clique, places)
        rows.append((np.arange(domain.project(clique).cells)[:, None] == cells).astype(np.int64))
    rows += [each.numerators[:, _cells(domain, each.clique, places)] for each in linear]
    return np.vstack(rows)


def _cells(domain: Domain, clique: Clique, places: NDArray[np.intp]) -> NDArray[np.intp]:
    """The number of each cell of the full table in the clique."""
    codes = np.unravel_index(places.ravel(), domain.sizes)
    own_codes = tuple(codes[axis] for axis in domain.axes(clique))
    return np.ravel_multi_index(own_codes, domain.project(clique).sizes)


def _steepest(
    matrix: IntArray, gains: FloatArray, bare: NDArray[np.bool_], closed: NDArray[np.bool_]
) -> tuple[NDArray[np.intp], FloatArray]:
    """The cells of the circuit that gains most for each record it moves, and its signs there.

    A vertex of the changes that keep psi, move one record in all, take none from ``bare`` cells and put
    none into ``closed`` ones.
    """
    # The solver's tolerances are absolute: sums with large numerators would be kept more strictly than
    # counts.
    scaled = matrix / np.maximum(np.abs(matrix).max(axis=1, keepdims=True), 1)
    rows = scipy.sparse.csr_array(np.hstack([scaled, -scaled]))
    # A linear program: no variable is marked as integer. The change is split into what cells gain and
    # lose; the bound on their sum keeps it finite. A vertex has minimal support, which makes it a
    # circuit.
    solution = scipy.optimize.milp(
        c=np.concatenate([-gains, gains]),
        constraints=[
            scipy.optimize.LinearConstraint(rows, 0, 0),
            scipy.optimize.LinearConstraint(np.ones((1, rows.shape[1])), ub=1),
        ],
        bounds=scipy.optimize.Bounds(0, 1.0 - np.concatenate([closed, bare])),
    )
    if solution.x is None or -solution.fun <= _NONE * np.abs(gains).max():
        return np.zeros(0, dtype=np.intp), np.zeros(0)
    change = solution.x[: len(bare)] - solution.x[len(bare) :]
    support = np.flatnonzero(np.abs(change) > _NONE)
    return support, np.sign(change[support])


def only_change(matrix: IntArray, signs: FloatArray) -> IntArray | None:
    """Return the kernel vector of a matrix in smallest whole numbers with these signs.

    None if the kernel does not have dimension 1, or its vector has other signs.
    """
    if not 2 <= matrix.shape[1] <= _WIDEST:
        return None
    # The solver's floats choose the cells only. The numbers are solved again in fractions, because psi
    # must stay equal to the last record.
    kernel = kernel_of([[Fraction(int(entry)) for entry in row] for row in matrix])
    if len(kernel) != 1:
        return None
    scale = lcm(*(entry.denominator for entry in kernel[0]))
    whole = [int(entry * scale) for entry in kernel[0]]
    change = [entry // gcd(*whole) * (1 if whole[0] * signs[0] > 0 else -1) for entry in whole]
    if max(map(abs, change)) > _LARGEST or not np.array_equal(np.sign(change), signs):
        return None
    return np.array(change, dtype=np.int64)


def kernel_of(matrix: Sequence[Sequence[Fraction]]) -> list[list[Fraction]]:
    """A basis of what a matrix takes to zero, by exact elimination."""
    # The reduced row echelon form, and the columns of its leading ones.
    rows, pivots, width = [list(row) for row in matrix], list[int](), len(matrix[0])
    for column in range(width):
        top = len(pivots)
        pivot = next((place for place in range(top, len(rows)) if rows[place][column]), None)
        if pivot is None:
            continue
        rows[top], rows[pivot] = rows[pivot], rows[top]
        lead = [entry / rows[top][column] for entry in rows[top]]
        rows = [
            lead if place == top else [a - row[column] * b for a, b in zip(row, lead, strict=True)]
            for place, row in enumerate(rows)
        ]
        pivots.append(column)
    return [
        [
            -rows[pivots.index(column)][free] if column in pivots else Fraction(column == free)
            for column in range(width)
        ]
        for free in range(width)
        if free not in pivots
    ]
