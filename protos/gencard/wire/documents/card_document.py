"""The agreed form of a card: RFC 8785 JSON, never re-serialised once it is signed.

Where a field stands in it is said by the fields of ``core.card.terms``.
"""

from dataclasses import replace

from gencard.core.card.analyses import Analyses
from gencard.core.card.budget import Claim
from gencard.core.card.mechanism import Privacy, Transform
from gencard.core.card.terms import CardTerms, Proposal
from gencard.core.errors import GencardError, VerificationError
from gencard.core.json_codecs import Scalar
from gencard.core.moment import Moment
from gencard.wire.codecs.card_codec import moment_document, moment_of_document
from gencard.wire.codecs.privacy_codec import (
    claim_document,
    claim_of_document,
    privacy_document,
    privacy_of_document,
    transform_document,
    transform_of_document,
)
from gencard.wire.signatures.canonical import Document
from gencard.wire.signatures.dsse import CARD, DOCUMENT, statement

_FORM = replace(
    DOCUMENT,
    scalars={
        **DOCUMENT.scalars,
        Privacy: Scalar(privacy_document, privacy_of_document),
        Transform: Scalar(transform_document, transform_of_document),
        Moment: Scalar(moment_document, moment_of_document),
        Claim: Scalar(claim_document, claim_of_document),
    },
)


def terms_document(terms: Proposal) -> Document:
    """Weights, transform, moments and what reads records stand in it where there are any."""
    document: Document = _FORM.write(terms)
    return document


def analyses_document(analyses: Analyses) -> Document:
    """Runs on the records, as terms hold them."""
    document: Document = _FORM.write(analyses)
    return document


def terms_of_document(document: Document) -> Proposal:
    """Raises KeyError, AttributeError or what the core refuses, where these are no terms."""
    return _FORM.read(Proposal, document, field="terms")


def card_document(card: CardTerms) -> Document:
    """The terms with their surroundings; the generator's name stands beside its digest once more."""
    document: Document = _FORM.write(card)
    document["generator"]["name"] = card.terms.generator
    return document


def card_of_document(document: Document) -> CardTerms:
    """The card that a document holds.

    Raises:
        VerificationError: Something is missing, too much, or not what the core accepts.
    """
    try:
        generator = {name: value for name, value in document["generator"].items() if name != "name"}
        card = _FORM.read(CardTerms, {**document, "generator": generator}, field="card")
    except (KeyError, AttributeError, TypeError, ValueError, GencardError):
        card = None
    if card is None or card_document(card) != document:
        raise VerificationError(problem="the document is not a card")
    return card


def card_statement(card: CardTerms) -> bytes:
    """What both parties sign."""
    return statement(CARD, card.name, card_document(card))
