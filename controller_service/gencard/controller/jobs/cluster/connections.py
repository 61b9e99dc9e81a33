"""Connections of a controller to its workers: gRPC over mutual TLS, under the cluster's authority.

The controller connects to the workers, and never listens. A worker's certificate is for a server
of one name, and the controller's for a client, so that a worker's key opens neither another worker nor
the controller. All that a worker sends is bytes of bounded size; nothing that it sends is executed.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from gencard.controller.base.files import secret_bytes
from gencard.controller.base.listening import MEMBER_FILES, worker_host
from gencard.controller.jobs.cluster.orders import MalformedAnswerError, SentOrder, code_digest
from gencard.core.errors import ClusterError
from gencard.v1 import worker_pb2, worker_pb2_grpc

PART_BYTES = 1 << 20
_MESSAGE_BYTES = PART_BYTES + 1_024
KEEPALIVE_SECONDS = 10
BUSY = "busy"
"""Details of the status by which a worker says that it has enough runs."""

MOST_RUNS = 64
"""Simultaneous runs of one worker that a controller believes."""

_CONNECT_SECONDS = 5.0
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", _MESSAGE_BYTES),
    ("grpc.max_send_message_length", _MESSAGE_BYTES),
    ("grpc.max_metadata_size", 8 * 1_024),
    ("grpc.enable_channelz", 0),
)
"""Options of both ends."""

_CLIENT_OPTIONS = (
    *CHANNEL_OPTIONS,
    ("grpc.keepalive_time_ms", KEEPALIVE_SECONDS * 1_000),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_SECONDS * 1_000),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.enable_http_proxy", 0),  # the environment must not send records through a proxy
    ("grpc.service_config", '{"loadBalancingPolicy": "pick_first"}'),
    ("grpc.service_config_disable_resolution", 1),
)


class WorkerBusyError(Exception):
    """The worker performs as many runs as it can."""


class WorkerLostError(Exception):
    """The worker cannot be reached, or its call ended without an answer."""


@dataclass(frozen=True, slots=True)
class Member:
    """Facts that a worker reports about itself.

    Args:
        runs: Number of simultaneous runs.
        fits: Whether it claims to have this controller's code.
    """

    runs: int
    fits: bool


class WorkerConnection:
    """A connection to one worker; made when it is first used.

    Args:
        name: Name of the worker, which its certificate must have.
        code: Digest of this controller's code.
    """

    def __init__(self, name: str, channel: grpc.Channel, code: str) -> None:
        self.name = name
        self._code = code
        self._stub = worker_pb2_grpc.WorkerServiceStub(channel)
        self._lock = threading.Lock()
        self._calls: set[Any] = set()
        self._closed = False

    def describe(self) -> Member:
        """Ask the worker for its code and number of runs; raises WorkerLostError."""
        request = worker_pb2.DescribeWorkerRequest()
        try:
            described = self._stub.DescribeWorker(request, timeout=_CONNECT_SECONDS)
        except grpc.RpcError:
            raise WorkerLostError from None
        return Member(min(max(1, described.runs), MOST_RUNS), described.code == self._code)

    def perform(self, order: SentOrder, seconds: float) -> bytes:
        """Return the bytes that the worker sends in answer to an order.

        Args:
            seconds: Time in which the answer must be complete.

        Raises:
            WorkerBusyError: The worker has no free place.
            WorkerLostError: The call ended otherwise, or ``cancel`` was called.
            MalformedAnswerError: The answer has more bytes than it can have.
        """
        requests = (worker_pb2.PerformRunRequest(part=part) for part in parts_of(order.content))
        with self._call(lambda: self._stub.PerformRun(requests, timeout=seconds)) as call:
            answer, most_parts = bytearray(), order.most_bytes // PART_BYTES + 2
            try:
                for number, response in enumerate(call):
                    answer += response.part
                    # counted too, because a part may be empty
                    if len(answer) > order.most_bytes or number >= most_parts:
                        raise MalformedAnswerError("an answer that is too large")
            except grpc.RpcError as error:
                raise _ending(error) from None
            return bytes(answer)

    def cancel(self) -> None:
        """End all calls; those that begin later end at once."""
        with self._lock:
            self._closed = True
            calls = list(self._calls)
        for call in calls:
            call.cancel()

    @contextmanager
    def _call(self, begin: Callable[[], Any]) -> Iterator[Any]:
        with self._lock:
            if self._closed:
                raise WorkerLostError
            call = begin()
            self._calls.add(call)
        try:
            yield call
        finally:
            call.cancel()
            with self._lock:
                self._calls.discard(call)


def _ending(error: grpc.RpcError) -> Exception:
    status: Any = error
    if status.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
        return WorkerLostError()
    # gRPC itself ends a call so if a message is larger than the controller takes
    if status.details() == BUSY:
        return WorkerBusyError()
    return MalformedAnswerError("an answer that is too large")


def parts_of(content: bytes) -> Iterator[bytes]:
    """Cut bytes into parts of at most ``PART_BYTES``."""
    for place in range(0, len(content), PART_BYTES):
        yield content[place : place + PART_BYTES]


@contextmanager
def connections(workers: Mapping[str, str], folder: Path) -> Iterator[list[WorkerConnection]]:
    """Connections to all workers, closed at the end; none waits for a worker to answer.

    Args:
        workers: Address of each worker, by its name.
        folder: Files of the controller's certificate.

    Raises:
        ClusterError: The files of the certificate cannot be read.
        InvalidInputError: Other users can read the key.
    """
    try:
        authority, certificate = ((folder / file).read_bytes() for file in MEMBER_FILES[:2])
    except OSError:
        raise ClusterError(problem="the files of its certificate cannot be read") from None
    key = secret_bytes(folder / MEMBER_FILES[2], "cluster.folder")
    credentials = grpc.ssl_channel_credentials(authority, key, certificate)
    code = code_digest()
    with ExitStack() as stack:
        opened = []
        for name, address in workers.items():
            options = [*_CLIENT_OPTIONS, ("grpc.ssl_target_name_override", worker_host(name))]
            channel = grpc.secure_channel(address, credentials, options)
            stack.callback(channel.close)
            connection = WorkerConnection(name, channel, code)
            stack.callback(connection.cancel)
            opened.append(connection)
        yield opened


def examined(workers: Mapping[str, str], folder: Path) -> dict[str, Member | None]:
    """Facts that each worker reports; None if it cannot be reached with this certificate.

    Raises:
        ClusterError: The files of the certificate cannot be read.
    """
    with connections(workers, folder) as opened:
        return {connection.name: _described(connection) for connection in opened}


def _described(connection: WorkerConnection) -> Member | None:
    try:
        return connection.describe()
    except WorkerLostError:
        return None
