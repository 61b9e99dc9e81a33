"""Enrolment: a person's request for a certificate, and the steward's answer.

The request holds the public halves of the person's two keys. The certificate signing request (PKCS #10,
RFC 2986) in it is signed with the TLS key and names the fingerprint of the signing key; the statement
around it is signed with the signing key. So each key vouches for the other, and nobody can combine one
person's request with another person's key.

The answer holds the certificate, and what identifies the controller. It is not signed, because the
person's trust in this controller begins with it: the person and the steward compare its fingerprint over
another channel than the one that carried it. Neither document holds a secret.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

from gencard.core.errors import InvalidInputError, UnauthenticatedError, VerificationError
from gencard.core.json_codecs import written
from gencard.core.typed_json import text_scalar
from gencard.wire.signatures import dsse
from gencard.wire.signatures.canonical import document_of, json_bytes, sha256
from gencard.wire.signatures.dsse import DOCUMENT, ENROLMENT_REQUEST, predicate_of, statement
from gencard.wire.signatures.identity import Identity, Role

LARGEST = 1 << 16
"""Bytes of a request or an answer; longer files are refused unread."""

PERSONS = (Role.ANALYST, Role.AUDITOR, Role.STEWARD)
"""Roles that a person can be enrolled in."""

_SIGNING_KEY = "urn:gencard:signing-key:"
"""Before the signing key's fingerprint, as the one alternative name of the signing request."""

FORMAT = "urn:gencard:enrolment-answer:v1"
_UNUSABLE = (InvalidInputError, InvalidSignature, UnauthenticatedError, UnsupportedAlgorithm)
_ONE_ADDRESS = r"[A-Za-z0-9._:%\[\]-]{1,255}:[0-9]{1,5}"
_ADDRESS = re.compile(f"{_ONE_ADDRESS}(,{_ONE_ADDRESS}){{0,7}}")


@dataclass(frozen=True, slots=True)
class EnrolmentRequest:
    """A request whose two signatures were verified.

    Args:
        name: Name that the person wants.
        role: Role that the person wants, or empty. The steward decides.
        project: Project that the person wants, or empty. The steward decides.
        tls_key: Public key for the certificate (ECDSA, P-256).
        signing_key: Public key that will sign cards (Ed25519).
    """

    name: str
    role: str
    project: str
    tls_key: ec.EllipticCurvePublicKey
    signing_key: Ed25519PublicKey

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of the signing key, which vouches for the whole request."""
        return dsse.key_id(self.signing_key)


@dataclass(frozen=True, slots=True)
class _RequestFacts:
    """Fields in the statement of a request."""

    certificate_request: str
    name: str
    project: str
    role: str
    signing_key: Ed25519PublicKey


def request_document(
    tls_key: ec.EllipticCurvePrivateKey,
    signing_key: Ed25519PrivateKey,
    *,
    name: str,
    role: str = "",
    project: str = "",
) -> bytes:
    """A request as a DSSE envelope.

    Raises:
        InvalidInputError: The name, role or project could not be part of an identity.
    """
    checked_identity("request", project or "project", role or Role.ANALYST, name)
    fingerprint = dsse.key_id(signing_key.public_key())
    facts = DOCUMENT.write(
        _RequestFacts(
            _certificate_request(tls_key, name, fingerprint),
            name,
            project,
            role,
            signing_key.public_key(),
        )
    )
    payload = statement(ENROLMENT_REQUEST, f"people/{name}", facts, fingerprint)
    return dsse.sign(payload, [signing_key])


def request_of_document(envelope: bytes) -> EnrolmentRequest:
    """The request in an envelope, once both keys are found to have signed it.

    Raises:
        InvalidInputError: The file is no enrolment request, a signature is wrong, or the two keys do
            not name each other.
    """
    try:
        payload, _ = dsse.opened(envelope)
        facts = predicate_of(payload, ENROLMENT_REQUEST)
        request = _request_of(facts)
        dsse.verify(envelope, [request.signing_key])
    except (VerificationError, InvalidInputError, ValueError, UnsupportedAlgorithm):
        request = None
    if request is None:
        problem = "is not an enrolment request of `gencard enrol`, or it was changed"
        raise InvalidInputError(field="request", problem=problem)
    checked_identity("request", request.project or "project", request.role or Role.ANALYST, request.name)
    return request


def checked_identity(trust_domain: str, project: str, role: str, name: str) -> Identity:
    """A person's identity.

    Raises:
        InvalidInputError: The role is not a person's, or its URI would not read back as itself.
    """
    if role not in PERSONS:
        problem = f"must be one of {', '.join(PERSONS)}"
        raise InvalidInputError(field="role", problem=problem)
    identity = Identity(trust_domain, project, Role(role), name)
    try:
        same = Identity.of(identity.uri) == identity
    except UnauthenticatedError:
        same = False
    if not same or name.startswith("."):
        problem = "may contain a-z, 0-9, dot, _ and - (a project: a-z, 0-9 and -), at most 63 characters"
        raise InvalidInputError(field="name", problem=problem)
    return identity


def grouped(fingerprint: str) -> str:
    """A fingerprint in groups of four hex digits, to be read aloud.

    >>> grouped("0123456789abcdef")
    '0123 4567 89ab cdef'
    """
    return " ".join(fingerprint[place : place + 4] for place in range(0, len(fingerprint), 4))


def _certificate_request(key: ec.EllipticCurvePrivateKey, name: str, fingerprint: str) -> str:
    """PEM of a certificate signing request that names the signing key's fingerprint."""
    names = [x509.UniformResourceIdentifier(f"{_SIGNING_KEY}{fingerprint}")]
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    return request.public_bytes(Encoding.PEM).decode()


def _request_of(facts: Mapping[str, object]) -> EnrolmentRequest:
    """Raises InvalidInputError or ValueError where the facts are not those of a request."""
    facts_read = DOCUMENT.read(_RequestFacts, facts, field="request")
    pem = facts_read.certificate_request.encode()
    tls_key = _tls_key(x509.load_pem_x509_csr(pem), dsse.key_id(facts_read.signing_key))
    return EnrolmentRequest(
        facts_read.name, facts_read.role, facts_read.project, tls_key, facts_read.signing_key
    )


def _tls_key(request: x509.CertificateSigningRequest, fingerprint: str) -> ec.EllipticCurvePublicKey:
    """Return the TLS key that signed a request; raise ValueError for another signing key in it."""
    key = request.public_key()
    names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(f"{_SIGNING_KEY}{fingerprint}")])
    try:
        named = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        named = None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ValueError
    if named != names or not request.is_signature_valid:
        raise ValueError
    return key


def _certificate_pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


_CERTIFICATE = text_scalar(_certificate_pem, lambda text: x509.load_pem_x509_certificate(text.encode()))


@dataclass(frozen=True, slots=True)
class EnrolmentAnswer:
    """Answer of the steward to a request.

    Args:
        certificate: The person's, for the TLS key in the request.
        authority: The certificate of the authority that issued it, and the controller's.
        card_key: The controller's public key for cards, receipts and verdicts.
        log_key: The public key of the controller's log.
        signing_key: The person's signing key, as enrolled.
        address: Where the controller listens, ``host:port``; those of standbys follow, after commas.
    """

    certificate: x509.Certificate = field(metadata=written(scalar=_CERTIFICATE))
    authority: x509.Certificate = field(metadata=written(scalar=_CERTIFICATE))
    card_key: Ed25519PublicKey
    log_key: Ed25519PublicKey
    signing_key: Ed25519PublicKey
    address: str
    format: str = field(default=FORMAT, init=False, repr=False)

    def __post_init__(self) -> None:
        if not _ADDRESS.fullmatch(self.address):
            raise InvalidInputError(
                field="address", problem="must be host:port, or several separated by commas"
            )

    @property
    def identity(self) -> Identity:
        """Raises UnauthenticatedError where the certificate names nobody."""
        return Identity.of_certificate(self.certificate)

    @property
    def document(self) -> bytes:
        """The answer as canonical JSON."""
        return json_bytes(DOCUMENT.write(self))

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
        answer = DOCUMENT.read(EnrolmentAnswer, document_of(content, "answer"), field="answer")
        answer.certificate.verify_directly_issued_by(answer.authority)
        right = answer.document == content and bool(answer.identity.name)
    except (KeyError, TypeError, ValueError, *_UNUSABLE):
        right = False
    if not right:
        problem = "is not an answer of `gencard-controller enrol`, or it was changed"
        raise InvalidInputError(field="answer", problem=problem)
    return answer


def _key_pem(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
