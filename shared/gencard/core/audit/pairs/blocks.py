"""Which interactions lie outside Phi: the blocks that an audit looks at."""

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import comb

from gencard.core.domain import Clique, Domain
from gencard.core.errors import NoExtremalPairError, TooLargeError

MOST_SETS = 200_000
"""Attribute sets that an audit goes through."""
MOST_CELLS = 5_000_000
"""Cells of all blocks of one audit together."""


def outside(domain: Domain, cliques: Sequence[Clique], order: int) -> tuple[Clique, ...]:
    """Attribute sets of at most ``order`` attributes that lie in no clique, smallest first.

    Where the cliques hold every set of that order, the smallest larger ones are taken instead.
    Their blocks are orthogonal to Phi; without a bound on the order they span all that is.

    Raises:
        NoExtremalPairError: Every set lies in a clique.
        TooLargeError: The sets, or their cells, are too many.
    """
    varying = tuple(name for name, size in zip(domain.attributes, domain.sizes, strict=True) if size > 1)
    for most in range(min(order, len(varying)), len(varying) + 1):
        _check_sets([len(varying), *map(len, cliques)], most)
        found = _sets(varying, most) - _released(domain, cliques, most)
        if found:
            _check_cells(domain, found)
            return tuple(sorted(found, key=lambda clique: (len(clique), domain.axes(clique))))
    raise NoExtremalPairError(problem="Phi determines every interaction of its attributes")


def minimal(cliques: Sequence[Clique]) -> tuple[Clique, ...]:
    """Those of ``outside(...)`` that contain no smaller one.

    >>> minimal([("a", "b"), ("a", "b", "c"), ("b", "c", "d")])
    (('a', 'b'), ('b', 'c', 'd'))
    """
    known = set(cliques)
    return tuple(clique for clique in cliques if known.isdisjoint(combinations(clique, len(clique) - 1)))


def neighbours(attribute: str, cliques: Iterable[Clique]) -> frozenset[str]:
    """The other attributes that share a clique with ``attribute``."""
    met = {name for clique in cliques if attribute in clique for name in clique}
    return frozenset(met - {attribute})


def _sets(attributes: Clique, most: int) -> set[Clique]:
    return {clique for length in range(1, most + 1) for clique in combinations(attributes, length)}


def _released(domain: Domain, cliques: Iterable[Clique], most: int) -> set[Clique]:
    return set().union(*(_sets(domain.canonical(clique), most) for clique in cliques))


def _check_sets(lengths: Iterable[int], most: int) -> None:
    sets = sum(comb(length, order) for length in lengths for order in range(1, most + 1))
    if sets > MOST_SETS:
        raise TooLargeError(what="The number of attribute sets of the audit", limit=MOST_SETS)


def _check_cells(domain: Domain, cliques: Iterable[Clique]) -> None:
    if sum(domain.project(clique).cells for clique in cliques) > MOST_CELLS:
        raise TooLargeError(what="The number of cells of the audit's blocks", limit=MOST_CELLS)
