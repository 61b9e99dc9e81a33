"""Certificates and signing keys of people and services.

An identity is one URI in a certificate, ``spiffe://{trust domain}/{project}/{role}/{name}``,
signed by the controller's own authority. Private files are 0600 in folders of 0700, and no file
is ever overwritten; a certificate that is renewed keeps its key.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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

from gencard.controller.base.files import secret_bytes
from gencard.controller.base.listening import CLUSTER_CONTROLLER, worker_host
from gencard.core.errors import InvalidInputError, StorageError, UnauthenticatedError
from gencard.files import KEY_LIMIT, read_file
from gencard.wire.keys import Identity

AUTHORITY_LIFE = timedelta(days=730)
LEAF_LIFE = timedelta(days=90)
_PublicKey = ec.EllipticCurvePublicKey
_SKEW = timedelta(minutes=5)
"""Certificates begin a little early, for clocks that are behind."""

_USES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
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
    """Return the authority in a folder.

    Args:
        key_file: The authority's private key, if it is kept outside the folder.

    Raises:
        InvalidInputError: Its files are missing, malformed, or the key may be used by others.
    """
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
    authority: KeyPair,
    uri: str,
    key: _PublicKey,
    now: datetime,
    *,
    hosts: Sequence[str] = (),
) -> x509.Certificate:
    """Return the same for a key that is there already.

    Raises:
        InvalidInputError: ``uri`` is not exactly an identity's; a service would refuse its holder.
    """
    try:
        Identity.of(uri)
    except UnauthenticatedError:
        form = "spiffe://TRUST-DOMAIN/PROJECT/ROLE/NAME in a-z, 0-9, dot, - and (in the name) _"
        raise InvalidInputError(field="uri", problem=f"must have the form {form}") from None
    builder = _builder(_name(uri.rpartition("/")[2]), uri, key, now=now, life=LEAF_LIFE, hosts=hosts)
    uses = [_SERVER if hosts else _CLIENT]
    builder = (
        builder.issuer_name(authority.certificate.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage("digital_signature"), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()),
            critical=False,
        )
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
    """Write a new file, with mode 0600 if it is private.

    Raises:
        InvalidInputError: Something of this name is there; it is left as it is.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o644)
    except FileExistsError:
        raise InvalidInputError(
            field=path.name, problem="already exists and is not overwritten"
        ) from None
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
    """Put a new certificate in the place of one that the authority issued, ended or not.

    The renewal needs no secret of the holder and makes none. People who were removed stay removed.

    Args:
        folder: The controller's folder, as ``draft`` made it.
        file: ``server/certificate.pem``, or a certificate that a person sent.
        hosts: For the service: its names or addresses, in place of those in the old certificate.
        authority_key: The authority's private key, if it is not in the folder.

    Returns:
        When the new one ends.

    Raises:
        InvalidInputError: The file is no certificate of this authority's, or ``hosts`` were given
            for a person.
        StorageError: The file cannot be written; the old one stays.
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
