"""Cards beside which no other number about the same records may be told."""

from gencard.controller.policy.policy import Policy
from gencard.core.card.budget import Mechanism
from gencard.core.card.terms import CardTerms, Tier
from gencard.core.errors import RecordsProtectedError
from gencard.core.transform import AS_COUNTED

NOISE = "the card has noise, which other numbers about the records would undo"
TRANSFORM = "the card has rounding or checks, which other numbers about the records would undo"
POLICY = "the policy does not offer exact counts without rounding or checks"
TIER = "the card is of tier private, and other numbers about the records would exceed its epsilon"


def check_unprotected(card: CardTerms, policy: Policy, what: str) -> None:
    """Refuse work whose result would be an exact function of the records beside a protected psi.

    Args:
        card: As both sides signed it.
        policy: The present policy of its dataset.
        what: The work, as the error names it.

    Raises:
        RecordsProtectedError: The card has noise, rounding, checks or no psi, or the policy offers no
            exact counts as they are.
    """
    why = why_protected(card, policy)
    if why is not None:
        raise RecordsProtectedError(what=what, why=why)


def why_protected(card: CardTerms, policy: Policy) -> str | None:
    """The reason; None where exact numbers about the records may be told beside psi."""
    if card.tier is Tier.PRIVATE:
        return TIER
    if card.terms.privacy.noisy:
        return NOISE
    if card.terms.transform != AS_COUNTED:
        return TRANSFORM
    exact = Mechanism.EXACT in policy.mechanisms and policy.transform == AS_COUNTED
    return None if exact else POLICY
