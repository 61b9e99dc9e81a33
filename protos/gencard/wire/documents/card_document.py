"""The agreed form of a card: RFC 8785 JSON, never re-serialised once it is signed."""

from gencard.core.card.terms import AuditTerms, CardTerms, Proposal, Tier
from gencard.core.errors import GencardError, VerificationError
from gencard.core.transform import AS_COUNTED
from gencard.wire.codecs.card_codec import moment_document, moment_of_document
from gencard.wire.codecs.privacy_codec import (
    claim_document,
    claim_of_document,
    price_document,
    price_of_document,
    privacy_document,
    privacy_of_document,
    transform_document,
    transform_of_document,
)
from gencard.wire.signatures.canonical import Document, integer_of, text_of, texts_of, time_text_of
from gencard.wire.signatures.dsse import CARD, statement


def terms_document(terms: Proposal) -> Document:
    """Weights, transform, moments and what reads records stand in it where there are any."""
    document: Document = {
        "audit": {
            "alpha": terms.audit.alpha,
            "order": str(terms.audit.order),
            "runs": str(terms.audit.runs),
        },
        "dataset": terms.dataset,
        "generator": terms.generator,
        "marginals": [list(clique) for clique in terms.marginals],
        "privacy": privacy_document(terms.privacy),
        "purpose": terms.purpose,
        "rows": str(terms.rows),
    }
    if terms.weights:
        document["weights"] = [str(weight) for weight in terms.weights]
    if terms.transform != AS_COUNTED:
        document["transform"] = transform_document(terms.transform)
    if terms.moments:
        document["moments"] = [moment_document(moment) for moment in terms.moments]
    if terms.measures:
        document["measures"] = list(terms.measures)
    if terms.without_uniques:
        document["withoutUniques"] = True
    return document


def terms_of_document(document: Document) -> Proposal:
    """Raises KeyError, TypeError, ValueError or what the core refuses, where these are no terms."""
    audit = document["audit"]
    return Proposal(
        dataset=text_of(document["dataset"]),
        purpose=text_of(document["purpose"]),
        marginals=tuple(map(texts_of, document["marginals"])),
        generator=text_of(document["generator"]),
        rows=integer_of(document["rows"]),
        privacy=privacy_of_document(document["privacy"]),
        audit=AuditTerms(integer_of(audit["runs"]), integer_of(audit["order"]), text_of(audit["alpha"])),
        weights=tuple(map(integer_of, texts_of(document.get("weights", [])))),
        transform=transform_of_document(document.get("transform", {})),
        moments=tuple(map(moment_of_document, document.get("moments", []))),
        measures=texts_of(document.get("measures", [])),
        without_uniques=document.get("withoutUniques", False) is True,
    )


def card_document(card: CardTerms) -> Document:
    return {
        "dataset": {
            "coding": {"sha256": card.coding_digest},
            "declaredBy": card.declared_by,
            "title": card.dataset_title,
            "version": {"sha256": card.version},
        },
        "expires": card.expire_time,
        "generator": _generator_document(card),
        "name": card.name,
        "nonce": card.nonce,
        "offered": card.offer_time,
        "parties": {"analyst": card.analyst, "controller": card.controller},
        "price": price_document(card.price),
        "terms": terms_document(card.terms),
        "whySafe": card.agreed_by_policy,
    }


def _generator_document(card: CardTerms) -> Document:
    """Parameters, claim and reviewer stand in it where there are any."""
    document: Document = {
        "code": {"sha256": card.generator_digest},
        "name": card.terms.generator,
        "tier": str(card.tier),
    }
    if card.parameters:
        document["parameters"] = dict(card.parameters)
    if card.claim is not None:
        document["claim"] = claim_document(card.claim)
    if card.reviewed_by:
        document["reviewedBy"] = card.reviewed_by
    return document


def card_of_document(document: Document) -> CardTerms:
    """The card that a document holds.

    Raises:
        VerificationError: Something is missing, too much, or not what the core accepts.
    """
    try:
        card = _card(document)
    except (KeyError, TypeError, ValueError, GencardError):
        card = None
    if card is None or card_document(card) != document:
        raise VerificationError(problem="the document is not a card")
    return card


def card_statement(card: CardTerms) -> bytes:
    """What both parties sign."""
    return statement(CARD, card.name, card_document(card))


def _card(document: Document) -> CardTerms:
    dataset, generator = document["dataset"], document["generator"]
    return CardTerms(
        name=text_of(document["name"]),
        controller=text_of(document["parties"]["controller"]),
        analyst=text_of(document["parties"]["analyst"]),
        dataset_title=text_of(dataset["title"]),
        version=text_of(dataset["version"]["sha256"]),
        coding_digest=text_of(dataset["coding"]["sha256"]),
        declared_by=text_of(dataset["declaredBy"]),
        terms=terms_of_document(document["terms"]),
        price=price_of_document(document["price"]),
        tier=Tier(generator["tier"]),
        generator_digest=text_of(generator["code"]["sha256"]),
        agreed_by_policy=text_of(document["whySafe"]),
        offer_time=time_text_of(document["offered"]),
        expire_time=time_text_of(document["expires"]),
        nonce=text_of(document["nonce"]),
        parameters=_parameters_of(generator.get("parameters", {})),
        claim=claim_of_document(generator["claim"]) if "claim" in generator else None,
        reviewed_by=text_of(generator.get("reviewedBy", "")),
    )


def _parameters_of(document: Document) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, text_of(value)) for name, value in document.items()))
