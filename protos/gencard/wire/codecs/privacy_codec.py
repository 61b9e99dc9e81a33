"""Privacy, prices, privacy claims and transforms of counts, as messages and in documents.

Decimals are exact, as strings; a transform says only what differs from counts as they are.
"""

from dataclasses import fields
from decimal import Decimal, InvalidOperation

from gencard.core.card.budget import Claim, Neighbouring, Price, decimal_of, decimal_text, delta_of
from gencard.core.card.mechanism import AS_COUNTED, Privacy, Transform, privacy_with
from gencard.core.card.noise import Mechanism
from gencard.core.errors import InvalidInputError, InvalidNumberError
from gencard.v1 import catalog_pb2 as catalog
from gencard.v1 import common_pb2 as pb
from gencard.wire.signatures.canonical import Document, integer_of, text_of

_MECHANISM = {
    mechanism: pb.Privacy.Mechanism.Value(f"MECHANISM_{mechanism.name}") for mechanism in Mechanism
}
_NEIGHBOURING = {
    None: pb.Privacy.NEIGHBOURING_UNSPECIFIED,
    Neighbouring.ADD_REMOVE: pb.Privacy.NEIGHBOURING_ADD_REMOVE,
    Neighbouring.REPLACE_ONE: pb.Privacy.NEIGHBOURING_REPLACE_ONE,
}
_MECHANISM_OF: dict[int, Mechanism] = {number: mechanism for mechanism, number in _MECHANISM.items()}
_NEIGHBOURING_OF: dict[int, Neighbouring | None] = {
    number: relation for relation, number in _NEIGHBOURING.items()
}
LONGEST_AMOUNT = 32
"""Characters of a decimal."""

_PARAMETERS = [field.name for field in pb.Privacy.DESCRIPTOR.fields if field.type == field.TYPE_STRING]
_IN_DOCUMENTS = {"most_records": "mostRecords"}
"""Parameters that documents call otherwise."""

_NUMBERS = tuple(field.name for field in fields(Transform) if field.name != "zeros")


def mechanism_message(mechanism: Mechanism) -> pb.Privacy.Mechanism.ValueType:
    return _MECHANISM[mechanism]


def mechanism_of(number: int) -> Mechanism:
    """Raises InvalidInputError for a mechanism that is not said or not known."""
    if number not in _MECHANISM_OF:
        raise InvalidInputError(field="privacy.mechanism", problem="is not a known value")
    return _MECHANISM_OF[number]


def neighbouring_message(relation: Neighbouring | None) -> pb.Privacy.Neighbouring.ValueType:
    return _NEIGHBOURING[relation]


def neighbouring_of(number: int) -> Neighbouring | None:
    """Raises InvalidInputError for a relation that is not known."""
    if number not in _NEIGHBOURING_OF:
        raise InvalidInputError(field="privacy.neighbouring", problem="is not a known value")
    return _NEIGHBOURING_OF[number]


def privacy_message(privacy: Privacy) -> pb.Privacy:
    numbers = {name: text for name, text in privacy.parameters.items() if name in _PARAMETERS}
    return pb.Privacy(
        mechanism=_MECHANISM[privacy.mechanism],
        neighbouring=neighbouring_message(privacy.neighbouring),
        most_records=privacy.most_records or 0,
        **numbers,
    )


def privacy_of(message: pb.Privacy) -> Privacy:
    """Raises InvalidInputError or InvalidNumberError where the parts do not make a privacy."""
    relation = neighbouring_of(message.neighbouring)
    parameters = {name: text for name in _PARAMETERS if (text := getattr(message, name))}
    parameters |= {} if relation is None else {"neighbouring": relation}
    parameters |= {"most_records": str(message.most_records)} if message.most_records else {}
    return privacy_with(mechanism_of(message.mechanism), parameters)


def price_message(price: Price) -> pb.Price:
    return pb.Price(
        statistics=price.statistics,
        epsilon=decimal_text(price.epsilon),
        rho=decimal_text(price.rho),
    )


def price_of(message: pb.Price) -> Price:
    """Raises InvalidNumberError where an amount is no decimal from 0 to 1e9 with nine places."""
    return Price(message.statistics, amount_of(message.epsilon), amount_of(message.rho))


def amount_of(text: str) -> Decimal:
    """An amount of a price; nothing said is nothing spent. Its range is for Price to check.

    Raises:
        InvalidNumberError: Not a decimal.
    """
    if len(text) <= LONGEST_AMOUNT:
        try:
            return Decimal(text or "0")
        except InvalidOperation:
            pass
    raise InvalidNumberError(field="price", expected="a decimal")


def price_document(price: Price) -> Document:
    return {
        "epsilon": decimal_text(price.epsilon),
        "rho": decimal_text(price.rho),
        "statistics": str(price.statistics),
    }


def privacy_document(privacy: Privacy) -> Document:
    parameters = {_IN_DOCUMENTS.get(name, name): text for name, text in privacy.parameters.items()}
    return {"mechanism": str(privacy.mechanism), **parameters}


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
    relation = document.get("neighbouring")
    return Claim(
        sentence=text_of(document["sentence"]),
        epsilon=_epsilon_of(text_of(document.get("epsilon", ""))),
        delta=_delta_of(text_of(document.get("delta", ""))),
        neighbouring=None if relation is None else Neighbouring(relation),
    )


def claim_message(claim: Claim) -> catalog.Claim:
    return catalog.Claim(
        sentence=claim.sentence,
        epsilon="" if claim.epsilon is None else decimal_text(claim.epsilon),
        delta=decimal_text(claim.delta),
        neighbouring=neighbouring_message(claim.neighbouring),
    )


def claim_of(message: catalog.Claim) -> Claim:
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


def transform_message(transform: Transform) -> pb.Transform | None:
    """None for counts as they are."""
    if transform == AS_COUNTED:
        return None
    numbers = {name: getattr(transform, name) for name in _NUMBERS}
    return pb.Transform(**numbers, zeros=transform.zeros)


def transform_of(message: pb.Transform) -> Transform:
    """Raises InvalidNumberError where a number is out of its range."""
    numbers = {name: getattr(message, name) for name in _NUMBERS}
    return Transform(**numbers | {"rounding": message.rounding or 1}, zeros=message.zeros)


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
