"""Cards as the controller's state and answers hold them: encoded once, however often they are read."""

from functools import lru_cache

from gencard.core.card.card import CardRecord
from gencard.v1 import negotiation_pb2 as pb
from gencard.wire.codec import message_of, prepare, value_of

prepare((CardRecord, pb.Card))

_SMALL = 32 * 1024
"""Bytes of a card that is kept once it was read: it takes seven times as much in memory."""


def card_bytes(card: CardRecord) -> bytes:
    """The encoded card, which is kept beside its value; a card cannot be changed in place."""
    if not card.encoded:
        body = message_of(card, pb.Card).SerializeToString(deterministic=True)
        object.__setattr__(card, "encoded", body)
    return card.encoded


def card_message(card: CardRecord) -> pb.Card:
    """The card's message, read from its bytes if there are any."""
    return pb.Card.FromString(card_bytes(card))


def card_of(message: pb.Card) -> CardRecord:
    """The card of a message; raises InvalidInputError if state or turn is not a known value."""
    return value_of(CardRecord, message)


def card_of_bytes(body: bytes) -> CardRecord:
    """The stored card; raises InvalidInputError if state or turn is not a known value."""
    return _small_card(body) if len(body) <= _SMALL else _stored(body)


# Most calls read the card that they are about, which takes 1.5 ms.
@lru_cache(maxsize=500)
def _small_card(body: bytes) -> CardRecord:
    return _stored(body)


def _stored(body: bytes) -> CardRecord:
    card = card_of(pb.Card.FromString(body))
    object.__setattr__(card, "encoded", body)
    return card
