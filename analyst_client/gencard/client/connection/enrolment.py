"""Enrolment on the person's own machine: private keys are made here and never leave this folder.

``new_request`` writes new keys and a request; the steward answers; ``install_answer`` checks the answer
and puts everything in place. Until then the keys in use, if there are any, stay in use.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from gencard.client.common.arguments import checked
from gencard.client.common.files.folder import appearing
from gencard.client.connection.credentials import Credentials, private_key, read_secret
from gencard.core.errors import InvalidInputError, unwritable
from gencard.files import DOCUMENT_LIMIT, KEY_LIMIT, read_file
from gencard.wire.dsse import key_id
from gencard.wire.keys import (
    LARGEST,
    EnrolmentAnswer,
    Identity,
    answer_of_document,
    request_document,
)

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
    _check_controller(folder, parsed)
    first = not (folder / _PINNED[0]).exists()
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
    """Check that the answer is for the pending keys or, if there are none, for the keys in use."""
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
    _check_name(folder, answer)


def _check_name(folder: Path, answer: EnrolmentAnswer) -> None:
    """Check that the answer is for the requested name or, without a request, for the name in use."""
    requests = (folder / PENDING).glob(f"*{_REQUEST}")
    names = {request.name.removesuffix(_REQUEST) for request in requests}
    credentials = Credentials.of_folder(folder)
    if not names and credentials.certificate.exists():
        names = {credentials.identity().name}
    if names - {answer.identity.name}:
        problem = f"is for the name {answer.identity.name}, and this folder is for {names.pop()}"
        raise InvalidInputError(field="answer", problem=problem)


def _check_controller(folder: Path, answer: EnrolmentAnswer) -> None:
    """Check that the answer names the authority that the folder trusts, if it trusts one."""
    authority = folder / _PINNED[0]
    own = read_file(authority, "authority", KEY_LIMIT).strip() if authority.exists() else None
    if own is not None and own != answer.files()[_PINNED[0]].strip():
        problem = "names another authority than this folder trusts; use another folder for it"
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
