"""The gRPC server: bounds, TLS, health, and an end that waits for what is running."""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import HealthServicer

from gencard.controller.service.access import MAY_CALL
from gencard.controller.service.guard import Guard

MESSAGE_BYTES = 4 * 1024 * 1024
METADATA_BYTES = 8 * 1024
HARD_METADATA_BYTES = 16 * 1024
STREAM_SECONDS = 3_600

OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    ("grpc.max_metadata_size", METADATA_BYTES),
    ("grpc.absolute_max_metadata_size", HARD_METADATA_BYTES),
    ("grpc.so_reuseport", 0),
    ("grpc.max_connection_idle_ms", 300_000),
    ("grpc.max_connection_age_ms", STREAM_SECONDS * 1_000),
    ("grpc.max_connection_age_grace_ms", 60_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.enable_channelz", 0),
)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where certificate, key and authority lie; read again when they change."""

    certificate: Path
    key: Path
    authority: Path

    def read(self) -> grpc.ServerCertificateConfiguration:
        pair = (self.key.read_bytes(), self.certificate.read_bytes())
        return grpc.ssl_server_certificate_configuration([pair], self.authority.read_bytes())

    def stamp(self) -> tuple[int, ...]:
        return tuple(path.stat().st_mtime_ns for path in (self.certificate, self.key, self.authority))

    def credentials(self) -> grpc.ServerCredentials:
        """Mutual TLS whose files may be replaced while the server runs."""
        seen = [self.stamp()]

        def fetch() -> grpc.ServerCertificateConfiguration | None:
            stamp = self.stamp()
            if stamp == seen[0]:
                return None
            seen[0] = stamp
            return self.read()

        return grpc.dynamic_ssl_server_credentials(
            self.read(),
            fetch,  # type: ignore[arg-type]  # the stub forgets that None means "as before"
            require_client_authentication=True,
        )


@dataclass(slots=True)
class Service:
    """A started server; ``stop`` lets running calls end."""

    server: grpc.Server
    health: HealthServicer
    port: int

    def stop(self, grace: float = 10.0) -> None:
        """Refuse new calls, wait up to ``grace`` seconds for running ones, then end."""
        self.health.enter_graceful_shutdown()
        self.server.stop(grace).wait()


def start(
    address: str,
    tls: TlsFiles | None,
    guard: Guard,
    register: Sequence[Callable[[grpc.Server], None]],
    *,
    concurrent_calls: int,
) -> Service:
    """Start serving; ``tls`` None means plaintext, which only development on loopback may ask for.

    Raises:
        RuntimeError: A registered method is missing from the table of access, or the address is taken.
    """
    _silence_tracebacks()
    server = grpc.server(
        ThreadPoolExecutor(max_workers=concurrent_calls + 4, thread_name_prefix="call"),
        interceptors=[guard],
        options=OPTIONS,
        maximum_concurrent_rpcs=concurrent_calls,
    )
    health = HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    for add in register:
        add(server)
    port = _bind(server, address, tls)
    server.start()
    health.set("", health_pb2.HealthCheckResponse.SERVING)
    return Service(server, health, port)


def unlisted_methods(service_methods: Sequence[str]) -> list[str]:
    """Methods that the table of access does not name; must be empty."""
    return [method for method in service_methods if method not in MAY_CALL]


def _bind(server: grpc.Server, address: str, tls: TlsFiles | None) -> int:
    if tls is None:
        return server.add_insecure_port(address)
    return server.add_secure_port(address, tls.credentials())


class _NoTraceback(logging.Filter):
    """gRPC logs exceptions with their text; what is logged here names the class alone."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.exc_info = None
        record.exc_text = None
        record.msg, record.args = "a call ended outside the guard", ()
        return True


def _silence_tracebacks() -> None:
    for name in ("grpc._server", "grpc._common", "grpc._interceptor", "grpc._cython.cygrpc"):
        logger = logging.getLogger(name)
        if not any(isinstance(seen, _NoTraceback) for seen in logger.filters):
            logger.addFilter(_NoTraceback())
