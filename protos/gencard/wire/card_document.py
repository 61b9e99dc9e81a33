"""The agreed form of a card: RFC 8785 JSON, never re-serialised once it is signed."""

from gencard.core.budget import Mechanism, Neighbouring, Price, Privacy, decimal_of
from gencard.core.card import AuditTerms, Card, Proposal, Tier
from gencard.core.errors import GencardError, VerificationError
from gencard.wire.canonical import Document
from gencard.wire.money import price_document, privacy_document
from gencard.wire.statements import CARD, statement


def terms_document(terms: Proposal) -> Document:
    return {
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


def terms_of_document(document: Document) -> Proposal:
    audit, privacy = document["audit"], document["privacy"]
    return Proposal(
        dataset=document["dataset"],
        purpose=document["purpose"],
        marginals=tuple(tuple(clique) for clique in document["marginals"]),
        generator=document["generator"],
        rows=int(document["rows"]),
        privacy=Privacy(
            Mechanism(privacy["mechanism"]),
            Neighbouring(privacy["neighbouring"]) if "neighbouring" in privacy else None,
            decimal_of(privacy["epsilon"], "epsilon") if "epsilon" in privacy else None,
            decimal_of(privacy["rho"], "rho") if "rho" in privacy else None,
        ),
        audit=AuditTerms(int(audit["runs"]), int(audit["order"]), audit["alpha"]),
    )


def card_document(card: Card) -> Document:
    return {
        "dataset": {
            "coding": {"sha256": card.coding_digest},
            "declaredBy": card.declared_by,
            "title": card.dataset_title,
            "version": {"sha256": card.version},
        },
        "expires": card.expire_time,
        "generator": {
            "code": {"sha256": card.generator_digest},
            "name": card.terms.generator,
            "tier": str(card.tier),
        },
        "name": card.name,
        "nonce": card.nonce,
        "offered": card.offer_time,
        "parties": {"analyst": card.analyst, "controller": card.controller},
        "price": price_document(card.price),
        "terms": terms_document(card.terms),
        "whySafe": card.agreed_by_policy,
    }


def card_of_document(document: Document) -> Card:
    """The card that a document holds.

    Raises:
        VerificationError: Something is missing, or is not what the core accepts.
    """
    try:
        price, dataset, generator = document["price"], document["dataset"], document["generator"]
        return Card(
            name=document["name"],
            controller=document["parties"]["controller"],
            analyst=document["parties"]["analyst"],
            dataset_title=dataset["title"],
            version=dataset["version"]["sha256"],
            coding_digest=dataset["coding"]["sha256"],
            declared_by=dataset["declaredBy"],
            terms=terms_of_document(document["terms"]),
            price=_price_of_document(price),
            tier=Tier(generator["tier"]),
            generator_digest=generator["code"]["sha256"],
            agreed_by_policy=document["whySafe"],
            offer_time=document["offered"],
            expire_time=document["expires"],
            nonce=document["nonce"],
        )
    except (KeyError, TypeError, ValueError, GencardError):
        raise VerificationError(problem="the document is not a card") from None


def card_statement(card: Card) -> bytes:
    """What both parties sign."""
    return statement(CARD, card.name, card_document(card))


def _price_of_document(document: Document) -> Price:
    zero = ("0", "")
    return Price(
        int(document["statistics"]),
        *(
            decimal_of(document[currency], currency)
            if document[currency] not in zero
            else Price().epsilon
            for currency in ("epsilon", "rho")
        ),
    )
