"""Calls of a controller: mutual TLS, deadlines, typed errors, and operations that run there."""

import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partialmethod
from pathlib import Path
from threading import Lock
from typing import Any, Protocol, Self, TypeVar

import grpc
from cryptography import x509
from google.longrunning import operations_pb2 as pb
from google.longrunning import operations_pb2_grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from rich import progress as bars
from rich.console import Console

from gencard.client.common.arguments import checked
from gencard.client.common.display import notebook_bar
from gencard.client.connection.credentials import Credentials, KeyWatch, address_in, read, read_secret
from gencard.core.errors import (
    AuthorityMismatchError,
    CertificateExpiredError,
    CertificateNotTrustedError,
    CertificateNotYetValidError,
    ConnectionClosedError,
    GencardError,
    HostNameMismatchError,
    InternalError,
    InvalidInputError,
    NotLeadingError,
    OperationCancelledError,
    ServiceUnavailableError,
)
from gencard.core.types import Progress, ignore_progress
from gencard.v1 import (
    answers_pb2,
    answers_pb2_grpc,
    audit_pb2,
    audit_pb2_grpc,
    catalog_pb2,
    catalog_pb2_grpc,
    ledger_pb2,
    ledger_pb2_grpc,
    measures_pb2,
    measures_pb2_grpc,
    negotiation_pb2,
    negotiation_pb2_grpc,
    steward_pb2,
    steward_pb2_grpc,
    synthesis_pb2,
    synthesis_pb2_grpc,
)
from gencard.v1.synthesis_pb2 import OperationProgress
from gencard.wire.error_table import error_of, error_of_call
from gencard.wire.keys import Identity

CALL_SECONDS = 30.0
STREAM_SECONDS = 600.0
"""Deadlines, in seconds, of a call and of a whole stream."""
_MESSAGE_BYTES = 4 * 1024 * 1024

_SERVICES = (
    answers_pb2,
    audit_pb2,
    catalog_pb2,
    ledger_pb2,
    measures_pb2,
    negotiation_pb2,
    steward_pb2,
    synthesis_pb2,
)
_OPERATIONS = ("GetOperation", "WaitOperation", "CancelOperation")

Request = TypeVar("Request")
Response = TypeVar("Response")


class Connection:
    """A channel and a stub for each service.

    Use ``call`` and ``stream`` for every RPC: they set the deadline and translate errors.

    Args:
        address: ``host:port``, or several separated by commas: calls then go to the leading controller.
    """

    def __init__(self, address: str, credentials: Credentials) -> None:
        self.address, self.credentials, self.closed = address, credentials, False
        self.channel = _channel(address, credentials)
        request = ledger_pb2.GetKeyHistoryRequest()
        self.keys = KeyWatch(credentials, lambda: self.call(self.log.GetKeyHistory, request).changes)
        self.catalog = catalog_pb2_grpc.CatalogServiceStub(self.channel)
        self.negotiation = negotiation_pb2_grpc.NegotiationServiceStub(self.channel)
        self.synthesis = synthesis_pb2_grpc.SynthesisServiceStub(self.channel)
        self.audit = audit_pb2_grpc.AuditServiceStub(self.channel)
        self.measures = measures_pb2_grpc.MeasuresServiceStub(self.channel)
        self.answers = answers_pb2_grpc.AnswersServiceStub(self.channel)
        self.steward = steward_pb2_grpc.StewardServiceStub(self.channel)
        self.ledger = ledger_pb2_grpc.LedgerServiceStub(self.channel)
        self.log = ledger_pb2_grpc.LogServiceStub(self.channel)
        self.operations = operations_pb2_grpc.OperationsStub(self.channel)

    def close(self) -> None:
        self.closed = True
        self.channel.close()

    def check_open(self) -> None:
        if self.closed:
            raise ConnectionClosedError(address=self.address)

    def call(
        self,
        method: "grpc.UnaryUnaryMultiCallable[Request, Response]",
        request: Request,
        *,
        seconds: float = CALL_SECONDS,
    ) -> Response:
        """Call a method, at the next address if a controller is unavailable; raises its typed error."""
        deadline = time.monotonic() + TAKEOVER_SECONDS
        while True:
            self.check_open()
            address = self._next_address
            try:
                return method(request, timeout=seconds)
            except grpc.RpcError as failed:
                error = self._error_of(failed)
            if not self._try_next_address(address, error, deadline):
                raise error from None

    def stream(
        self,
        method: "grpc.UnaryStreamMultiCallable[Request, Response]",
        request: Request,
        *,
        seconds: float = STREAM_SECONDS,
        metadata: tuple[tuple[str, str], ...] = (),
    ) -> Iterator[Response]:
        """Yield the answers as they arrive; raises as ``call`` does, while they are read."""
        deadline, has_begun = time.monotonic() + TAKEOVER_SECONDS, False
        while True:
            self.check_open()
            address = self._next_address
            try:
                for answer in method(request, timeout=seconds, metadata=metadata):
                    has_begun = True
                    yield answer
            except grpc.RpcError as failed:
                error = self._error_of(failed)
            else:
                return
            # after the first answer no second call: it would repeat what the caller has read
            if not self._try_next_address(address, error, deadline) or has_begun:
                raise error from None

    @property
    def _next_address(self) -> str:
        return self.channel.address if isinstance(self.channel, Channels) else self.address

    def _try_next_address(self, address: str, error: GencardError, deadline: float) -> bool:
        """Turn to the next address if the controller is unavailable; return whether to call again."""
        if not isinstance(self.channel, Channels) or not isinstance(error, ServiceUnavailableError):
            return False
        self.channel.use_next(address)
        return time.monotonic() < deadline

    def _error_of(self, failed: grpc.RpcError) -> GencardError:
        """Return the typed error of a call; if the network ended it, look for a bad certificate."""
        error = error_of_call(failed)
        if not isinstance(error, ServiceUnavailableError) or isinstance(error, NotLeadingError):
            return error
        return failure_of_tls(self._next_address, self.credentials) or error


def _channel(address: str, credentials: Credentials) -> grpc.Channel:
    addresses = [part.strip() for part in address.split(",")]
    if len(addresses) == 1:
        return _channel_to(address, credentials, _options())
    # ``call`` retries at the next address, so gRPC must not retry at this one
    options = [*_options(), ("grpc.enable_retries", 0)]
    return Channels(addresses, lambda one: _channel_to(one, credentials, options))


def _channel_to(
    address: str, credentials: Credentials, options: list[tuple[str, str | int]]
) -> grpc.Channel:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        advice = "Add the port after the host, such as localhost:7443."
        raise InvalidInputError(field="address", problem="needs the form host:port", advice=advice)
    tls = grpc.ssl_channel_credentials(
        root_certificates=read(credentials.authority, "authority"),
        private_key=read_secret(credentials.key, "key"),
        certificate_chain=read(credentials.certificate, "certificate"),
    )
    return grpc.secure_channel(address, tls, options=options)


def _options() -> list[tuple[str, str | int]]:
    return [
        ("grpc.max_receive_message_length", _MESSAGE_BYTES),
        ("grpc.max_send_message_length", _MESSAGE_BYTES),
        ("grpc.enable_http_proxy", 0),
        ("grpc.service_config", json.dumps(_service_config())),
    ]


def _service_config() -> dict[str, object]:
    retries = {
        "maxAttempts": 4,
        "initialBackoff": "0.2s",
        "maxBackoff": "2s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
    return {"methodConfig": [{"name": list(idempotent_methods()), "retryPolicy": retries}]}


def idempotent_methods() -> Iterator[dict[str, str]]:
    """Yield the methods that may be retried: those that only read, or carry a request_id; no uploads."""
    for module in _SERVICES:
        for service in module.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                if not method.client_streaming:
                    yield {"service": service.full_name, "method": method.name}
    for name in _OPERATIONS:
        yield {"service": "google.longrunning.Operations", "method": name}


class _Page(Protocol):
    """Answer with one page of a list; the last page has no token."""

    @property
    def next_page_token(self) -> str: ...


class _Ask(Protocol):
    """Request for one page: the page of the token, or the first page if it is empty."""

    page_token: str


Ask = TypeVar("Ask", bound=_Ask)
Page = TypeVar("Page", bound=_Page)


def pages(
    connection: Connection, method: "grpc.UnaryUnaryMultiCallable[Ask, Page]", request: Ask
) -> Iterator[Page]:
    """Yield every page of a list, in order; the token in ``request`` is replaced."""
    while True:
        page = connection.call(method, request)
        yield page
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token


_WAIT_SECONDS = 10
_RETRY_SECONDS = 30.0
_SHORTEST, _LONGEST = 0.05, 2.0
"""Seconds: one waiting call, retries of an unreachable service, pauses between calls."""

Result = TypeVar("Result", bound=Message)

ProgressDisplay = bool | Progress
"""Display of progress. True: a bar in a terminal or notebook, nothing elsewhere. False: nothing.

A function is called with the stage and the share done, from 0 to 1, instead.
"""


def result_of(
    connection: Connection, operation: pb.Operation, kind: type[Result], progress: Progress
) -> Result:
    """Wait for an operation and return its response. Interrupting the wait cancels the operation.

    An operation survives a restart of the service, so an unreachable service is tried again for half a
    minute, until ServiceUnavailableError is raised. Otherwise the operation's own error is.
    """
    try:
        ended_operation = _wait_to_end(connection, operation, progress)
    except KeyboardInterrupt as stopped:
        name = operation.name
        note = f"Interrupted, but the controller cannot be reached: {name} continues there."
        with suppress(GencardError):
            cancel(connection, name)
            note = f"Interrupted: the controller was told to cancel {name}."
        stopped.add_note(note)
        raise
    if ended_operation.HasField("error"):
        raise error_of(ended_operation.error) or InternalError(incident="unknown")
    response = kind()
    if not ended_operation.response.Unpack(response):
        raise InternalError(incident="unexpected response")
    return response


def cancel(connection: Connection, name: str) -> None:
    connection.call(connection.operations.CancelOperation, pb.CancelOperationRequest(name=name))


def progress_of(operation: pb.Operation) -> OperationProgress:
    """Progress that an operation reports; an empty message if it reports none."""
    progress = OperationProgress()
    operation.metadata.Unpack(progress)
    return progress


def _wait_to_end(connection: Connection, operation: pb.Operation, progress: Progress) -> pb.Operation:
    pause, last_answer = _SHORTEST, time.monotonic()
    while not operation.done:
        before = progress_of(operation)
        dead: dict[int, GencardError] = {
            OperationProgress.STATE_CANCELLED: OperationCancelledError(),
            OperationProgress.STATE_FAILED: InternalError(incident="unknown"),
        }
        if before.state in dead:
            raise dead[before.state]
        progress(before.stage, before.permille / 1000)
        time.sleep(pause)
        try:
            timeout = Duration(seconds=_WAIT_SECONDS)
            request = pb.WaitOperationRequest(name=operation.name, timeout=timeout)
            operation = connection.call(connection.operations.WaitOperation, request)
            last_answer = time.monotonic()
        except ServiceUnavailableError:
            if time.monotonic() - last_answer > _RETRY_SECONDS:
                raise
        pause = _SHORTEST if progress_of(operation) != before else min(pause * 1.5, _LONGEST)
    return operation


@contextmanager
def progress_bar(title: str, display: ProgressDisplay) -> Iterator[Progress]:
    """Yield a function that shows progress as ``display`` says; a bar disappears after the block."""
    if callable(display):
        yield display
        return
    console = Console(stderr=True)
    if display and console.is_jupyter:
        with notebook_bar(title) as update:  # the bar of rich needs ipywidgets in a notebook
            yield update
        return
    if not display or not console.is_terminal:
        yield ignore_progress
        return
    text, stage = bars.TextColumn("{task.description}"), bars.TextColumn("{task.fields[stage]}")
    columns = (text, bars.BarColumn(), stage, bars.TimeElapsedColumn())
    with bars.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=1.0, stage="")
        yield lambda stage, share: bar.update(task, completed=share, stage=stage)


class Party:
    """Base of ``Analyst`` and ``Steward``: a connection in the role that the certificate states."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @classmethod
    @checked()
    def connect(
        cls,
        address: str | None = None,
        *,
        folder: str | Path | None = None,
        certificate: str | Path | None = None,
        key: str | Path | None = None,
        authority: str | Path | None = None,
        signing_key: str | Path | None = None,
        controller_key: str | Path | None = None,
        log_key: str | Path | None = None,
    ) -> Self:
        """Connect with the files of a connection folder, as ``gencard enrol`` makes it.

        Args:
            address: ``host:port``, or those of several controllers, separated by commas, of which one
                leads; default: from ``connection.toml`` in the folder.
            folder: Connection folder with all files under their usual names.
            certificate: Client certificate outside a connection folder; other files default to its
                folder.
            key: Private key of the certificate.
            authority: Certificate of the authority that both sides trust.
            signing_key: Ed25519 key that signs cards.
            controller_key: The controller's public key for cards and receipts, present or earlier;
                signed key rotations are followed.
            log_key: The public key of the controller's log, present or earlier.

        Raises:
            InvalidInputError: Neither folder nor certificate was given, or a file is unusable.
        """
        if certificate is None:
            if folder is None:
                call = f'{cls.__name__}.connect(folder="...")'
                advice = f"Write {call}, the folder that `gencard enrol` made."
                problem = "is required unless certificate is given"
                raise InvalidInputError(field="folder", problem=problem, advice=advice)
            certificate = Path(folder) / "certificate.pem"
        credentials = Credentials.beside(
            Path(certificate),
            key=_path(key),
            authority=_path(authority),
            signing_key=_path(signing_key),
            controller_key=_path(controller_key),
            log_key=_path(log_key),
        )
        return cls(Connection(address or address_in(credentials.folder), credentials))

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.identity.uri} at {self._connection.address}>"

    @property
    def identity(self) -> Identity:
        """The identity in the client certificate."""
        return self._connection.credentials.identity()


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)


# Channels to several controllers, of which one leads; the cause if TLS to a controller fails.

TAKEOVER_SECONDS = 30.0
"""Seconds that a call looks for the leading controller, from its first failure on."""
_PAUSE = 0.2
"""Pause, in seconds, after each round through all addresses."""


class Channels(grpc.Channel):
    """One channel for each address (host:port); new calls use the one that answered last."""

    def __init__(self, addresses: Sequence[str], channel: Callable[[str], grpc.Channel]) -> None:
        self.addresses = tuple(addresses)
        self._channels = [channel(address) for address in addresses]
        self._place, self._lock = 0, Lock()

    @property
    def address(self) -> str:
        return self.addresses[self._place]

    def use_next(self, failed: str) -> None:
        """Send the next calls to the address after the one that failed; pause after each round."""
        with self._lock:
            if self.address == failed:  # of many calls that fail at once, only the first moves on
                self._place = (self._place + 1) % len(self._channels)
            pause = self._place == 0
        if pause:
            time.sleep(_PAUSE)

    def _calls(self, kind: str, *arguments: Any, **options: Any) -> Callable[..., Any]:
        """Make a stub's method at each channel; each call chooses the channel."""
        calls = [getattr(channel, kind)(*arguments, **options) for channel in self._channels]

        def call(*request: Any, **settings: Any) -> Any:
            return calls[self._place](*request, **settings)

        return call

    unary_unary: Any = partialmethod(_calls, "unary_unary")
    unary_stream: Any = partialmethod(_calls, "unary_stream")
    stream_unary: Any = partialmethod(_calls, "stream_unary")
    stream_stream: Any = partialmethod(_calls, "stream_stream")

    def subscribe(self, callback: Any, try_to_connect: bool = False) -> None:  # grpc.Channel requires it
        self._channels[self._place].subscribe(callback, try_to_connect)

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
    """Return the error of a certificate, ours or the service's, that made a call fail; None if none did.

    gRPC ends such a call with UNAVAILABLE and a free text, whatever the cause. Python's ``ssl`` gives
    OpenSSL's code of the cause, so one more handshake with the same files tells the cases apart.
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
    certificate = x509.load_pem_x509_certificate(read(file, "certificate"))
    ours = _date_error(f"Certificate {file}", certificate)
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
        authority = x509.load_pem_x509_certificate(read(credentials.authority, "authority"))
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


def _hosts(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return []
    return [
        *names.get_values_for_type(x509.DNSName),
        *map(str, names.get_values_for_type(x509.IPAddress)),
    ]
