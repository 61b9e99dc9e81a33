"""What a proposal may ask for: code, and no record in sight.

The answer to a proposal that is too rich is the nearest acceptable one: cliques are split into
smaller ones, the dearest are dropped, rows and generator are brought within bounds. Every
difference is one line of a typed diff with a reason code.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb, prod

from gencard.controller.box_policy import GENERATOR, takes_moments, with_generator
from gencard.controller.limits import Limits, check_model, check_size
from gencard.controller.measures_policy import with_measures
from gencard.controller.measuring import (
    TRANSFORM,
    chosen,
    measured_as,
    nearest_privacy,
    price_of,
)
from gencard.controller.moment_policy import (
    NO_MOMENTS,
    NUMBER,
    ORDER,
    PRICE,
    MomentPolicy,
    affordable,
)
from gencard.core.budget import Mechanism, Price, Privacy
from gencard.core.card import Change, CounterOffer, Proposal, Refusal
from gencard.core.domain import Clique, Domain
from gencard.core.errors import TooLargeError
from gencard.core.generators.registry import Zeros
from gencard.core.statistics.closure import Attributes, check_subsets, subsets
from gencard.core.transform import AS_COUNTED, Transform

CELLS = "TOO_MANY_CELLS"
FORBIDDEN = "FORBIDDEN_TOGETHER"
MARGINALS = NUMBER
ROWS = "TOO_MANY_ROWS"
NOTHING_LEFT = "NOTHING_LEFT"

MOST_PARTS = 50_000
"""Smaller cliques that are looked at in search of a counter-offer."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Bounds on a card, declared by the controller.

    Args:
        largest_order: Attributes in one marginal.
        largest_marginal_cells: Cells in one marginal.
        most_marginals: Marginals in one card.
        most_rows: Rows in one release, in records.
        generators: Names allowed; the first is offered in place of one that is not.
        mechanisms: Ways to measure that are offered.
        noise: Offered in place of a mechanism that is not; all noisy cards have its neighbouring
            relation.
        transform: What happens to exact counts before they are psi; where anything does, there are no
            exact moments.
        moments: Linear statistics that may be asked for besides marginals.
        most_per_card: Cap on the price of one card.
        forbidden: Attribute sets that no marginal may hold together.
        measures: Of releases, that a card may let its analyst have, though they read records.
        without_uniques: A card may ask for a release without replicated uniques.
        automatic: Offer at once; otherwise a steward looks first.
        valid_days: Life of an offer and of the card made of it.
    """

    largest_order: int
    largest_marginal_cells: int
    most_marginals: int
    most_rows: int
    generators: tuple[str, ...]
    most_per_card: Price
    mechanisms: tuple[Mechanism, ...] = (Mechanism.EXACT,)
    noise: Privacy | None = None
    transform: Transform = AS_COUNTED
    moments: MomentPolicy = NO_MOMENTS
    forbidden: tuple[Clique, ...] = ()
    measures: tuple[str, ...] = ()
    without_uniques: bool = False
    automatic: bool = True
    valid_days: int = 90

    @property
    def summary(self) -> str:
        """The sentence that a card carries as its reason to be safe."""
        forbidden = "; ".join(" with ".join(clique) for clique in self.forbidden) or "none"
        moments = f"; moments: {', '.join(self.moments.kinds)}" if self.moments.kinds else ""
        return (
            f"marginals of at most {self.largest_order} attributes and "
            f"{self.largest_marginal_cells} cells, at most {self.most_marginals} of them and "
            f"{self.most_per_card.statistics} independent statistics; forbidden together: {forbidden}; "
            f"measured {' or '.join(self.mechanisms)}; exact counts {self.transform}{moments}"
        )


def judge(
    proposal: Proposal,
    policy: Policy,
    domain: Domain,
    limits: Limits,
    closed: Mapping[Mechanism, str],
    *,
    zeros: Zeros = (),
) -> CounterOffer | Refusal:
    """The nearest acceptable terms with their price, or why there are none.

    Args:
        proposal: In the domain's order (``Proposal.in_order_of``).
        closed: Mechanisms that grants made before have closed, and why (``Grants.closed``).
        zeros: The structural zeros of the schema, which the generator must keep.

    Raises:
        TooLargeError: Over a hard bound of the service; found before anything is expanded.
        InvalidInputError: The generator needs a marginal that is not asked for.
    """
    check_size(proposal, domain, limits)
    most = policy.most_per_card
    measured = nearest_privacy(proposal.privacy, policy.mechanisms, policy.noise, most, closed)
    if isinstance(measured, Refusal):
        return measured
    privacy, noise_changes = measured
    chosen_generator = with_generator(proposal, privacy, policy.generators, policy.transform)
    if isinstance(chosen_generator, Refusal):
        return chosen_generator
    terms, rest = _acceptable_rest(*chosen_generator, policy)
    offered = policy.measures, policy.without_uniques
    terms, fewer = with_measures(terms, privacy, policy.transform, *offered)
    found = _acceptable_statistics(terms, privacy, policy, domain)
    if isinstance(found, Refusal):
        return found
    terms, changes, transform_changes = found
    check_model(terms, domain, limits, zeros)
    price = price_of(terms, domain)
    if not price.fits(most):
        return Refusal((PRICE,))
    return CounterOffer(terms, (*changes, *rest, *noise_changes, *transform_changes, *fewer), price)


def _acceptable_statistics(
    terms: Proposal, privacy: Privacy, policy: Policy, domain: Domain
) -> tuple[Proposal, tuple[Change, ...], tuple[Change, ...]] | Refusal:
    """The terms with acceptable statistics, so measured; changes of these, and of the transform."""
    moments, fewer = policy.moments.offered(
        terms.moments,
        lambda clique: _objection(clique, policy, domain),
        None if takes_moments(terms.generator) else GENERATOR,
        TRANSFORM if policy.transform != AS_COUNTED and not privacy.noisy else None,
    )
    if not terms.marginals and not moments:
        return _nothing_left(fewer)
    terms = chosen(terms, terms.marginals, moments)
    terms, transform_changes = measured_as(terms, privacy, policy.transform)
    cliques, changes = _acceptable_cliques(terms, policy, domain)
    most = policy.most_per_card.statistics
    moments, dropped = affordable(terms, cliques, domain, policy.most_marginals, most)
    changes = (*changes, *fewer, *dropped)
    if not cliques and not moments:
        return _nothing_left(changes)
    return chosen(terms, cliques, moments), changes, transform_changes


def _nothing_left(changes: Iterable[Change]) -> Refusal:
    return Refusal((*dict.fromkeys(change.reason for change in changes), NOTHING_LEFT))


def _acceptable_cliques(
    terms: Proposal, policy: Policy, domain: Domain
) -> tuple[tuple[Clique, ...], tuple[Change, ...]]:
    objections = [(clique, _objection(clique, policy, domain)) for clique in terms.marginals]
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


def _objection(clique: Clique, policy: Policy, domain: Domain) -> str | None:
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
        raise TooLargeError(what="the number of smaller marginals", limit=MOST_PARTS)


def _nearest(clique: Clique, policy: Policy, domain: Domain) -> Iterator[Clique]:
    """The largest acceptable cliques inside one that is not, each once."""
    found: set[Attributes] = set()
    for order in range(min(policy.largest_order, len(clique)), 0, -1):
        for part in combinations(clique, order):
            if frozenset(part) not in found and _objection(part, policy, domain) is None:
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
            dropped.append((clique, MARGINALS))
        elif price > left:
            dropped.append((clique, PRICE))
        else:
            kept.append(clique)
            paid |= fresh
            left -= price
    return _ordered(kept, domain), dropped


def _acceptable_rest(
    terms: Proposal, changes: tuple[Change, ...], policy: Policy
) -> tuple[Proposal, tuple[Change, ...]]:
    if terms.rows <= policy.most_rows:
        return terms, changes
    fewer = Change("rows", str(terms.rows), str(policy.most_rows), ROWS)
    return replace(terms, rows=policy.most_rows), (fewer, *changes)


def _clique_change(asked: Clique, offered: Iterable[Clique], reason: str) -> Change:
    new = "; ".join(", ".join(clique) for clique in offered)
    return Change("marginals", ", ".join(asked), new, reason)


def _ordered(cliques: Iterable[Clique], domain: Domain) -> tuple[Clique, ...]:
    return tuple(sorted(cliques, key=lambda clique: (len(clique), domain.axes(clique))))
