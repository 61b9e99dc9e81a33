"""Certificates that go on: a new one for the same holder and the same key, in place of the old."""

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.serialization import Encoding

from gencard.controller.people.certificates import KeyPair, certify, read_authority
from gencard.core.errors import InvalidInputError, StorageError


def renew(
    folder: Path,
    file: Path,
    *,
    now: datetime,
    hosts: Sequence[str] = (),
    authority_key: Path | None = None,
) -> datetime:
    """Put a new certificate in the place of one that the authority issued, ended or not.

    It needs no secret of its holder and makes none. Who was taken off the list of people stays off it.

    Args:
        folder: The controller's folder, as ``draft`` made it.
        file: ``server/certificate.pem``, or a certificate that a person sent.
        hosts: For the service: its names or addresses, in place of those in the old certificate.
        authority_key: The authority's private key, where it is not in the folder.

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
    _replace(file, certificate.public_bytes(Encoding.PEM))
    return certificate.not_valid_after_utc


def _issued(file: Path, authority: KeyPair) -> tuple[x509.Certificate, EllipticCurvePublicKey]:
    """The certificate in the file, and its key; never the authority's own."""
    if not file.is_file():
        raise InvalidInputError(field=file.name, problem=f"there is no file {file}")
    try:
        certificate = x509.load_pem_x509_certificate(file.read_bytes())
        certificate.verify_directly_issued_by(authority.certificate)
        key = certificate.public_key()
    except (OSError, ValueError, TypeError, InvalidSignature):
        key = None
    if not isinstance(key, EllipticCurvePublicKey) or key == authority.key.public_key():
        raise InvalidInputError(field=file.name, problem="was not issued by this controller")
    return certificate, key


def _replace(file: Path, content: bytes) -> None:
    fresh = file.with_name(f".{file.name}.new")
    try:
        fresh.write_bytes(content)
        os.replace(fresh, file)
        return
    except OSError:
        fresh.unlink(missing_ok=True)
    raise StorageError
