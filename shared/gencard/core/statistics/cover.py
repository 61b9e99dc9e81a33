"""Few attribute sets that hold many cliques, so that one table serves all cliques inside it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.domain import Clique, Domain
from gencard.core.statistics.closure import maximal


def cover(domain: Domain, cliques: Sequence[Clique], most_cells: int) -> tuple[Clique, ...]:
    """Attribute sets, in the domain's order, such that every clique lies inside one of them.

    Each set has at most ``most_cells`` cells, unless it is a single clique that is larger by itself.
    Greedy: a set starts from the first clique not yet covered and takes the attribute that completes
    most others until nothing more fits. Deterministic.

    >>> cover(Domain.of({"a": 2, "b": 2, "c": 2, "d": 2}), [("a", "b"), ("b", "c"), ("c", "d")], 8)
    (('a', 'b', 'c'), ('c', 'd'))
    """
    wanted = maximal(cliques)
    if not wanted:
        return ()
    sets = _Wanted.of(domain, wanted).sets(most_cells)
    return tuple(tuple(domain.attributes[axis] for axis in inside) for inside in sets)


@dataclass(frozen=True, slots=True, eq=False)
class _Wanted:
    """The cliques to cover, each in a row.

    Args:
        axes: Shape ``(cliques, widest)``; short rows end with an axis of size 1 that every set has.
        sizes: Of the attributes, and 1.
        holding: For each axis, the rows of the cliques that have it.
        widths: Axes of each clique.
        cells: Of each clique.
    """

    axes: NDArray[np.intp]
    sizes: NDArray[np.float64]
    holding: tuple[NDArray[np.intp], ...]
    widths: NDArray[np.intp]
    cells: NDArray[np.float64]

    @classmethod
    def of(cls, domain: Domain, cliques: Sequence[Clique]) -> "_Wanted":
        axes = np.full((len(cliques), max(map(len, cliques))), len(domain))
        for row, clique in enumerate(cliques):
            axes[row, : len(clique)] = domain.axes(clique)
        holding = (np.flatnonzero((axes == axis).any(axis=1)) for axis in range(len(domain)))
        sizes = np.array([*domain.sizes, 1], dtype=float)
        widths = np.sum(axes < len(domain), axis=1)
        return cls(axes, sizes, tuple(holding), widths, np.prod(sizes[axes], axis=1))

    def sets(self, most_cells: int) -> Iterator[list[int]]:
        """The axes of each set."""
        covered = np.zeros(len(self.axes), dtype=bool)
        for row in range(len(self.axes)):
            if not covered[row]:
                growing = _Growing.from_row(self, row, covered)
                growing.grow(most_cells)
                covered |= growing.lacking == 0
                yield np.flatnonzero(growing.inside[:-1]).tolist()


@dataclass(frozen=True, slots=True, eq=False)
class _Growing:
    """One set while it grows.

    Args:
        inside: Which axes it has.
        lacking: How many axes each clique has that the set has not.
        cells: Of those axes; infinite where the clique is covered by this set or by another one.
    """

    wanted: _Wanted
    inside: NDArray[np.bool_]
    lacking: NDArray[np.intp]
    cells: NDArray[np.float64]

    @classmethod
    def from_row(cls, wanted: _Wanted, row: int, covered: NDArray[np.bool_]) -> "_Growing":
        """A set of one clique's axes."""
        inside = np.arange(len(wanted.sizes)) == len(wanted.holding)
        cells = np.where(covered, np.inf, wanted.cells)
        growing = cls(wanted, inside, wanted.widths.copy(), cells)
        growing._add(wanted.axes[row])
        return growing

    def grow(self, most_cells: int) -> None:
        """Add axes until no further clique fits."""
        while True:
            room = most_cells / np.prod(self.wanted.sizes[self.inside])
            fits = np.flatnonzero(self.cells <= room)
            if not len(fits):
                return
            self._add(self._next(fits))

    def _next(self, fits: NDArray[np.intp]) -> NDArray[np.intp]:
        """What to add: the axis that completes most cliques, or else the smallest addition."""
        one_short = fits[self.lacking[fits] == 1]
        if not len(one_short):
            return self._missing(fits[[np.argmin(self.cells[fits])]])
        completed = np.bincount(self._missing(one_short), minlength=len(self.inside))
        smallest_of_best = np.where(completed == completed.max(), self.wanted.sizes, np.inf)
        return np.array([np.argmin(smallest_of_best)])

    def _missing(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """The axes that the cliques of some rows lack, one after another."""
        axes = self.wanted.axes[rows]
        return axes[~self.inside[axes]]

    def _add(self, added: NDArray[np.intp]) -> None:
        """Take in some axes; only the cliques that have them change."""
        for axis in added[~self.inside[added]]:
            self.inside[axis] = True
            rows = self.wanted.holding[axis]
            self.lacking[rows] -= 1
            self.cells[rows] /= self.wanted.sizes[axis]
            self.cells[rows[self.lacking[rows] == 0]] = np.inf
