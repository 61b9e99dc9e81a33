"""A controller that stands by: it answers for its health, and tells every other caller where to go."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import HealthServicer
from grpc_status import rpc_status

from gencard.controller.service.server import OPTIONS, TlsFiles, bind
from gencard.controller.state.leadership import LOOK_EVERY, Leadership
from gencard.controller.upkeep.health import STANDBY
from gencard.controller.upkeep.logs import silence_grpc
from gencard.core.errors import NotLeadingError
from gencard.wire.codecs.error_table import status_message

_THREADS = 4
_CALLS = 64


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
    """Wait until this controller leads, and answer for its health meanwhile.

    Args:
        ended: Ends the wait.
        waits: Called once, where another one leads.

    Returns:
        Whether it leads; False where the wait was ended.

    Raises:
        InvalidInputError: The address cannot be listened on.
        StorageError: The database was made by a newer version of Gencard.
    """
    if leadership.try_lead():
        return True
    server = _started(address, tls)
    waits()
    try:
        while not ended.wait(LOOK_EVERY):
            if leadership.try_lead():
                return True
        return False
    finally:
        server.stop(0.0).wait()  # the address is free for the service


def _started(address: str, tls: TlsFiles | None) -> grpc.Server:
    silence_grpc()
    server = grpc.server(
        ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="standby"),
        handlers=[_Refusal()],
        options=OPTIONS,
        maximum_concurrent_rpcs=_CALLS,
    )
    health = HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    bind(server, address, tls)
    server.start()
    health.set("", health_pb2.HealthCheckResponse.NOT_SERVING)
    health.set(STANDBY, health_pb2.HealthCheckResponse.SERVING)
    return server
