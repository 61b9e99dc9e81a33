"""Certificates and signing keys of people and services.

An identity is one URI in a certificate, ``spiffe://{trust domain}/{project}/{role}/{name}``,
signed by the controller's own authority. Private files are 0600 in folders of 0700, and no file
is ever overwritten; a certificate that is renewed keeps its key.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509 import load_pem_x509_certificate
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from sqlalchemy import Connection

from gencard.controller.base.disk import flush_folder, write_whole
from gencard.controller.base.files import secret_bytes, signing_key
from gencard.controller.base.listening import CLUSTER_CONTROLLER, worker_host
from gencard.controller.state.database import Database
from gencard.controller.state.log import EventLog, add_change, all_changes, newest_change
from gencard.core.errors import InvalidInputError, NotFoundError, StorageError, UnauthenticatedError
from gencard.files import KEY_LIMIT, read_file
from gencard.wire.canonical import time_text
from gencard.wire.dsse import key_id
from gencard.wire.keys import Identity, KeyChange, KeyHistory, key_change_of

AUTHORITY_LIFE = timedelta(days=730)
LEAF_LIFE = timedelta(days=90)
_PublicKey = ec.EllipticCurvePublicKey
_SKEW = timedelta(minutes=5)
"""Certificates begin a little early, for clocks that are behind."""

_USES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
    *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key (ECDSA, P-256)."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def write(self, folder: Path) -> None:
        """Leave ``certificate.pem`` and ``key.pem`` in a new or existing folder."""
        write_new(folder / "certificate.pem", self.certificate_pem, private=False)
        write_new(folder / "key.pem", self.key_pem)


def new_authority(trust_domain: str, now: datetime) -> KeyPair:
    """Return a self-signed authority for one trust domain; it can sign no further authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("gencard authority")
    public, uri = key.public_key(), f"spiffe://{trust_domain}"
    builder = _builder(name, uri, public, now=now, life=AUTHORITY_LIFE).issuer_name(name)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage("key_cert_sign", "crl_sign"), critical=True)
    return KeyPair(builder.sign(key, hashes.SHA256()), key)


def read_authority(folder: Path, key_file: Path | None = None) -> KeyPair:
    """Return the authority in a folder; InvalidInputError for bad files or a key open to others."""
    file = key_file or folder / "key.pem"
    if not file.is_file():
        problem = f"there is no file {file}; name the authority's private key with --authority-key"
        raise InvalidInputError(field="authority.key", problem=problem)
    key_pem = secret_bytes(file, "authority.key")
    try:
        certificate = x509.load_pem_x509_certificate(
            read_file(folder / "certificate.pem", "authority", KEY_LIMIT)
        )
        key = load_pem_private_key(key_pem, password=None)
    except (OSError, ValueError, TypeError):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise InvalidInputError(field="authority", problem="is not a certificate with its key")
    return KeyPair(certificate, key)


def trust_domain_of(authority: KeyPair) -> str:
    names = authority.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    uri = names.value.get_values_for_type(x509.UniformResourceIdentifier)[0]
    return str(uri).removeprefix("spiffe://")


def issue(authority: KeyPair, uri: str, now: datetime, *, hosts: Sequence[str] = ()) -> KeyPair:
    """Return a client's certificate for ``uri``, or a server's with ``hosts`` (names or addresses)."""
    key = ec.generate_private_key(ec.SECP256R1())
    return KeyPair(certify(authority, uri, key.public_key(), now, hosts=hosts), key)


def issue_member(authority: KeyPair, uri: str, now: datetime) -> KeyPair:
    """Issue a certificate for a member of a cluster: the controller is a client, all others are servers.

    The key of a worker thus opens no connection to another worker, and only the worker that has a name
    can answer under it.
    """
    name = uri.rpartition("/")[2]
    hosts = () if name == CLUSTER_CONTROLLER else (worker_host(name),)
    return issue(authority, uri, now, hosts=hosts)


_SERVER, _CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH


def certify(
    authority: KeyPair, uri: str, key: _PublicKey, now: datetime, *, hosts: Sequence[str] = ()
) -> x509.Certificate:
    """Return a certificate as ``issue`` does, for a key that is there already."""
    try:
        Identity.of(uri)
    except UnauthenticatedError:
        form = "spiffe://TRUST-DOMAIN/PROJECT/ROLE/NAME in a-z, 0-9, dot, - and (in the name) _"
        raise InvalidInputError(field="uri", problem=f"must have the form {form}") from None
    builder = _builder(_name(uri.rpartition("/")[2]), uri, key, now=now, life=LEAF_LIFE, hosts=hosts)
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = (
        builder.issuer_name(authority.certificate.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage("digital_signature"), critical=True)
        .add_extension(x509.ExtendedKeyUsage([_SERVER if hosts else _CLIENT]), critical=False)
        .add_extension(issuer_key, critical=False)
    )
    return builder.sign(authority.key, hashes.SHA256())


def new_signing_key(path: Path) -> Ed25519PublicKey:
    """Write a new Ed25519 private key; returns its public half."""
    key = Ed25519PrivateKey.generate()
    write_new(path, private_pem(key))
    return key.public_key()


def private_pem(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def public_pem(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def write_new(path: Path, content: bytes, *, private: bool = True) -> None:
    """Write a new file, with mode 0600 if it is private; InvalidInputError leaves one that is there."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o644)
    except FileExistsError:
        problem = "already exists and is not overwritten"
        raise InvalidInputError(field=path.name, problem=problem) from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _builder(
    subject: x509.Name,
    uri: str,
    key: _PublicKey,
    *,
    now: datetime,
    life: timedelta,
    hosts: Sequence[str] = (),
) -> x509.CertificateBuilder:
    names = [x509.UniformResourceIdentifier(uri), *(_host(host) for host in hosts)]
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*allowed: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{use: use in allowed for use in _USES})


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def renew(
    folder: Path,
    file: Path,
    *,
    now: datetime,
    hosts: Sequence[str] = (),
    authority_key: Path | None = None,
) -> datetime:
    """Put a new certificate in the place of one that the authority issued, ended or not; its end.

    The renewal needs no secret of the holder and makes none. People who were removed stay removed.
    ``hosts`` replace the names and addresses of the service; InvalidInputError for a person's.
    StorageError: the old certificate stays.
    """
    authority = read_authority(folder / "authority", authority_key)
    old, key = _issued(file, authority)
    names = old.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    (uri,) = names.get_values_for_type(x509.UniformResourceIdentifier)
    served = [*names.get_values_for_type(x509.DNSName)]
    served += map(str, names.get_values_for_type(x509.IPAddress))
    if hosts and not served:
        raise InvalidInputError(field="host", problem="applies only to the service's certificate")
    certificate = certify(authority, uri, key, now, hosts=hosts or served)
    fresh = file.with_name(f".{file.name}.new")
    try:
        fresh.write_bytes(certificate.public_bytes(Encoding.PEM))
        os.replace(fresh, file)
        return certificate.not_valid_after_utc
    except OSError:
        fresh.unlink(missing_ok=True)
    raise StorageError


def _issued(file: Path, authority: KeyPair) -> tuple[x509.Certificate, EllipticCurvePublicKey]:
    """Return the certificate in the file, and its key; never the authority's own."""
    if not file.is_file():
        raise InvalidInputError(field=file.name, problem=f"there is no file {file}")
    try:
        certificate = x509.load_pem_x509_certificate(read_file(file, file.name, KEY_LIMIT))
        certificate.verify_directly_issued_by(authority.certificate)
        key = certificate.public_key()
    except (OSError, ValueError, TypeError, InvalidSignature):
        key = None
    if not isinstance(key, EllipticCurvePublicKey) or key == authority.key.public_key():
        raise InvalidInputError(field=file.name, problem="was not issued by this controller")
    return certificate, key


def certificate_ends(*certificates: Path) -> Iterator[tuple[str, datetime]]:
    """Yield the end of each certificate among some files; what is none is passed over."""
    for file in certificates:
        try:
            content = read_file(file, "certificate", KEY_LIMIT)
            yield str(file), load_pem_x509_certificate(content).not_valid_after_utc
        except (InvalidInputError, ValueError):
            continue


# The controller's signing keys: the one in force for each use, and its rotation.
#
# A rotation takes effect once it is committed to the state, together with its entry in the log; only
# then the file of the new key replaces the old file. Each signature looks up the newest change in its
# own transaction. A running service therefore uses the new key for the next statement, and can sign
# even if a crash happens between the two steps.


@dataclass(slots=True)
class SigningKey:
    """Finds the private key that is in force; the public half of its file is beside it, as ``.pub``."""

    use: str
    file: Path
    setting: str
    _held: Ed25519PrivateKey = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._held = signing_key(self.file, self.setting)

    @property
    def next_file(self) -> Path:
        """File of a new key until its change is committed."""
        return self.file.with_suffix(".next.pem")

    def current(self, tx: Connection) -> Ed25519PrivateKey:
        """Return the key to sign with, in the transaction of the statement; raises StorageError."""
        envelope = newest_change(tx, self.use)
        logged_key = None if envelope is None else key_change_of(envelope).key
        held = self._held
        if logged_key is None or logged_key == held.public_key():
            return held
        for file in (self.next_file, self.file):  # in this order one that is moved meanwhile is seen
            key = self._in(file)
            if key is not None and key.public_key() == logged_key:
                self._held = key
                return key
        raise StorageError

    def check(self, tx: Connection) -> None:
        """Raise InvalidInputError if no file holds the key that the newest change names."""
        with suppress(StorageError):
            self.current(tx)
            return
        raise InvalidInputError(field=self.setting, problem="is not the key that the last rotation made")

    def prepare(self, key: Ed25519PrivateKey) -> None:
        """Have a new key on the disk, before the state says that it is in force; raises StorageError."""
        write_whole(self.next_file, [private_pem(key)])
        with suppress(OSError):
            flush_folder(self.next_file.parent)
            return
        raise StorageError

    def settle(self, tx: Connection) -> None:
        """Move the new key to its place after a rotation, in a transaction; raises StorageError."""
        key, aside = self.current(tx).public_key(), self._in(self.next_file)
        if aside is None or aside.public_key() != key:
            return
        public = self.file.with_suffix(".pub")
        write_whole(public, [public_pem(key)])
        with suppress(OSError):
            public.chmod(0o644)
            self.next_file.replace(self.file)
            return
        raise StorageError

    def _in(self, file: Path) -> Ed25519PrivateKey | None:
        with suppress(InvalidInputError):
            return signing_key(file, self.setting)
        return None


@dataclass(frozen=True, slots=True)
class KeyRotation:
    database: Database
    log: EventLog
    keys: Mapping[str, SigningKey]
    clock: Callable[[], datetime]

    def key(self, use: str) -> SigningKey:
        """Return the key of a use; raises NotFoundError if there is no such use."""
        if use not in self.keys:
            raise NotFoundError(what="signing key")
        return self.keys[use]

    def rotate(self, tx: Connection, use: str, by: str) -> KeyChange:
        """Make a key for a use, in force once committed; then ``settle``. Raises StorageError."""
        key = self.key(use)
        key.settle(tx)  # what lies aside is written over
        old, new = key.current(tx), Ed25519PrivateKey.generate()
        key.prepare(new)
        entry = {"action": "rotate", "actor": by, "resource": f"keys/{key.use}"}
        details = {"key": key_id(new.public_key())}
        event = self.log.append(tx, **entry, details=details, now=self.clock())
        newest = newest_change(tx, key.use)
        number = 1 if newest is None else key_change_of(newest).number + 1
        time = time_text(event.time)  # of the log: it never goes back
        change = KeyChange(key.use, number, old.public_key(), new.public_key(), time)
        add_change(tx, key.use, change.number, change.signed(old, new))
        return change

    def settle(self, use: str) -> None:
        """Put the new key in its place: the old private key is gone."""
        with suppress(StorageError), self.database.transaction() as tx:
            self.key(use).settle(tx)  # where it cannot be, the key is found aside


def key_history(tx: Connection, key: SigningKey) -> KeyHistory:
    """Return all keys of one use, checked; raises VerificationError."""
    return KeyHistory(key.current(tx).public_key(), key.use).followed(all_changes(tx))
