"""Facts of generators and black boxes, as a card states and a policy uses them; no record enters."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from gencard.boxes.registry import BOXES, complete
from gencard.controller.boxes.entries import (
    AddsMarginalBox,
    BoxEntry,
    BuiltInBox,
    CopiesRowsBox,
    ProgramBox,
)
from gencard.core.card.budget import NO_CLAIM, Claim, decimal_text, person_words
from gencard.core.card.mechanism import InsideGenerator, Privacy
from gencard.core.card.terms import Tier
from gencard.core.domain import Clique, Domain
from gencard.core.errors import (
    NotFoundError,
)
from gencard.core.generators.registry import GENERATORS
from gencard.core.statistics.noise import epsilon_of


@dataclass(frozen=True, slots=True)
class GeneratorFacts:
    """A generator or black box, as a card and a policy see it.

    Args:
        parameters, claim: Those of a black box.
        privacy: What one fit spends; only of tier private.
        reviewed_by: Who reviewed a black box with this digest; empty where nobody did.
        within_workload: Whether a fit looks at no marginal outside the card's workload.
        check: With workload and domain: raises TooLargeError or ModelTooLargeError where no fit can
            be had; None for what has no bound.
    """

    tier: Tier
    digest: str
    parameters: tuple[tuple[str, str], ...] = ()
    claim: Claim | None = None
    privacy: Privacy | None = None
    reviewed_by: str = ""
    within_workload: bool = False
    check: Callable[[tuple[Clique, ...], Domain], None] | None = None


def facts_of_generators(name: str) -> GeneratorFacts:
    """Facts of the generators alone, without the digest of their code; there is no black box.

    Raises:
        NotFoundError: There is no generator of this name.
    """
    if name not in GENERATORS:
        raise NotFoundError(what=f"generator or black box '{name}'")
    return GeneratorFacts(GENERATORS[name].tier, "")


Facts = Callable[[str], GeneratorFacts]
"""By the name of a generator or black box; raises NotFoundError."""


def for_persons(facts: Facts, most_records: int) -> Facts:
    """The same facts where at most so many records of a person count; as they are where it is 0.

    A box protects one record; the privacy that one fit spends is what that comes to for a person.
    """

    def of_persons(name: str) -> GeneratorFacts:
        one = facts(name)
        if not isinstance(one.privacy, InsideGenerator):
            return one
        privacy = InsideGenerator(one.privacy.guarantee.for_person(most_records))
        return replace(one, privacy=privacy, claim=one.claim and _claim_for_person(one.claim, privacy))

    return of_persons if most_records else facts


def _claim_for_person(claim: Claim, privacy: InsideGenerator) -> Claim:
    """The claim on all records of a person together."""
    guarantee, delta = privacy.guarantee, claim.delta
    epsilon = (
        guarantee.budget if guarantee.currency == "epsilon" else epsilon_of(guarantee.budget, delta)
    )
    person = person_words(guarantee.most_records or 1)
    sentence = f"For {person}: {guarantee.currency} {decimal_text(guarantee.budget)}. For one record: "
    return Claim(f"{sentence}{claim}", epsilon, delta, claim.neighbouring)


def parameters_of_box(box: BoxEntry) -> dict[str, str]:
    """What a box runs with, in words."""
    match box:
        case AddsMarginalBox():
            return {"generator": box.generator, "marginal": ", ".join(box.clique)}
        case CopiesRowsBox():
            return {"generator": box.generator, "share": str(box.share)}
        case ProgramBox():
            return dict(box.parameters)
        case BuiltInBox():
            return dict(complete(BOXES[box.box], box.parameters))
    return {"generator": box.generator}


def claim_of_box(box: BoxEntry) -> Claim:
    """What a box promises with its parameters; of others' programs, what somebody declared."""
    match box:
        case BuiltInBox():
            entry = BOXES[box.box]
            return entry.claim(complete(entry, box.parameters))
        case ProgramBox(claim=Claim() as claim):
            return claim
    return NO_CLAIM


def privacy_of_box(box: BoxEntry) -> Privacy | None:
    """What one fit spends, where the controller applies the noise; others' claims do not count."""
    if not isinstance(box, BuiltInBox):
        return None
    entry = BOXES[box.box]
    return entry.privacy(complete(entry, box.parameters))


def check_of_box(box: BoxEntry) -> Callable[[tuple[Clique, ...], Domain], None] | None:
    """What a built-in box says beforehand about a workload; of others nothing is known."""
    if not isinstance(box, BuiltInBox):
        return None
    entry = BOXES[box.box]
    return partial(entry.check, complete(entry, box.parameters))


def reviewer_of_box(box: BoxEntry, digest: str) -> str:
    """Who reviewed a box with this digest; empty where nobody did."""
    review = box.reviewed_by
    return review.name if review is not None and review.digest == digest else ""


def description_of_box(box: BoxEntry) -> str:
    return BOXES[box.box].description if isinstance(box, BuiltInBox) else ""
