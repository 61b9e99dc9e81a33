"""in-toto Statements: the card, and the signed facts that follow it."""

from gencard.core.errors import InvalidInputError, VerificationError
from gencard.wire.signatures.canonical import Document, digest_of, document_of, json_bytes, text_of

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
CARD = "urn:gencard:card:v1"
RECEIPT = "urn:gencard:receipt:v1"
VERDICT = "urn:gencard:verdict:v1"
REVOCATION = "urn:gencard:revocation:v1"
CHECKPOINT = "urn:gencard:log-checkpoint:v1"
KEY_CHANGE = "urn:gencard:key-change:v1"
ENROLMENT_REQUEST = "urn:gencard:enrolment-request:v1"


def statement(kind: str, subject: str, predicate: Document, digest: str | None = None) -> bytes:
    """A Statement as RFC 8785 bytes.

    Args:
        kind: The predicate's type, one of this module's URNs.
        subject: Resource name of what it is about.
        predicate: The facts.
        digest: SHA-256, in hex, of the subject; the predicate's own where not given.
    """
    return json_bytes(
        {
            "_type": STATEMENT_TYPE,
            "predicate": predicate,
            "predicateType": kind,
            "subject": [{"digest": {"sha256": digest or digest_of(predicate)}, "name": subject}],
        }
    )


def predicate_of(payload: bytes, kind: str) -> Document:
    """The facts of a Statement whose signature was verified.

    Raises:
        VerificationError: Another kind of statement, or none.
    """
    try:
        document = document_of(payload, "statement")
        predicate = document["predicate"]
        right = document["predicateType"] == kind and document["_type"] == STATEMENT_TYPE
        if right and isinstance(predicate, dict):
            return predicate
    except (KeyError, TypeError, InvalidInputError):
        pass
    raise VerificationError(problem="the statement does not have the expected type")


def subject_digest(payload: bytes) -> str:
    """SHA-256, in hex, of the subject that a Statement is about."""
    try:
        return text_of(document_of(payload, "statement")["subject"][0]["digest"]["sha256"])
    except (KeyError, TypeError, IndexError, InvalidInputError):
        raise VerificationError(problem="the statement has no subject") from None
