"""Dead Simple Signing Envelope (DSSE 1.0) with Ed25519: who vouches for which bytes."""

import base64
import hashlib
from collections.abc import Mapping, Sequence

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from gencard.core.errors import InvalidInputError, VerificationError
from gencard.wire.signatures.canonical import document_of, json_bytes, text_of

STATEMENT = "application/vnd.in-toto+json"
"""Payload type of everything signed here."""


def key_id(key: Ed25519PublicKey) -> str:
    """Fingerprint of a public key: SHA-256, in hex, of its 32 raw bytes."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()


def pre_authentication(payload: bytes, kind: str = STATEMENT) -> bytes:
    """What is signed: ``DSSEv1 LEN(type) type LEN(payload) payload`` (DSSE protocol, PAE)."""
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
    return json_bytes(
        {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": STATEMENT,
            "signatures": [
                {"keyid": keyid, "sig": base64.b64encode(signature).decode()}
                for keyid, signature in signatures.items()
            ],
        }
    )


def sign(payload: bytes, keys: Sequence[Ed25519PrivateKey]) -> bytes:
    """An envelope signed with each key."""
    return envelope_of(payload, {key_id(key.public_key()): signature_of(payload, key) for key in keys})


def verify(envelope: bytes, keys: Sequence[Ed25519PublicKey]) -> bytes:
    """The payload, once **every** given key is found to have signed it.

    Raises:
        VerificationError: The envelope is malformed, or a signature is missing or wrong.
    """
    if not keys:
        raise VerificationError(problem="there is no public key to check the signature with")
    payload, signatures = opened(envelope)
    for key in keys:
        signature = signatures.get(key_id(key))
        if signature is None:
            raise VerificationError(problem=f"no signature by key {key_id(key)[:16]}")
        if not is_signed_by(payload, signature, key):
            raise VerificationError(problem=f"the signature by key {key_id(key)[:16]} is wrong")
    return payload


def opened(envelope: bytes) -> tuple[bytes, dict[str, bytes]]:
    """Payload and signatures of an envelope, **not verified**.

    Raises:
        VerificationError: The envelope is malformed.
    """
    try:
        document = document_of(envelope, "envelope")
        if document["payloadType"] != STATEMENT:
            raise VerificationError(problem="the envelope has another payload type")
        payload = base64.b64decode(document["payload"], validate=True)
        signatures = {
            text_of(entry["keyid"]): base64.b64decode(entry["sig"], validate=True)
            for entry in document["signatures"]
        }
    except (KeyError, TypeError, ValueError, InvalidInputError):
        raise VerificationError(problem="the envelope is malformed") from None
    return payload, signatures
