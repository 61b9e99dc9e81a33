"""The verdict that a receipt of an audited release names: signed, about its card and its black box."""

from collections.abc import Iterable

from gencard.core.audit.report import Verdict
from gencard.core.card.terms import CardTerms
from gencard.core.errors import GencardError, VerificationError
from gencard.wire.documents.key_history import KeyHistory
from gencard.wire.documents.receipt import AuditedBox
from gencard.wire.documents.statements import VERDICT, predicate_of, subject_digest
from gencard.wire.signatures import dsse
from gencard.wire.signatures.canonical import sha256


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
    found = [envelope for envelope in envelopes if _digest_of(envelope) == audited.verdict_digest]
    if not found:
        raise VerificationError(problem="the verdict that the receipt names is missing")
    payload = keys.payload_of(found[0])
    said = predicate_of(payload, VERDICT)
    facts = {
        "blackBox": card.terms.generator,
        "boxDigest": {"sha256": card.generator_digest},
        "verdict": str(Verdict.NO_EVIDENCE),
    }
    agrees = all(said.get(name) == value for name, value in facts.items())
    if subject_digest(payload) != digest or not agrees:
        raise VerificationError(problem="the verdict is not about the card's generator")
    return found[0]


def _digest_of(envelope: bytes) -> str:
    try:
        return sha256(dsse.opened(envelope)[0])
    except GencardError:
        return ""
