"""Secrets in files: read only where nobody else can read them."""

import os
import stat
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from gencard.core.errors import InvalidInputError

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_LARGEST = 1 << 16


def secret_bytes(path: Path, field: str) -> bytes:
    """What a secret file holds.

    Raises:
        InvalidInputError: The file is missing, no regular file, too large, or its group or others
            have any right on it.
    """
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())  # of what was opened, not of what lies there later
            content = file.read(_LARGEST) if stat.S_ISREG(status.st_mode) else b""
    except OSError:
        raise InvalidInputError(field=field, problem="the file cannot be read") from None
    if stat.S_IMODE(status.st_mode) & _OTHERS:
        raise InvalidInputError(
            field=field, problem="other users can access the file; set its mode to 0600"
        )
    if not content or len(content) == _LARGEST:
        raise InvalidInputError(field=field, problem="the file does not hold a secret")
    return content


def signing_key(path: Path, field: str) -> Ed25519PrivateKey:
    """An Ed25519 private key, PEM without password; raises InvalidInputError."""
    content = secret_bytes(path, field)
    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidInputError(field=field, problem="is not an Ed25519 private key")
    return key


def public_key(pem: str, field: str) -> Ed25519PublicKey:
    """An Ed25519 public key from PEM text; raises InvalidInputError."""
    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidInputError(field=field, problem="is not an Ed25519 public key")
    return key
