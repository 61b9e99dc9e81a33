"""What a card says of its generator, and what a policy has to know of it. Depends on no record."""

from collections.abc import Callable
from dataclasses import dataclass

from gencard.core.card.budget import Privacy
from gencard.core.card.claim import Claim
from gencard.core.card.terms import Tier
from gencard.core.domain import Clique, Domain
from gencard.core.errors import NotFoundError
from gencard.core.generators.registry import GENERATORS


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
        raise NotFoundError
    return GeneratorFacts(GENERATORS[name].tier, "")


Facts = Callable[[str], GeneratorFacts]
"""By the name of a generator or black box; raises NotFoundError."""
