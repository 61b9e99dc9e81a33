"""Which cliques a policy allows, and the nearest to those that it does not. Depends on no record."""

from collections.abc import Iterable, Iterator
from itertools import combinations
from math import comb, prod

from gencard.controller.policy.moment_policy import NUMBER, ORDER, PRICE
from gencard.controller.policy.policy import Policy
from gencard.core.card.budget import Mechanism
from gencard.core.card.terms import Change, Proposal
from gencard.core.domain import Clique, Domain
from gencard.core.errors import TooLargeError
from gencard.core.statistics.closure import Attributes, check_subsets, subsets

CELLS = "TOO_MANY_CELLS"
FORBIDDEN = "FORBIDDEN_TOGETHER"

MOST_PARTS = 50_000
"""Smaller cliques that are looked at in search of a counter-offer."""


def acceptable_cliques(
    terms: Proposal, policy: Policy, domain: Domain
) -> tuple[tuple[Clique, ...], tuple[Change, ...]]:
    """The nearest cliques that the policy allows and its price cap covers, and each step to them.

    Raises:
        TooLargeError: There are too many smaller cliques to look at.
    """
    objections = [(clique, objection(clique, policy, domain)) for clique in terms.marginals]
    _check_parts((clique for clique, reason in objections if reason), policy)
    changes: list[Change] = []
    kept: dict[Clique, None] = {}
    for clique, reason in objections:
        nearest = tuple(_nearest(clique, policy, domain)) if reason else (clique,)
        if reason:
            changes.append(_clique_change(clique, nearest, reason))
        kept.update(dict.fromkeys(nearest))
    exact = terms.privacy.mechanism is Mechanism.EXACT
    affordable, dropped = _affordable(tuple(kept), policy, domain, exact=exact)
    changes += [_clique_change(clique, (), reason) for clique, reason in dropped]
    return affordable, tuple(changes)


def objection(clique: Clique, policy: Policy, domain: Domain) -> str | None:
    """Why a clique is not acceptable as it is; None where it is."""
    if any(set(forbidden) <= set(clique) for forbidden in policy.forbidden):
        return FORBIDDEN
    if len(clique) > policy.largest_order:
        return ORDER
    if domain.project(clique).cells > policy.largest_marginal_cells:
        return CELLS
    return None


def _check_parts(cliques: Iterable[Clique], policy: Policy) -> None:
    """Refuse to look for smaller cliques where there are too many to look at."""
    sizes = [len(clique) for clique in cliques]
    orders = range(1, min(policy.largest_order, max(sizes, default=0)) + 1)
    if sum(comb(size, order) for size in sizes for order in orders) > MOST_PARTS:
        raise TooLargeError(what="The number of smaller marginals", limit=MOST_PARTS)


def _nearest(clique: Clique, policy: Policy, domain: Domain) -> Iterator[Clique]:
    """The largest acceptable cliques inside one that is not, each once."""
    found: set[Attributes] = set()
    for order in range(min(policy.largest_order, len(clique)), 0, -1):
        for part in combinations(clique, order):
            if frozenset(part) not in found and objection(part, policy, domain) is None:
                found.update(subsets(part))
                yield part


def _affordable(
    cliques: tuple[Clique, ...], policy: Policy, domain: Domain, *, exact: bool
) -> tuple[tuple[Clique, ...], list[tuple[Clique, str]]]:
    """Keep the cheapest cliques while number and price allow; the dearest go first."""
    check_subsets(cliques)
    left = policy.most_per_card.statistics
    kept: list[Clique] = []
    dropped: list[tuple[Clique, str]] = []
    paid: set[Attributes] = set()
    for clique in sorted(cliques, key=lambda names: (domain.project(names).cells, domain.axes(names))):
        fresh = set(subsets(clique)) - paid
        price = sum(prod(domain.size(name) - 1 for name in block) for block in fresh) if exact else 0
        if len(kept) == policy.most_marginals:
            dropped.append((clique, NUMBER))
        elif price > left:
            dropped.append((clique, PRICE))
        else:
            kept.append(clique)
            paid |= fresh
            left -= price
    return _ordered(kept, domain), dropped


def _clique_change(asked: Clique, offered: Iterable[Clique], reason: str) -> Change:
    new = "; ".join(", ".join(clique) for clique in offered)
    return Change("marginals", ", ".join(asked), new, reason)


def _ordered(cliques: Iterable[Clique], domain: Domain) -> tuple[Clique, ...]:
    return tuple(sorted(cliques, key=lambda clique: (len(clique), domain.axes(clique))))
