"""Counting marginals in one pass over records that need not fit in memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import check_codes
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidDatasetError, TooLargeError
from gencard.core.statistics.cover import cover
from gencard.core.statistics.table import project

MOST_CELLS = 50_000_000
"""Cells of all marginals of one count together: 400 MB."""

_TABLE_CELLS = 2**14
"""Cells of one table that is counted for many cliques: 128 KiB, so that it stays in a core's cache."""

_BLOCK_ROWS = 2**16
"""Records looked at together: their cell numbers stay in the cache too."""


class Counter:
    """Marginals of a stream of records; the order of the records does not matter.

    Few tables that hold many cliques each are counted; the marginals are summed out of them at the
    end. Memory does not grow with the number of records.

    >>> counter = Counter(Domain.of({"sex": 2, "age": 3}), [("sex",)])
    >>> counter.add(np.array([[0, 2], [1, 2], [1, 0]]))
    >>> counter.marginals()
    [array([1, 2])]

    Raises:
        TooLargeError: The marginals have more than ``MOST_CELLS`` cells together.
        UnknownAttributeError: A clique names an attribute that is not in the domain.
    """

    def __init__(self, domain: Domain, cliques: Sequence[Clique]) -> None:
        if sum(domain.project(clique).cells for clique in cliques) > MOST_CELLS:
            raise TooLargeError(what="The number of cells of the marginals", limit=MOST_CELLS)
        self._domain = domain
        self._cliques = tuple(cliques)
        self._tallies = [_Tally.on(domain, inside) for inside in cover(domain, cliques, _TABLE_CELLS)]

    def add(self, codes: NDArray[Any] | Sequence[NDArray[Any]]) -> None:
        """Count some records.

        Args:
            codes: Shape ``(n, d)``, or one array of ``n`` codes per attribute of the domain.

        Raises:
            InvalidDatasetError: Wrong shape, not integers, or a code outside its attribute's size.
        """
        columns = list(codes.T if isinstance(codes, np.ndarray) else codes)
        shapes = {column.shape for column in columns}
        if (
            len(columns) != len(self._domain)
            or len(shapes) > 1
            or any(len(shape) != 1 for shape in shapes)
        ):
            raise InvalidDatasetError(problem="attributes differ in length or are missing")
        for axis, column in enumerate(columns):
            check_codes(column, self._domain, axis)
        for begin in range(0, len(columns[0]) if columns else 0, _BLOCK_ROWS):
            block = [column[begin : begin + _BLOCK_ROWS] for column in columns]
            for tally in self._tallies:
                tally.add(block)

    def marginals(self) -> list[NDArray[np.int64]]:
        """Counts so far, in records, in the order of the cliques; axes in the clique's own order."""
        tallies = sorted(self._tallies, key=lambda tally: tally.domain.cells)
        inside = np.zeros((len(self._domain), len(tallies)), dtype=bool)
        for number, tally in enumerate(tallies):
            inside[list(tally.axes), number] = True
        return [
            tallies[inside[list(self._domain.axes(clique))].all(axis=0).argmax()].marginal(clique)
            for clique in self._cliques
        ]


@dataclass(frozen=True, slots=True, eq=False)
class _Tally:
    """Counts on one attribute set: its ``axes`` in the records, its own ``domain``, flat ``counts``."""

    axes: tuple[int, ...]
    domain: Domain
    counts: NDArray[np.int64]

    @classmethod
    def on(cls, domain: Domain, inside: Clique) -> "_Tally":
        own = domain.project(inside)
        return cls(domain.axes(inside), own, np.zeros(own.cells, dtype=np.int64))

    def add(self, block: Sequence[NDArray[Any]]) -> None:
        cells = cell_numbers([block[axis] for axis in self.axes], self.domain.sizes)
        counts = self.counts
        counts += np.bincount(cells, minlength=len(counts))

    def marginal(self, clique: Clique) -> NDArray[np.int64]:
        """Of a clique inside, its axes in its own order."""
        table = self.counts.reshape(self.domain.sizes)
        return np.array(project(table, self.domain.attributes, clique), order="C")


def cell_numbers(columns: Sequence[NDArray[Any]], sizes: Sequence[int]) -> NDArray[Any]:
    """Number of each record's cell, the last attribute running fastest, as narrow as the cells allow.

    Args:
        columns: One array of ``n`` codes per attribute.
        sizes: The attributes' sizes.

    Returns:
        Shape ``(n,)``.
    """
    number = prod(sizes)
    dtype = np.uint16 if number < 2**16 else np.uint32 if number < 2**32 else np.int64
    cells = columns[0].astype(dtype)
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        np.multiply(cells, dtype(size), out=cells)
        np.add(cells, column, out=cells, casting="unsafe")
    return cells
