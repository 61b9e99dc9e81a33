"""Channels to several controllers, of which one leads; the cause if TLS to a controller fails."""

import socket
import ssl
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any

import grpc
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

TAKEOVER_SECONDS = 30.0
"""Seconds that a call looks for the leading controller, from its first failure on."""
_PAUSE = 0.2
"""Pause, in seconds, after each round through all addresses."""


class Channels(grpc.Channel):
    """One channel for each address; new calls use the one that answered last.

    Args:
        addresses: Addresses of the controllers, ``host:port`` each.
        channel: Makes the channel to one address.
    """

    def __init__(self, addresses: Sequence[str], channel: Callable[[str], grpc.Channel]) -> None:
        self.addresses = tuple(addresses)
        self._channels = [channel(address) for address in addresses]
        self._place, self._lock = 0, Lock()

    @property
    def address(self) -> str:
        """Address that the next call goes to."""
        return self.addresses[self._place]

    @property
    def present(self) -> grpc.Channel:
        """Channel of the next call."""
        return self._channels[self._place]

    def turn(self, failed: str) -> None:
        """Send the next calls to the address after the one that failed; pause after each round."""
        with self._lock:
            if self.address == failed:  # of many calls that fail at once, only the first turns
                self._place = (self._place + 1) % len(self._channels)
            pause = self._place == 0
        if pause:
            time.sleep(_PAUSE)

    def unary_unary(self, *arguments: Any, **options: Any) -> Any:
        return self._calls("unary_unary", arguments, options)

    def unary_stream(self, *arguments: Any, **options: Any) -> Any:
        return self._calls("unary_stream", arguments, options)

    def stream_unary(self, *arguments: Any, **options: Any) -> Any:
        return self._calls("stream_unary", arguments, options)

    def stream_stream(self, *arguments: Any, **options: Any) -> Any:
        return self._calls("stream_stream", arguments, options)

    def _calls(self, kind: str, arguments: Any, options: Any) -> Callable[..., Any]:
        """Make a stub's method at each channel; each call chooses the channel."""
        calls = [getattr(channel, kind)(*arguments, **options) for channel in self._channels]

        def call(*request: Any, **settings: Any) -> Any:
            return calls[self._place](*request, **settings)

        return call

    def subscribe(self, callback: Any, try_to_connect: bool = False) -> None:  # grpc.Channel requires it
        self.present.subscribe(callback, try_to_connect)

    def unsubscribe(self, callback: Any) -> None:
        for channel in self._channels:
            channel.unsubscribe(callback)

    def close(self) -> None:
        for channel in self._channels:
            channel.close()

    def __enter__(self) -> "Channels":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_SECONDS = 5.0
"""Timeout, in seconds, of each step: connecting, the handshake, the first bytes after it."""
_HANDSHAKES = 2
"""Handshakes that must all be refused: a service that starts or stops may close one of them."""
_NOT_YET_VALID, _EXPIRED = 9, 10
_OTHER_HOST, _OTHER_ADDRESS = 62, 64
"""OpenSSL's verification codes, x509_vfy.h."""


def failure_of_tls(address: str, credentials: Credentials) -> GencardError | None:
    """Find out, after a failed call, whether a certificate is at fault: ours or the service's.

    gRPC ends such a call with UNAVAILABLE and a free text, whatever the cause. Python's ``ssl`` gives
    OpenSSL's code of the cause, so one more handshake with the same files tells the cases apart.

    Args:
        address: HOST:PORT of the service.
        credentials: Files that the failed call used.

    Returns:
        The error to raise; None if no service listens there, or TLS is not the cause.
    """
    try:
        is_refused = all(_is_refused(address, _context(credentials)) for _ in range(_HANDSHAKES))
    except ssl.SSLCertVerificationError as failed:
        return _error_of_service(failed.verify_code, address, credentials)
    except (OSError, UnicodeError):
        return None
    if not is_refused:
        return None
    file = credentials.certificate
    ours = _date_error(f"Certificate {file}", _certificate(file, "certificate"))
    return ours or CertificateNotTrustedError(address=address, file=file)


def _is_refused(address: str, context: ssl.SSLContext) -> bool:
    """Whether the service ends a connection once it has seen our certificate.

    In TLS 1.3 the client's handshake ends before the service looks at the certificate. A service that
    accepts it sends the settings of HTTP/2 at once. A service that rejects it closes the connection:
    a gRPC service without an alert, other services with one.
    """
    with _connected(address, context) as connection:
        try:
            return not connection.recv(1)
        except ConnectionError:
            return True
        except ssl.SSLError as failed:
            return "ALERT" in str(failed.reason)


def _context(credentials: Credentials, *, trusting: bool = False) -> ssl.SSLContext:
    """Return a context for mutual TLS as gRPC does it.

    Args:
        trusting: Accept any certificate of the service, only to read it; nothing else is received.
    """
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
            certificate = x509.load_der_x509_certificate(connection.getpeercert(binary_form=True) or b"")
    except (OSError, ValueError):
        return None
    if code in {_OTHER_HOST, _OTHER_ADDRESS}:
        return HostNameMismatchError(address=address, names=", ".join(_hosts(certificate)) or "none")
    if code in {_EXPIRED, _NOT_YET_VALID}:
        authority = _certificate(credentials.authority, "authority")
        of_service = _date_error(f"The certificate of the service at {address}", certificate)
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
    """Return the host names and IP addresses for which a certificate is valid."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return []
    return [
        *names.get_values_for_type(x509.DNSName),
        *map(str, names.get_values_for_type(x509.IPAddress)),
    ]
