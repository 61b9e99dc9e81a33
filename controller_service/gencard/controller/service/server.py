"""The gRPC server: bounds, TLS, health, an end that waits for what runs; and the one that stands by."""

import errno
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NoReturn, cast

import grpc
from google.protobuf import descriptor_pool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import HealthServicer
from grpc_status import rpc_status

from gencard.controller.base.fair_use import EXEMPT_AT_A_TIME
from gencard.controller.base.listening import TlsFiles, _close, bound, unusable
from gencard.controller.base.logs import silence_grpc
from gencard.controller.service.access import MAY_CALL
from gencard.controller.service.guard import Guard
from gencard.controller.service.health import STANDBY
from gencard.controller.state.sharing import LOOK_EVERY, Leadership
from gencard.core.errors import NotLeadingError
from gencard.wire.error_table import status_message

MESSAGE_BYTES = 4 * 1024 * 1024
STREAM_SECONDS = 3_600

OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    ("grpc.max_metadata_size", 8 * 1024),
    ("grpc.absolute_max_metadata_size", 16 * 1024),
    # gRPC shares its port with other processes by default (grpc/grpc#10755): another process of this
    # user could listen beside the service and get a part of its connections.
    ("grpc.so_reuseport", 0),
    ("grpc.server_handshake_timeout_ms", 20_000),
    ("grpc.max_connection_idle_ms", 300_000),
    ("grpc.max_connection_age_ms", STREAM_SECONDS * 1_000),
    ("grpc.max_connection_age_grace_ms", 60_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.enable_channelz", 0),  # it lists peers' addresses and calls
)

Registration = Callable[[grpc.Server], None]
"""Adds one service to a server."""


def credentials_of(tls: TlsFiles) -> grpc.ServerCredentials:
    """Mutual TLS whose files may be replaced while the server runs."""
    stamps = [tls.stamp()]

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        stamp = tls.stamp()
        if stamp == stamps[0]:
            return None
        fresh = _configuration(tls)
        stamps[0] = stamp
        return fresh

    return grpc.dynamic_ssl_server_credentials(
        _configuration(tls),
        fetch,  # type: ignore[arg-type]  # the stub forgets that None means "as before"
        require_client_authentication=True,  # strangers never reach the HTTP/2 parser
    )


def _configuration(tls: TlsFiles) -> grpc.ServerCertificateConfiguration:
    pair, authority = tls.read()
    return grpc.ssl_server_certificate_configuration([pair], authority)


@dataclass(slots=True)
class Service:
    """A started server; ``stop`` lets running calls end."""

    server: grpc.Server
    health: HealthServicer
    guard: Guard
    port: int

    def stop(self, grace: float = 10.0) -> None:
        """Refuse new calls, wait up to ``grace`` seconds for running ones, then end."""
        self.health.enter_graceful_shutdown()
        self.server.stop(grace).wait()
        self.guard.stop()


def start(address: str, tls: TlsFiles | None, guard: Guard, register: Sequence[Registration]) -> Service:
    """Start serving; ``tls`` None means plaintext, which only development on loopback may ask for.

    Raises:
        RuntimeError: A registered method is missing from the table of access.
        InvalidInputError: The address cannot be listened on.
    """
    silence_grpc()
    # calls beyond the guard's limit: there is always room to ask for health, and to cancel
    threads = guard.bounds.calls + 8 * EXEMPT_AT_A_TIME
    server = grpc.server(
        ThreadPoolExecutor(max_workers=threads, thread_name_prefix="call"),
        interceptors=[guard],
        # Beyond it gRPC's transport refuses a stream before any of our threads is involved. Without
        # the bound a caller who opens streams and resets them at once (CVE-2023-44487) fills the queue
        # before our threads: streams that were reset keep their place in it, and gRPC cancels all
        # callers' calls once it is long.
        options=[*OPTIONS, ("grpc.max_concurrent_streams", guard.bounds.streams)],
        # Calls that were reset end as soon as a thread takes them, so a caller who resets streams
        # delays other callers for a moment; a shorter queue would refuse them.
        maximum_concurrent_rpcs=threads * 16,
    )
    health = HealthServicer()
    registry = cast("grpc.Server", _Registry(server))
    health_pb2_grpc.add_HealthServicer_to_server(health, registry)
    for add in register:
        add(registry)
    port = bind(server, address, tls)
    server.start()
    health.set("", health_pb2.HealthCheckResponse.SERVING)
    return Service(server, health, guard, port)


class _Registry:
    """Takes services for a server, and no method that the table of access does not name."""

    def __init__(self, server: grpc.Server) -> None:
        self._server = server

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.ServiceRpcHandler]) -> None:
        """Raise RuntimeError if a method is missing from the table."""
        for handler in handlers:
            service = descriptor_pool.Default().FindServiceByName(handler.service_name())
            for method in service.methods:
                if f"/{service.full_name}/{method.name}" not in MAY_CALL:
                    raise RuntimeError(f"{method.full_name} is missing from the table of access")
        self._server.add_generic_rpc_handlers(handlers)

    def add_registered_method_handlers(self, service: str, handlers: Any) -> None:
        """Add the same methods again, in a faster form."""
        self._server.add_registered_method_handlers(service, handlers)


def bind(server: grpc.Server, address: str, tls: TlsFiles | None) -> int:
    """Bind a server to every address of a host; return its port.

    gRPC itself is content with one of several addresses, and another process could hold the port at the
    others: a client that connects by name would then reach that process.
    """
    probes = bound(address, "server.address")
    places = [probe.getsockname() for probe in probes]
    _close(probes)  # gRPC takes no sockets, so it binds the same places again
    for host, port, *_ in places:
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            if tls is None:
                taken = server.add_insecure_port(place)
            else:
                taken = server.add_secure_port(place, credentials_of(tls))
        except RuntimeError:
            taken = 0
        if taken != port:  # another process was faster
            raise unusable("server.address", place, errno.EADDRINUSE)
    return int(places[0][1])


class _Refusal(grpc.GenericRpcHandler):
    """Ends every call in UNAVAILABLE, whatever its method; nothing of the request is read."""

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> "grpc.RpcMethodHandler[Any, Any] | None":
        if handler_call_details.method.startswith("/grpc.health."):
            return None
        return grpc.stream_stream_rpc_method_handler(_refuse)


def _refuse(_requests: Any, context: grpc.ServicerContext) -> NoReturn:
    status: Any = rpc_status.to_status(status_message(NotLeadingError()))
    context.abort_with_status(status)


def stand_by(
    leadership: Leadership,
    address: str,
    tls: TlsFiles | None,
    ended: threading.Event,
    waits: Callable[[], None],
) -> bool:
    """Answer for this controller's health until it leads; return False if ``ended`` ended the wait.

    Args:
        waits: Called once, if another controller leads.

    Raises:
        InvalidInputError: The address cannot be listened on, or a newer or unknown version of Gencard
            wrote the database.
    """
    if leadership.try_lead():
        return True
    silence_grpc()
    server = grpc.server(
        ThreadPoolExecutor(max_workers=4, thread_name_prefix="standby"),
        handlers=[_Refusal()],
        options=OPTIONS,
        maximum_concurrent_rpcs=64,
    )
    health = HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    bind(server, address, tls)
    server.start()
    health.set("", health_pb2.HealthCheckResponse.NOT_SERVING)
    health.set(STANDBY, health_pb2.HealthCheckResponse.SERVING)
    waits()
    try:
        while not ended.wait(LOOK_EVERY):
            if leadership.try_lead():
                return True
        return False
    finally:
        server.stop(0.0).wait()  # the address is free for the service
