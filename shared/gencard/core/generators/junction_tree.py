"""A tree of attribute sets that holds every clique and that messages can be passed on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.domain import Clique, Domain
from gencard.core.errors import DomainMismatchError, ModelTooLargeError
from gencard.core.statistics.closure import maximal

Matrix = NDArray[np.float64]

_NAMED = 3
"""Attribute sets that a refusal names, the largest first."""


@dataclass(frozen=True, slots=True)
class JunctionTree:
    """Attribute sets such that those that hold one attribute hang together.

    Args:
        cliques: Each in the domain's order; a clique comes after its parent, and no clique lies
            inside another.
        parents: For each clique the number of its parent; -1 for the first one.

    Raises:
        DomainMismatchError: The cliques and parents are not those of a junction tree.
    """

    cliques: tuple[Clique, ...]
    parents: tuple[int, ...]

    def __post_init__(self) -> None:
        met: set[str] = set()
        ordered = len(self.cliques) == len(self.parents) and self.parents[:1] == (-1,)
        for number, clique in enumerate(self.cliques):
            ordered = ordered and (number == 0 or 0 <= self.parents[number] < number)
            if not ordered or met & set(clique) != set(self.separator(number)) or met >= set(clique):
                raise DomainMismatchError(problem="the cliques do not form a junction tree")
            met |= set(clique)

    @classmethod
    def of(cls, domain: Domain, cliques: Sequence[Clique]) -> "JunctionTree":
        """A tree whose cliques hold all the given ones, and every attribute of the domain.

        The graph that joins the attributes of each clique is triangulated by min-fill; of its maximal
        cliques, those that share most attributes are linked (Lauritzen 1996, section 4.4).
        """
        return cls._linked(maximal(_triangulated(domain, cliques)))

    @classmethod
    def _linked(cls, cliques: Sequence[Clique]) -> "JunctionTree":
        """Prim's algorithm on the number of shared attributes; ties go to the first in order."""
        order, parents = [0], [-1]
        nearest = {one: (_shared(cliques[one], cliques[0]), 0) for one in range(1, len(cliques))}
        while nearest:
            chosen = max(nearest, key=lambda one: (nearest[one][0], -one))
            parents.append(nearest.pop(chosen)[1])
            order.append(chosen)
            for one, (shared, _) in nearest.items():
                if _shared(cliques[one], cliques[chosen]) > shared:
                    nearest[one] = (_shared(cliques[one], cliques[chosen]), len(order) - 1)
        return cls(tuple(cliques[one] for one in order), tuple(parents))

    def separator(self, clique: int) -> Clique:
        """The attributes that a clique shares with its parent; none for the first clique."""
        parent = self.parents[clique]
        above = self.cliques[parent] if parent >= 0 else ()
        return tuple(name for name in self.cliques[clique] if name in above)

    def pieces(self, known: Iterable[Clique]) -> tuple[tuple[int, ...], ...]:
        """The tree cut wherever a separator lies inside one of the ``known`` cliques.

        Returns:
            The numbers of the cliques of each piece, depth first, so that a clique comes after its
            parent and what hangs on it comes right after it.
        """
        inside = [frozenset(clique) for clique in known]
        below: list[list[int]] = [[] for _ in self.cliques]
        roots: list[int] = []
        for clique, parent in enumerate(self.parents):
            separator = frozenset(self.separator(clique))
            cut = not separator or any(separator <= names for names in inside)
            (roots if cut else below[parent]).append(clique)
        return tuple(_depth_first(root, below) for root in roots)


def _depth_first(root: int, below: Sequence[Sequence[int]]) -> tuple[int, ...]:
    order, waiting = [], [root]
    while waiting:
        order.append(waiting.pop())
        waiting.extend(reversed(below[order[-1]]))
    return tuple(order)


def check_cells(domain: Domain, cliques: Iterable[Clique], most_cells: int) -> None:
    """Refuse attribute sets whose tables together would be too large; allocates nothing.

    Raises:
        ModelTooLargeError: The cells of all sets are over the bound; it names the largest sets.
    """
    largest = sorted(cliques, key=lambda clique: -domain.project(clique).cells)
    if sum(domain.project(clique).cells for clique in largest) > most_cells:
        named = "; ".join(
            f"{domain.project(clique).cells:,} on ({', '.join(clique)})" for clique in largest[:_NAMED]
        )
        raise ModelTooLargeError(largest=named, limit=f"{most_cells:,}")


def _shared(one: Clique, other: Clique) -> int:
    return len(set(one) & set(other))


def _triangulated(domain: Domain, cliques: Sequence[Clique]) -> list[Clique]:
    """What min-fill eliminates: each attribute with its neighbours left; holds every clique.

    Ties in the number of added edges go to the smallest table, then to the domain's order.
    """
    joined = _graph(domain, cliques)
    sizes = np.rint(2**20 * np.log2(domain.sizes))  # whole numbers, whose sums are exact in any order
    left = np.arange(len(domain))
    eliminated = []
    while len(left):
        cells = sizes[left] + joined @ sizes[left]
        first = int(np.lexsort((cells, _fill(joined)))[0])
        neighbours = joined[first] > 0
        eliminated.append(
            tuple(domain.attributes[i] for i in left[neighbours | _only(first, len(left))])
        )
        joined[np.ix_(neighbours, neighbours)] = 1
        np.fill_diagonal(joined, 0)
        joined = np.delete(np.delete(joined, first, axis=0), first, axis=1)
        left = np.delete(left, first)
    return eliminated


def _graph(domain: Domain, cliques: Sequence[Clique]) -> Matrix:
    """Adjacency of the attributes: 1 where a clique holds both, 0 on the diagonal."""
    joined = np.zeros((len(domain), len(domain)))
    for clique in cliques:
        axes = list(domain.axes(clique))
        joined[np.ix_(axes, axes)] = 1
    np.fill_diagonal(joined, 0)
    return joined


def _fill(joined: Matrix) -> Matrix:
    """For each attribute the number of edges, times two, that its neighbours lack among themselves."""
    degree = joined.sum(axis=1)
    missing: Matrix = degree * (degree - 1) - ((joined @ joined) * joined).sum(axis=1)
    return missing


def _only(place: int, length: int) -> NDArray[np.bool_]:
    mask = np.zeros(length, dtype=bool)
    mask[place] = True
    return mask
