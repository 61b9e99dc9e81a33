"""Why a TLS connection to a controller fails: a second handshake, made once a call has failed.

gRPC ends such a call with UNAVAILABLE and a free text, whatever the cause. Python's ``ssl`` gives
OpenSSL's code of the cause, so one more handshake with the same files tells the cases apart.
"""

import socket
import ssl
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from gencard.client.connection.credentials import Credentials, read
from gencard.core.errors import (
    AuthorityMismatchError,
    CertificateExpiredError,
    CertificateNotTrustedError,
    CertificateNotYetValidError,
    GencardError,
    HostNameMismatchError,
    InvalidInputError,
)

_SECONDS = 5.0
"""For connecting, for the handshake and for the first bytes after it, each."""
_HANDSHAKES = 2
"""A service that stops or starts may close one connection; it does not close every one of them."""
_NOT_YET_VALID, _EXPIRED = 9, 10
_OTHER_HOST, _OTHER_ADDRESS = 62, 64
"""OpenSSL's verification codes, x509_vfy.h."""


def failure_of_tls(address: str, credentials: Credentials) -> GencardError | None:
    """What is wrong with a certificate, ours or the service's.

    Args:
        address: HOST:PORT of the service.
        credentials: The files that the failed call was made with.

    Returns:
        The error to raise; None where nobody listens, or TLS is not what fails.
    """
    try:
        refused = all(_is_refused(address, _context(credentials)) for _ in range(_HANDSHAKES))
    except ssl.SSLCertVerificationError as failed:
        return _error_of_service(failed.verify_code, address, credentials)
    except (OSError, UnicodeError):
        return None
    return _error_of_ours(address, credentials) if refused else None


def _is_refused(address: str, context: ssl.SSLContext) -> bool:
    """Whether the service ends a connection once it has seen our certificate.

    In TLS 1.3 the client's handshake ends before the service looks at the certificate. A service that
    accepts it sends the settings of HTTP/2 at once; gRPC's closes without an alert, others send one.
    """
    with _connected(address, context) as connection:
        try:
            return not connection.recv(1)
        except ConnectionError:
            return True
        except ssl.SSLError as failed:
            return "ALERT" in str(failed.reason)


def _error_of_ours(address: str, credentials: Credentials) -> GencardError:
    file = credentials.certificate
    ours = _date_error(f"Certificate {file}", _certificate(file, "certificate"))
    return ours or CertificateNotTrustedError(address=address, file=file)


def _context(credentials: Credentials, *, trusting: bool = False) -> ssl.SSLContext:
    """Client side of mutual TLS as gRPC does it; ``trusting`` only to read the other's certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2"])
    if trusting:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context
    context.load_verify_locations(credentials.authority)
    try:
        context.load_cert_chain(credentials.certificate, credentials.key)
    except ssl.SSLError:
        problem = f"does not belong to the private key in {credentials.key}"
        raise InvalidInputError(field=str(credentials.certificate), problem=problem) from None
    return context


def _connected(address: str, context: ssl.SSLContext) -> ssl.SSLSocket:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    plain = socket.create_connection((host, int(port)), timeout=_SECONDS)
    try:
        return context.wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise


def _error_of_service(code: int, address: str, credentials: Credentials) -> GencardError | None:
    try:
        with _connected(address, _context(credentials, trusting=True)) as connection:
            shown = x509.load_der_x509_certificate(connection.getpeercert(binary_form=True) or b"")
    except (OSError, ValueError):
        return None
    if code in {_OTHER_HOST, _OTHER_ADDRESS}:
        return HostNameMismatchError(address=address, names=", ".join(_hosts(shown)) or "none")
    if code in {_EXPIRED, _NOT_YET_VALID}:
        authority = _certificate(credentials.authority, "authority")
        of_service = _date_error(f"The certificate of the service at {address}", shown)
        return of_service or _date_error(f"The authority in {credentials.authority}", authority)
    return AuthorityMismatchError(address=address, folder=credentials.authority.parent)


def _date_error(certificate: str, content: x509.Certificate) -> GencardError | None:
    now = datetime.now(UTC)
    if content.not_valid_after_utc < now:
        return CertificateExpiredError(certificate=certificate, date=content.not_valid_after_utc.date())
    if content.not_valid_before_utc > now:
        begin = content.not_valid_before_utc
        return CertificateNotYetValidError(certificate=certificate, date=f"{begin:%Y-%m-%d %H:%M} UTC")
    return None


def _certificate(file: Path, field: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(read(file, field))


def _hosts(certificate: x509.Certificate) -> list[str]:
    """The host names and addresses that a certificate is made out to."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return []
    return [
        *names.get_values_for_type(x509.DNSName),
        *map(str, names.get_values_for_type(x509.IPAddress)),
    ]
