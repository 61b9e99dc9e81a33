"""A passkey in software: what a browser would send, and whatever a forger might send in its place."""

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from webauthn.helpers import bytes_to_base64url

PRESENT, VERIFIED, ATTESTED = 0x01, 0x04, 0x40
"""Flags of authenticator data: somebody touched it, it knows who, a new credential follows."""

Sent = dict[str, Any]
_new_private_key = partial(ec.generate_private_key, ec.SECP256R1())


@dataclass(frozen=True)
class SoftwareKey:
    """One credential; ``count`` is the signature counter that its next answer bears.

    Args:
        origin: What the browser would write into the client data.
        flags: Of the authenticator data.
    """

    origin: str
    host: str = "localhost"
    user: bytes = b""
    identifier: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    private: ec.EllipticCurvePrivateKey = field(default_factory=_new_private_key)
    count: int = 0
    flags: int = PRESENT | VERIFIED

    def but(self, **changes: Any) -> "SoftwareKey":
        """The same credential, which lies or counts otherwise."""
        return replace(self, **changes)

    def registered(self, options: Mapping[str, Any]) -> Sent:
        """The answer to ``navigator.credentials.create``."""
        public = self.private.public_key().public_numbers()
        x, y = (number.to_bytes(32, "big") for number in (public.x, public.y))
        key = cbor2.dumps({1: 2, 3: -7, -1: 1, -2: x, -3: y})
        credential = bytes(16) + len(self.identifier).to_bytes(2, "big") + self.identifier + key
        data = self._data(self.flags | ATTESTED) + credential
        attestation = cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data})
        client = self._client("webauthn.create", options["challenge"])
        return self._sent(clientDataJSON=client, attestationObject=attestation)

    def asserted(self, options: Mapping[str, Any]) -> Sent:
        """The answer to ``navigator.credentials.get``."""
        client = self._client("webauthn.get", options["challenge"])
        data = self._data(self.flags)
        signed = data + hashlib.sha256(client).digest()
        signature = self.private.sign(signed, ec.ECDSA(hashes.SHA256()))
        parts = {"clientDataJSON": client, "authenticatorData": data, "signature": signature}
        return self._sent(**parts, userHandle=self.user)

    def _client(self, kind: str, challenge: str) -> bytes:
        data = {"type": kind, "challenge": challenge, "origin": self.origin, "crossOrigin": False}
        return json.dumps(data).encode()

    def _data(self, flags: int) -> bytes:
        host = hashlib.sha256(self.host.encode()).digest()
        return host + bytes([flags]) + self.count.to_bytes(4, "big")

    def _sent(self, **response: bytes) -> Sent:
        identifier = bytes_to_base64url(self.identifier)
        parts = {name: bytes_to_base64url(value) for name, value in response.items()}
        sent = {"id": identifier, "rawId": identifier, "type": "public-key", "response": parts}
        return sent | {"authenticatorAttachment": "platform", "clientExtensionResults": {}}
