"""Cards as the state keeps them, and what can be read off one."""

from dataclasses import replace
from datetime import datetime

from gencard.core.card.card import USABLE, Card, CardState, Offer, Turn
from gencard.core.card.terms import CardTerms
from gencard.core.errors import CardExpiredError, CardStateError
from gencard.wire.documents.card_document import card_of_document
from gencard.wire.signatures.dsse import CARD, predicate_of

ENDED = frozenset({CardState.TERMINATED, CardState.EXPIRED, CardState.REVOKED, CardState.AUDIT_FAILED})


def as_of(card: Card, now: datetime) -> Card:
    """The card with its time run out, where it has."""
    expired = card.offer is not None and now >= card.offer.expire_time
    if expired and card.state not in ENDED:
        return replace(card, state=CardState.EXPIRED, turn=Turn.NOBODY)
    return card


def in_force(card: Card) -> Card:
    """The card, where both have signed it and it has not ended.

    Raises:
        CardStateError, CardExpiredError: It is not in force.
    """
    if card.state is CardState.EXPIRED:
        raise CardExpiredError
    if card.state not in USABLE:
        raise CardStateError(state=card.state)
    return card


def auditable(card: Card) -> Card:
    """The card, where it is in force or only waits for an audit of its generator.

    Raises:
        CardStateError, CardExpiredError: Neither.
    """
    return card if card.state is CardState.AUDITING else in_force(card)


def signed_card(card: Card) -> CardTerms:
    """What the present offer would have both sides sign; raises CardStateError where there is none."""
    return card_of_document(predicate_of(offer_of(card).statement, CARD))


def offer_of(card: Card) -> Offer:
    """The card's present offer; raises CardStateError where there is none."""
    if card.offer is None:
        raise CardStateError(state=card.state)
    return card.offer
