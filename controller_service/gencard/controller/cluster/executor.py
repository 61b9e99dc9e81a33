"""Runs of black boxes by the workers of a Dask cluster, behind ``concurrent.futures.Executor``.

What is submitted is ``perform`` with one order; what comes back is its answer. Every connection is
TLS 1.3 with certificates of the cluster's own authority, which certifies nobody else. Runs of a worker
that is lost are done again by another, with the same seeds.
"""

import os
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

os.environ.setdefault("DASK_CONFIG", os.devnull)  # so that no file in the home folder is read or made

import dask
from distributed import Client, get_worker
from distributed.security import Security

from gencard.controller.cluster.orders import Bounds, OrderBook, code_digest, dataset_of, head_of
from gencard.controller.jobs.tasks import Job
from gencard.controller.sandbox.recipes import PROGRAM, carried
from gencard.core.dataset import Dataset
from gencard.core.errors import BlackBoxError, ClusterError, JobFailedError
from gencard.wire.codecs.error_table import error_named

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

CONFIG: dict[str, Any] = {
    "distributed.comm.require-encryption": True,
    "distributed.comm.tls.min-version": 1.3,
    "distributed.scheduler.blocked-handlers": ["feed", "run_function"],
    "distributed.scheduler.http.routes": [],
    "distributed.scheduler.worker-ttl": "20s",
    "distributed.worker.http.routes": [],
    "distributed.worker.profile.enabled": False,
    # records are never spilled to a disk
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
    "distributed.admin.log-length": 0,
    "distributed.admin.low-level-log-length": 0,
}
"""What Dask does otherwise than by itself."""

PATIENCE = 30.0
"""Seconds in which a worker must be there."""

HOST = "gencard"
"""The plugin of a worker that has the processes."""

_NO_WORKER = "none of its workers has this controller's version and this black box"
_CONNECT = 10.0
_LOOK = 1.0
"""Seconds between looks at what workers there are, while a run is awaited."""


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """Where the scheduler is, and a folder: ``authority.pem``, ``certificate.pem``, ``key.pem``."""

    scheduler: str
    folder: Path


def security_of(folder: Path) -> Security:
    """TLS with the files of one member of the cluster, in whatever role."""
    dask.config.set(CONFIG)
    own = {
        f"tls_{role}_{kind}": str(folder / file)
        for role in ("client", "scheduler", "worker")
        for kind, file in (("cert", "certificate.pem"), ("key", "key.pem"))
    }
    return Security(require_encryption=True, tls_ca_file=str(folder / "authority.pem"), **own)


def connected(access: ClusterAccess) -> Client:
    """Connect to the scheduler.

    Raises:
        ClusterError: It does not answer, or is not of this cluster.
    """
    with suppress(OSError, ValueError, TimeoutError):
        return Client(
            access.scheduler,
            security=security_of(access.folder),
            timeout=_CONNECT,
            set_as_default=False,
            direct_to_workers=False,
        )
    raise ClusterError(problem="its scheduler cannot be reached with this certificate")


def resource_of(code: str) -> str:
    """What a worker offers, and a run needs: the same code on both sides."""
    return f"gencard {code}"


@dataclass(frozen=True, slots=True)
class Member:
    """A worker as its scheduler knows it.

    Args:
        runs: At the same time.
        fits: Whether it has this controller's code.
    """

    address: str
    name: str
    runs: int
    fits: bool


def members(client: Client, code: str) -> list[Member]:
    """The workers, by name; none where the scheduler has gone."""
    known = client.scheduler_info(n_workers=-1).get("workers", {})
    workers = [
        Member(
            address, str(facts["name"]), int(facts["nthreads"]), resource_of(code) in facts["resources"]
        )
        for address, facts in known.items()
    ]
    return sorted(workers, key=lambda member: (member.name, member.address))


def examined(scheduler: str, folder: Path) -> tuple[int, int]:
    """How many workers have this controller's code, and how many another; raises ClusterError."""
    with closing(connected(ClusterAccess(scheduler, folder))) as client:
        there = members(client, code_digest())
    fitting = sum(one.fits for one in there)
    return fitting, len(there) - fitting


def perform(order: bytes) -> tuple[str, bytes]:
    """On a worker: hand the order to a process that performs it; returns address and answer."""
    worker = get_worker()
    host: Any = worker.plugins[HOST]
    return worker.address, host.perform(worker.get_current_task(), order)


class ClusterExecutor(Executor):
    """Performs orders on workers that have this controller's code.

    Args:
        access: A connection is held open as long as this lives.

    Raises:
        ClusterError: The scheduler cannot be reached.
    """

    def __init__(self, access: ClusterAccess) -> None:
        self._code = code_digest()
        self._client = connected(access)
        self._refused: set[str] = set()

    def submit(
        self,
        fn: Callable[_Arguments, _Result],
        /,
        *args: _Arguments.args,
        **kwargs: _Arguments.kwargs,
    ) -> Future[_Result]:
        """Send ``perform`` with one order; to cancel the future ends the run, and all that it started.

        The future ends with what ``perform`` returns, or ClusterError where too many workers were lost.

        Raises:
            ClusterError: Every worker of this controller's version has refused a run.
        """
        if fn is not perform:
            raise TypeError("workers accept orders only")
        among = self._fitting() if self._refused else None
        if among == []:
            raise ClusterError(problem=_NO_WORKER)
        needs = {resource_of(self._code): 1}
        remote = self._client.submit(fn, *args, pure=False, resources=needs, workers=among, **kwargs)
        future: Future[Any] = Future()
        remote.add_done_callback(partial(_hand_over, future))
        future.add_done_callback(lambda ended: remote.cancel(force=True) if ended.cancelled() else None)
        return future

    def answer(self, order: bytes, future: Future[tuple[str, bytes]]) -> bytes:
        """The answer to an order; what one worker refuses is sent to others.

        Raises:
            ClusterError: No worker performs it, or there has been none for ``PATIENCE`` seconds.
        """
        while True:
            address, answer = self._awaited(future)
            if "refused" not in head_of(answer):
                return answer
            self._refused.add(address)
            future = self.submit(perform, order)

    def _awaited(self, future: Future[_Result]) -> _Result:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with suppress(TimeoutError):
                return future.result(_LOOK)
            if self._fitting():
                end = time.monotonic() + PATIENCE
        future.cancel()
        raise ClusterError(problem=_NO_WORKER)

    def room(self) -> int:
        """Orders that are sent before the first is answered: two for each run at a time."""
        there = members(self._client, self._code)
        return 2 * max(1, sum(one.runs for one in there if one.fits))

    def _fitting(self) -> list[str]:
        there = members(self._client, self._code)
        return [one.address for one in there if one.fits and one.address not in self._refused]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002
        """Close the connection; what was submitted and has not ended is cancelled with it."""
        self._client.close()


def _hand_over(future: Future[Any], ended: Any) -> None:
    """Called by Dask in a thread of its own once a run has ended, however it did."""
    if ended.status == "finished":
        result, error = ended.result(), None
    else:
        result, error = None, ClusterError(problem="too many of its workers were lost")
    if not future.set_running_or_notify_cancel():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


@dataclass(frozen=True, slots=True, eq=False)
class ClusterBox:
    """A black box whose runs are performed by workers; see ``core.blackbox.ManyRunsBox``."""

    executor: ClusterExecutor
    book: OrderBook

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        """One run; raises what the box raises, and ClusterError where no worker performs it."""
        return next(self.runs_by_seed(dataset, rows, seeds=[seed]))

    def runs_by_seed(self, dataset: Dataset, rows: int, *, seeds: Sequence[int]) -> Iterator[Dataset]:
        """One for each seed, in their order; raises as a call does."""
        waiting: deque[tuple[bytes, Future[tuple[str, bytes]]]] = deque()
        left = deque(seeds)
        try:
            while left or waiting:
                room = self.executor.room() if left else 0
                while left and len(waiting) < room:
                    order = self.book.order(dataset, rows, left.popleft())
                    waiting.append((order, self.executor.submit(perform, order)))
                yield _rows_of(self.executor.answer(*waiting.popleft()))
        finally:
            for _, future in waiting:
                future.cancel()


def _rows_of(answer: bytes) -> Dataset:
    """The rows; raises what ended the run."""
    head = head_of(answer)
    if "error" in head:
        raise error_named(**head["error"]) or JobFailedError(incident="worker")
    if "crash" in head:
        raise BlackBoxError(problem="it raised an error")
    return dataset_of(answer)


def cluster_box(recipe: Job, cluster: Job) -> ClusterBox:
    """A box of a recipe, performed by a cluster.

    Raises:
        GeneratorChangedError: The program has another digest than the recipe.
        ClusterError: The scheduler cannot be reached.
    """
    access = ClusterAccess(cluster["scheduler"], Path(cluster["folder"]))
    bounds = Bounds(cluster["cpu_seconds"], cluster["memory_mib"])
    description = carried(recipe) if recipe["kind"] == PROGRAM else recipe
    return ClusterBox(ClusterExecutor(access), OrderBook(secrets.token_hex(16), description, bounds))
