"""One channel to a controller: mutual TLS, a deadline on every call, typed errors."""

import json
from collections.abc import Iterator
from typing import Protocol, TypeVar

import grpc
from google.longrunning import operations_pb2_grpc

from gencard.client.checking.history import KeyWatch
from gencard.client.connection.credentials import Credentials, read, read_secret
from gencard.client.connection.tls_check import failure_of_tls
from gencard.core.errors import GencardError, InvalidInputError, ServiceUnavailableError
from gencard.v1 import (
    audit_pb2_grpc,
    catalog_pb2_grpc,
    ledger_pb2_grpc,
    measures_pb2_grpc,
    negotiation_pb2_grpc,
    synthesis_pb2_grpc,
)
from gencard.wire.codecs.error_table import error_of_call

CALL_SECONDS = 30.0
STREAM_SECONDS = 600.0
_MESSAGE_BYTES = 4 * 1024 * 1024

IDEMPOTENT = {
    "gencard.v1.CatalogService": ("ListDatasets", "GetDataset", "ListGenerators"),
    "gencard.v1.NegotiationService": (
        "ProposeCard", "GetCard", "ListCards", "CounterCard", "AcceptCard", "TerminateCard",
    ),
    "gencard.v1.SynthesisService": (
        "GenerateRelease", "GetRelease", "ListReleases", "StreamRows", "StreamPsi",
    ),
    "gencard.v1.AuditService": ("RunAudit", "GetAudit", "ListAudits", "GetAuditReport"),
    "gencard.v1.MeasuresService": ("RunMeasures", "GetMeasures", "ListMeasures"),
    "gencard.v1.LedgerService": ("ListSpends", "GetBudget"),
    "gencard.v1.LogService": (
        "GetCheckpoint", "GetInclusionProof", "GetConsistencyProof", "GetKeyHistory",
    ),
    "google.longrunning.Operations": ("GetOperation", "WaitOperation", "CancelOperation"),
}  # fmt: skip
"""What may be sent again: what only reads, and what carries a request_id. RunBlackBox does neither."""

Request = TypeVar("Request")
Response = TypeVar("Response")


class Connection:
    """A channel and a stub for each service.

    Use ``call`` and ``stream`` for every RPC: they set the deadline and translate errors.
    """

    def __init__(self, address: str, credentials: Credentials) -> None:
        self.address, self.credentials = address, credentials
        self.channel = _channel(address, credentials)
        self.keys = KeyWatch(self)
        self.catalog = catalog_pb2_grpc.CatalogServiceStub(self.channel)
        self.negotiation = negotiation_pb2_grpc.NegotiationServiceStub(self.channel)
        self.synthesis = synthesis_pb2_grpc.SynthesisServiceStub(self.channel)
        self.audit = audit_pb2_grpc.AuditServiceStub(self.channel)
        self.measures = measures_pb2_grpc.MeasuresServiceStub(self.channel)
        self.ledger = ledger_pb2_grpc.LedgerServiceStub(self.channel)
        self.log = ledger_pb2_grpc.LogServiceStub(self.channel)
        self.operations = operations_pb2_grpc.OperationsStub(self.channel)

    def close(self) -> None:
        self.channel.close()

    def call(
        self,
        method: "grpc.UnaryUnaryMultiCallable[Request, Response]",
        request: Request,
        *,
        seconds: float = CALL_SECONDS,
    ) -> Response:
        """One answer.

        Raises:
            GencardError: The typed error of the service, of gRPC or of the network.
        """
        try:
            return method(request, timeout=seconds)
        except grpc.RpcError as failed:
            raise self._error_of(failed) from None

    def stream(
        self,
        method: "grpc.UnaryStreamMultiCallable[Request, Response]",
        request: Request,
        *,
        seconds: float = STREAM_SECONDS,
    ) -> Iterator[Response]:
        """The answers as they come; raises as ``call`` does, while they are read."""
        try:
            yield from method(request, timeout=seconds)
        except grpc.RpcError as failed:
            raise self._error_of(failed) from None

    def _error_of(self, failed: grpc.RpcError) -> GencardError:
        """The typed error of a call; where the network ended it, what is wrong with a certificate."""
        error = error_of_call(failed)
        if not isinstance(error, ServiceUnavailableError):
            return error
        return failure_of_tls(self.address, self.credentials) or error


def _channel(address: str, credentials: Credentials) -> grpc.Channel:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise InvalidInputError(field="address", problem="needs the form host:port")
    tls = grpc.ssl_channel_credentials(
        root_certificates=read(credentials.authority, "authority"),
        private_key=read_secret(credentials.key, "key"),
        certificate_chain=read(credentials.certificate, "certificate"),
    )
    return grpc.secure_channel(address, tls, options=_options())


def _options() -> list[tuple[str, str | int]]:
    return [
        ("grpc.max_receive_message_length", _MESSAGE_BYTES),
        ("grpc.max_send_message_length", _MESSAGE_BYTES),
        ("grpc.enable_http_proxy", 0),
        ("grpc.service_config", json.dumps(_service_config())),
    ]


def _service_config() -> dict[str, object]:
    names = [
        {"service": service, "method": method}
        for service, methods in IDEMPOTENT.items()
        for method in methods
    ]
    again = {
        "maxAttempts": 4,
        "initialBackoff": "0.2s",
        "maxBackoff": "2s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
    return {"methodConfig": [{"name": names, "retryPolicy": again}]}


class _Page(Protocol):
    @property
    def next_page_token(self) -> str: ...


class _Ask(Protocol):
    page_token: str


Ask = TypeVar("Ask", bound=_Ask)
Page = TypeVar("Page", bound=_Page)


def pages(
    connection: Connection, method: "grpc.UnaryUnaryMultiCallable[Ask, Page]", request: Ask
) -> Iterator[Page]:
    """Every page, in order."""
    while True:
        page = connection.call(method, request)
        yield page
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token
