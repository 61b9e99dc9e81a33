"""A worker on its machine: a gRPC server that performs runs in processes, for its controller alone.

Each run is performed in a process of its own, bound to one job, which is killed with all that it started
when the call is cancelled, and when the worker ends.
"""

import secrets
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import grpc
from cryptography import x509

from gencard.boxes.registry import BOXES
from gencard.controller.base.files import secret_bytes
from gencard.controller.base.listening import CLUSTER_CONTROLLER, MEMBER_FILES
from gencard.controller.jobs.cluster.executor import BUSY, CHANNEL_OPTIONS, KEEPALIVE_SECONDS, parts_of
from gencard.controller.jobs.cluster.orders import code_digest, failure, order_of, recipe_of, refusal
from gencard.controller.jobs.process import WorkerProcess
from gencard.controller.sandbox.boxes import ProgramRecipe, Recipe
from gencard.controller.sandbox.environment import CompiledCopies
from gencard.core.errors import (
    GencardError,
    GeneratorChangedError,
    InvalidInputError,
    UnauthenticatedError,
)
from gencard.v1 import worker_pb2, worker_pb2_grpc
from gencard.wire.keys import Identity, Role

_COMMAND = (sys.executable, "-I", "-m", "gencard.controller.jobs.cluster.orders")
_MOST_ORDER = 1 << 30  # bytes of the largest order that a worker holds in memory
_SPARE_THREADS = 8
_WAITING_CALLS = 64
_OPTIONS = (
    *CHANNEL_OPTIONS,
    ("grpc.so_reuseport", 0),  # another process could otherwise take over the port beside us
    ("grpc.server_handshake_timeout_ms", 20_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", KEEPALIVE_SECONDS * 500),
    ("grpc.keepalive_time_ms", KEEPALIVE_SECONDS * 1_000),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_SECONDS * 1_000),
)


class WorkerProcesses:
    """Processes of one worker; each performs runs of one job, one after the other."""

    def __init__(self, most: int, work: Path) -> None:
        self._most, self._work = most, work
        self._lock = threading.Lock()
        self._copies: dict[str, CompiledCopies] = {}
        self._idle: list[tuple[str, WorkerProcess]] = []
        self._busy: dict[str, WorkerProcess | None] = {}

    def perform(self, key: str, order: bytes, is_wanted: Callable[[], bool]) -> bytes:
        """Return the answer to an order; never raises.

        Args:
            key: Names the run for ``end``.
            is_wanted: Whether the caller still waits, asked once ``end`` would end the run.
        """
        try:
            message = order_of(order)
            compiled = self._compiled(recipe_of(message))
            with self._taken(key, message.job, compiled) as process:
                if not is_wanted():
                    self.end(key)
                return process.exchange(order) or failure(order)
        except GeneratorChangedError:
            return refusal(order, "compiled copies")
        except (GencardError, OSError, LookupError, ValueError, TypeError):
            return refusal(order, "order")

    def end(self, key: str) -> None:
        """Kill the process that performs a run, if there is one."""
        with self._lock:
            process = self._busy.get(key)
            if key in self._busy:
                self._busy[key] = None
        if process:
            process.kill()

    def close(self) -> None:
        with self._lock:
            there = [*self._busy.values(), *(process for _, process in self._idle)]
            self._idle = []
        for process in there:
            if process:
                process.kill()

    @contextmanager
    def _taken(self, key: str, job: str, compiled: str) -> Iterator[WorkerProcess]:
        process = self._of_job(job) or WorkerProcess(*_COMMAND, compiled)
        with self._lock:
            self._busy[key] = process
        try:
            yield process
        finally:
            with self._lock:
                is_reusable = self._busy.pop(key) is not None and process.is_alive()
                if is_reusable:
                    self._idle.append((job, process))
            if not is_reusable:
                process.end()

    def _of_job(self, job: str) -> WorkerProcess | None:
        """Return an idle process of the job; if there are too many, other jobs' processes end first."""
        with self._lock:
            for place, (other, process) in enumerate(self._idle):
                if other == job and process.is_alive():
                    return self._idle.pop(place)[1]
            over = len(self._idle) + len(self._busy) + 1 - self._most
            surplus, self._idle = self._idle[: max(0, over)], self._idle[max(0, over) :]
        for _, process in surplus:
            process.end()
        return None

    def _compiled(self, recipe: Recipe) -> str:
        # the name becomes a folder of this machine, so it must be one of ours
        if not isinstance(recipe, ProgramRecipe) or (recipe.box and recipe.box not in BOXES):
            return ""
        box = recipe.box
        with self._lock:
            copies = self._copies.setdefault(
                box, CompiledCopies(self._work / (box or "programs"), [box] if box else [])
            )
        return copies.folder()


class _Servicer(worker_pb2_grpc.WorkerServiceServicer):
    """Calls of the controller, the only identity that may call."""

    def __init__(self, controller: Identity, processes: WorkerProcesses, runs: int) -> None:
        self._controller, self._processes, self._runs = controller, processes, runs
        self._free = threading.BoundedSemaphore(runs)
        self._code = code_digest()

    def DescribeWorker(  # noqa: N802 - the name is the protocol's
        self, _request: worker_pb2.DescribeWorkerRequest, context: grpc.ServicerContext
    ) -> worker_pb2.DescribeWorkerResponse:
        self._check(context)
        return worker_pb2.DescribeWorkerResponse(code=self._code, runs=self._runs)

    def PerformRun(  # noqa: N802 - the name is the protocol's
        self, requests: Iterable[worker_pb2.PerformRunRequest], context: grpc.ServicerContext
    ) -> Iterator[worker_pb2.PerformRunResponse]:
        """Perform one run; the process is killed as soon as the call ends."""
        self._check(context)
        if not self._free.acquire(blocking=False):
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, BUSY)
        try:
            key = secrets.token_hex(8)
            order = bytearray()
            for request in requests:
                order += request.part
                if len(order) > _MOST_ORDER:
                    context.abort(grpc.StatusCode.INVALID_ARGUMENT, "an order that is too large")
            context.add_callback(partial(self._processes.end, key))
            answer = self._processes.perform(key, bytes(order), context.is_active)
        finally:
            self._free.release()
        for part in parts_of(answer):
            yield worker_pb2.PerformRunResponse(part=part)

    def _check(self, context: grpc.ServicerContext) -> None:
        """End the call of any member but the controller: a worker's key must not open other workers."""
        certificates: Any = context.auth_context().get("x509_pem_cert", ())
        with suppress(ValueError, UnauthenticatedError):
            (pem,) = certificates
            if Identity.of_certificate(x509.load_pem_x509_certificate(pem)) == self._controller:
                return
        context.abort(grpc.StatusCode.PERMISSION_DENIED, "not the controller")


@contextmanager
def working(address: str, files: Path, runs: int, folder: Path) -> Iterator[int]:
    """Perform runs for the controller; yields the port.

    Args:
        address: Address to listen on, as ``host:port``; port 0 for any free port.
        files: Folder of the worker's certificate.
        runs: Runs at the same time.
        folder: Private; for compiled copies.
    """
    processes = WorkerProcesses(runs, folder)
    server = grpc.server(
        ThreadPoolExecutor(runs + _SPARE_THREADS, thread_name_prefix="call"),
        options=_OPTIONS,
        maximum_concurrent_rpcs=runs + _WAITING_CALLS,
    )
    servicer = _Servicer(_controller(files), processes, runs)
    worker_pb2_grpc.add_WorkerServiceServicer_to_server(servicer, server)
    authority, certificate = ((files / file).read_bytes() for file in MEMBER_FILES[:2])
    pair = (secret_bytes(files / MEMBER_FILES[2], "--files"), certificate)
    credentials = grpc.ssl_server_credentials([pair], authority, require_client_auth=True)
    try:
        port = server.add_secure_port(address, credentials)
    except RuntimeError:
        problem = "is in use, or not an address of this machine"
        raise InvalidInputError(field="--host", problem=problem) from None
    try:
        server.start()
        yield port
    finally:
        server.stop(0)
        processes.close()


def _controller(files: Path) -> Identity:
    with suppress(ValueError, x509.ExtensionNotFound, UnauthenticatedError):
        certificate = x509.load_pem_x509_certificate((files / MEMBER_FILES[1]).read_bytes())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        (uri,) = names.get_values_for_type(x509.UniformResourceIdentifier)
        own = Identity.of(uri)
        if names.get_values_for_type(x509.DNSName):
            return Identity(own.trust_domain, own.project, Role.CONTROLLER, CLUSTER_CONTROLLER)
    problem = "has a certificate that is not a worker's; make one with `worker certificate`"
    raise InvalidInputError(field="--files", problem=problem)
