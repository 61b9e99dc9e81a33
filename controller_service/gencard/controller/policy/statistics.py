"""Marginals that a policy allows, their privacy, and their price. No record is read."""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import comb, prod
from typing import TypeVar

from gencard.core.card.budget import Price
from gencard.core.card.card import Change, Refusal
from gencard.core.card.privacy import AS_COUNTED, EXACT, AddedNoise, Exact, Mechanism, Privacy, Transform
from gencard.core.card.sums import Histogram, Moment, Sum, has_wide_levels
from gencard.core.card.terms import Proposal
from gencard.core.coding import Coding
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidInputError, TooLargeError
from gencard.core.policy import NumbersOffer, Policy
from gencard.core.statistics.linear import fine_cells
from gencard.core.statistics.marginals import Attributes, check_subsets, dimension, rank, subsets

CELLS = "TOO_MANY_CELLS"
FORBIDDEN = "FORBIDDEN_TOGETHER"
HISTOGRAM = "HISTOGRAM_NOT_OFFERED"
MOMENT = "MOMENT_NOT_OFFERED"
NUMBER = "TOO_MANY_MARGINALS"
ORDER = "ORDER_TOO_HIGH"
PRICE = "PRICE_TOO_HIGH"
ROUNDING = "ROUNDING"
SUM = "SUM_NOT_OFFERED"
USE_SUMS = "USE_SUMS"

_Kept = TypeVar("_Kept", bound=Hashable)

MOST_VALUES = 100_000
"""Largest number of values of all functions of one card, which are sent with psi."""

MOST_PARTS = 50_000
"""Largest number of smaller cliques to search for a counter-offer."""


def acceptable_cliques(
    terms: Proposal, policy: Policy, domain: Domain
) -> tuple[tuple[Clique, ...], tuple[Change, ...]]:
    """Return the nearest cliques within the policy and its price cap, and each step to them."""
    objections = [(clique, objection(clique, policy, domain)) for clique in terms.marginals]
    sizes = [len(clique) for clique, reason in objections if reason]
    orders = range(1, min(policy.largest_order, max(sizes, default=0)) + 1)
    if sum(comb(size, order) for size in sizes for order in orders) > MOST_PARTS:
        raise TooLargeError(what="The number of smaller marginals", limit=MOST_PARTS)
    changes: list[Change] = []
    cliques_kept: dict[Clique, None] = {}
    for clique, reason in objections:
        nearest = tuple(_nearest(clique, policy, domain)) if reason else (clique,)
        if reason:
            changes.append(_clique_change(clique, nearest, reason))
        cliques_kept.update(dict.fromkeys(nearest))
    exact = isinstance(terms.privacy, Exact)
    affordable, dropped = _affordable(tuple(cliques_kept), policy, domain, exact=exact)
    changes += [_clique_change(clique, (), reason) for clique, reason in dropped]
    return affordable, tuple(changes)


def allowed_pairs(policy: Policy, domain: Domain) -> list[Clique]:
    """Return the pairs of attributes that a policy allows cards to measure."""
    return [
        pair for pair in combinations(domain.attributes, 2) if objection(pair, policy, domain) is None
    ]


def objection(clique: Clique, policy: Policy, domain: Domain, cells: int | None = None) -> str | None:
    """Return why a statistic of ``cells``, by default the clique's, is not acceptable, or None."""
    if policy.kept_apart(clique) is not None:
        return FORBIDDEN
    if len(clique) > policy.largest_order:
        return ORDER
    number = domain.project(clique).cells if cells is None else cells
    return CELLS if number > policy.largest_marginal_cells else None


def _nearest(clique: Clique, policy: Policy, domain: Domain) -> Iterator[Clique]:
    """Yield the largest acceptable cliques inside a clique that is not acceptable, each once."""
    covered: set[Attributes] = set()
    for order in range(min(policy.largest_order, len(clique)), 0, -1):
        for part in combinations(clique, order):
            if frozenset(part) not in covered and objection(part, policy, domain) is None:
                covered.update(subsets(part))
                yield part


def _affordable(
    cliques: tuple[Clique, ...], policy: Policy, domain: Domain, *, exact: bool
) -> tuple[tuple[Clique, ...], list[tuple[Clique, str]]]:
    """Keep the cheapest cliques while number and price allow; the dearest go first."""
    check_subsets(cliques)
    left = policy.most_per_card.statistics
    cliques_kept: list[Clique] = []
    dropped: list[tuple[Clique, str]] = []
    paid_subsets: set[Attributes] = set()
    for clique in sorted(cliques, key=lambda names: (domain.project(names).cells, domain.axes(names))):
        fresh = set(subsets(clique)) - paid_subsets
        price = sum(prod(domain.size(name) - 1 for name in block) for block in fresh) if exact else 0
        if len(cliques_kept) == policy.most_marginals:
            dropped.append((clique, NUMBER))
        elif price > left:
            dropped.append((clique, PRICE))
        else:
            cliques_kept.append(clique)
            paid_subsets |= fresh
            left -= price
    return tuple(sorted(cliques_kept, key=lambda clique: (len(clique), domain.axes(clique)))), dropped


def _clique_change(proposed: Clique, offered: Iterable[Clique], reason: str) -> Change:
    new = "; ".join(", ".join(clique) for clique in offered)
    return Change("marginals", ", ".join(proposed), new, reason)


MECHANISM = "MECHANISM_NOT_OFFERED"
NEIGHBOURING = "NEIGHBOURING_NOT_OFFERED"
PERSON = "PROTECTS_PERSONS"
TRANSFORM = "TRANSFORM_REQUIRED"


def price_of(terms: Proposal, domain: Domain, coding: Coding | None = None) -> Price:
    """Return the price of measuring the terms, which depends on no record.

    Exact counts cost one for each independent statistic: the dimension of the span of Phi. Rounding
    does not change the price. Noise costs its epsilon or rho, however many statistics share it. A
    release without replicated uniques costs as much as the table of all its attributes, and one
    more, because missing rows disclose cells of that table. Exact histograms and sums need
    ``coding``.
    """
    if not isinstance(terms.privacy, Exact):
        return terms.privacy.price
    sums = sums_price(terms.marginals, terms.moments, domain)
    whole = [domain.covered_by(terms.cliques).attributes] if terms.without_uniques else []
    marginals = [*terms.marginals, *whole]
    if terms.histograms or terms.sums:
        statistics = rank(required(coding), marginals, terms.histograms, terms.sums) + sums
    else:
        statistics = dimension(domain, marginals) + sums
    return Price(statistics=statistics + terms.without_uniques)


def nearest_privacy(
    requested: Privacy,
    mechanisms: Collection[Mechanism],
    noise: AddedNoise | None,
    most: Price,
    closed: Mapping[Mechanism, str],
) -> tuple[Privacy, tuple[Change, ...]] | Refusal:
    """Return the nearest privacy on offer, and each change to it; a refusal if there is none.

    Args:
        noise: Noise to offer in place of a mechanism that is not on offer. All noisy cards of a dataset
            have its neighbouring relation and protected unit, or their budgets could not be added.
        closed: Mechanisms that earlier grants have closed, with the reasons.
    """
    why = closed.get(requested.mechanism, MECHANISM) if requested.mechanism in mechanisms else MECHANISM
    offered = _on_offer(requested, set(mechanisms) - closed.keys(), noise)
    if offered is None:
        return Refusal((why,))
    related = personal = affordable = offered
    if isinstance(offered, AddedNoise):
        relation = offered if noise is None else noise
        related = replace(offered, neighbouring=relation.neighbouring)
        protecting = replace(related, most_records=relation.most_records)
        personal, affordable = protecting, protecting.within(most)
    steps = (
        (requested, offered, why),
        (offered, related, NEIGHBOURING),
        (related, personal, PERSON),
        (personal, affordable, PRICE),
    )
    return affordable, tuple(
        Change("privacy", str(old), str(new), reason) for old, new, reason in steps if old != new
    )


def _on_offer(
    requested: Privacy, mechanisms: Collection[Mechanism], noise: AddedNoise | None
) -> Privacy | None:
    """Return the requested privacy if on offer, else offered noise, else exact counts, else None."""
    if requested.mechanism in mechanisms:
        return requested
    if noise is not None and noise.mechanism in mechanisms:
        return noise
    return EXACT if Mechanism.EXACT in mechanisms else None


def measured_as(
    terms: Proposal, privacy: Privacy, transform: Transform
) -> tuple[Proposal, tuple[Change, ...]]:
    """Return the terms with this privacy: exact counts with the policy's transform, noise with none.

    Noise keeps the weights; exact counts have none.
    """
    required = transform if "transform" in privacy.terms else AS_COUNTED
    is_changed = required != terms.transform
    change = Change("transform", str(terms.transform), str(required), TRANSFORM)
    terms = replace(terms.measured_as(privacy), transform=required)
    return terms, (change,) if is_changed else ()


def chosen(terms: Proposal, cliques: Sequence[Clique], moments: Sequence[Moment]) -> Proposal:
    """Return the terms with these cliques, their own or parts of them, and some of their moments."""
    weights = zip(terms.moments, terms.weights[len(terms.marginals) :], strict=False)
    of_numbers = terms.weights[len(terms.cliques) :]
    return replace(
        terms,
        marginals=tuple(cliques),
        moments=tuple(moments),
        weights=(
            *weights_for(cliques, terms),
            *(weight for moment, weight in weights if moment in moments),
            *of_numbers,
        ),
    )


def required(coding: Coding | None) -> Coding:
    """Return the coding; raises InvalidInputError if a caller that judges numbers passed none."""
    if coding is None:
        raise InvalidInputError(field="coding", problem="is required for histograms and sums")
    return coding


def offered_numbers(
    terms: Proposal, privacy: Privacy, policy: Policy, domain: Domain, coding: Coding | None
) -> tuple[Proposal, list[Change]]:
    """Return the terms with the histograms and sums on offer, and a change for each other."""
    fine = {name: fine_cells(required(coding), name) for name in terms.histograms}
    by = {one: domain.project(one.by).cells for one in terms.sums}

    def of_histogram(name: str) -> str | None:
        refused = None if _is_offered(policy.histograms, privacy) else HISTOGRAM
        place = NUMBER if terms.histograms.index(name) >= policy.most_marginals else None
        return refused or objection((name,), policy, domain, fine[name]) or place

    rounded = isinstance(privacy, Exact) and policy.transform.rounding > 1

    def of_sum(one: Sum) -> str | None:
        refused = None if _is_offered(policy.sums, privacy) else SUM
        refused = refused or (ROUNDING if rounded else None)
        place = NUMBER if terms.sums.index(one) >= policy.most_marginals else None
        return refused or objection(one.attributes, policy, domain, by[one]) or place

    return _with_numbers(terms, of_histogram, of_sum)


def affordable_numbers(
    terms: Proposal, policy: Policy, domain: Domain, coding: Coding | None
) -> tuple[Proposal, list[Change]]:
    """Keep exact histograms, then exact sums, while the price allows, after marginals and moments."""
    if terms.privacy.noisy or price_of(terms, domain, coding).fits(policy.most_per_card):
        return terms, []
    kept = replace(terms, histograms=(), sums=())

    def costs(wider: Proposal) -> str | None:
        nonlocal kept
        if not price_of(wider, domain, coding).fits(policy.most_per_card):
            return PRICE
        kept = wider
        return None

    return _with_numbers(
        terms,
        lambda name: costs(replace(kept, histograms=(*kept.histograms, name))),
        lambda one: costs(replace(kept, sums=(*kept.sums, one))),
    )


def _with_numbers(
    terms: Proposal, of_histogram: Callable[[str], str | None], of_sum: Callable[[Sum], str | None]
) -> tuple[Proposal, list[Change]]:
    histograms, changes = _sorted_out("histograms", terms.histograms, of_histogram)
    sums, others = _sorted_out("sums", terms.sums, of_sum)
    kept = {*map(Histogram, histograms), *sums}
    weights = zip(terms.numbers, terms.weights[len(terms.cliques) :], strict=False)
    return replace(
        terms,
        histograms=tuple(histograms),
        sums=tuple(sums),
        weights=(
            *terms.weights[: len(terms.cliques)],
            *(weight for one, weight in weights if one in kept),
        ),
    ), [*changes, *others]


def _is_offered(offer: NumbersOffer, privacy: Privacy) -> bool:
    if isinstance(privacy, Exact):
        return offer is NumbersOffer.EXACT
    return isinstance(privacy, AddedNoise) and offer is not NumbersOffer.NEVER


def weights_for(cliques: Sequence[Clique], terms: Proposal) -> tuple[int, ...]:
    """Weights of cliques offered in place of the terms' own: a part has that of its heaviest whole."""
    weighted = list(zip(terms.marginals, terms.weights, strict=False))
    same = dict(weighted)
    return tuple(
        same.get(clique) or max(weight for whole, weight in weighted if set(clique) <= set(whole))
        for clique in cliques
        if weighted
    )


def offered_moments(
    moments: Sequence[Moment],
    policy: Policy,
    forbidden: Callable[[Clique], str | None],
    *others: str | None,
    coding: Coding | None = None,
) -> tuple[list[Moment], list[Change]]:
    """Return the moments to which there is no objection, and a change for each other one.

    ``forbidden`` says why a marginal is not acceptable, ``others`` are objections to every moment;
    without ``coding``, no attribute has a step.
    """

    def of_levels(moment: Moment) -> str | None:
        wide = coding is not None and any(has_wide_levels(coding, name) for name in moment.numbers)
        return USE_SUMS if wide else None

    def objection(moment: Moment) -> str | None:
        order = ORDER if moment.order > policy.moments.highest else None
        own = order if moment.kind in policy.moments.kinds else MOMENT
        reasons = (own, of_levels(moment), forbidden(moment.attributes), *others)
        return next(filter(None, reasons), None)

    return _sorted_out("moments", moments, objection)


def affordable_moments(
    terms: Proposal, cliques: Sequence[Clique], domain: Domain, most: int, statistics: int
) -> tuple[list[Moment], list[Change]]:
    """Keep moments while number and price allow, after the marginals on the cliques."""
    left = statistics - dimension(domain, cliques)
    moments: list[Moment] = []

    def objection(moment: Moment) -> str | None:
        if len(moments) == most:
            return NUMBER
        if not terms.privacy.noisy and sums_price(cliques, [*moments, moment], domain) > left:
            return PRICE
        moments.append(moment)
        return None

    return _sorted_out("moments", terms.moments, objection)


def check_values(moments: Sequence[Moment], domain: Domain) -> None:
    """Raise TooLargeError if the functions together have too many values."""
    if sum(moment.values(domain) for moment in moments) > MOST_VALUES:
        raise TooLargeError(
            what="The number of values of the moments",
            limit=MOST_VALUES,
            advice="Request fewer moments, or moments of attributes with fewer levels.",
        )


def sums_price(cliques: Sequence[Clique], moments: Sequence[Moment], domain: Domain) -> int:
    """Return the largest number of independent statistics that exact moments add to the marginals.

    Each moment adds its sums, or as many as the marginal on its attributes would add, whichever is less;
    without any marginal, the number of records is added, too.
    """
    count = 1 if moments and not cliques else 0
    known = dimension(domain, cliques) + count
    prices = (
        min(moment.functions(domain), dimension(domain, [*cliques, moment.attributes]) - known)
        for moment in moments
    )
    return sum(prices) + count


def _sorted_out(
    field: str, statistics: Sequence[_Kept], objection: Callable[[_Kept], str | None]
) -> tuple[list[_Kept], list[Change]]:
    reasons = {one: objection(one) for one in statistics}
    changes = [Change(field, str(one), "", why) for one, why in reasons.items() if why]
    return [one for one, why in reasons.items() if why is None], changes
