"""Enrolment request: the public halves of a person's two keys, signed with both private halves.

The person's machine makes the request; the controller's steward answers it. No private key is in either
document. The certificate signing request (PKCS #10, RFC 2986) is signed with the TLS key and names the
fingerprint of the signing key; the statement around it is signed with the signing key. So each key
vouches for the other, and nobody can combine one person's request with another person's key.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from gencard.core.errors import InvalidInputError, UnauthenticatedError, VerificationError
from gencard.wire.documents.statements import ENROLMENT_REQUEST, predicate_of, statement
from gencard.wire.signatures import dsse
from gencard.wire.signatures.canonical import text_of
from gencard.wire.signatures.identity import Identity, Role

LARGEST = 1 << 16
"""Bytes of a request or an answer; longer files are refused unread."""

PERSONS = (Role.ANALYST, Role.AUDITOR, Role.STEWARD)
"""Roles that a person can be enrolled in."""

_SIGNING_KEY = "urn:gencard:signing-key:"
"""Before the signing key's fingerprint, as the one alternative name of the signing request."""

_FIELDS = {"certificateRequest", "name", "project", "role", "signingKey"}


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
    facts = {
        "certificateRequest": _certificate_request(tls_key, name, fingerprint),
        "name": name,
        "project": project,
        "role": role,
        "signingKey": signing_key.public_key().public_bytes_raw().hex(),
    }
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
    except (VerificationError, KeyError, TypeError, ValueError, UnsupportedAlgorithm):
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
    """Raises ValueError, TypeError or KeyError where the facts are not those of a request."""
    if set(facts) != _FIELDS:
        raise ValueError
    signing_key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(text_of(facts["signingKey"])))
    pem = text_of(facts["certificateRequest"]).encode()
    return EnrolmentRequest(
        name=text_of(facts["name"]),
        role=text_of(facts["role"]),
        project=text_of(facts["project"]),
        tls_key=_tls_key(x509.load_pem_x509_csr(pem), dsse.key_id(signing_key)),
        signing_key=signing_key,
    )


def _tls_key(request: x509.CertificateSigningRequest, fingerprint: str) -> ec.EllipticCurvePublicKey:
    """Its key; raises ValueError where it is not signed with it, or names another signing key."""
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
