"""Keeps every message and every end of a call as the caller decodes it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import grpc


@dataclass
class Recorder(
    grpc.UnaryUnaryClientInterceptor,
    grpc.UnaryStreamClientInterceptor,
    grpc.StreamStreamClientInterceptor,
):
    """An interceptor of a channel."""

    methods: set[str] = field(default_factory=set)
    codes: list[tuple[str, grpc.StatusCode]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        call = continuation(details, request)
        self._end(details.method, call)
        if call.code() is grpc.StatusCode.OK:
            self.said.append(repr(call.result()))
        return call

    def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        return self._heard(details.method, continuation(details, request))

    def intercept_stream_stream(self, continuation: Any, details: Any, request_iterator: Any) -> Any:
        return self._heard(details.method, continuation(details, request_iterator))

    def _heard(self, method: str, call: Any) -> Iterator[Any]:
        try:
            for response in call:
                self.said.append(repr(response))
                yield response
        finally:
            call.cancel()
            self._end(method, call)

    def _end(self, method: str, call: Any) -> None:
        self.methods.add(method)
        self.codes.append((method, call.code()))
        metadata = [*(call.initial_metadata() or ()), *(call.trailing_metadata() or ())]
        self.said += [str(call.code()), str(call.details()), *map(repr, metadata)]
