"""What a black box promises of itself, as its entry states it and a card carries it."""

from gencard.core.claim import NO_CLAIM, Claim

__all__ = ["NO_CLAIM", "Claim"]
