"""Enrolment answer: the certificate for a request, and how to find and check the controller.

The answer holds no secret, and it is not signed: a person's trust in this controller begins with it. So
the person and the steward compare its fingerprint over another channel than the one that carried it.
"""

import re
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gencard.core.errors import InvalidInputError, UnauthenticatedError
from gencard.wire.signatures.canonical import Document, document_of, json_bytes, sha256, text_of
from gencard.wire.signatures.identity import Identity

FORMAT = "urn:gencard:enrolment-answer:v1"
_FIELDS = {"address", "authority", "cardKey", "certificate", "format", "logKey", "signingKey"}


@dataclass(frozen=True, slots=True)
class EnrolmentAnswer:
    """What the steward sends back for a request.

    Args:
        certificate: The person's, for the TLS key in the request.
        authority: The certificate of the authority that issued it, and the controller's.
        card_key: The controller's public key for cards, receipts and verdicts.
        log_key: The public key of the controller's log.
        signing_key: The person's signing key, as enrolled.
        address: Where the controller listens, ``host:port``.
    """

    certificate: x509.Certificate
    authority: x509.Certificate
    card_key: Ed25519PublicKey
    log_key: Ed25519PublicKey
    signing_key: Ed25519PublicKey
    address: str

    @property
    def identity(self) -> Identity:
        """Raises UnauthenticatedError where the certificate names nobody."""
        return Identity.of_certificate(self.certificate)

    @property
    def document(self) -> bytes:
        """The answer as canonical JSON."""
        facts: Document = {
            "address": self.address,
            "authority": _certificate_pem(self.authority),
            "cardKey": self.card_key.public_bytes_raw().hex(),
            "certificate": _certificate_pem(self.certificate),
            "format": FORMAT,
            "logKey": self.log_key.public_bytes_raw().hex(),
            "signingKey": self.signing_key.public_bytes_raw().hex(),
        }
        return json_bytes(facts)

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of the whole answer."""
        return sha256(self.document)

    def files(self) -> dict[str, bytes]:
        """The public files of a connection folder, by name."""
        return {
            "authority.pem": _certificate_pem(self.authority).encode(),
            "controller_card_key.pub": _key_pem(self.card_key),
            "log_key.pub": _key_pem(self.log_key),
            "connection.toml": f'address = "{self.address}"\n'.encode(),
            "certificate.pem": _certificate_pem(self.certificate).encode(),
            "signing_key.pub": _key_pem(self.signing_key),
        }


def answer_of_document(content: bytes) -> EnrolmentAnswer:
    """The answer in a file, once its certificate is found to be of its authority.

    Raises:
        InvalidInputError: The file is no enrolment answer, or its parts do not belong together.
    """
    try:
        answer = _answer_of(document_of(content, "answer"))
        answer.certificate.verify_directly_issued_by(answer.authority)
        right = answer.document == content and bool(answer.identity.name)
    except (KeyError, TypeError, ValueError, *_UNUSABLE):
        right = False
    if not right:
        problem = "is not an answer of `gencard-controller enrol`, or it was changed"
        raise InvalidInputError(field="answer", problem=problem)
    return answer


_UNUSABLE = (InvalidInputError, InvalidSignature, UnauthenticatedError, UnsupportedAlgorithm)
_ADDRESS = re.compile(r"[A-Za-z0-9._:%\[\]-]{1,255}:[0-9]{1,5}")


def _answer_of(facts: Document) -> EnrolmentAnswer:
    """Raises KeyError, TypeError or ValueError where the facts are not those of an answer."""
    if set(facts) != _FIELDS or facts["format"] != FORMAT:
        raise ValueError
    address = text_of(facts["address"])
    if not _ADDRESS.fullmatch(address):
        raise ValueError
    return EnrolmentAnswer(
        certificate=x509.load_pem_x509_certificate(text_of(facts["certificate"]).encode()),
        authority=x509.load_pem_x509_certificate(text_of(facts["authority"]).encode()),
        card_key=_key(facts["cardKey"]),
        log_key=_key(facts["logKey"]),
        signing_key=_key(facts["signingKey"]),
        address=address,
    )


def _key(value: object) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(bytes.fromhex(text_of(value)))


def _key_pem(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _certificate_pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()
