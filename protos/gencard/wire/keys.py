"""Keys: who has one, enrolment of people, approvals of a restore, and the history of signing keys.

Enrolment is a person's request for a certificate, and the steward's answer.

The request holds the public halves of the person's two keys. The certificate signing request (PKCS #10,
RFC 2986) in it is signed with the TLS key and names the fingerprint of the signing key; the statement
around it is signed with the signing key. So each key vouches for the other, and nobody can combine one
person's request with another person's key.

The answer holds the certificate, and what identifies the controller. It is not signed, because the
person's trust in this controller begins with it: the person and the steward compare its fingerprint over
another channel than the one that carried it. Neither document holds a secret.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from itertools import pairwise

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
from gencard.core.types import Time
from gencard.wire import dsse
from gencard.wire.canonical import document_of, integer_of, json_bytes, sha256, text_of, time_text_of
from gencard.wire.dsse import (
    DOCUMENT,
    ENROLMENT_REQUEST,
    KEY_CHANGE,
    RESTORE_APPROVAL,
    predicate_of,
    read_document,
    statement,
)

# Identity of a person: the one URI in a certificate, and nothing else.

_URI = re.compile(r"spiffe://([a-z0-9.-]{1,100})/([a-z0-9-]{1,63})/([a-z]{1,20})/([a-z0-9._-]{1,63})")

_UNREADABLE = (x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType)
"""Errors beside ValueError that ``cryptography`` raises for a certificate's alternative names."""


class Role(StrEnum):
    """Role of the holder of a certificate, which decides what calls are permitted."""

    ANALYST = "analyst"
    AUDITOR = "auditor"
    STEWARD = "steward"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class Identity:
    """A holder of a certificate: ``spiffe://{trust domain}/{project}/{role}/{name}``.

    >>> Identity.of("spiffe://gencard.local/health/analyst/ana").role
    <Role.ANALYST: 'analyst'>
    """

    trust_domain: str
    project: str
    role: Role
    name: str
    uri: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        uri = f"spiffe://{self.trust_domain}/{self.project}/{self.role}/{self.name}"
        object.__setattr__(self, "uri", uri)

    @classmethod
    def of(cls, uri: str) -> "Identity":
        """Raises UnauthenticatedError where the URI is not of this form."""
        match = _URI.fullmatch(uri)
        if not match or match[3] not in set(Role):
            raise UnauthenticatedError()
        return cls(match[1], match[2], Role(match[3]), match[4])

    @classmethod
    def of_certificate(cls, certificate: x509.Certificate) -> "Identity":
        """The identity in a certificate whose names are one URI; raises UnauthenticatedError for others.

        The names are read from the certificate itself. gRPC's ``peer_uri`` property is a C string, which
        ends at the first NUL: it presents ``.../steward/sam\\0...`` as ``.../steward/sam``.
        """
        try:
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (ValueError, TypeError, *_UNREADABLE):
            names = x509.SubjectAlternativeName([])
        uris = [name.value for name in names if isinstance(name, x509.UniformResourceIdentifier)]
        if len(uris) != 1 or len(list(names)) != 1:
            raise UnauthenticatedError()
        return cls.of(uris[0])


def short_name(uri: str) -> str:
    """Project, role and name in a URI.

    >>> short_name("spiffe://house.example/service/steward/sam")
    'service/steward/sam'
    """
    return uri.removeprefix("spiffe://").partition("/")[2] or uri


# Approval of a restore: a steward's signed word that one backup may take the place of the state.
#
# A restore happens while the service is stopped, so two stewards cannot decide at the desk. Each signs
# the digest of the backup's list, which holds the digest of every file, wherever a copy of the list is.

BACKUP = "gencard.backup.v1"
"""Kind of a backup's list."""

LIFE = timedelta(days=14)
"""Time for which an approval counts, as for any first decision."""

LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class BackupFacts:
    """Facts of a backup that a steward sees; ``digest`` is the list's SHA-256, in hex (RFC 8785)."""

    digest: str
    entries: int
    files: int
    made: str


@dataclass(frozen=True, slots=True)
class RestoreApproval:
    """Approval of one steward, named by URI.

    Args:
        backup: Digest of the backup's list.
        complete: Nothing was decided after the backup, so the budgets are free again.
        reason: One line, for the log.
    """

    backup: str
    complete: bool
    reason: str
    steward: str
    time: Time

    def signed(self, key: Ed25519PrivateKey) -> bytes:
        """Sign the approval in a DSSE envelope."""
        return dsse.sign(statement(RESTORE_APPROVAL, "state", DOCUMENT.write(self), self.backup), [key])


def backup_facts(content: bytes) -> BackupFacts:
    """Read the facts in the list of a backup; raise InvalidInputError if the content is no such list."""
    try:
        document = document_of(content, "backup")
        if document["kind"] != BACKUP:
            raise ValueError
        entries, time = integer_of(document["entries"]), time_text_of(document["made"])
        names = [text_of(name) for name in document["files"]]
        return BackupFacts(sha256(json_bytes(document)), entries, len(names), time)
    except (KeyError, TypeError, ValueError, InvalidInputError):
        pass
    raise InvalidInputError(field="backup", problem="is not the list of a backup, backup.json")


def approval_of(envelope: bytes, key: Ed25519PublicKey) -> RestoreApproval | None:
    """The approval in an envelope that a key signed; None where it is none."""
    try:
        facts = predicate_of(dsse.verify(envelope, [key]), RESTORE_APPROVAL)
        return DOCUMENT.read(RestoreApproval, facts, field="approval")
    except (VerificationError, InvalidInputError, KeyError, TypeError, ValueError):
        return None


# Signing keys that follow one another: which key signed in which period, each change signed by both.
#
# A change of key is a statement about the new key, signed by the key before it and by the new one. Who
# trusts any key of the chain can follow it: forwards, as the older key names the newer, and backwards,
# as the newer key says which one was in force until then.
#
# What a history does not prove: that a retired key which was stolen did not sign, later, a statement
# that bears a time of its own period.

CARDS, LOG = "cards", "log"
"""Uses of the controller's two keys: cards, receipts, verdicts and revocations; checkpoints."""

LINKS = "keyChanges"
"""The one field of a file of changes."""


@dataclass(frozen=True, slots=True)
class KeyChange:
    """One link of the chain.

    Args:
        number: Which change of this use, from 1.
        previous: The key that was in force until ``time``, in UTC, to the second.
    """

    use: str
    number: int
    previous: Ed25519PublicKey
    key: Ed25519PublicKey
    time: Time

    def signed(self, old: Ed25519PrivateKey, new: Ed25519PrivateKey) -> bytes:
        return dsse.sign(self.statement, [old, new])

    @property
    def statement(self) -> bytes:
        """Return the statement that both keys sign; its subject is the new key."""
        return statement(KEY_CHANGE, f"keys/{self.use}", DOCUMENT.write(self), dsse.key_id(self.key))


def key_change_of(envelope: bytes) -> KeyChange:
    """The change in an envelope that both keys signed; raises VerificationError for any other."""
    payload, _ = dsse.opened(envelope)
    change = read_document(KeyChange, predicate_of(payload, KEY_CHANGE), "a key change")
    if change.statement != payload:
        raise VerificationError(problem="the key change is not in canonical form")
    dsse.verify(envelope, [change.previous, change.key])
    return change


@dataclass(frozen=True, slots=True)
class Period:
    """When a key was in force; empty times where there is no bound.

    A second belongs to the key that ends in it and to the one that begins in it.
    """

    key: Ed25519PublicKey
    since: str
    until: str

    def check(self, payload: bytes) -> None:
        """Raises VerificationError where a statement was not made in this period."""
        if not self.since and not self.until:
            return
        # A card bears the time of its offer, and is signed at any time until the offer ends: these two
        # times count. Every other statement has one time.
        try:
            facts = document_of(payload, "statement")["predicate"]
            names = ("offered", "expires") if "offered" in facts else ("time", "time")
            earliest, latest = (time_text_of(facts[name]) for name in names)
        except (KeyError, TypeError, ValueError, InvalidInputError):
            raise VerificationError(problem="the statement has no time") from None
        if latest < self.since:
            raise VerificationError(problem="the signing key was not yet valid at that time")
        if self.until and self.until < earliest:
            raise VerificationError(problem="the signing key was no longer valid at that time")


@dataclass(frozen=True, slots=True)
class KeyHistory:
    """The key that one was given, and those before and after it.

    Args:
        changes: All changes of that use, oldest first.

    Raises:
        VerificationError: The changes are no unbroken chain, or it does not hold the pinned key.
    """

    pinned: Ed25519PublicKey
    use: str
    changes: tuple[KeyChange, ...] = ()
    periods: tuple[Period, ...] = field(init=False, repr=False, compare=False)
    """Every key, oldest first."""
    _names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """Key ids of the periods."""

    def __post_init__(self) -> None:
        for place, change in enumerate(self.changes, start=1):
            if change.use != self.use or change.number != place:
                raise VerificationError(problem=f"change {place} of the key for {self.use} is missing")
        for older, newer in pairwise(self.changes):
            if newer.previous != older.key or newer.time < older.time:
                raise VerificationError(problem=f"change {newer.number} of the key breaks the chain")
        first = self.changes[0].previous if self.changes else self.pinned
        keys = (first, *[change.key for change in self.changes])
        turns = ("", *[change.time for change in self.changes], "")
        object.__setattr__(self, "periods", tuple(map(Period, keys, turns, turns[1:])))
        object.__setattr__(self, "_names", tuple(map(dsse.key_id, keys)))
        if len({*self._names}) != len(keys):
            raise VerificationError(problem="a key appears twice in the key history")
        if self.pinned not in keys:
            raise VerificationError(problem="the key history does not lead to the key that you hold")

    def followed(self, envelopes: Iterable[bytes]) -> "KeyHistory":
        """Extend the history by these changes if they go further; changes of another use are left out.

        Raises:
            VerificationError: A change is not right, or one of the two does not continue the other.
        """
        changes = tuple(change for change in map(key_change_of, envelopes) if change.use == self.use)
        if any(mine != theirs for mine, theirs in zip(self.changes, changes, strict=False)):
            problem = "the key history was forked: it contained another key before"
            raise VerificationError(problem=problem)
        return KeyHistory(self.pinned, self.use, max(self.changes, changes, key=len))

    def continued_by(self, envelopes: Iterable[bytes]) -> "KeyHistory":
        """The history that these changes tell; raises VerificationError if it lacks any of this one."""
        extended = KeyHistory(self.pinned, self.use).followed(envelopes)
        if len(extended.changes) < len(self.changes):
            raise VerificationError(problem="the key history was shortened")
        return self.followed(envelopes)

    def knows_signer(self, envelope: bytes) -> bool:
        """Whether a key of this history is named in an envelope; raises VerificationError."""
        _, signatures = dsse.opened(envelope)
        return not signatures.keys().isdisjoint(self._names)

    def payload_of(
        self, envelope: bytes, before: Sequence[Ed25519PublicKey] = (), *, unknown: int = 0
    ) -> bytes:
        """The payload of an envelope that one of the keys signed, in the period of that key.

        Args:
            before: Keys of all others, who signed it before, in their order.
            unknown: Number of others whose keys are not known here; see ``dsse.verify``.

        Raises:
            VerificationError: None did, a signature is wrong, there are others, or the time is another.
        """
        payload, signatures = dsse.opened(envelope)
        period = self.periods[-1]
        for name, other in zip(self._names, self.periods, strict=True):
            if name in signatures:
                period = other
        dsse.check_signatures(payload, signatures, [*before, period.key], unknown=unknown)
        period.check(payload)
        return payload


def changes_file(envelopes: Iterable[bytes]) -> bytes:
    """Changes of keys as one canonical document, to be kept."""
    return json_bytes({LINKS: [document_of(envelope, "change") for envelope in envelopes]})


def changes_in(content: bytes) -> list[bytes]:
    """The envelopes in a file of changes, not verified; raises VerificationError for other files."""
    try:
        envelopes = [json_bytes(envelope) for envelope in document_of(content, "keys")[LINKS]]
        if changes_file(envelopes) == content:
            return envelopes
    except (KeyError, TypeError, AttributeError, InvalidInputError):
        pass
    raise VerificationError(problem="the document contains no key changes in canonical form")


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
    """A request whose two signatures, by its TLS key (P-256) and its Ed25519 key, were verified.

    Role and project are wishes, or empty: the steward decides.
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
    """A request as a DSSE envelope; raises InvalidInputError if its facts could not be an identity."""
    checked_identity("request", project or "project", role or Role.ANALYST, name)
    fingerprint = dsse.key_id(signing_key.public_key())
    names = [x509.UniformResourceIdentifier(f"{_SIGNING_KEY}{fingerprint}")]
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(tls_key, hashes.SHA256())
    )
    pem = request.public_bytes(Encoding.PEM).decode()
    facts = DOCUMENT.write(_RequestFacts(pem, name, project, role, signing_key.public_key()))
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
        predicate = predicate_of(payload, ENROLMENT_REQUEST)
        facts = DOCUMENT.read(_RequestFacts, predicate, field="request")
        pem = facts.certificate_request.encode()
        tls_key = _tls_key(x509.load_pem_x509_csr(pem), dsse.key_id(facts.signing_key))
        request = EnrolmentRequest(facts.name, facts.role, facts.project, tls_key, facts.signing_key)
        dsse.verify(envelope, [request.signing_key])
    except (VerificationError, InvalidInputError, ValueError, UnsupportedAlgorithm):
        request = None
    if request is None:
        problem = "is not an enrolment request of `gencard enrol`, or it was changed"
        raise InvalidInputError(field="request", problem=problem)
    checked_identity("request", request.project or "project", request.role or Role.ANALYST, request.name)
    return request


def checked_identity(trust_domain: str, project: str, role: str, name: str) -> Identity:
    """The identity of a person; raises InvalidInputError if its URI would not read back as itself."""
    if role not in PERSONS:
        raise InvalidInputError(field="role", problem=f"must be one of {', '.join(PERSONS)}")
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


def _tls_key(request: x509.CertificateSigningRequest, fingerprint: str) -> ec.EllipticCurvePublicKey:
    """Return the TLS key that signed a request; raise ValueError for another signing key in it."""
    key = request.public_key()
    names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(f"{_SIGNING_KEY}{fingerprint}")])
    try:
        named = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except _UNREADABLE:
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
            problem = "must be host:port, or several separated by commas"
            raise InvalidInputError(field="address", problem=problem)

    @property
    def identity(self) -> Identity:
        """Raises UnauthenticatedError where the certificate names nobody."""
        return Identity.of_certificate(self.certificate)

    @property
    def document(self) -> bytes:
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
