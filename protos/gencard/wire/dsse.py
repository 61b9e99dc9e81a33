"""Signed statements: in-toto Statements in Dead Simple Signing Envelopes (DSSE 1.0) with Ed25519."""

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from types import MappingProxyType
from typing import TypeVar

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from gencard.core.card.budget import decimal_text
from gencard.core.errors import GencardError, InvalidInputError, VerificationError
from gencard.core.typed_json import AS_IT_IS, INTEGER_TEXT, JsonForm, text_scalar
from gencard.core.types import Time
from gencard.wire.canonical import (
    Document,
    decimal_of_text,
    digest_of,
    document_of,
    json_bytes,
    text_of,
    time_of,
    time_text,
    time_text_of,
)

PAYLOAD_TYPE = "application/vnd.in-toto+json"
"""Payload type of everything signed here."""

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
CARD = "urn:gencard:card:v1"
RECEIPT = "urn:gencard:receipt:v1"
VERDICT = "urn:gencard:verdict:v1"
ANSWER = "urn:gencard:answer:v1"
REVOCATION = "urn:gencard:revocation:v1"
CHECKPOINT = "urn:gencard:log-checkpoint:v1"
KEY_CHANGE = "urn:gencard:key-change:v1"
ENROLMENT_REQUEST = "urn:gencard:enrolment-request:v1"
RESTORE_APPROVAL = "urn:gencard:restore-approval:v1"


def key_id(key: Ed25519PublicKey) -> str:
    """Fingerprint of a public key: SHA-256, in hex, of its 32 raw bytes."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()


def pre_authentication(payload: bytes, kind: str = PAYLOAD_TYPE) -> bytes:
    """Return the bytes to sign: ``DSSEv1 LEN(type) type LEN(payload) payload`` (DSSE protocol, PAE)."""
    name = kind.encode()
    return b"DSSEv1 %d %s %d %s" % (len(name), name, len(payload), payload)


def signature_of(payload: bytes, key: Ed25519PrivateKey) -> bytes:
    """Ed25519 signature, 64 bytes, over the pre-authentication encoding."""
    return key.sign(pre_authentication(payload))


def is_signed_by(payload: bytes, signature: bytes, key: Ed25519PublicKey) -> bool:
    try:
        key.verify(signature, pre_authentication(payload))
    except InvalidSignature:
        return False
    return True


def envelope_of(payload: bytes, signatures: Mapping[str, bytes]) -> bytes:
    """An envelope, as canonical JSON, around signatures by key id."""
    entries = []
    for keyid, signature in signatures.items():
        entries.append({"keyid": keyid, "sig": base64.b64encode(signature).decode()})
    encoded = base64.b64encode(payload).decode()
    return json_bytes({"payload": encoded, "payloadType": PAYLOAD_TYPE, "signatures": entries})


def sign(payload: bytes, keys: Sequence[Ed25519PrivateKey]) -> bytes:
    signatures = {}
    for key in keys:
        signatures[key_id(key.public_key())] = signature_of(payload, key)
    return envelope_of(payload, signatures)


def verify(envelope: bytes, keys: Sequence[Ed25519PublicKey], *, unknown: int = 0) -> bytes:
    """The payload, once **every** given key is found to have signed it, and nothing else.

    Args:
        keys: Of all signers, in the order of their signatures.
        unknown: Number of further signers, before these, whose keys are not known here. Their
            signatures are not checked.

    Raises:
        VerificationError: The envelope is malformed, a signature is missing or wrong, or the signatures
            are not one for each signer in this order.
    """
    payload, signatures = opened(envelope)
    check_signatures(payload, signatures, keys, unknown=unknown)
    return payload


def check_signatures(
    payload: bytes,
    signatures: Mapping[str, bytes],
    keys: Sequence[Ed25519PublicKey],
    *,
    unknown: int = 0,
) -> None:
    """Check the signatures of an opened envelope; see ``verify``."""
    if not keys:
        raise VerificationError(problem="there is no public key to check the signature with")
    names = list(map(key_id, keys))
    for key, name in zip(keys, names, strict=True):
        signature = signatures.get(name)
        if signature is None:
            raise VerificationError(problem=f"no signature by key {name[:16]}")
        if not is_signed_by(payload, signature, key):
            raise VerificationError(problem=f"the signature by key {name[:16]} is wrong")
    # an entry that is not checked could be exchanged by anybody, or be taken for a signature
    if len(signatures) != unknown + len(keys) or [*signatures][unknown:] != names:
        problem = "the envelope does not have one signature for each signer, in their order"
        raise VerificationError(problem=problem)


@lru_cache(maxsize=4)  # who verifies an envelope first looks for the key that signed it
def opened(envelope: bytes) -> tuple[bytes, Mapping[str, bytes]]:
    """Payload and signatures of a canonical envelope, **not verified**; raises VerificationError."""
    try:
        document = document_of(envelope, "envelope", compared=True)
        if document["payloadType"] != PAYLOAD_TYPE:
            raise VerificationError(problem="the envelope has another payload type")
        payload = base64.b64decode(document["payload"], validate=True)
        signatures: dict[str, bytes] = {}
        for entry in document["signatures"]:
            signatures[entry["keyid"]] = base64.b64decode(entry["sig"], validate=True)
        are_texts = {str}.issuperset(map(type, signatures))
        # no name or signer stands twice
        is_canonical = are_texts and envelope_of(payload, signatures) == envelope
    except (KeyError, TypeError, ValueError, InvalidInputError):
        is_canonical = False
    if not is_canonical:
        raise VerificationError(problem="the envelope is malformed")
    return payload, MappingProxyType(signatures)


def statement(kind: str, subject: str, predicate: Document, digest: str | None = None) -> bytes:
    """A Statement as RFC 8785 bytes.

    Args:
        kind: The predicate's type, one of this module's URNs.
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


def predicate_of(payload: bytes, kind: str, *, compared: bool = False) -> Document:
    """The facts of a verified Statement; raises VerificationError for another kind."""
    try:
        document = document_of(payload, "statement", compared=compared)
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


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


DOCUMENT = JsonForm(
    {
        str: AS_IT_IS[str],
        bool: AS_IT_IS[bool],
        int: INTEGER_TEXT,
        float: text_scalar(repr, float),
        Decimal: text_scalar(decimal_text, decimal_of_text),
        bytes: text_scalar(bytes.hex, bytes.fromhex),
        Time: text_scalar(str, time_text_of),
        datetime: text_scalar(time_text, time_of),
        Ed25519PublicKey: text_scalar(
            lambda key: key.public_bytes_raw().hex(),
            lambda text: Ed25519PublicKey.from_public_bytes(bytes.fromhex(text)),
        ),
    },
    _camel_case,
)
"""Numbers as decimal strings, bytes and keys in hex, names in camel case: all that is signed."""

T = TypeVar("T")


def read_document(kind: Callable[..., T], document: object, what: str) -> T:
    """The value of a document; raises VerificationError that names it and the field."""
    try:
        return DOCUMENT.read(kind, document, field=what)
    except GencardError as error:
        has_field = type(error) is InvalidInputError  # others may quote what stands in the document
        field = error.fields["field"].removeprefix(what).removeprefix(".") if has_field else ""
    where = f" (see {field})" if field else ""
    raise VerificationError(problem=f"the document is not {what}{where}")
