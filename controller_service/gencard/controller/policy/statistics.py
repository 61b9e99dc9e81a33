"""Statistics, evaluations and runs that a policy allows, with privacy and price. No record is read."""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import comb, prod
from typing import Any, TypeVar

from gencard.controller.boxes import is_black_box
from gencard.controller.records.catalogue import DatasetEntry
from gencard.core.card.budget import FREE, Price
from gencard.core.card.card import Change, Refusal, parts_changed
from gencard.core.card.privacy import (
    AS_COUNTED,
    EXACT,
    AddedNoise,
    Exact,
    InsideGenerator,
    Mechanism,
    Privacy,
    Transform,
)
from gencard.core.card.sums import Histogram, Moment, Sum, has_wide_levels
from gencard.core.card.terms import NO_ANALYSES, Analyses, CardTerms, Proposal, Tier
from gencard.core.coding import Coding
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidInputError, TooLargeError
from gencard.core.policy import NumbersOffer, Policy
from gencard.core.statistics.linear import fine_cells
from gencard.core.statistics.marginals import Attributes, check_subsets, dimension, rank, subsets
from gencard.measures.evaluation.evaluation import AllowedTogether, Evaluation
from gencard.measures.evaluation.registry import EVALUATIONS, evaluation_named, price_in_statistics

# Evaluations and runs that a card may have, and cards that may have none.


def why_protected(card: CardTerms, policy: Policy) -> str | None:
    """Return the reason of the protection; None if exact numbers may be disclosed besides psi."""
    if card.tier is Tier.PRIVATE:
        return (
            "the card is of tier private, and other numbers about the records would exceed its epsilon"
        )
    if card.terms.privacy.noisy:
        return "the card has noise, which other numbers about the records would undo"
    if card.terms.transform != AS_COUNTED:
        return "the card has rounding or checks, which other numbers about the records would undo"
    if Mechanism.EXACT not in policy.mechanisms or policy.transform != AS_COUNTED:
        return "the policy does not offer exact counts without rounding or checks"
    return None


NOT_OFFERED = "MEASURE_NOT_OFFERED"
NOT_OFFERED_RUNS = "RUNS_NOT_OFFERED"
READS_RECORDS = "READS_RECORDS_ONCE_MORE"
GENERATOR_READS_RECORDS = "GENERATOR_READS_RECORDS"


def with_measures(
    terms: Proposal, privacy: Privacy, policy: Policy
) -> tuple[Proposal, tuple[Change, ...]]:
    """Return the terms with the offered evaluations and removal of uniques, and each change made.

    Evaluations are exact numbers about records, which would undo noise or rounding of psi. The rows
    that are missing from a release without replicated uniques are exact facts, too. Releases of a
    black box keep their uniques: all of them are made from one run. Raises InvalidInputError for an
    unknown measure.
    """
    for name in terms.measures:
        evaluation_named(name)
    bound = READS_RECORDS if privacy.noisy or policy.transform != AS_COUNTED else None
    measures_kept = () if bound else tuple(name for name in terms.measures if name in policy.measures)
    dropped_names = [name for name in terms.measures if name not in measures_kept]
    changes = [
        Change("measures", name, "", bound if bound and name in policy.measures else NOT_OFFERED)
        for name in dropped_names
    ]
    why = bound or (GENERATOR_READS_RECORDS if is_black_box(terms.generator) else None)
    if not policy.without_uniques:
        why = NOT_OFFERED
    if terms.without_uniques and why:
        changes.append(Change("without_uniques", "true", "false", why))
    terms = replace(terms, measures=measures_kept, without_uniques=terms.without_uniques and not why)
    return terms, tuple(changes)


def with_uniques_kept(terms: Proposal, whole: str | None) -> tuple[Proposal, tuple[Change, ...]]:
    """Return the terms; releases keep replicated uniques if the table of all attributes is not allowed.

    If a person is unique by all attributes but one, a released row with these levels says that the
    person's last attribute differs: missing rows disclose cells of the table of all attributes.

    Args:
        whole: Why the policy does not allow that table; None if it does.
    """
    if not terms.without_uniques or whole is None:
        return terms, ()
    change = Change("without_uniques", "true", "false", whole)
    return replace(terms, without_uniques=False), (change,)


RUNS, NUMBERS = "TOO_MANY_RUNS", "TOO_MANY_NUMBERS"
AS_THE_CARD = "MEASURED_AS_THE_CARD"
_WHY = {
    "kinds": "KIND_NOT_OFFERED",
    "checked_runs": RUNS,
    "numbers": NUMBERS,
    "privacy": AS_THE_CARD,
    "reviewed_runs": RUNS,
    "libraries": "LIBRARY_NOT_OFFERED",
    "program_numbers": NUMBERS,
    "columns": "COLUMN_NOT_OFFERED",
}


def with_analyses(
    requested: Analyses, terms: Proposal, policy: Policy
) -> tuple[Proposal, tuple[Change, ...]]:
    """Return the terms with the offered part of the requested runs on the records, and each change.

    Exact numbers about records would undo rounding, checks or noise of psi. Checked runs therefore
    have the privacy of the card, and reviewed runs need a card with unprotected exact counts. Other
    terms are as offered.
    """
    bound = READS_RECORDS if terms.transform != AS_COUNTED else None
    private = READS_RECORDS if isinstance(terms.privacy, InsideGenerator) else bound
    exact = READS_RECORDS if terms.privacy.noisy else bound
    most = policy.analyses.most
    checked, why_checked = _checked(requested, most, private)
    covered = {name for clique in terms.cliques for name in clique}
    reviewed, why_reviewed = _reviewed(requested, most, exact, covered)
    offered = replace(NO_ANALYSES, **checked, **reviewed).measured_as(terms.privacy)
    why = why_checked | why_reviewed
    changes = tuple(
        Change(field, old, new, why[field.rpartition(".")[2]])
        for field, old, new in parts_changed("analyses", requested, offered)
    )
    return replace(terms, analyses=offered), changes


_Parts = tuple[dict[str, Any], dict[str, str]]
"""Fields of ``Analyses``, and the reason of a change of each."""


def _checked(requested: Analyses, most: Analyses, bound: str | None) -> _Parts:
    kinds = tuple(kind for kind in requested.kinds if kind in most.kinds)
    names = ("kinds", "checked_runs", "numbers", "privacy")
    reason = bound or (NOT_OFFERED_RUNS if not most.checked_runs else None)
    if reason or not kinds:
        return {}, dict.fromkeys(names, reason or _WHY["kinds"])
    runs = min(requested.checked_runs, most.checked_runs)
    numbers = min(requested.numbers, most.numbers)
    values = (kinds, runs, numbers, requested.privacy)
    return dict(zip(names, values, strict=True)), {name: _WHY[name] for name in names}


def _reviewed(
    requested: Analyses, most: Analyses, bound: str | None, covered: Collection[str]
) -> _Parts:
    """Stored numbers are of attributes that the statistics of the card cover, as all records are."""
    names = ("reviewed_runs", "programs", "libraries", "program_numbers", "columns")
    reason = bound or (NOT_OFFERED_RUNS if not most.reviewed_runs else None)
    if reason is None and not set(requested.libraries) <= set(most.libraries):
        reason = _WHY["libraries"]
    if reason or not requested.reviewed_runs:
        return {}, dict.fromkeys(names, reason or RUNS)
    runs = min(requested.reviewed_runs, most.reviewed_runs)
    numbers = min(requested.program_numbers, most.program_numbers)
    columns = tuple(name for name in requested.columns if name in most.columns and name in covered)
    values = (runs, requested.programs, requested.libraries, numbers, columns)
    return dict(zip(names, values, strict=True)), {name: _WHY.get(name, RUNS) for name in names}


def together_of(policy: Policy) -> AllowedTogether:
    """Return the attributes that evaluations may use together."""
    return AllowedTogether(policy.forbidden, policy.measuring(noisy=False).largest_order)


def why_unavailable(measure: Evaluation, dataset_entry: DatasetEntry, terms: Proposal) -> str | None:
    """Return why no card with these terms could have an evaluation; None if it could."""
    attributes = dataset_entry.domain.covered_by(terms.cliques).attributes
    together = together_of(dataset_entry.policy)
    reason = measure.why_not(together, attributes, dataset_entry.declared, terms.marginals)
    if reason is not None:
        return reason
    needs = measure.lacks(attributes, dataset_entry.declared, holdout=dataset_entry.holdout is not None)
    return f"needs {' and '.join(needs)}" if needs else None


def why_withheld(measure: Evaluation, card: CardTerms, dataset_entry: DatasetEntry) -> str | None:
    """Return why an evaluation may be neither made nor shown, even an earlier one; None if it may."""
    protected = why_protected(card, dataset_entry.policy)
    if protected is not None and (measure.reads_records or card.tier is Tier.PRIVATE):
        return protected
    attributes = dataset_entry.domain.covered_by(card.terms.cliques).attributes
    together = together_of(dataset_entry.policy)
    return measure.why_not(together, attributes, dataset_entry.declared, card.terms.marginals)


def unavailable(card: CardTerms, dataset_entry: DatasetEntry) -> dict[str, str]:
    """Return every measure that a card cannot have, and why; depends on no record."""
    reasons = {
        name: why_withheld(measure, card, dataset_entry)
        or why_unavailable(measure, dataset_entry, card.terms)
        for name, measure in EVALUATIONS.items()
    }
    return {name: reason for name, reason in reasons.items() if reason}


def price_of_measures(
    measures: Iterable[Evaluation], dataset_entry: DatasetEntry, terms: Proposal
) -> Price:
    """Return the price of these evaluations of one card, which the first request pays."""
    attributes = len(dataset_entry.domain.covered_by(terms.cliques).attributes)
    names = [measure.name for measure in measures]
    marginals = len(terms.marginals)
    return Price(statistics=price_in_statistics(names, attributes=attributes, marginals=marginals))


def price_of_named(dataset_entry: DatasetEntry, terms: Proposal) -> Price:
    """Return the price of all evaluations that the terms name, paid once for the card."""
    if not terms.measures:
        return FREE
    named = map(evaluation_named, terms.measures)
    evaluations = [one for one in named if why_unavailable(one, dataset_entry, terms) is None]
    return price_of_measures(evaluations, dataset_entry, terms)


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
    on_offer = set(mechanisms) - closed.keys()
    offered = requested
    if requested.mechanism not in on_offer:
        if noise is not None and noise.mechanism in on_offer:
            offered = noise
        elif Mechanism.EXACT in on_offer:
            offered = EXACT
        else:
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
    weighted = list(zip(terms.marginals, terms.weights, strict=False))
    same = dict(weighted)
    of_cliques = (  # a part has the weight of its heaviest whole
        same.get(clique) or max(weight for whole, weight in weighted if set(clique) <= set(whole))
        for clique in cliques
        if weighted
    )
    weights = zip(terms.moments, terms.weights[len(terms.marginals) :], strict=False)
    of_numbers = terms.weights[len(terms.cliques) :]
    of_moments = (weight for moment, weight in weights if moment in moments)
    kept = (*of_cliques, *of_moments, *of_numbers)
    return replace(terms, marginals=tuple(cliques), moments=tuple(moments), weights=kept)


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
    of_numbers = (weight for one, weight in weights if one in kept)
    all_weights = (*terms.weights[: len(terms.cliques)], *of_numbers)
    terms = replace(terms, histograms=tuple(histograms), sums=tuple(sums), weights=all_weights)
    return terms, [*changes, *others]


def _is_offered(offer: NumbersOffer, privacy: Privacy) -> bool:
    if isinstance(privacy, Exact):
        return offer is NumbersOffer.EXACT
    return isinstance(privacy, AddedNoise) and offer is not NumbersOffer.NEVER


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
        what = "The number of values of the moments"
        advice = "Request fewer moments, or moments of attributes with fewer levels."
        raise TooLargeError(what=what, limit=MOST_VALUES, advice=advice)


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
