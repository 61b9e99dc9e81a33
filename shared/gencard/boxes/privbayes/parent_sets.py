"""The attributes, each with parents, from which the next node of a network is chosen."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from gencard.core.domain import Clique, Domain

_MOST_PAIRS = 50_000
"""That are scored for one choice."""


@dataclass(frozen=True, slots=True)
class Pair:
    """An attribute and its parents, in the domain's order."""

    attribute: str
    parents: Clique


def pairs_to_choose_from(
    domain: Domain, network: Sequence[Pair], most_cells: int, degree: int
) -> list[Pair]:
    """Every attribute not in the network yet, with every set of parents that nothing can be added to.

    Where these are more than can be scored, parents are fewer by one, or by as many as it takes: that
    follows from what is public and from choices that were made.

    Args:
        most_cells: Of the table of attribute and parents. Where it has more even without any, the
            attribute is offered without parents.
        degree: Most parents.
    """
    inside = {pair.attribute for pair in network}
    before = tuple(name for name in domain.attributes if name in inside)
    after = tuple(name for name in domain.attributes if name not in inside)
    for fewer in range(degree, 0, -1):
        found = _pairs(domain, before, after, most_cells, fewer)
        offered = list(islice(found, _MOST_PAIRS + 1))
        if len(offered) <= _MOST_PAIRS:
            return offered
    return [Pair(attribute, ()) for attribute in after]


def _pairs(
    domain: Domain, before: Clique, after: Clique, most_cells: int, degree: int
) -> Iterator[Pair]:
    """Attributes of one size have the same sets of parents: set by set, so that each is met once."""
    for size in sorted({domain.size(name) for name in after}):
        alike = [name for name in after if domain.size(name) == size]
        for parents in maximal_sets(domain, before, most_cells // size, degree):
            yield from (Pair(attribute, parents) for attribute in alike)


def maximal_sets(domain: Domain, names: Clique, most_cells: int, degree: int) -> Iterator[Clique]:
    """Sets of attributes to which none can be added: over the bound on cells, or on their number."""
    sizes = {name: domain.size(name) for name in names}
    for chosen, room in _sets(sizes, names, most_cells, degree):
        others = (size for name, size in sizes.items() if name not in chosen)
        if len(chosen) == degree or all(size > room for size in others):
            yield chosen


def _sets(
    sizes: Mapping[str, int], names: Clique, most_cells: int, most: int
) -> Iterator[tuple[Clique, int]]:
    """Every set within the bounds, the empty one always, and what room it leaves in cells."""
    yield (), most_cells
    if most > 0:
        for place, name in enumerate(names):
            room = most_cells // sizes[name]
            if room > 0:
                for rest, left in _sets(sizes, names[place + 1 :], room, most - 1):
                    yield (name, *rest), left
