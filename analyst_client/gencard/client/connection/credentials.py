"""Our identity and the keys that we trust: a connection folder, and how ``gencard enrol`` makes it.

"We" are the person or program that uses this client.
"""

import os
import shutil
import stat
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from gencard.client.common.arguments import checked
from gencard.client.common.formats import appearing
from gencard.core.errors import InvalidInputError, UnauthenticatedError, VerificationError, unwritable
from gencard.files import DOCUMENT_LIMIT, KEY_LIMIT, LIST_LIMIT, read_file
from gencard.wire.dsse import CHECKPOINT, key_id, predicate_of
from gencard.wire.keys import (
    CARDS,
    LARGEST,
    LOG,
    EnrolmentAnswer,
    Identity,
    KeyHistory,
    answer_of_document,
    changes_file,
    changes_in,
    request_document,
)

_END = b"-----END PUBLIC KEY-----"
"""Last line of each key in a file of several."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Paths of the credentials, PEM; each file is read only when it is needed.

    Args:
        certificate: Our certificate; its URI says who we are.
        key: Its private key, readable by us alone.
        authority: Certificate of the authority that signs certificates of both sides.
        signing_key: Our Ed25519 private key, which signs cards.
        controller_key: The controller's Ed25519 public key for cards and receipts.
        log_key: The Ed25519 public key of the controller's log.
    """

    certificate: Path
    key: Path
    authority: Path
    signing_key: Path
    controller_key: Path
    log_key: Path

    @classmethod
    def beside(
        cls,
        certificate: Path,
        *,
        key: Path | None = None,
        authority: Path | None = None,
        signing_key: Path | None = None,
        controller_key: Path | None = None,
        log_key: Path | None = None,
    ) -> "Credentials":
        """Complete the paths: a missing path is beside the certificate, under its usual name."""
        folder = certificate.parent
        return cls(
            certificate,
            key or folder / "key.pem",
            authority or folder / "authority.pem",
            signing_key or folder / "signing_key.pem",
            controller_key or folder / "controller_card_key.pub",
            log_key or folder / "log_key.pub",
        )

    @classmethod
    def of_folder(cls, folder: Path) -> "Credentials":
        return cls.beside(folder / "certificate.pem")

    @property
    def folder(self) -> Path:
        return self.certificate.parent

    def identity(self) -> Identity:
        """Our name, role and project as the certificate states them; raises UnauthenticatedError."""
        try:
            certificate = x509.load_pem_x509_certificate(read(self.certificate, "certificate"))
        except ValueError:
            certificate = None
        if certificate is None:
            raise UnauthenticatedError()
        return Identity.of_certificate(certificate)

    def private_signing_key(self) -> Ed25519PrivateKey:
        return private_key(self.signing_key, "signing_key")

    def public_signing_keys(self) -> tuple[Ed25519PublicKey, ...]:
        """Return our signing key, then the earlier ones that the connection folder keeps."""
        file = self.folder / "earlier_keys.pub"
        content = read(file, "earlier_keys") if file.exists() else b""
        pems = (part + _END for part in content.split(_END) if part.strip())
        own = self.private_signing_key().public_key()
        return (own, *(_public_key(pem, "earlier_keys") for pem in pems))


def address_in(folder: Path) -> str:
    """The controller's address, from ``connection.toml``; raises InvalidInputError if it names none."""
    file = folder / "connection.toml"
    if not file.is_file():
        problem = f"name your connection folder with -c or GENCARD_CONNECTION; there is no {file}"
        advice = "`gencard enrol NAME -c FOLDER` makes one; check the path if you have one already."
        raise InvalidInputError(field="connection", problem=problem, advice=advice)
    try:
        address = tomllib.loads(read(file, "connection").decode())["address"]
    except (KeyError, ValueError):
        address = None
    if not isinstance(address, str) or not address:
        raise InvalidInputError(field="connection.toml", problem="has no address")
    return address


def read(path: Path, field: str) -> bytes:
    """Return the bytes of a small file; raises InvalidInputError, with ``field``, if that fails."""
    return read_file(path, field, KEY_LIMIT)


def read_secret(path: Path, field: str) -> bytes:
    """Return the bytes of a secret; raises InvalidInputError if other users can read the file."""
    data = read(path, field)
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InvalidInputError(field=field, problem=f"other users can read {path}; run chmod 600 on it")
    return data


def private_key(path: Path, field: str) -> Ed25519PrivateKey:
    """Read a private key; raises InvalidInputError if it is not Ed25519 or other users can read it."""
    try:
        key = load_pem_private_key(read_secret(path, field), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidInputError(field=field, problem="is not an Ed25519 private key in PEM")
    return key


def public_key(path: Path, field: str) -> Ed25519PublicKey:
    """Read a public key; raises InvalidInputError if it is not Ed25519."""
    return _public_key(read(path, field), field)


def _public_key(pem: bytes, field: str) -> Ed25519PublicKey:
    try:
        key = load_pem_public_key(pem)
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidInputError(field=field, problem="is not an Ed25519 public key in PEM")
    return key


# The controller's signing keys, and the checkpoints that they sign. The newest verified key changes are
# kept beside the certificate, so that a shortened history is refused.

KEYS_SEEN = "keys_seen.json"
"""File of the longest verified history of keys, beside the certificate."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Signed state of the controller's log.

    Args:
        size: Number of entries.
        root: Merkle root of the entries, in hex.
        envelope: Signed document (DSSE) that states it.
    """

    size: int
    root: str
    time: str
    envelope: bytes

    def lines(self) -> list[tuple[str, str]]:
        return [("Entries", f"{self.size:,}"), ("Root", self.root), ("Signed", self.time)]


def checkpoint_of(envelope: bytes, keys: KeyHistory) -> Checkpoint:
    """Read a checkpoint; raises VerificationError if it is not signed with a key of the log."""
    facts = predicate_of(keys.payload_of(envelope), CHECKPOINT)
    try:
        root = bytes.fromhex(facts["root"])
        return Checkpoint(int(facts["size"]), root.hex(), str(facts["time"]), envelope)
    except (KeyError, TypeError, ValueError):
        raise VerificationError(problem="the document is not a checkpoint") from None


class KeyWatch:
    """The controller's keys; fetches key changes once, and again if a signature is by an unknown key.

    Verified changes are kept, so that a later history that contradicts or shortens them is refused.

    Args:
        fetch: Returns all signed key changes of the controller, oldest first.
    """

    def __init__(self, credentials: Credentials, fetch: Callable[[], Sequence[bytes]]) -> None:
        self._credentials, self._fetch_changes = credentials, fetch
        self._histories: dict[str, KeyHistory] = {}
        self._checkpoint: Checkpoint | None = None
        """The checkpoint that was verified last with these keys."""

    def cards(self, *envelopes: bytes) -> KeyHistory:
        """Keys that sign cards, receipts, verdicts and revocations.

        Args:
            envelopes: Signed documents that the caller is about to verify.

        Raises:
            VerificationError: The controller's key history does not continue the known one.
        """
        return self._history(CARDS, envelopes)

    def log(self, *envelopes: bytes) -> KeyHistory:
        """Keys that sign checkpoints; arguments and errors are those of ``cards``."""
        return self._history(LOG, envelopes)

    def checkpoint_of(self, envelope: bytes) -> "Checkpoint":
        """The checkpoint in an envelope; bytes that were verified last are not verified again."""
        known = self._checkpoint
        if known is None or known.envelope != envelope:
            self._checkpoint = known = checkpoint_of(envelope, self.log(envelope))
        return known

    def changes(self) -> bytes | None:
        """Return all verified key changes as one document; None if there are none."""
        envelopes = _kept_changes(self._credentials)
        return changes_file(envelopes) if envelopes else None

    def _history(self, use: str, envelopes: tuple[bytes, ...]) -> KeyHistory:
        known = self._histories.get(use)
        if known is None or not all(map(known.knows_signer, envelopes)):
            changes, credentials = list(self._fetch_changes()), self._credentials
            kept = (known_history(credentials, one) for one in (CARDS, LOG))
            histories = {history.use: history.continued_by(changes) for history in kept}
            if changes and len(changes) > len(_kept_changes(credentials)):
                with appearing(credentials.folder / KEYS_SEEN, "keys") as part:
                    part.write_bytes(changes_file(changes))
            self._histories, self._checkpoint = histories, None
        return self._histories[use]


def known_history(credentials: Credentials, use: str) -> KeyHistory:
    """Return the key of one use (``CARDS`` or ``LOG``) in the connection folder, and its successors.

    Raises:
        VerificationError: The kept changes do not lead to the keys of the connection folder.
    """
    pinned = {
        CARDS: (credentials.controller_key, "controller_key"),
        LOG: (credentials.log_key, "log_key"),
    }
    return KeyHistory(public_key(*pinned[use]), use).followed(_kept_changes(credentials))


def _kept_changes(credentials: Credentials) -> list[bytes]:
    file = credentials.folder / KEYS_SEEN
    return changes_in(read_file(file, "keys", LIST_LIMIT)) if file.exists() else []


# Enrolment on the person's own machine: private keys are made here and never leave this folder.
# ``new_request`` writes new keys and a request; the steward answers; ``install_answer`` checks the
# answer and puts everything in place. Until then the keys in use, if there are any, stay in use.

PENDING = "enrolment"
"""Folder, in the connection folder, of a request without an answer and of its new keys, if any."""

_TLS_KEY, _SIGNING_KEY, _EARLIER = "key.pem", "signing_key.pem", "earlier_keys.pub"
_REQUEST = "-request.json"
_PINNED = ("authority.pem", "controller_card_key.pub", "log_key.pub")
"""Files by which the controller is recognised: installed once, never replaced."""


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A request that waits for the steward's answer.

    Args:
        file: The request, to be sent to the steward.
        fingerprint: SHA-256, in hex, of the signing key; tell it to the steward over another channel.
    """

    file: Path
    fingerprint: str


@dataclass(frozen=True, slots=True)
class InstalledAnswer:
    """An answer that was installed.

    Args:
        identity: Name, role and project that the steward gave.
        fingerprint: SHA-256, in hex, of the answer; compare it with what the steward was shown.
        address: Where the controller listens.
        first: Whether the folder trusted no controller before, so that comparing matters most.
    """

    identity: Identity
    fingerprint: str
    address: str
    first: bool


@checked()
def new_request(
    folder: str | Path, name: str, *, role: str = "", project: str = "", again: bool = False
) -> PendingRequest:
    """Make a TLS key and a signing key, readable by their owner alone, and a request for a certificate.

    Args:
        folder: The connection folder, new or in use.
        name: Name of the person, of a-z, 0-9, ``.``, ``_`` and ``-``.
        role: Role wanted; the steward decides.
        project: Project wanted; the steward decides.
        again: Replace the keys that the folder has already.

    Raises:
        InvalidInputError: The folder has keys already and ``again`` is not given, a request waits
            there for its answer, or the name is malformed.
    """
    folder = Path(folder)
    if (folder / _SIGNING_KEY).exists() and not again:
        problem = "already has keys; use --renew for a new certificate, or --again to replace the keys"
        raise InvalidInputError(field=folder.name, problem=problem)
    tls_key, signing_key = ec.generate_private_key(ec.SECP256R1()), Ed25519PrivateKey.generate()
    request = request_document(tls_key, signing_key, name=name, role=role, project=project)
    pending = _new_pending(folder)
    for file, key in ((_TLS_KEY, tls_key), (_SIGNING_KEY, signing_key)):
        _write(pending / file, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return _write_request(pending, name, request, signing_key.public_key())


@checked()
def renewal_request(folder: str | Path) -> PendingRequest:
    """Write a request for a new certificate, for the keys in use.

    Raises:
        InvalidInputError: There are no usable keys or certificate in the folder, or a request waits
            there for its answer.
        UnauthenticatedError: The certificate cannot be read, or states no identity.
    """
    credentials = Credentials.of_folder(Path(folder))
    identity, signing_key = credentials.identity(), credentials.private_signing_key()
    facts = {"name": identity.name, "role": identity.role, "project": identity.project}
    request = request_document(_tls_key(credentials.key), signing_key, **facts)
    pending = _new_pending(credentials.folder)
    return _write_request(pending, identity.name, request, signing_key.public_key())


@checked()
def install_answer(folder: str | Path, answer: str | Path | bytes) -> InstalledAnswer:
    """Check the steward's answer against the keys in the folder, and put it in place.

    New keys take the place of the old ones. The old private keys are deleted; the public half of the old
    signing key is kept in ``earlier_keys.pub``, so that ``verify`` knows what it signed.

    Args:
        folder: The connection folder that the request was made in.
        answer: The steward's file, or its bytes.

    Raises:
        InvalidInputError: The file is no answer, it answers another request, or it names another
            controller than the one that this folder trusts. Nothing is changed.
    """
    folder = Path(folder)
    content = answer if isinstance(answer, bytes) else read_answer(Path(answer))
    parsed = answer_of_document(content)
    _check_ours(folder, parsed)
    authority = folder / _PINNED[0]
    first = not authority.exists()
    if not first:
        own = read_file(authority, "authority", KEY_LIMIT).strip()
        if own != parsed.files()[_PINNED[0]].strip():
            problem = "names another authority than this folder trusts; use another folder for it"
            raise InvalidInputError(field="answer", problem=problem)
    _keep_earlier(folder, parsed)
    for name in (_SIGNING_KEY, _TLS_KEY):
        if (folder / PENDING / name).exists():
            _write(folder / name, read_secret(folder / PENDING / name, name))
    for name, public in parsed.files().items():
        if name not in _PINNED or not (folder / name).exists():
            _write(folder / name, public, mode=0o644)
    shutil.rmtree(folder / PENDING, ignore_errors=True)
    return InstalledAnswer(parsed.identity, parsed.fingerprint, parsed.address, first)


def read_answer(file: Path) -> bytes:
    """Return the bytes of an answer; raises InvalidInputError if the file is missing or too large."""
    content = read_file(file, "answer", DOCUMENT_LIMIT)
    if len(content) > LARGEST:
        raise InvalidInputError(field="answer", problem="is not an answer: the file is too large")
    return content


def _new_pending(folder: Path) -> Path:
    """Make the folder of a request; raises InvalidInputError if a request waits there already."""
    pending = folder / PENDING
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        pending.mkdir(mode=0o700)
    except FileExistsError:
        problem = "holds a request without an answer; install the answer, or delete the folder"
        raise InvalidInputError(field=str(pending), problem=problem) from None
    except OSError:
        raise unwritable("folder", pending, "make") from None
    return pending


def _write_request(pending: Path, name: str, request: bytes, key: Ed25519PublicKey) -> PendingRequest:
    file = pending / f"{name}{_REQUEST}"
    _write(file, request, mode=0o644)
    return PendingRequest(file, key_id(key))


def _write(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file that appears whole; only its owner can read it unless ``mode`` allows more."""
    with appearing(path) as part:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def _check_ours(folder: Path, answer: EnrolmentAnswer) -> None:
    """Check that the answer is for keys and name of the request or, without one, for those in use."""
    pending = folder / PENDING
    places = [place for place in (pending, folder) if (place / _SIGNING_KEY).exists()]
    if not places:
        problem = f"there are no keys in {folder}; make a request first: gencard enrol NAME"
        raise InvalidInputError(field="answer", problem=problem)
    signing_key = private_key(places[0] / _SIGNING_KEY, "signing_key").public_key()
    if answer.signing_key != signing_key:
        theirs, ours = key_id(answer.signing_key)[:16], key_id(signing_key)[:16]
        problem = f"is for the signing key {theirs}, but the key in {places[0].name} is {ours}"
        raise InvalidInputError(field="answer", problem=problem)
    if answer.certificate.public_key() != _tls_key(places[0] / _TLS_KEY).public_key():
        problem = "has a certificate for another TLS key than the one in this folder"
        raise InvalidInputError(field="answer", problem=problem)
    names = {request.name.removesuffix(_REQUEST) for request in pending.glob(f"*{_REQUEST}")}
    credentials = Credentials.of_folder(folder)
    if not names and credentials.certificate.exists():
        names = {credentials.identity().name}
    if names - {answer.identity.name}:
        problem = f"is for the name {answer.identity.name}, and this folder is for {names.pop()}"
        raise InvalidInputError(field="answer", problem=problem)


def _keep_earlier(folder: Path, answer: EnrolmentAnswer) -> None:
    """Append the public half of the signing key, if it is replaced, to the earlier ones."""
    if not (folder / _SIGNING_KEY).exists():
        return
    old = private_key(folder / _SIGNING_KEY, "signing_key").public_key()
    if old != answer.signing_key:
        file = folder / _EARLIER
        before = read_file(file, "earlier_keys", KEY_LIMIT) if file.exists() else b""
        pem = old.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        _write(file, before if pem in before else before + pem, mode=0o644)


def _tls_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(read_secret(path, "key"), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InvalidInputError(field="key", problem=f"{path} is not a TLS key in PEM")
    return key
