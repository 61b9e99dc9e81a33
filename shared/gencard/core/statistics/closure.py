"""Which sets of attributes a workload determines, and how many independent counts that is.

Marginals are linear in the table of records, and those of a workload span the interaction blocks of
its closure, which are orthogonal. Of one version of the records, read by one schema, two workloads
therefore determine the marginals inside one of their cliques and no more.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from math import prod

from gencard.core.domain import Clique, Domain
from gencard.core.errors import TooLargeError

Attributes = frozenset[str]
"""A set of attributes: a clique whose order does not matter."""

MOST_SUBSETS = 2**20
"""Sets of attributes that are ever listed, counted before the first is made."""


def subsets(clique: Collection[str]) -> Iterable[Attributes]:
    """Every subset of a clique, the empty one first and the clique itself last."""
    for order in range(len(clique) + 1):
        yield from map(frozenset, combinations(clique, order))


def closure(cliques: Sequence[Clique]) -> frozenset[Attributes]:
    """Every set of attributes inside some clique: exactly those whose marginal the cliques determine.

    The empty set is one of them: its marginal is the number of records.

    >>> sorted("".join(sorted(inside)) for inside in closure([("a", "b"), ("b", "c")]))
    ['', 'a', 'ab', 'b', 'bc', 'c']

    Raises:
        TooLargeError: The cliques have more than ``MOST_SUBSETS`` subsets.
    """
    check_subsets(cliques)
    return frozenset(inside for clique in cliques for inside in subsets(clique))


def maximal(cliques: Iterable[Clique]) -> tuple[Clique, ...]:
    """The cliques that lie inside no other one, in the given order; of equal sets, the first."""
    first: dict[Attributes, Clique] = {}
    for clique in cliques:
        first.setdefault(frozenset(clique), clique)
    wider: dict[str, list[Attributes]] = defaultdict(list)
    inner: set[Attributes] = set()
    for _, alike in groupby(sorted(first, key=len, reverse=True), key=len):
        same_width = list(alike)
        inner.update(names for names in same_width if _lies_in_one(names, wider))
        for names in same_width:
            for name in names:
                wider[name].append(names)
    return tuple(clique for names, clique in first.items() if names not in inner)


def _lies_in_one(names: Attributes, supersets: Mapping[str, Sequence[Attributes]]) -> bool:
    """Whether a set lies in one of some sets, which are given for each attribute that they have."""
    if not names:
        return bool(supersets)
    fewest = min((supersets.get(name, ()) for name in names), key=len)
    return any(names < other for other in fewest)


def dimension(domain: Domain, cliques: Sequence[Clique]) -> int:
    r"""Independent counts that the marginals on ``cliques`` release: their price in "statistics".

    The space of tables splits into orthogonal interaction blocks, one per set S of attributes, of
    dimension :math:`\prod_{i \in S} (n_i - 1)`; the marginals span the blocks of their closure.

    >>> dimension(Domain.of({"activity": 10, "occupation": 10, "sex": 2}), [("activity", "sex")])
    20

    Raises:
        TooLargeError: The cliques have more than ``MOST_SUBSETS`` subsets.
        UnknownAttributeError: An attribute is not in the domain.
    """
    return sum(prod(domain.size(name) - 1 for name in inside) for inside in closure(cliques))


def check_subsets(cliques: Iterable[Clique]) -> None:
    """Refuse cliques so wide that listing their subsets would be work in itself."""
    if sum(2 ** len(clique) for clique in cliques) > MOST_SUBSETS:
        raise TooLargeError(what="The number of subsets of the cliques", limit=MOST_SUBSETS)


@dataclass(frozen=True, slots=True)
class Grant:
    """Exact counts that somebody was granted: of which records, and how they were read.

    Args:
        version: Digest of the records.
        coding: Digest of the public schema.
        rounding: Multiples that the counts were rounded to; 1 for none.
    """

    version: str
    coding: str
    rounding: int = 1


def shows_a_difference(wanted: Grant, granted: Iterable[Grant]) -> bool:
    """Whether ``wanted`` and an earlier grant determine together what neither determines alone.

    Of two versions of the records, every block that both workloads span shows by subtraction which
    records came or went, and the block of the empty set, the number of records, is in every workload.
    Under two schemas, edges that moved by a little show the records between them. Rounded counts add
    nothing to the same counts unrounded; rounded to two different multiples they say more than either.
    """
    return any(_differ(wanted, grant) for grant in granted)


def _differ(one: Grant, other: Grant) -> bool:
    if (one.version, one.coding) != (other.version, other.coding):
        return True
    return one.rounding != other.rounding and min(one.rounding, other.rounding) > 1
