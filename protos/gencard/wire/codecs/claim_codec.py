"""Privacy claims of black boxes: in the catalogue, and on a card."""

from decimal import Decimal

from gencard.core.card.budget import Claim, Neighbouring, decimal_of, delta_of
from gencard.v1 import catalog_pb2 as pb
from gencard.wire.codecs.money import decimal_text, neighbouring_message, neighbouring_of
from gencard.wire.signatures.canonical import Document, text_of


def claim_document(claim: Claim) -> Document:
    """A claim of nothing is its sentence alone."""
    document: Document = {"sentence": claim.sentence}
    if claim.epsilon is not None:
        document["epsilon"] = decimal_text(claim.epsilon)
        document["delta"] = decimal_text(claim.delta)
    if claim.neighbouring is not None:
        document["neighbouring"] = str(claim.neighbouring)
    return document


def claim_of_document(document: Document) -> Claim:
    """Raises KeyError, TypeError, ValueError or what the core refuses, where it is no claim."""
    relation = document.get("neighbouring")
    return Claim(
        sentence=text_of(document["sentence"]),
        epsilon=_epsilon_of(text_of(document.get("epsilon", ""))),
        delta=_delta_of(text_of(document.get("delta", ""))),
        neighbouring=None if relation is None else Neighbouring(relation),
    )


def claim_message(claim: Claim) -> pb.Claim:
    return pb.Claim(
        sentence=claim.sentence,
        epsilon="" if claim.epsilon is None else decimal_text(claim.epsilon),
        delta=decimal_text(claim.delta),
        neighbouring=neighbouring_message(claim.neighbouring),
    )


def claim_of(message: pb.Claim) -> Claim:
    """Raises InvalidInputError or InvalidNumberError where it is no claim."""
    return Claim(
        sentence=message.sentence,
        epsilon=_epsilon_of(message.epsilon),
        delta=_delta_of(message.delta),
        neighbouring=neighbouring_of(message.neighbouring),
    )


def _epsilon_of(text: str) -> Decimal | None:
    return decimal_of(text, "claim.epsilon") if text else None


def _delta_of(text: str) -> Decimal:
    return Decimal(0) if text in ("", "0") else delta_of(text)
