"""Generators that a policy offers, and how the statistics of a card are measured beside each of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gencard.controller.boxes.generator_facts import Facts
from gencard.controller.policy.statistics import NEIGHBOURING, PERSON, PRICE, nearest_privacy
from gencard.core.card.budget import Neighbouring, decimal_of
from gencard.core.card.card import Change, Refusal
from gencard.core.card.privacy import AS_COUNTED, Mechanism, Privacy, Transform
from gencard.core.card.terms import USUAL_AUDIT, AuditTerms, Proposal, Tier
from gencard.core.generators.registry import GENERATORS, takes_linear
from gencard.core.policy import Policy

GENERATOR = "GENERATOR_NOT_ALLOWED"
READS_RECORDS = "GENERATOR_READS_RECORDS"
NOT_REVIEWED = "BOX_NOT_REVIEWED"
ADDS_NOISE = "GENERATOR_ADDS_NOISE"
WEAK_AUDIT = "AUDIT_TOO_WEAK"


@dataclass(frozen=True, slots=True)
class GeneratorChoice:
    """Terms with a generator on offer.

    Args:
        privacy: Privacy of the card with this generator.
        changes: Steps to the generator and its audit.
        privacy_changes: Steps to the privacy.
    """

    terms: Proposal
    privacy: Privacy
    changes: tuple[Change, ...] = ()
    privacy_changes: tuple[Change, ...] = ()


def is_black_box(name: str) -> bool:
    """Whether a generator reads records; a name that is not in the catalogue would be one."""
    return name not in GENERATORS


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
    """Return the terms with a generator beside which psi is measured."""
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

    A black box of tier audited sees the records themselves: neither noise on psi nor rounding binds it.
    It is therefore offered with unprotected exact counts alone, and has their price. No audit finds what
    an author hides on purpose, so a reviewer must have vouched for this very digest. Its audit decides
    whether rows are released, so a proposal with rows cannot request a weaker audit than usual.

    Args:
        generators: Generators of the policy that are not private, in its order.
        transform: Transform of exact counts, from the policy.
    """
    as_they_are = not privacy.noisy and transform == AS_COUNTED

    def objection(name: str) -> str | None:
        if not is_black_box(name):
            return None
        if not facts(name).reviewed_by:
            return NOT_REVIEWED
        return None if as_they_are else READS_RECORDS

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
