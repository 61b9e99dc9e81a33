"""Every call ends here: in a message, or in one error of the catalogue and no stray word.

The guard is the innermost interceptor. It decides who may call, refuses garbage and unknown
fields, bounds concurrent calls of one identity, and turns whatever is raised, streams included,
into a status. It leaves the ``except`` block before it ends the call: gRPC would otherwise keep
the exception's text in spans and logs.
"""

import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

import grpc
from grpc_status import rpc_status

from gencard.controller.service.access import EXEMPT, MAY_CALL
from gencard.controller.service.caller import Enrolled, caller_of
from gencard.controller.service.intake import check_request, checked, decoder
from gencard.core.errors import (
    GencardError,
    InternalError,
    PermissionDeniedError,
    ServiceBusyError,
)
from gencard.wire.error_table import status_message
from gencard.wire.identity import Identity

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Found: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"
Report = Callable[[str, str, str], None]
"""Called with (method, incident, exception's class name) when something unexpected was raised."""

CALLER: threading.local = threading.local()


def identity() -> Identity:
    """Who makes the call that this thread is serving."""
    found: Identity = CALLER.identity
    return found


@dataclass(slots=True)
class Guard(grpc.ServerInterceptor):
    """The interceptor around every method.

    Args:
        enrolled: Whether an identity is on the controller's list.
        report: Where incidents go; gets no exception text.
        calls_per_identity: Concurrent calls of one identity.
        calls: Concurrent calls of everybody; what is exempt comes on top.
        development: URI of plaintext callers in development; None elsewhere.
    """

    enrolled: Enrolled
    report: Report
    calls_per_identity: int
    calls: int
    development: str | None = None
    _running: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Found],
        details: grpc.HandlerCallDetails,
    ) -> Found:
        handler = continuation(details)
        return None if handler is None else self._guarded(handler, details.method)

    def _guarded(self, handler: Handler, method: str) -> Handler:
        decode = decoder(handler.request_deserializer)
        if handler.unary_unary:
            return grpc.unary_unary_rpc_method_handler(
                self._single(handler.unary_unary, method), decode, handler.response_serializer
            )
        if handler.unary_stream:
            return grpc.unary_stream_rpc_method_handler(
                self._stream(handler.unary_stream, method), decode, handler.response_serializer
            )
        if handler.stream_stream:
            return grpc.stream_stream_rpc_method_handler(
                self._stream(handler.stream_stream, method), decode, handler.response_serializer
            )
        return grpc.unary_unary_rpc_method_handler(_refuse, decode, handler.response_serializer)

    def _single(self, behaviour: Callable[..., Any], method: str) -> Callable[..., Any]:
        def call(request: Any, context: grpc.ServicerContext) -> Any:
            with self._ending(context, method) as caught, self._admitted(context, method):
                check_request(request)
                return behaviour(request, context)
            return _end(context, caught)

        return call

    def _stream(
        self, behaviour: Callable[..., Iterator[Any]], method: str
    ) -> Callable[..., Iterator[Any]]:
        def call(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
            with self._ending(context, method) as caught, self._admitted(context, method):
                incoming = checked(request) if hasattr(request, "__next__") else request
                if incoming is request:
                    check_request(request)
                yield from behaviour(incoming, context)
            if caught:
                _end(context, caught)

        return call

    @contextmanager
    def _ending(self, context: grpc.ServicerContext, method: str) -> Iterator[list[GencardError]]:
        """Collects the one error a call ends with, after the ``except`` block was left."""
        caught: list[GencardError] = []
        try:
            yield caught
        except GencardError as error:
            caught.append(error)
        except Exception as error:  # this is where every error ends
            incident = secrets.token_hex(8)
            if context.is_active():
                self.report(method, incident, type(error).__name__)
            caught.append(InternalError(incident=incident))

    @contextmanager
    def _admitted(self, context: grpc.ServicerContext, method: str) -> Iterator[None]:
        """Runs the call as its caller, within the caller's share of concurrent calls."""
        who = caller_of(context, self.enrolled, self.development)
        if who.role not in MAY_CALL.get(method, frozenset()):
            raise PermissionDeniedError
        with self._counted(who) if method not in EXEMPT else nullcontext():
            CALLER.identity = who
            yield

    @contextmanager
    def _counted(self, who: Identity) -> Iterator[None]:
        with self._lock:
            if self._running[who.uri] >= self.calls_per_identity:
                raise ServiceBusyError(what="concurrent calls of one certificate")
            if self._running.total() >= self.calls:
                raise ServiceBusyError(what="concurrent calls")
            self._running[who.uri] += 1
        try:
            yield
        finally:
            with self._lock:
                self._running[who.uri] -= 1


def _end(context: grpc.ServicerContext, caught: list[GencardError]) -> NoReturn:
    """Ends the call with the error's status; an abandoned call has nobody to tell."""
    context.abort_with_status(rpc_status.to_status(status_message(caught[0])))


def _refuse(_request: Any, context: grpc.ServicerContext) -> NoReturn:
    context.abort(grpc.StatusCode.UNIMPLEMENTED, "")
