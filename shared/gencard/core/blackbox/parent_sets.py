"""The attributes, each with parents, from which the next node of a network is chosen."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gencard.core.domain import Clique, Domain
from gencard.core.errors import TooLargeError

_MOST_SETS = 100_000
"""Sets of parents that are looked at for one choice."""


@dataclass(frozen=True, slots=True)
class Pair:
    """An attribute and its parents, in the domain's order."""

    attribute: str
    parents: Clique


def pairs_to_choose_from(
    domain: Domain, network: Sequence[Pair], most_cells: int, degree: int
) -> list[Pair]:
    """Every attribute not in the network yet, with every set of parents that nothing can be added to.

    Args:
        most_cells: Of the table of attribute and parents. Where it has more even without any, the
            attribute is offered without parents.
        degree: Most parents.

    Raises:
        TooLargeError: There are too many.
    """
    inside = {pair.attribute for pair in network}
    before = tuple(name for name in domain.attributes if name in inside)
    offered: list[Pair] = []
    for attribute in domain.attributes:
        if attribute not in inside:
            room = most_cells // domain.size(attribute)
            for parents in maximal_sets(domain, before, room, degree):
                offered.append(Pair(attribute, parents))
                if len(offered) > _MOST_SETS:
                    raise TooLargeError(what="The number of sets of parents", limit=_MOST_SETS)
    return offered


def maximal_sets(domain: Domain, names: Clique, most_cells: int, degree: int) -> Iterator[Clique]:
    """Sets of attributes to which none can be added: over the bound on cells, or on their number."""
    for chosen in _sets(domain, names, most_cells, degree):
        cells = domain.project(chosen).cells
        others = (name for name in names if name not in chosen)
        if len(chosen) == degree or all(cells * domain.size(name) > most_cells for name in others):
            yield chosen


def _sets(domain: Domain, names: Clique, most_cells: int, most: int) -> Iterator[Clique]:
    """Every set within the bounds, the empty one always, in the order of names."""
    yield ()
    if most > 0:
        for place, name in enumerate(names):
            room = most_cells // domain.size(name)
            if room > 0:
                for rest in _sets(domain, names[place + 1 :], room, most - 1):
                    yield (name, *rest)
