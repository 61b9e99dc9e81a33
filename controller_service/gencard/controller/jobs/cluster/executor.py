"""A black box whose runs are performed by the workers of a cluster.

Runs of a worker that is lost are done again by another, with the same seeds. Whether its rows
are those of the box is for the caller to check: see ``jobs.black_boxes``.
"""

import secrets
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from gencard.controller.base.files import secret_bytes
from gencard.controller.base.listening import MEMBER_FILES, worker_host
from gencard.controller.jobs.cluster.orders import (
    MalformedAnswerError,
    OrderBook,
    SentOrder,
    WorkerRefusedError,
    code_digest,
)
from gencard.controller.jobs.synthesis import box_of
from gencard.controller.jobs.tasks import ClusterPart
from gencard.controller.sandbox.boxes import ProgramRecipe, Recipe, carried
from gencard.core.blackbox import BlackBox
from gencard.core.dataset import Dataset
from gencard.core.errors import ClusterError, WorkerError
from gencard.v1 import worker_pb2, worker_pb2_grpc

# Connections of a controller to its workers: gRPC over mutual TLS, under the cluster's authority.
#
# The controller connects to the workers, and never listens. A worker's certificate is for a server
# of one name, and the controller's for a client, so that a worker's key opens neither another worker nor
# the controller. All that a worker sends is bytes of bounded size; nothing that it sends is executed.

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
    """Facts that a worker reports: simultaneous runs, and whether it has this controller's code."""

    runs: int
    fits: bool


class WorkerConnection:
    """A connection to a worker, whose certificate must have its name; made when it is first used."""

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

        Raises:
            WorkerBusyError: The worker has no free place.
            WorkerLostError: The call ended otherwise, or ``cancel`` was called.
            MalformedAnswerError: The answer has more bytes than it can have.
        """
        requests = (worker_pb2.PerformRunRequest(part=part) for part in parts_of(order.content))
        with self._lock:
            if self._closed:
                raise WorkerLostError
            call = self._stub.PerformRun(requests, timeout=seconds)
            self._calls.add(call)
        answer, most_parts = bytearray(), order.most_bytes // PART_BYTES + 2
        try:
            for number, response in enumerate(call):
                answer += response.part
                # counted too, because a part may be empty
                if len(answer) > order.most_bytes or number >= most_parts:
                    raise MalformedAnswerError("an answer that is too large")
            return bytes(answer)
        except grpc.RpcError as error:
            raise _ending(error) from None
        finally:
            call.cancel()
            with self._lock:
                self._calls.discard(call)

    def cancel(self) -> None:
        """End all calls; those that begin later end at once."""
        with self._lock:
            self._closed = True
            calls = list(self._calls)
        for call in calls:
            call.cancel()


def _ending(error: grpc.RpcError) -> Exception:
    status: Any = error
    if status.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
        return WorkerLostError()
    # gRPC itself ends a call so if a message is larger than the controller takes
    if status.details() == BUSY:
        return WorkerBusyError()
    return MalformedAnswerError("an answer that is too large")


def parts_of(content: bytes) -> Iterator[bytes]:
    for place in range(0, len(content), PART_BYTES):
        yield content[place : place + PART_BYTES]


@contextmanager
def connections(workers: Mapping[str, str], folder: Path) -> Iterator[list[WorkerConnection]]:
    """Yield connections to all workers, closed at the end; none waits for a worker to answer.

    Args:
        workers: Address of each worker, by its name.
        folder: Files of the controller's certificate.
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
    """Facts that each worker reports; None if it cannot be reached with this certificate."""
    members: dict[str, Member | None] = dict.fromkeys(workers)
    with connections(workers, folder) as opened:
        for connection in opened:
            with suppress(WorkerLostError):
                members[connection.name] = connection.describe()
    return members


PATIENCE = 30.0
"""Seconds without any fitting worker after which a job ends."""

_RECONNECT = 1.0  # seconds before a lost worker is asked again
_SLACK = 120.0  # seconds for the start of a process and the transfer, besides those of the run

_MOST_LOST = 5
"""Calls of one worker that may be lost one after the other before it is left out of the job."""


@dataclass(frozen=True, slots=True, eq=False)
class ClusterBox:
    """A black box whose runs are performed by workers; see ``core.blackbox.ManyRunsBox``.

    Args:
        here: The same box on this machine. It makes the runs that a worker reports as failed, so that no
            worker's word alone ends an audit.
        seconds: Time in which a worker must answer one order.
        performers: Filled: name of the worker that made the run of each seed.
    """

    workers: Mapping[str, str]
    folder: Path
    book: OrderBook
    here: BlackBox
    seconds: float
    performers: dict[int, str] = field(default_factory=dict)

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        return next(self.runs_by_seed(dataset, rows, seeds=[seed]))

    def runs_by_seed(self, dataset: Dataset, rows: int, *, seeds: Sequence[int]) -> Iterator[Dataset]:
        """Yield the rows of a run with each seed, in their order.

        Raises:
            ClusterError: No worker performs a run, or there has been none for ``PATIENCE`` seconds.
            WorkerError: A worker gave an answer that is not of the protocol, or not to its order.
            GencardError: The error of the box on this machine, if a worker reports a failed run.
        """
        if not seeds:
            return
        with connections(self.workers, self.folder) as opened:
            batch = _Batch(self, dataset, rows, seeds)
            with batch.performed_by(opened):
                for number, seed in enumerate(seeds):
                    name, output = batch.result(number)
                    if output is None:
                        output = self.here(dataset, rows, seed=seed)
                    else:
                        self.performers[seed] = name
                    yield output


class _Batch:
    """Runs on one dataset that threads hand to workers, one thread for each place of a worker."""

    def __init__(self, box: ClusterBox, dataset: Dataset, rows: int, seeds: Sequence[int]) -> None:
        self._box, self._dataset, self._rows, self._seeds = box, dataset, rows, seeds
        self._changed = threading.Condition()
        self._left = deque(range(len(seeds)))
        self._results: dict[int, tuple[str, Dataset | None]] = {}
        self._error: ClusterError | None = None
        self._is_over = False
        self._calls = 0
        self._heard = time.monotonic()
        self._candidates = 0
        """Number of workers that may still perform runs of this batch."""

    @contextmanager
    def performed_by(self, opened: Sequence[WorkerConnection]) -> Iterator[None]:
        """Have connections perform the runs within the block; all calls end with it."""
        self._candidates = len(opened)
        threads = [threading.Thread(target=self._serve, args=(one,), daemon=True) for one in opened]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            with self._changed:
                self._is_over = True
                self._changed.notify_all()
            for connection in opened:
                connection.cancel()
            for thread in threads:
                thread.join()

    def result(self, number: int) -> tuple[str, Dataset | None]:
        """Wait for a run: the worker that made it, and its rows, None if the run failed there."""
        with self._changed:
            while number not in self._results:
                if self._error:
                    raise self._error
                silent = not self._calls and time.monotonic() - self._heard > PATIENCE
                if silent or not self._candidates:
                    problem = "none of its workers has this controller's version and this black box"
                    raise ClusterError(problem=problem)
                self._changed.wait(_RECONNECT)
            return self._results.pop(number)

    def _serve(self, connection: WorkerConnection) -> None:
        """Use one worker until the batch is over, or the worker turns out not to perform its runs."""
        lost = 0
        while self._pause(0) and lost < _MOST_LOST:
            with suppress(WorkerLostError):
                member = connection.describe()
                # another version may be replaced by the right one while the job waits
                if member.fits:
                    ends: list[type[Exception]] = []
                    places = [
                        threading.Thread(target=self._place, args=(connection, ends), daemon=True)
                        for _ in range(min(member.runs, len(self._seeds)))
                    ]
                    for place in places:
                        place.start()
                    for place in places:
                        place.join()
                    if any(issubclass(end, WorkerRefusedError) for end in ends):
                        break
                    lost = lost + 1 if all(issubclass(end, WorkerLostError) for end in ends) else 0
            self._pause(_RECONNECT)
        with self._changed:
            self._candidates -= 1
            self._changed.notify_all()

    def _place(self, connection: WorkerConnection, ends: list[type[Exception]]) -> None:
        while (number := self._taken()) is not None:
            try:
                order = self._box.book.order(self._dataset, self._rows, self._seeds[number])
                output = order.rows_of(connection.perform(order, self._box.seconds))
                with self._changed:
                    self._calls -= 1
                    self._heard = time.monotonic()
                    self._results[number] = (connection.name, output)
                    self._changed.notify_all()
            except WorkerBusyError:
                self._return(number)
                self._pause(0.1)
            except (WorkerLostError, WorkerRefusedError) as end:
                self._return(number, heard=False)
                ends.append(type(end))
                return
            except MalformedAnswerError as fault:
                self._end(WorkerError(worker=connection.name, problem=f"gave {fault}"))
            except Exception:  # a thread that ends without a word would leave the job waiting
                self._end(ClusterError(problem="a run could not be handed to a worker"))

    def _taken(self) -> int | None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or self._left)
            if self._is_over:
                return None
            self._calls += 1
            return self._left.popleft()

    def _return(self, number: int, *, heard: bool = True) -> None:
        """Leave a run to others; earlier runs first, because they are awaited first."""
        with self._changed:
            self._calls -= 1
            self._left.append(number)
            self._left = deque(sorted(self._left))
            if heard:
                self._heard = time.monotonic()
            self._changed.notify_all()

    def _end(self, error: ClusterError) -> None:
        with self._changed:
            self._calls -= 1
            self._error = self._error or error
            self._is_over = True
            self._changed.notify_all()

    def _pause(self, seconds: float) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._is_over, seconds)
            return not self._is_over


def cluster_box(recipe: Recipe, cluster: ClusterPart) -> ClusterBox:
    there, seconds = recipe, float(cluster.cpu_seconds)
    if isinstance(recipe, ProgramRecipe):
        there, seconds = carried(recipe), float(recipe.limits.wall_seconds)
    book = OrderBook(secrets.token_hex(16), there, cluster.cpu_seconds, cluster.memory_mib)
    # a fit and a sample are two programs
    deadline = 2 * seconds + _SLACK
    return ClusterBox(cluster.workers, cluster.folder, book, box_of(recipe), deadline)
