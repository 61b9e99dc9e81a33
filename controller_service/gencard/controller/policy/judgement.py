"""The answer to a proposal: its price, the nearest acceptable terms, or why there are none.

Terms that are too rich are brought within bounds: cliques are split into smaller ones, the dearest
are dropped, and so are rows. Every difference is one line of a typed diff with a reason code. All of
it is code, with no record in sight.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gencard.controller.boxes import Facts, facts_of_generators, is_black_box
from gencard.controller.policy.statistics import (
    FORBIDDEN,
    GENERATOR_READS_RECORDS,
    NEIGHBOURING,
    PERSON,
    PRICE,
    TRANSFORM,
    acceptable_cliques,
    affordable_moments,
    affordable_numbers,
    check_values,
    chosen,
    measured_as,
    nearest_privacy,
    objection,
    offered_moments,
    offered_numbers,
    price_of,
    required,
    with_analyses,
    with_measures,
    with_uniques_kept,
)
from gencard.core.card.budget import Neighbouring, decimal_of
from gencard.core.card.card import Change, CounterOffer, Refusal
from gencard.core.card.privacy import AS_COUNTED, Mechanism, Privacy, Transform
from gencard.core.card.sums import check_numbers
from gencard.core.card.terms import USUAL_AUDIT, AuditTerms, Proposal, Tier
from gencard.core.coding import Coding
from gencard.core.domain import Domain
from gencard.core.errors import ModelTooLargeError, TooLargeError, TooManyRecordsError
from gencard.core.generators.contract import LinearGenerator
from gencard.core.generators.registry import (
    Zeros,
    check_fittable,
    generator_named,
    most_cells,
    takes_linear,
)
from gencard.core.policy import Policy

# Generators on offer, and how the statistics of a card are measured beside each of them.


GENERATOR = "GENERATOR_NOT_ALLOWED"
NOT_REVIEWED = "BOX_NOT_REVIEWED"
ADDS_NOISE = "GENERATOR_ADDS_NOISE"
WEAK_AUDIT = "AUDIT_TOO_WEAK"


@dataclass(frozen=True, slots=True)
class GeneratorChoice:
    """Terms with a generator on offer; ``changes`` are steps to the generator and its audit."""

    terms: Proposal
    privacy: Privacy
    changes: tuple[Change, ...] = ()
    privacy_changes: tuple[Change, ...] = ()


def why_no_moments(name: str, facts: Facts) -> str | None:
    """Return why cards with this generator may not name moments; None if they may.

    A box of tier audited is not fitted to psi at all, so every psi fits it.
    """
    if not is_black_box(name):
        return None if takes_linear(name) else GENERATOR
    return ADDS_NOISE if facts(name).tier is Tier.PRIVATE else None


def relation_of(policy: Policy, facts: Facts) -> Neighbouring | None:
    """Return the neighbouring relation of all noise on a dataset; None if the policy has no noise."""
    if policy.noise is not None:
        return policy.noise.neighbouring
    promised = (facts(name).privacy for name in policy.generators)
    return next((privacy.neighbouring for privacy in promised if privacy is not None), None)


def generator_choice(
    proposal: Proposal, policy: Policy, closed: Mapping[Mechanism, str], facts: Facts
) -> GeneratorChoice | Refusal:
    """Return the nearest generator on offer, and its privacy.

    A box of tier private is offered if the policy's generators name it and its price fits the cap on
    one card; the policy's mechanisms are about psi, which such a card has not. It is offered in place of
    another generator only if the policy has no other.

    Args:
        closed: Mechanisms that grants made before have closed, and why.
    """
    private = [name for name in policy.generators if facts(name).privacy is not None]
    if proposal.generator in private:
        return _with_private(proposal, proposal.generator, policy, closed, facts)
    others = [name for name in policy.generators if name not in private]
    choice = _with_measured(proposal, others, policy, closed, facts)
    if isinstance(choice, GeneratorChoice) or proposal.generator in others:
        return choice
    offers = (_with_private(proposal, name, policy, closed, facts) for name in private)
    return next((offer for offer in offers if isinstance(offer, GeneratorChoice)), choice)


def _with_private(
    proposal: Proposal, name: str, policy: Policy, closed: Mapping[Mechanism, str], facts: Facts
) -> GeneratorChoice | Refusal:
    """Return the terms with a box of tier private: its own privacy takes the place of what was asked."""
    own = facts(name).privacy
    if own is None:
        return Refusal((GENERATOR,))
    if Mechanism.GENERATOR in closed:
        return Refusal((closed[Mechanism.GENERATOR],))
    if own.neighbouring != relation_of(policy, facts):
        return Refusal((NEIGHBOURING,))
    if policy.most_records > 1 and own.neighbouring is Neighbouring.REPLACE_ONE:
        return Refusal((PERSON,))  # records of a person replaced by fewer are more than replacements
    if not own.price.fits(policy.most_per_card):
        return Refusal((PRICE,))
    steps = (
        ("generator", proposal.generator, name, GENERATOR),
        ("privacy", str(proposal.privacy), str(own), ADDS_NOISE),
        ("weights", ", ".join(map(str, proposal.weights)), "", ADDS_NOISE),
    )
    changes = tuple(Change(*step) for step in steps if step[1] != step[2])
    return GeneratorChoice(replace(proposal, generator=name, weights=()), own, changes)


def _with_measured(
    proposal: Proposal,
    generators: Sequence[str],
    policy: Policy,
    closed: Mapping[Mechanism, str],
    facts: Facts,
) -> GeneratorChoice | Refusal:
    most = policy.most_per_card
    nearest = nearest_privacy(proposal.privacy, policy.mechanisms, policy.noise, most, closed)
    if isinstance(nearest, Refusal):
        return nearest
    privacy, privacy_changes = nearest
    terms = with_generator(proposal, privacy, generators, policy.transform, facts)
    if isinstance(terms, Refusal):
        return terms
    return GeneratorChoice(terms[0], privacy, terms[1], privacy_changes)


def with_generator(
    terms: Proposal, privacy: Privacy, generators: Sequence[str], transform: Transform, facts: Facts
) -> tuple[Proposal, tuple[Change, ...]] | Refusal:
    """Return the terms with a generator that is on offer and fits the privacy of psi.

    A black box of tier audited sees the records themselves: neither noise on psi nor rounding binds
    it. It is therefore offered with unprotected exact counts alone, and has their price. No audit
    finds what an author hides on purpose, so a reviewer must have vouched for this very digest. Its
    audit decides whether rows are released, so a proposal with rows cannot request a weaker audit
    than usual. ``generators`` are those of the policy that are not private.
    """
    as_they_are = not privacy.noisy and transform == AS_COUNTED

    def objection(name: str) -> str | None:
        if not is_black_box(name):
            return None
        if not facts(name).reviewed_by:
            return NOT_REVIEWED
        return None if as_they_are else GENERATOR_READS_RECORDS

    requested = terms.generator
    why = objection(requested) if requested in generators else GENERATOR
    if why is None:
        return _well_audited(terms)
    offered = [name for name in generators if objection(name) is None]
    if not offered or why == NOT_REVIEWED:
        return Refusal((why,))
    change = Change("generator", requested, offered[0], why)
    terms, stricter = _well_audited(replace(terms, generator=offered[0]))
    return terms, (change, *stricter)


def _well_audited(terms: Proposal) -> tuple[Proposal, tuple[Change, ...]]:
    """Return the terms with an audit of at least default strictness for rows, and each change.

    Audits under any card make runs enough to keep their level.
    """
    requested, least, usual = terms.audit, terms.audit.sufficient, USUAL_AUDIT
    if is_black_box(terms.generator):
        alpha = max(requested.alpha, usual.alpha, key=lambda level: decimal_of(level, "audit.alpha"))
        least = AuditTerms(max(requested.runs, usual.runs), max(requested.order, usual.order), alpha)
    changes = tuple(
        Change(f"audit.{name}", str(getattr(requested, name)), str(getattr(least, name)), WEAK_AUDIT)
        for name in ("runs", "order", "alpha")
        if getattr(requested, name) != getattr(least, name)
    )
    return replace(terms, audit=least), changes


# The judgement: bounds, price, and the nearest acceptable terms.


_ONE_TRIAL = threading.Lock()
"""A trial of a fit takes seconds of a core; one at a time leaves the other cores to calls."""


@dataclass(frozen=True, slots=True)
class ProposalLimits:
    """Hard bounds of the service: over these a proposal is refused, not negotiated."""

    marginal_cells: int
    model_cells: int
    marginals: int
    rows: int
    runs: int
    records: int = 2_000_000
    memory_mib: int = 4_096


def check_size(proposal: Proposal, domain: Domain, limits: ProposalLimits) -> None:
    """Refuse what no negotiation should even look at."""
    for what, requested, limit, name in (
        ("marginals", proposal.statistics, limits.marginals, "marginals"),
        ("rows", proposal.rows, limits.rows, "rows"),
        ("audit runs", proposal.audit.runs, limits.runs, "runs"),
    ):
        if requested > limit:
            raise TooLargeError(
                what=f"The number of {what}, {requested:,},",
                limit=f"{limit:,} (limits.{name})",
                advice=f"Request at most {limit:,} {what}, or ask the steward to raise limits.{name}.",
            )
    check_values(proposal.moments, domain)
    for clique in (*proposal.cliques, *(one.by for one in proposal.sums)):
        if domain.project(clique).cells > limits.marginal_cells:
            what = f"The marginal ({', '.join(clique)})"
            most = f"{limits.marginal_cells:,} cells (limits.marginal_cells)"
            advice = "Leave an attribute out of this marginal, or request its smaller marginals."
            raise TooLargeError(what=what, limit=most, advice=advice)


def check_readable(terms: Proposal, records: int | None, limits: ProposalLimits) -> None:
    """Raise TooManyRecordsError for work that holds records in memory, if too many are declared."""
    runs = terms.analyses.checked_runs + terms.analyses.reviewed_runs
    judged = terms.sums and not terms.privacy.noisy
    in_memory = (
        is_black_box(terms.generator) or terms.measures or terms.without_uniques or runs or judged
    )
    if in_memory and records is not None and records > limits.records:
        raise TooManyRecordsError(limit=limits.records)


def check_model(
    terms: Proposal, domain: Domain, limits: ProposalLimits, zeros: Callable[[Domain], Zeros]
) -> None:
    """Refuse terms to which the generator fits no model; of a black box nothing is known beforehand.

    Generators whose fit to exact counts may end far from them are tried on made-up records.
    """
    if is_black_box(terms.generator):
        return
    covered = domain.covered_by(terms.cliques)
    impossible = zeros(covered)
    most = most_cells(terms.generator, model_cells=limits.model_cells, memory_mib=limits.memory_mib)
    generator = generator_named(terms.generator, structural_zeros=impossible, max_cells=most)
    try:
        generator.check(terms.marginals, covered)
    except ModelTooLargeError as error:
        if most == limits.model_cells:
            raise
        advice = (
            f"The memory of a job, {limits.memory_mib:,} MiB (limits.memory_mib), holds {most:,} cells "
            "of this generator. Use `--generator auto`, which takes a generator whose model fits, or "
            "request fewer marginals on these attributes."
        )
        raise ModelTooLargeError(**{**error.fields, "advice": advice}) from None
    if terms.moments and isinstance(generator, LinearGenerator):
        cells = sum(domain.project(clique).cells for clique in terms.marginals)
        sums = sum(1 + moment.functions(domain) for moment in terms.moments)
        generator.check_functions(cells + sums, covered)
    if not terms.privacy.noisy:
        with _ONE_TRIAL:
            check_fittable(generator, terms.marginals, covered, zeros=impossible, max_cells=most)


NOTHING_LEFT = "NOTHING_LEFT"


def judge(
    proposal: Proposal,
    policy: Policy,
    domain: Domain,
    limits: ProposalLimits,
    closed: Mapping[Mechanism, str],
    *,
    zeros: Callable[[Domain], Zeros] = lambda _domain: (),
    facts: Facts = facts_of_generators,
    coding: Coding | None = None,
) -> CounterOffer | Refusal:
    """Return the nearest acceptable terms with their price, or why there are none.

    The proposal is in the domain's order, ``closed`` says why earlier grants closed mechanisms, and
    histograms and sums need ``coding``. Raises UnknownAttributeError or InvalidCodingError for
    these, TooLargeError before anything is expanded, and InvalidInputError for a marginal that a
    generator lacks.
    """
    check_size(proposal, domain, limits)
    if proposal.numbers:
        check_numbers(required(coding), proposal.histograms, proposal.sums)
    choice = generator_choice(proposal, policy, closed, facts)
    if isinstance(choice, Refusal):
        return choice
    privacy = choice.privacy
    terms, fewer_rows = policy.within(choice.terms)
    rest = (*fewer_rows, *choice.changes)
    terms, fewer = with_measures(terms, privacy, policy)
    bounds = policy.measuring(noisy=privacy.noisy)
    acceptable = _acceptable_statistics(terms, privacy, bounds, domain, facts, coding)
    if isinstance(acceptable, Refusal):
        return acceptable
    terms, changes, transform_changes = acceptable
    whole = objection(domain.covered_by(terms.cliques).attributes, bounds, domain)
    terms, with_uniques = with_uniques_kept(terms, whole)
    terms, fewer_runs = with_analyses(proposal.analyses, terms, policy)
    check_model(terms, domain, limits, zeros)
    if check := facts(terms.generator).check:  # a built-in black box would fail after it was paid
        check(terms.marginals, domain.covered_by(terms.cliques))
    price = price_of(terms, domain, coding)
    if not price.fits(policy.most_per_card):
        return Refusal((PRICE,))
    if _looks_at_forbidden(terms, policy, facts):
        return Refusal((FORBIDDEN,))
    others = (*rest, *choice.privacy_changes, *transform_changes)
    steps = (*changes, *others, *fewer, *with_uniques, *fewer_runs)
    return CounterOffer(terms, steps, price)


def _looks_at_forbidden(terms: Proposal, policy: Policy, facts: Facts) -> bool:
    """Whether a private black box could measure attributes together that the policy keeps apart.

    Most choose their marginals among all attributes of the card, whatever the workload says.
    """
    about = facts(terms.generator)
    if about.privacy is None or about.within_workload:
        return False
    cliques = (*terms.cliques, *terms.number_cliques)
    return policy.kept_apart(name for clique in cliques for name in clique) is not None


def _acceptable_statistics(
    terms: Proposal,
    privacy: Privacy,
    policy: Policy,
    domain: Domain,
    facts: Facts,
    coding: Coding | None,
) -> tuple[Proposal, tuple[Change, ...], tuple[Change, ...]] | Refusal:
    """Return the terms with acceptable statistics, changes of these, and of the transform."""
    moments, fewer = offered_moments(
        terms.moments,
        policy,
        lambda clique: objection(clique, policy, domain),
        why_no_moments(terms.generator, facts),
        TRANSFORM if policy.transform != AS_COUNTED and not privacy.noisy else None,
        coding=coding,
    )
    terms, fewer_numbers = offered_numbers(terms, privacy, policy, domain, coding)
    fewer += fewer_numbers
    if not terms.marginals and not moments:
        return _nothing_left(fewer)
    terms = chosen(terms, terms.marginals, moments)
    terms, transform_changes = measured_as(terms, privacy, policy.transform)
    cliques, changes = acceptable_cliques(terms, policy, domain)
    most = policy.most_per_card.statistics
    moments, dropped = affordable_moments(terms, cliques, domain, policy.most_marginals, most)
    changes = (*changes, *fewer, *dropped)
    if not cliques and not moments:
        return _nothing_left(changes)
    terms, dear = affordable_numbers(chosen(terms, cliques, moments), policy, domain, coding)
    return terms, (*changes, *dear), transform_changes


def _nothing_left(changes: Iterable[Change]) -> Refusal:
    return Refusal((*dict.fromkeys(change.reason for change in changes), NOTHING_LEFT))
