"""The agreed form of a card: RFC 8785 JSON, never re-serialised once it is signed.

The fields of ``core.card.terms`` say where each value is in the document. ``json_of`` is the form that
shells print with ``--json``.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from gencard.core.card.budget import Claim, Neighbouring, Price, decimal_of, decimal_text, delta_of
from gencard.core.card.card import CardRecord
from gencard.core.card.privacy import AS_COUNTED, Mechanism, Privacy, Transform, privacy_with
from gencard.core.card.terms import Analyses, CardTerms, Proposal
from gencard.core.errors import GencardError, VerificationError
from gencard.core.json_codecs import ScalarCodec, entries_of
from gencard.wire.signatures.canonical import Document, integer_of, text_of, time_text
from gencard.wire.signatures.dsse import CARD, DOCUMENT, statement

_IN_DOCUMENTS = {"most_records": "mostRecords"}
"""Parameters of noise that documents call otherwise."""


def privacy_document(privacy: Privacy) -> Document:
    document: Document = {"mechanism": str(privacy.mechanism), **privacy.parameters}
    for name, other in _IN_DOCUMENTS.items():
        if name in document:
            document[other] = document.pop(name)
    return document


def privacy_of_document(document: Document) -> Privacy:
    """Raises KeyError, TypeError, ValueError or what the core refuses, where it is no privacy."""
    mechanism = Mechanism(document["mechanism"])
    own = {name: own for own, name in _IN_DOCUMENTS.items()}
    parameters = {
        own.get(name, name): text_of(value) for name, value in document.items() if name != "mechanism"
    }
    return privacy_with(mechanism, parameters)


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
    relation, sentence = document.get("neighbouring"), text_of(document["sentence"])
    text = text_of(document.get("epsilon", ""))
    epsilon = decimal_of(text, "claim.epsilon") if text else None
    text = text_of(document.get("delta", ""))
    return Claim(
        sentence=sentence,
        epsilon=epsilon,
        delta=Decimal(0) if text in ("", "0") else delta_of(text),
        neighbouring=None if relation is None else Neighbouring(relation),
    )


_NUMBERS = tuple(field.name for field in fields(Transform) if field.name != "zeros")


def transform_document(transform: Transform) -> Document:
    """Only what differs from counts as they are."""
    document: Document = {
        name: str(getattr(transform, name))
        for name in _NUMBERS
        if getattr(transform, name) != getattr(AS_COUNTED, name)
    }
    return document | ({"zeros": True} if transform.zeros else {})


def transform_of_document(document: Document) -> Transform:
    """Raises TypeError, ValueError or InvalidNumberError where the document is no transform."""
    numbers = {name: integer_of(value) for name, value in document.items() if name != "zeros"}
    return Transform(**numbers, zeros=document.get("zeros", False))


_FORM = replace(
    DOCUMENT,
    scalars={
        **DOCUMENT.scalars,
        Privacy: ScalarCodec(privacy_document, privacy_of_document),
        Transform: ScalarCodec(transform_document, transform_of_document),
        Claim: ScalarCodec(claim_document, claim_of_document),
    },
)
_CARD = _FORM.codec(CardTerms)


def price_document(price: Price) -> Document:
    document: Document = DOCUMENT.write(price)
    return document


def terms_document(terms: Proposal) -> Document:
    """Weights, transform, moments and what reads records stand in it where there are any."""
    document: Document = _FORM.write(terms)
    return document


def terms_of_document(document: Document) -> Proposal:
    """Raises KeyError, AttributeError or what the core refuses, where these are no terms."""
    return _FORM.read(Proposal, document, field="terms")


def card_document(card: CardTerms) -> Document:
    """The terms with their surroundings; the generator's name stands beside its digest once more."""
    document: Document = _CARD.write(card)
    document["generator"]["name"] = card.terms.generator
    return document


def card_of_document(document: Document) -> CardTerms:
    """The card that a document holds.

    Raises:
        VerificationError: Something is missing, too much, or not what the core accepts.
    """
    try:
        generator = dict(document["generator"])
        name = generator.pop("name")
        card = _FORM.read(CardTerms, {**document, "generator": generator}, field="card")
    except (KeyError, AttributeError, TypeError, ValueError, GencardError):
        card = None
    if card is None or name != card.terms.generator:
        raise VerificationError(problem="the document is not a card")
    return card


def card_statement(card: CardTerms) -> bytes:
    """Return the statement that both parties sign."""
    return statement(CARD, card.name, card_document(card))


def json_of(value: Any, *names: str) -> Any:
    """Return the JSON that shells print for a value.

    Prices, terms and the values in them have the form of signed documents, and times are texts. Other
    dataclasses are objects of their fields, without private ones, and numbers are as JSON has them.

    Args:
        names: Attributes of the value that make up the object, if not all fields of its dataclass do.
    """
    if names:
        return {DOCUMENT.name(name): json_of(getattr(value, name)) for name in names}
    for kind, write in _PRINTED:
        if isinstance(value, kind):
            return write(value)
    if not is_dataclass(value):
        return value
    document: Document = {}
    described: type = type(value)
    for entry in entries_of(described):
        if not entry.options.private:
            content = json_of(getattr(value, entry.name))
            document |= content if entry.options.inline else {DOCUMENT.name(entry.name): content}
    return document


_PRINTED: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (datetime, time_text),
    (Price, price_document),
    (Proposal, terms_document),
    (Analyses, _FORM.write),
    (Privacy, privacy_document),
    (Transform, transform_document),
    (CardRecord, lambda card: json_of(card, "name", "state", "turn", "analyst", "proposed", "history")),
    (Mapping, lambda values: {name: json_of(one) for name, one in values.items()}),
    (list | tuple, lambda values: [json_of(one) for one in values]),
)
"""Types that are not written field by field, and how they are."""
