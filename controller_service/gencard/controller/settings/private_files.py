"""Files that only the service may read: secrets and keys, and files that appear whole or not at all."""

import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from gencard.core.errors import InvalidInputError, StorageError


def write_whole(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Put bytes there, over what was there, and on the disk before this returns.

    Raises:
        StorageError: They cannot be written; what was there stays.
    """
    draft = path.with_name(f".{secrets.token_hex(8)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        return
    except OSError:
        with suppress(OSError):
            draft.unlink()
    raise StorageError


def flush_folder(folder: Path) -> None:
    """Have the disk know the folder's present entries, before the state names one of them."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_new(folder: Path) -> None:
    """Raises InvalidInputError where a folder holds something already, or is none."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInputError(field="folder", problem="is not empty, and no file is overwritten")


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A draft, beside the folder that it becomes once the block has filled it; raises OSError."""
    place = folder.absolute()
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name}."))
    try:
        yield draft
        draft.rename(place)
        flush_folder(place.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


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
