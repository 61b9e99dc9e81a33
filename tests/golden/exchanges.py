"""Messages between client and controller, as bytes: recorded once, and answered again without one."""

import base64
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.message import Message

from gencard.client.connection import connection


def types_of(method: str) -> tuple[type[Message], type[Message]]:
    """Request and response of a method, by its path."""
    service, _, name = method[1:].rpartition("/")
    described = descriptor_pool.Default().FindServiceByName(service).FindMethodByName(name)
    kinds = (described.input_type, described.output_type)
    return tuple(map(message_factory.GetMessageClass, kinds))  # type: ignore[return-value]


def key_of(method: str, request: Message) -> tuple[str, bytes]:
    """A request without what is drawn anew each time."""
    same = type(request)()
    same.CopyFrom(request)
    if "request_id" in request.DESCRIPTOR.fields_by_name:
        same.ClearField("request_id")
    return method, same.SerializeToString(deterministic=True)


@dataclass
class Exchanges:
    """Requests, and the messages that answered each, in the order in which they came."""

    answers: dict[tuple[str, bytes], list[list[bytes]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    @classmethod
    def of_document(cls, document: Any) -> "Exchanges":
        exchanges = cls()
        for one in document:
            key = one["method"], base64.b64decode(one["request"])
            exchanges.answers[key] = [list(map(base64.b64decode, each)) for each in one["answers"]]
        return exchanges

    def document(self) -> list[dict[str, Any]]:
        return [
            {
                "method": method,
                "request": base64.b64encode(request).decode(),
                "answers": [[base64.b64encode(part).decode() for part in each] for each in answers],
            }
            for (method, request), answers in self.answers.items()
        ]

    def messages(self) -> Iterator[tuple[type[Message], bytes]]:
        """Every message with its type."""
        for (method, request), answers in self.answers.items():
            request_type, answer_type = types_of(method)
            yield request_type, request
            yield from ((answer_type, part) for each in answers for part in each)


class _Recorder(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    def __init__(self, exchanges: Exchanges) -> None:
        self.exchanges = exchanges

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        call = continuation(details, request)
        if call.code() is grpc.StatusCode.OK:
            self._keep(details.method, request, [call.result()])
        return call

    def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        answers = list(continuation(details, request))
        self._keep(details.method, request, answers)
        return iter(answers)

    def _keep(self, method: str, request: Message, answers: list[Message]) -> None:
        parts = [answer.SerializeToString(deterministic=True) for answer in answers]
        self.exchanges.answers[key_of(method, request)].append(parts)


@contextmanager
def recording(exchanges: Exchanges) -> Iterator[None]:
    """Connections made from now on keep what they send and receive."""
    real = connection._channel

    def channel(*arguments: Any) -> grpc.Channel:
        return grpc.intercept_channel(real(*arguments), _Recorder(exchanges))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "_channel", channel)
        yield


class _Answers(grpc.GenericRpcHandler):
    """Answers each request as it was answered then; the last answer again where there are no more."""

    def __init__(self, exchanges: Exchanges) -> None:
        self.exchanges = exchanges
        self.calls: dict[tuple[str, bytes], int] = defaultdict(int)

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        method = details.method

        def answer(data: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
            key = key_of(method, types_of(method)[0].FromString(data))
            if key not in self.exchanges.answers:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"not recorded: {method}")
            answers = self.exchanges.answers[key]
            place = min(self.calls[key], len(answers) - 1)
            self.calls[key] += 1
            yield from answers[place]

        if types_of(method)[1].DESCRIPTOR.name.startswith("Stream"):
            return grpc.unary_stream_rpc_method_handler(answer)
        return grpc.unary_unary_rpc_method_handler(lambda data, context: next(answer(data, context)))


@contextmanager
def answering(exchanges: Exchanges) -> Iterator[None]:
    """Connections made from now on are answered from a recording, on this machine alone."""
    server = grpc.server(ThreadPoolExecutor(4), (_Answers(exchanges),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "_channel", lambda *_: grpc.insecure_channel(f"127.0.0.1:{port}"))
        yield
    server.stop(None).wait()
