"""Generators that a policy offers, and with which measurements black boxes among them go together."""

from collections.abc import Sequence
from dataclasses import replace

from gencard.core.budget import Privacy, decimal_of
from gencard.core.card import USUAL_AUDIT, AuditTerms, Change, Proposal, Refusal
from gencard.core.generators.registry import GENERATORS, takes_linear
from gencard.core.transform import AS_COUNTED, Transform

GENERATOR = "GENERATOR_NOT_ALLOWED"
READS_RECORDS = "GENERATOR_READS_RECORDS"
WEAK_AUDIT = "AUDIT_TOO_WEAK"


def is_black_box(name: str) -> bool:
    """Whether a generator reads records; a name that is not in the catalogue would be one."""
    return name not in GENERATORS


def takes_moments(name: str) -> bool:
    """Whether cards with this generator may name moments: a black box is not fitted to psi at all."""
    return is_black_box(name) or takes_linear(name)


def with_generator(
    terms: Proposal, privacy: Privacy, generators: Sequence[str], transform: Transform
) -> tuple[Proposal, tuple[Change, ...]] | Refusal:
    """The terms with a generator that is on offer and goes with how they are measured.

    A black box sees the records themselves: neither noise on psi nor rounding binds it. So it goes with
    exact counts alone, as they are, and costs what they cost. Its audit decides whether rows come at
    all, so nobody who asks for rows may ask for a weaker one than usual.

    Args:
        generators: Those of the policy, in its order.
        transform: The policy's, of exact counts.
    """
    as_they_are = not privacy.noisy and transform == AS_COUNTED
    offered = [name for name in generators if as_they_are or not is_black_box(name)]
    if terms.generator in offered:
        return _well_audited(terms)
    why = READS_RECORDS if terms.generator in generators else GENERATOR
    if not offered:
        return Refusal((why,))
    change = Change("generator", terms.generator, offered[0], why)
    terms, stricter = _well_audited(replace(terms, generator=offered[0]))
    return terms, (change, *stricter)


def _well_audited(terms: Proposal) -> tuple[Proposal, tuple[Change, ...]]:
    """The terms with an audit that is as strict as usual where rows hang on it, and each step to it."""
    asked, usual = terms.audit, USUAL_AUDIT
    if not is_black_box(terms.generator):
        return terms, ()
    alpha = max(asked.alpha, usual.alpha, key=lambda level: decimal_of(level, "audit.alpha"))
    least = AuditTerms(max(asked.runs, usual.runs), max(asked.order, usual.order), alpha)
    changes = tuple(
        Change(f"audit.{name}", str(getattr(asked, name)), str(getattr(least, name)), WEAK_AUDIT)
        for name in ("runs", "order", "alpha")
        if getattr(asked, name) != getattr(least, name)
    )
    return replace(terms, audit=least), changes
