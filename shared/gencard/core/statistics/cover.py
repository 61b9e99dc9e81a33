"""Few attribute sets that hold many cliques, so that one table serves all cliques inside it."""

from collections.abc import Sequence
from typing import Any

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
    wanted = [domain.axes(clique) for clique in maximal(cliques)]
    open_cliques = np.zeros((len(wanted), len(domain)), dtype=bool)
    for row, axes in enumerate(wanted):
        open_cliques[row, list(axes)] = True
    sets = []
    while len(open_cliques):
        inside = _grown(open_cliques, np.array(domain.sizes, dtype=float), most_cells)
        sets.append(tuple(domain.attributes[axis] for axis in np.flatnonzero(inside)))
        open_cliques = open_cliques[(open_cliques & ~inside).any(axis=1)]
    return tuple(sets)


def _grown(cliques: NDArray[Any], sizes: NDArray[Any], most_cells: int) -> NDArray[Any]:
    """One set as a mask over the attributes; ``cliques`` has one such mask per row."""
    inside: NDArray[Any] = cliques[0].copy()
    while True:
        missing = cliques & ~inside
        room = most_cells / np.prod(sizes[inside])
        fits = missing.any(axis=1) & (np.prod(np.where(missing, sizes, 1.0), axis=1) <= room)
        if not fits.any():
            return inside
        inside |= _next(missing[fits], sizes)


def _next(missing: NDArray[Any], sizes: NDArray[Any]) -> NDArray[Any]:
    """What to add: the attribute that completes most cliques, or else the smallest addition."""
    lacking = missing.sum(axis=1)
    if lacking.min() > 1:
        chosen: NDArray[Any] = missing[np.argmin(np.prod(np.where(missing, sizes, 1.0), axis=1))]
        return chosen
    completed = missing[lacking == 1].sum(axis=0)
    smallest_of_best = np.where(completed == completed.max(), sizes, np.inf)
    best: NDArray[Any] = np.arange(len(sizes)) == np.argmin(smallest_of_best)
    return best
