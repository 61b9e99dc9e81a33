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
from gencard.core.card.privacy import InsideGenerator, Privacy
from gencard.core.card.terms import Tier
from gencard.core.domain import Clique, Domain
from gencard.core.errors import (
    NotFoundError,
)
from gencard.core.generators.registry import GENERATORS
from gencard.core.statistics.noise import epsilon_of


@dataclass(frozen=True, slots=True)
class GeneratorFacts:
    """Facts on a generator or black box that cards and policies use.

    Args:
        parameters, claim: Parameters and declared guarantee of a black box.
        privacy: Privacy that one fit spends; of tier private only.
        reviewed_by: Name of the reviewer of a black box with this digest; empty if it was not reviewed.
        within_workload: Whether a fit uses no marginal outside the card's workload.
        check: Function of workload and domain that raises TooLargeError or ModelTooLargeError if no fit
            is possible; None if there is no bound.
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
    """Return the facts for persons with at most ``most_records`` records; unchanged if that is 0.

    A box protects one record; the returned facts state the privacy that one fit spends for a person.
    """

    def of_persons(name: str) -> GeneratorFacts:
        one = facts(name)
        if not isinstance(one.privacy, InsideGenerator):
            return one
        privacy = InsideGenerator(one.privacy.guarantee.for_person(most_records))
        return replace(one, privacy=privacy, claim=one.claim and _claim_for_person(one.claim, privacy))

    return of_persons if most_records else facts


def _claim_for_person(claim: Claim, privacy: InsideGenerator) -> Claim:
    """Return the claim on all records of a person together."""
    guarantee, delta = privacy.guarantee, claim.delta
    epsilon = (
        guarantee.budget if guarantee.currency == "epsilon" else epsilon_of(guarantee.budget, delta)
    )
    person = person_words(guarantee.most_records or 1)
    sentence = f"For {person}: {guarantee.currency} {decimal_text(guarantee.budget)}. For one record: "
    return Claim(f"{sentence}{claim}", epsilon, delta, claim.neighbouring)


def parameters_of_box(box: BoxEntry) -> dict[str, str]:
    """Return the parameters of a box as text."""
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
    """Return the privacy guarantee of a built-in box, or the guarantee that a program declares."""
    match box:
        case BuiltInBox():
            entry = BOXES[box.box]
            return entry.claim(complete(entry, box.parameters))
        case ProgramBox(claim=Claim() as claim):
            return claim
    return NO_CLAIM


def privacy_of_box(box: BoxEntry) -> Privacy | None:
    """Return the privacy that one fit spends, if the controller applies the noise; else None."""
    if not isinstance(box, BuiltInBox):
        return None
    entry = BOXES[box.box]
    return entry.privacy(complete(entry, box.parameters))


def check_of_box(box: BoxEntry) -> Callable[[tuple[Clique, ...], Domain], None] | None:
    """Return the check of a workload before a fit that a built-in box has; other boxes have none."""
    if not isinstance(box, BuiltInBox):
        return None
    entry = BOXES[box.box]
    return partial(entry.check, complete(entry, box.parameters))


def reviewer_of_box(box: BoxEntry, digest: str) -> str:
    """Return the name of the reviewer of a box with this digest; empty if it was not reviewed."""
    review = box.reviewed_by
    return review.name if review is not None and review.digest == digest else ""


def description_of_box(box: BoxEntry) -> str:
    return BOXES[box.box].description if isinstance(box, BuiltInBox) else ""
