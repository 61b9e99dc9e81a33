"""Statements that the client signs, and checks of statements that others signed."""

from collections.abc import Iterable, Sequence

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gencard.core.card.card import CardRecord, Offer
from gencard.core.card.terms import CardTerms, Proposal, Tier
from gencard.core.catalogue import CatalogueEntry
from gencard.core.errors import GencardError, VerificationError
from gencard.core.types import VersionKind
from gencard.wire import dsse
from gencard.wire.canonical import digest_of, sha256, time_text
from gencard.wire.documents import (
    AuditedBox,
    Receipt,
    SignedAnswer,
    answer_of_document,
    card_of_document,
    card_statement,
    receipt_of_document,
    receipt_statement,
)
from gencard.wire.dsse import (
    ANSWER,
    CARD,
    RECEIPT,
    VERDICT,
    predicate_of,
    statement,
    subject_digest,
)
from gencard.wire.keys import KeyHistory
from gencard.wire.psi import coding_digest


def checked_answer(answer: CardRecord, proposal: Proposal) -> CardRecord:
    """The controller's answer to a proposal, once it is an answer to this one.

    Raises:
        VerificationError: It quotes other terms as those asked for, which would hide differences.
    """
    if answer.proposed != proposal:
        raise VerificationError(problem="the controller answered with other terms than requested")
    return answer


def checked_offer(card: CardRecord, offer: Offer, entry: CatalogueEntry, *, analyst: str) -> bytes:
    """The statement to sign, once its bytes are found to mean the offer as it is shown, and no more.

    Raises:
        VerificationError: They mean something else; names what.
    """
    stated = card_of_statement(offer.statement)
    agreements = {
        "terms": stated.terms == offer.terms,
        "price": stated.price == offer.price,
        "name": stated.name == card.name,
        "dataset": card.name.startswith(f"{stated.terms.dataset}/cards/"),
        "analyst": stated.analyst == card.analyst == analyst,
        "schema": stated.coding_digest == coding_digest(entry.coding),
        "version of the records": stated.version == entry.version,
        "expiry": stated.expire_time == time_text(offer.expire_time),
        "digest": subject_digest(offer.statement) == offer.digest,
    }
    for what, agrees in agreements.items():
        if not agrees:
            raise VerificationError(problem=f"the statement to sign and the offer differ in {what}")
    return offer.statement


def card_of_statement(payload: bytes) -> CardTerms:
    """The card inside a statement, which must be the one sequence of bytes that means it.

    Raises:
        VerificationError: It is no card, its digest is not its own, or its bytes are not canonical.
    """
    document = predicate_of(payload, CARD)
    card = card_of_document(document)
    if subject_digest(payload) != digest_of(document):
        raise VerificationError(problem="the card does not match its digest")
    if card_statement(card) != payload:
        raise VerificationError(problem="the card is not in canonical form")
    return card


def card_payload(
    envelope: bytes, controller: KeyHistory, analyst: Sequence[Ed25519PublicKey] = ()
) -> bytes:
    """The statement that the analyst and then the controller signed, and no other.

    Args:
        analyst: The analyst's present key and earlier ones. If none is known, the analyst's signature is
            not checked.

    Raises:
        VerificationError: One side did not sign it, or another one did.
    """
    if not analyst:
        return controller.payload_of(envelope, unknown=1)
    _, signatures = dsse.opened(envelope)
    signers = [key for key in analyst if dsse.key_id(key) in signatures]
    return controller.payload_of(envelope, (signers or analyst)[:1])


def checked_receipt(envelope: bytes, keys: KeyHistory, card: CardTerms, *, card_digest: str) -> Receipt:
    """The receipt of a release, signed by the controller, about this card and within its terms.

    Raises:
        VerificationError: Not signed, not a receipt, or not of this card; names what.
    """
    payload = keys.payload_of(envelope)
    receipt = receipt_of_document(predicate_of(payload, RECEIPT, compared=True))
    if receipt_statement(receipt) != payload:
        raise VerificationError(problem="the receipt is not in canonical form")
    if receipt.card_digest != card_digest:
        raise VerificationError(problem="the receipt names another card")
    if not receipt.name.startswith(f"{card.name}/releases/"):
        raise VerificationError(problem="the receipt names a release of another card")
    _check_maker(receipt, card)
    if receipt.rows > card.terms.rows:
        raise VerificationError(problem="the receipt names more rows than the card allows")
    if receipt.time >= card.expire_time:
        raise VerificationError(problem="the receipt is dated after the end of the card")
    return receipt


def version_kind_of(receipts: Iterable[Receipt]) -> VersionKind | None:
    """Return the kind of version of the card's records from its receipts; None if no receipt has it.

    Raises:
        VerificationError: They contradict each other, although one card is of one version.
    """
    kinds = {receipt.version_kind for receipt in receipts if receipt.version_kind is not None}
    if len(kinds) > 1:
        raise VerificationError(problem="the receipts differ in the kind of version of the records")
    return kinds.pop() if kinds else None


def checked_signed_answer(
    envelope: bytes, keys: KeyHistory, card: CardTerms, *, card_digest: str
) -> SignedAnswer:
    """The answer of a run on the records, signed by the controller, under this card, within its terms.

    Raises:
        VerificationError: Not signed, not an answer, or not of this card; names what.
    """
    payload = keys.payload_of(envelope)
    document = predicate_of(payload, ANSWER, compared=True)
    answer = answer_of_document(document)
    # the document is what the answer is written as: only its bytes could have been others
    if statement(ANSWER, answer.name, document) != payload:
        raise VerificationError(problem="the signed answer is not in canonical form")
    if answer.card_digest != card_digest or not answer.name.startswith(f"{card.name}/answers/"):
        raise VerificationError(problem="the signed answer belongs to another card")
    if answer.version != card.version:
        raise VerificationError(problem="the signed answer is about other records than the card names")
    analyses, kind = card.terms.analyses, answer.question.kind
    granted = kind in analyses.kinds or answer.question.formula in analyses.programs
    if not granted or answer.numbers > max(analyses.numbers, analyses.program_numbers):
        raise VerificationError(problem="the signed answer is not one that the card grants")
    return answer


def _check_maker(receipt: Receipt, card: CardTerms) -> None:
    """A seed for what sees psi alone; else what decided about the rows, as the card says."""
    without = card.terms.without_uniques
    seedless = without or card.tier is not Tier.BY_CONSTRUCTION
    if (_tier_of(receipt), receipt.seed is None) != (card.tier, seedless):
        raise VerificationError(problem="the receipt and the card differ in tier")
    if receipt.most_records != card.most_records:
        raise VerificationError(
            problem="the receipt and the card differ in the number of records that count for a person"
        )
    if receipt.without_uniques != without:
        raise VerificationError(problem="the receipt and the card differ in the treatment of uniques")
    box = receipt.private_box if receipt.audited is None else receipt.audited.digest
    if box and box != card.generator_digest:
        raise VerificationError(problem="the receipt and the card name different black boxes")


def _tier_of(receipt: Receipt) -> Tier | None:
    """The tier that a receipt speaks of; None where it speaks of two."""
    if receipt.audited is not None:
        return None if receipt.private_box else Tier.AUDITED
    return Tier.PRIVATE if receipt.private_box else Tier.BY_CONSTRUCTION


def passing_verdict(
    envelopes: Iterable[bytes], audited: AuditedBox, keys: KeyHistory, card: CardTerms, digest: str
) -> bytes:
    """The envelope of the verdict that a receipt names.

    Args:
        envelopes: Signed facts, among which it should be.
        keys: The controller's.
        digest: SHA-256, in hex, of the card.

    Raises:
        VerificationError: It is not there, is not signed, or does not say that an audit of the card's
            generator passed under this card.
    """
    from gencard.core.audit.report import Verdict  # noqa: PLC0415 - loads scipy.stats

    matches = [envelope for envelope in envelopes if _digest_of(envelope) == audited.verdict_digest]
    if not matches:
        raise VerificationError(problem="the verdict that the receipt names is missing")
    payload = keys.payload_of(matches[0])
    verdict = predicate_of(payload, VERDICT)
    facts = {
        "blackBox": card.terms.generator,
        "boxDigest": {"sha256": card.generator_digest},
        "verdict": str(Verdict.NO_EVIDENCE),
    }
    agrees = all(verdict.get(name) == value for name, value in facts.items())
    if subject_digest(payload) != digest or not agrees:
        raise VerificationError(problem="the verdict is not about the card's generator")
    return matches[0]


def _digest_of(envelope: bytes) -> str:
    try:
        return sha256(dsse.opened(envelope)[0])
    except GencardError:
        return ""
