"""Interceptor that authorises calls and maps every exception to an error of the catalogue.

The guard is the innermost interceptor. It decides who may call, limits each caller's share and the time
for each message, rejects malformed bytes and unknown fields, and turns every exception, in streams too,
into a status. Every method is served as a method with a stream of requests, which is the same on the
wire: the caller is therefore known, and counted, before gRPC waits for a message. The guard leaves the
``except`` block before it ends a call: gRPC would otherwise keep the exception's text in spans and logs.
"""

import re
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any, NoReturn, TypeAlias, cast

import grpc
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from grpc_status import rpc_status

from gencard.controller.base.fair_use import Bounds, CallTurns, Shares, traced, working_for
from gencard.controller.service.access import (
    EXEMPT,
    MAY_CALL,
    UNQUEUED,
    Admits,
    Caller,
    CallTimeout,
    OpenCalls,
    caller_of,
)
from gencard.core.errors import (
    GencardError,
    InternalError,
    InvalidInputError,
    OperationCancelledError,
    PermissionDeniedError,
    ServiceBusyError,
    TooLargeError,
    UnauthenticatedError,
    forget_frames,
)
from gencard.wire.error_table import status_message
from gencard.wire.keys import Identity

TRACE = "gencard-trace"
"""Key of the metadata that ends a call: its trace id, as in the lines of the process's log."""

MOST_PARTS = 100_000
"""Largest number of entries in all lists of one message: ten times those of the largest proposal."""

MOST_BYTES = 1 << 20
MOST_UPLOAD_BYTES = 4 << 20
"""Largest size of one request; the second number is for ``UPLOADS``, which carry tables and programs."""

UPLOADS = frozenset({"/gencard.v1.AuditService/RunBlackBox", "/gencard.v1.AnswersService/RunProgram"})

KEPT = (OperationCancelledError, ServiceBusyError, TooLargeError, UnauthenticatedError)
"""Errors of calls that were refused before they were served, or reset before an answer."""

KEPT_SECONDS = 1.0
"""Time in which a call with such an error still counts as one of its connection's few streams.

A refusal or a reset stream takes half a millisecond of the interpreter, for which other calls wait. A
stream beyond the limit of its connection is refused by gRPC's transport, without the interpreter.
"""

CHECKED_EVERY = 0.1
"""Seconds after which the caller of a stream is checked again before the next message: a check reads the
folder of people, and a stream of rows has thousands of messages.
"""

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Control characters, which a database cannot store or which would move the cursor of a terminal."""

_SMALLER = "Send a smaller request: fewer statistics, or shorter texts."

Decode = Callable[[bytes], Any]
Encode = Callable[[Any], bytes]


@dataclass(frozen=True, slots=True)
class Garbage:
    """Placeholder of a request whose bytes were no message, or more than ``limit``."""

    limit: int = 0


def decoder(decode: Decode | None, most: int = MOST_UPLOAD_BYTES) -> Decode | None:
    """Return the decoder with ``Garbage`` in place of errors, and of more than ``most`` bytes."""
    if decode is None:
        return None

    def decoded(data: bytes) -> Any:
        # a message of small parts holds up all other calls while it is decoded
        if len(data) > most:
            return Garbage(limit=most)
        try:
            return decode(data)
        except (DecodeError, ValueError, RecursionError):
            # gRPC would answer with an error text of its own and skip the guard, quotas included
            return Garbage()

    return decoded


def check_request(request: Any) -> int:
    """Check the form of a request before its content is used, and return the number of its parts.

    Raises:
        InvalidInputError: Malformed bytes, a field that this service does not know, a control character
            in a text.
        TooLargeError: More than ``MOST_PARTS`` parts, or too many bytes.
    """
    if isinstance(request, Garbage):
        if request.limit:
            limit = f"{request.limit:,} bytes"
            raise TooLargeError(what="The request", limit=limit, advice=_SMALLER)
        raise InvalidInputError(field="request", problem="is not a valid message")
    return _check_parts(request) if isinstance(request, Message) else 0


def _check_parts(message: Message) -> int:
    waiting, parts = [message], 0
    while waiting:
        for descriptor, value in waiting.pop().ListFields():
            is_message, is_text, repeated = _kind_of(descriptor)
            parts += len(value) if repeated else 1
            # before any field is judged: small parts cost more memory decoded than on the wire
            if parts > MOST_PARTS:
                what = "The number of parts of the message"
                raise TooLargeError(what=what, limit=MOST_PARTS, advice=_SMALLER)
            if is_message:
                waiting.extend(value if repeated else (value,))
            elif is_text and _CONTROL.search(" ".join(value) if repeated else value):
                raise InvalidInputError(field=descriptor.name, problem="holds a control character")
    # Unknown fields: a restriction by a newer client, if ignored, would grant too much. Dropping them
    # drops those of nested messages too: a message that becomes smaller had some.
    size = message.ByteSize()
    message.DiscardUnknownFields()
    if message.ByteSize() != size:
        raise InvalidInputError(field="request", problem="holds fields that this service does not know")
    return parts


@cache
def _kind_of(field: FieldDescriptor) -> tuple[bool, bool, bool]:
    """Whether it holds messages, whether texts, and whether a list of them."""
    is_text = field.type == FieldDescriptor.TYPE_STRING
    return field.message_type is not None, is_text, bool(field.is_repeated)


def encoder(encode: Encode | None) -> Encode | None:
    """Return the encoder for answers that are messages; bytes are encoded already."""
    if encode is None:
        return None
    return lambda answer: answer if isinstance(answer, bytes) else encode(answer)


Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
OptionalHandler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"
Report = Callable[[str, str, str], None]
"""Called with (method, incident, exception's class name) when something unexpected was raised."""

Read = Callable[[Iterator[Any], grpc.ServicerContext], Any]
"""Reads the argument of a method from the stream of requests."""


class _Serving(threading.local):
    caller: Caller


_SERVING = _Serving()


def identity() -> Identity:
    """Identity of the caller that this thread serves."""
    return _SERVING.caller.identity


def tls_key() -> frozenset[str]:
    """Return the fingerprint of the TLS key of this thread's caller; empty in development."""
    key = _SERVING.caller.tls_key
    return frozenset({key} if key else ())


class Calls:
    """Count of calls that have ended, by method and status; no times, which could depend on records."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()

    def count(self, method: str, code: str) -> None:
        with self._lock:
            self._counts[method, code] += 1

    def counts(self) -> dict[tuple[str, str], int]:
        with self._lock:
            return dict(self._counts)


@dataclass(slots=True)
class Guard(grpc.ServerInterceptor):
    """The interceptor around every method; ``development`` is that of ``caller_of``.

    Args:
        admits: Whether an identity is on the controller's list, and a TLS key its newest one.
        report: Called with incidents; receives no exception text.
    """

    admits: Admits
    report: Report
    bounds: Bounds
    development: str | None = None
    calls: Calls = field(default_factory=Calls)
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    _open: OpenCalls = field(init=False)
    _shares: Shares = field(init=False)
    _turns: CallTurns = field(default_factory=CallTurns)
    _timeout: CallTimeout = field(init=False)
    _kept: CallTimeout = field(init=False)

    def __post_init__(self) -> None:
        self._open = OpenCalls(self._check)
        self._shares = Shares(self.bounds)
        self._timeout = CallTimeout(self.bounds.request_seconds)
        self._kept = CallTimeout(KEPT_SECONDS)

    def stop(self) -> None:
        """Stop watching open calls."""
        self._open.stop()
        self._timeout.stop()
        self._kept.stop()

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], OptionalHandler],
        details: grpc.HandlerCallDetails,
    ) -> OptionalHandler:
        handler, method = continuation(details), details.method
        if handler is None:
            return None
        most = MOST_UPLOAD_BYTES if method in UPLOADS else MOST_BYTES
        decode = decoder(handler.request_deserializer, most)
        encode = encoder(handler.response_serializer)
        if handler.unary_unary:
            single = self._single(handler.unary_unary, method)
            # A method of one request is served as a stream of requests: gRPC would otherwise wait for
            # the message before the guard runs, without a limit of the guard's.
            return grpc.stream_unary_rpc_method_handler(single, decode, encode)
        if streaming := handler.unary_stream or handler.stream_stream:
            read = self._only if handler.unary_stream else self._each
            stream = self._stream(streaming, method, read)
            return grpc.stream_stream_rpc_method_handler(stream, decode, encode)
        return grpc.unary_unary_rpc_method_handler(_refuse, decode, encode)

    def _single(self, behaviour: Callable[..., Any], method: str) -> Callable[..., Any]:
        def call(requests: Iterator[Any], context: grpc.ServicerContext) -> Any:
            with self._ending(context, method) as caught, self._admitted(context, method) as who:
                request = self._only(requests, context)
                with self._served(who, method):
                    return behaviour(request, context)
            return _end(context, caught)

        return call

    def _stream(
        self, behaviour: Callable[..., Iterator[Any]], method: str, read: Read
    ) -> Callable[..., Iterator[Any]]:
        def call(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
            with self._ending(context, method) as caught, self._admitted(context, method) as who:
                answers = behaviour(read(requests, context), context)
                answer = self._next(answers, who, method)
                if not context.is_active():  # the caller has hung up: there is nobody to stream to
                    raise OperationCancelledError
                checked = time.monotonic()
                while answer is not None:
                    if time.monotonic() - checked >= CHECKED_EVERY:
                        self._check(_SERVING.caller)
                        checked = time.monotonic()
                    with self._timeout.waiting(context):
                        yield answer
                    answer = self._next(answers, who, method)
            if caught:
                _end(context, caught)

        return call

    def _next(self, answers: Iterator[Any], who: Identity, method: str) -> Any:
        with self._served(who, method):
            return next(answers, None)

    def _served(self, who: Identity, method: str) -> AbstractContextManager[None]:
        return nullcontext() if method in UNQUEUED else self._turns.served(who.uri)

    def _only(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Any:
        for request in self._each(requests, context):
            return request
        raise InvalidInputError(field="request", problem="is missing")

    def _each(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        """Yield requests as they arrive, each checked; a late request ends the call."""
        while True:
            with self._timeout.waiting(context):
                request = next(requests, None)
            if request is None:
                return
            # Again after the wait: the caller may have lost the enrolment meanwhile.
            self._check(_SERVING.caller)
            self._shares.weigh(identity().uri, check_request(request))
            yield request

    @contextmanager
    def _ending(self, context: grpc.ServicerContext, method: str) -> Iterator[list[GencardError]]:
        """Collect the error with which a call ends, after the ``except`` block was left.

        The error's frames are dropped: gRPC counts a call as a stream of its connection while a frame
        refers to it.
        """
        caught: list[GencardError] = []
        trace, has_ended = secrets.token_hex(16), False
        context.set_trailing_metadata(((TRACE, trace),))
        try:
            with traced(trace):
                yield caught
            has_ended = True
        except GencardError as error:
            forget_frames(error)
            caught.append(error)
        except Exception as error:  # the last handler: gRPC would send the error's text to the caller
            forget_frames(error)
            # the text of an unexpected error may quote a record: only its class is logged
            incident = secrets.token_hex(8)
            if context.is_active():
                with traced(trace):
                    self.report(method, incident, type(error).__name__)
            caught.append(InternalError(incident=incident))
        finally:
            code = "OK" if has_ended else "CANCELLED"
            if caught:
                code = rpc_status.to_status(status_message(caught[0])).code.name
            self.calls.count(method, code)
            # gRPC counts a call among the streams of its connection until the call is freed. Holding it
            # for a moment slows down a caller who retries at once.
            if caught and isinstance(caught[0], KEPT):
                self._kept.keep(context)

    @contextmanager
    def _admitted(self, context: grpc.ServicerContext, method: str) -> Iterator[Identity]:
        """Run the call as its caller, within the caller's share; a call that was reset ends at once."""
        if not context.is_active():
            raise OperationCancelledError
        caller = caller_of(context, self.admits, self.development, self.now())
        who = caller.identity
        # deny by default: a method without an entry is called by nobody
        if who.role not in MAY_CALL.get(method, frozenset()):
            raise PermissionDeniedError
        # After the role: callers who may not call at all must not fill the limit of calls that all
        # callers share.
        room = self._shares.exempt if method in EXEMPT else self._shares.taken
        with room(who.uri), working_for(who.uri), self._open.opened(caller, context):
            _SERVING.caller = caller
            yield who

    def _check(self, caller: Caller) -> None:
        caller.check(self.admits, self.now())


def _end(context: grpc.ServicerContext, caught: list[GencardError]) -> NoReturn:
    """End the call with the error's status, unless the caller has abandoned it."""
    status: Any = rpc_status.to_status(status_message(caught[0]))
    # gRPC replaces the metadata that was set before
    trace = cast("Any", context).trailing_metadata() or ()
    context.abort_with_status(status._replace(trailing_metadata=(*status.trailing_metadata, *trace)))


def _refuse(_request: Any, context: grpc.ServicerContext) -> NoReturn:
    context.abort(grpc.StatusCode.UNIMPLEMENTED, "")
