"""Members of a cluster on their machines: the scheduler, and workers with processes for runs.

Dask brings orders and takes answers away. A run is made in a process of its own, bound to one job,
which is killed with all that it started when the run is cancelled, and when the worker ends.
"""

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from distributed import Scheduler, Worker, WorkerPlugin

from gencard.boxes.registry import BOXES
from gencard.controller.cluster.executor import HOST, resource_of, security_of
from gencard.controller.cluster.orders import code_digest, head_of, joined, refusal
from gencard.controller.jobs.process import WorkerProcess
from gencard.controller.sandbox.environment import CompiledCopies
from gencard.core.errors import ClusterError, GencardError, GeneratorChangedError, JobLimitError

Say = Callable[[str], None]

_COMMAND = (sys.executable, "-I", "-m", "gencard.controller.cluster.orders")
_RUNNING = "executing"
"""What Dask calls the state of a task while its function runs."""


class Processes:
    """Those of one worker: each performs runs of one job, one after the other.

    Args:
        most: At the same time.
        work: A private folder for compiled copies.
    """

    def __init__(self, most: int, work: Path) -> None:
        self._most, self._work = most, work
        self._lock = threading.Lock()
        self._copies: dict[str, CompiledCopies] = {}
        self._idle: list[tuple[str, WorkerProcess]] = []
        self._busy: dict[str, WorkerProcess | None] = {}

    def perform(self, key: str, order: bytes) -> bytes:
        """The answer to an order; never raises, for what Dask says of an error holds the order."""
        try:
            head = head_of(order)
            with self._taken(key, head["job"], self._compiled(head["recipe"])) as process:
                return process.exchange(order) or _ended(process.end())
        except GeneratorChangedError:
            return refusal("compiled copies")
        except (GencardError, OSError, LookupError):
            return refusal("order")

    def end(self, key: str) -> None:
        """Kill the process that performs a run; one that begins only now is killed at once."""
        with self._lock:
            process = self._busy.get(key)
            if key in self._busy:
                self._busy[key] = None
        if process:
            process.kill()

    def close(self) -> None:
        """Kill all of them."""
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
        """An idle process of the job; those of others end first, where there would be too many."""
        with self._lock:
            for place, (other, process) in enumerate(self._idle):
                if other == job and process.is_alive():
                    return self._idle.pop(place)[1]
            over = len(self._idle) + len(self._busy) + 1 - self._most
            surplus, self._idle = self._idle[: max(0, over)], self._idle[max(0, over) :]
        for _, process in surplus:
            process.end()
        return None

    def _compiled(self, recipe: dict[str, Any]) -> str:
        box = recipe.get("box", "")
        if recipe["kind"] != "program" or (box and box not in BOXES):
            return ""
        with self._lock:
            copies = self._copies.setdefault(
                box, CompiledCopies(self._work / (box or "programs"), [box] if box else [])
            )
        return copies.folder()


def _ended(code: int) -> bytes:
    if code == -signal.SIGXCPU:
        error = JobLimitError(what="CPU time")
        return joined({"error": {"reason": error.reason, "fields": error.fields}})
    return joined({"crash": {"kind": "ended", "where": "worker"}})


class _Host(WorkerPlugin):
    """What Dask's worker calls: for the orders, and with every change of a task."""

    name = HOST

    def __init__(self, processes: Processes) -> None:
        self.perform = processes.perform
        self._processes = processes

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        """A run that has not ended by itself and is no longer wanted is killed."""
        if start == _RUNNING and finish in {"cancelled", "released", "forgotten", "resumed"}:
            self._processes.end(str(key))

    def teardown(self, worker: Worker) -> None:  # noqa: ARG002 - the signature is Dask's
        """The worker ends."""
        self._processes.close()


async def _work(scheduler: str, files: Path, name: str, runs: int, folder: Path, say: Say) -> None:
    processes = Processes(runs, folder)
    worker = Worker(
        scheduler,
        nthreads=runs,
        name=name,
        security=security_of(files),
        resources={resource_of(code_digest()): runs},
        memory_limit=0,
        data=dict,
        local_directory=str(folder),
        dashboard=False,
        dashboard_address="127.0.0.1:0",
        plugins=(_Host(processes),),
    )
    try:
        async with worker:
            say(f"Ready: {runs} runs at a time for {scheduler}.")
            await worker.finished()
    finally:
        processes.close()


def work(scheduler: str, files: Path, name: str, runs: int, folder: Path, *, say: Say) -> None:
    """Perform runs until the scheduler ends or this process is told to.

    Args:
        files: Folder of the worker's certificate; see ``executor.security_of``.
        runs: At a time.
        folder: Private; for compiled copies, and Dask's own bookkeeping.
        say: Called once it is ready.

    Raises:
        ClusterError: The scheduler cannot be reached, or is not of this cluster.
    """
    with suppress(OSError, ValueError):
        asyncio.run(_work(scheduler, files, name, runs, folder, say))
        return
    raise ClusterError(problem="its scheduler cannot be reached with this certificate")


async def _schedule(host: str, port: int, files: Path, say: Say) -> None:
    scheduler = Scheduler(
        host=host,
        port=port,
        protocol="tls",
        security=security_of(files),
        dashboard=False,
        dashboard_address="127.0.0.1:0",
    )
    async with scheduler:
        say(f"Ready at {scheduler.address}.")
        await scheduler.finished()


def schedule(host: str, port: int, files: Path, *, say: Say) -> None:
    """Serve a scheduler until this process is told to end; raises ClusterError where it cannot."""
    with suppress(OSError, ValueError):
        asyncio.run(_schedule(host, port, files, say))
        return
    raise ClusterError(problem="the address or the certificate cannot be used")
