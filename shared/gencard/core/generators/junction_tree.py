"""Junction trees, which hold every clique and pass messages, and the heaviest tree of pairs.

References:
    C. K. Chow, C. N. Liu, "Approximating discrete probability distributions with dependence trees", IEEE
    Trans. Inf. Theory 14(3), 1968.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import log2, prod
from operator import or_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.domain import Clique, Domain
from gencard.core.errors import DomainMismatchError, ModelTooLargeError
from gencard.core.generators.contract import implied, pairs_inside
from gencard.core.statistics.marginals import maximal, total
from gencard.core.statistics.psi import Psi

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
        earlier: set[str] = set()
        ordered = len(self.cliques) == len(self.parents) and self.parents[:1] == (-1,)
        for number, clique in enumerate(self.cliques):
            ordered = ordered and (number == 0 or 0 <= self.parents[number] < number)
            if (
                not ordered
                # Running intersection: what a clique shares with all earlier cliques, its parent has.
                # Only then is the product over cliques, divided by that over separators, a distribution.
                or earlier & set(clique) != set(self.separator(number))
                or earlier >= set(clique)
            ):
                raise DomainMismatchError(problem="the cliques do not form a junction tree")
            earlier |= set(clique)

    @classmethod
    def of(
        cls, domain: Domain, cliques: Sequence[Clique], most_cells: int | None = None
    ) -> "JunctionTree":
        """A tree whose cliques hold all the given ones, and every attribute of the domain.

        The graph that joins the attributes of each clique is triangulated by min-fill; of its maximal
        cliques, those that share most attributes are linked (Lauritzen 1996, section 4.4).

        Raises:
            ModelTooLargeError: The tables of all cliques are over the bound; it names the largest.
        """
        cliques_made: list[Clique] = []
        for mask in _eliminated(domain, cliques):
            clique = tuple(domain.attributes[one] for one in _members(mask))
            cliques_made.append(clique)
            if most_cells is not None and domain.project(clique).cells > most_cells:
                break
        largest = maximal(cliques_made)
        if most_cells is not None:
            check_cells(domain, largest, most_cells)
        return cls._linked(largest)

    @classmethod
    def _linked(cls, cliques: Sequence[Clique]) -> "JunctionTree":
        """Prim's algorithm on the number of shared attributes; ties go to the first in order."""
        # For the maximal cliques of a triangulated graph, a spanning tree of largest total separator
        # size is a junction tree (F. V. Jensen, F. Jensen, "Optimal junction trees", UAI 1994).
        sets = [frozenset(clique) for clique in cliques]
        order, parents = [0], [-1]
        nearest = {one: (len(sets[one] & sets[0]), 0) for one in range(1, len(cliques))}
        while nearest:
            nearest_one = max(nearest, key=lambda one: (nearest[one][0], -one))
            parents.append(nearest.pop(nearest_one)[1])
            order.append(nearest_one)
            for one, (shared, _) in nearest.items():
                if len(sets[one] & sets[nearest_one]) > shared:
                    nearest[one] = (len(sets[one] & sets[nearest_one]), len(order) - 1)
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
            is_apart = not separator or any(separator <= names for names in inside)
            (roots if is_apart else below[parent]).append(clique)
        pieces = []
        for root in roots:
            order, waiting = list[int](), [root]
            while waiting:
                order.append(waiting.pop())
                waiting.extend(reversed(below[order[-1]]))
            pieces.append(tuple(order))
        return tuple(pieces)


def cells_needed(domain: Domain, cliques: Sequence[Clique]) -> int:
    """Cells of all tables of ``JunctionTree.of``, of which no tree is made.

    Each set holds an attribute that is in none after it: it lies inside none of those.
    """
    largest: list[int] = []
    for mask in _eliminated(domain, cliques):
        if all(mask & ~other for other in largest):
            largest.append(mask)
    return sum(prod(domain.sizes[one] for one in _members(mask)) for mask in largest)


def check_cells(domain: Domain, cliques: Iterable[Clique], most_cells: int) -> None:
    """Refuse attribute sets whose tables together would be too large; allocates nothing.

    Raises:
        ModelTooLargeError: The cells of all sets are over the bound; it names the largest sets.
    """
    largest = sorted(cliques, key=lambda clique: -domain.project(clique).cells)
    if sum(domain.project(clique).cells for clique in largest) > most_cells:
        cliques_text = "; ".join(
            f"{domain.project(clique).cells:,} on ({', '.join(clique)})" for clique in largest[:_NAMED]
        )
        raise ModelTooLargeError(largest=cliques_text, limit=f"{most_cells:,}")


def _eliminated(domain: Domain, cliques: Sequence[Clique]) -> Iterator[int]:
    """Yield the sets of min-fill: each attribute with its neighbours left. They hold all cliques.

    They are sets of bits: bit ``i`` for attribute ``i``. Ties in the number of added edges go to the
    smallest table, then to the domain's order.
    """
    # For each attribute the attributes that share a clique with it.
    graph = [0] * len(domain)
    for clique in cliques:
        axes = domain.axes(clique)
        together = sum(1 << axis for axis in {*axes})
        for axis in axes:
            graph[axis] |= together & ~(1 << axis)
    sizes = [round(2**20 * log2(size)) for size in domain.sizes]  # whole, so that sums are exact
    costs = {one: _cost(graph, sizes, one) for one in range(len(domain))}
    while costs:
        missing, _, first = min(costs.values())
        del costs[first]
        around = graph[first]
        yield around | 1 << first
        for one in _members(around):
            graph[one] = (graph[one] | around) & ~(1 << one | 1 << first)
        if missing:  # new edges: those next to them have other neighbours' edges to count
            around = reduce(or_, (graph[one] for one in _members(around)), around)
        for one in _members(around):
            costs[one] = _cost(graph, sizes, one)


def _cost(joined: Sequence[int], sizes: Sequence[int], one: int) -> tuple[int, int, int]:
    """Return the cost by which min-fill chooses an attribute, with the attribute last.

    First the edges, times two, that its neighbours lack among themselves; then the size of its table.
    """
    around = joined[one]
    missing, size = 0, sizes[one]
    for other in _members(around):
        # Less 1, because a neighbour is in `around` and is not joined with itself.
        missing += (around & ~joined[other]).bit_count() - 1
        size += sizes[other]
    return missing, size, one


def _members(mask: int) -> Iterator[int]:
    """The numbers in a set of bits, ascending."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def edges(psi: Psi) -> tuple[Clique, ...]:
    """The edges of the tree, those with most mutual information first; psi must agree with itself.

    Kruskal's algorithm; ties go to the first pair in the domain's order. Pairs that are independent to
    within rounding are no edges.
    """
    candidates = pairs_inside(psi.cliques, psi.domain)
    tables = (measurement.values for measurement in implied(psi, candidates))
    return information_tree(dict(zip(candidates, tables, strict=True)))


_STEP = 2.0**-40
"""Mutual information is rounded to whole steps, so that no last bit of a logarithm chooses an edge."""


def information_tree(tables: Mapping[Clique, NDArray[Any]]) -> tuple[Clique, ...]:
    """The edges of the tree of most mutual information (Chow and Liu), the strongest first.

    Ties go to the first pair. Pairs that are independent to within rounding are no edges.
    """
    return heaviest_tree(
        # Whole numbers, so that two machines whose logarithms differ in the last bit choose the same
        # tree, and the same rows are drawn.
        {pair: round(mutual_information(counts) / _STEP) for pair, counts in tables.items()}
    )


def mutual_information(counts: NDArray[Any]) -> float:
    r""":math:`\sum_{ij} p_{ij} \log(p_{ij} / p_{i.} p_{.j})` of a two-way marginal, in nats."""
    shares = counts / total(counts)
    independent = shares.sum(axis=1, keepdims=True) * shares.sum(axis=0, keepdims=True)
    present = shares > 0
    return float(np.sum(shares[present] * np.log(shares[present] / independent[present])))


def heaviest_tree(weights: Mapping[Clique, int]) -> tuple[Clique, ...]:
    """The edges of the tree, or forest, of largest sum of weights, by Kruskal's algorithm."""
    group = {name: name for pair in weights for name in pair}
    tree = []
    for one, other in sorted(weights, key=lambda pair: -weights[pair]):
        if weights[one, other] > 0 and group[one] != group[other]:
            tree.append((one, other))
            joined, left = group[one], group[other]
            group = {name: joined if of == left else of for name, of in group.items()}
    return tuple(tree)
