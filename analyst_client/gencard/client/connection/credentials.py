"""Our identity and the keys that we trust: a connection folder, as ``gencard enrol`` makes it.

"We" are the person or program that uses this client.
"""

import stat
import tomllib
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from gencard.core.errors import InvalidInputError, UnauthenticatedError
from gencard.files import KEY_LIMIT, read_file
from gencard.wire.keys import Identity

_END = b"-----END PUBLIC KEY-----"
"""Last line of each key in a file of several."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Paths of the credentials; each file is read only when it is needed.

    Args:
        certificate: Our certificate, PEM; its URI says who we are.
        key: Its private key, PEM, readable by us alone.
        authority: Certificate of the authority that signs certificates of both sides, PEM.
        signing_key: Our Ed25519 private key, PEM, which signs cards.
        controller_key: The controller's Ed25519 public key for cards and receipts, PEM.
        log_key: The Ed25519 public key of the controller's log, PEM.
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
        """Return our identity, as the certificate states it: name, role and project.

        Raises:
            UnauthenticatedError: The file is no certificate, or its URI is not an identity.
        """
        try:
            certificate = x509.load_pem_x509_certificate(read(self.certificate, "certificate"))
        except ValueError:
            certificate = None
        if certificate is None:
            raise UnauthenticatedError()
        return Identity.of_certificate(certificate)

    def private_signing_key(self) -> Ed25519PrivateKey:
        return private_key(self.signing_key, "signing_key")

    def public_signing_key(self) -> Ed25519PublicKey:
        return self.private_signing_key().public_key()

    def public_signing_keys(self) -> tuple[Ed25519PublicKey, ...]:
        """Return our signing key, then the earlier ones that the connection folder keeps.

        Raises:
            InvalidInputError: A file cannot be used.
        """
        file = self.folder / "earlier_keys.pub"
        content = read(file, "earlier_keys") if file.exists() else b""
        pems = (part + _END for part in content.split(_END) if part.strip())
        return (self.public_signing_key(), *(_public_key(pem, "earlier_keys") for pem in pems))

    def public_controller_key(self) -> Ed25519PublicKey:
        return public_key(self.controller_key, "controller_key")

    def public_log_key(self) -> Ed25519PublicKey:
        return public_key(self.log_key, "log_key")


def address_in(folder: Path) -> str:
    """The controller's address, from the folder's ``connection.toml``.

    Raises:
        InvalidInputError: The file is missing or names no address.
    """
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
