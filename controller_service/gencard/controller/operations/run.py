"""Run of an operation by its coordinator: its jobs, the times at which it may report, its folder."""

import json
import math
import platform
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from gencard.controller.jobs.executor import ProcessExecutor
from gencard.controller.jobs.tasks import AnyTask, JobTask
from gencard.controller.operations.failures import as_reported
from gencard.controller.state.requests import OperationRow
from gencard.core.errors import (
    GencardError,
    OperationCancelledError,
    ServiceUnavailableError,
    StorageError,
)
from gencard.core.generators.registry import source_digest
from gencard.core.types import Progress
from gencard.wire.signatures.identity import Identity, Role

_Request = TypeVar("_Request")
_Result = TypeVar("_Result")

COMPUTES = ("gencard", "numpy", "scipy")

VERSIONS = tuple(
    sorted(
        {
            **{name: version(name) for name in COMPUTES},
            "python": platform.python_version(),
            "sources": f"sha256:{source_digest()}",
        }.items()
    )
)
"""Pairs of name and version, sorted by name; as they were when the service started."""


@dataclass(frozen=True, slots=True)
class Ticks:
    """A grid of times, from the moment at which an operation was begun.

    The duration of work on records depends on the records. A caller who is notified at the next tick
    learns only between which two ticks the work ended.

    Args:
        seconds: Seconds from one tick to the next; 0 for no grid.
        begun: Start of the operation, by the monotonic clock.
    """

    seconds: float = 0.0
    begun: float = field(default_factory=time.monotonic)

    def rest(self) -> float:
        """Return the seconds to the end of the duration class: 1, 2, 4, 8, ... seconds after the start.

        0 on a grid, at whose ticks jobs end anyway.
        """
        if self.seconds:
            return 0.0
        spent = max(time.monotonic() - self.begun, 0.0)
        return float(2.0 ** max(0, math.ceil(math.log2(max(spent, 1.0)))) - spent)

    def left(self) -> float | None:
        """Return the seconds to the next tick; None without a grid."""
        return self.seconds - self._since() if self.seconds else None

    def last(self) -> float:
        """Return the latest tick, in seconds since 1970; without a grid the present."""
        return time.time() - (self._since() if self.seconds else 0.0)

    def _since(self) -> float:
        """Seconds since the latest tick."""
        return (time.monotonic() - self.begun) % self.seconds


@dataclass(slots=True)
class Run:
    """One operation that a coordinator runs.

    Args:
        ticks: Times at which the operation may report progress and the end of a job.
    """

    row: OperationRow
    executor: ProcessExecutor
    note: Callable[[str, int], None]
    ticks: Ticks = field(default_factory=Ticks)
    _refusal: GencardError | None = None
    _job: Future[Any] | None = None
    _heard: tuple[str, float] | None = None
    _over: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def request(self) -> dict[str, Any]:
        """Request of the operation, as passed to ``begin``."""
        request: dict[str, Any] = json.loads(self.row.request)
        return request

    def job(self, task: JobTask[_Request, _Result], request: _Request) -> _Result:
        """Run one job to its end in a process of its own, and return at a tick.

        Raises:
            OperationCancelledError: The operation was cancelled; the process is gone.
            ServiceUnavailableError: The service stops; the operation goes on at the next start.
            GencardError: Error with which the job ended.
        """
        with self._lock:
            self.check()
            self._job = job = self.executor.submit(
                task,
                request,
                owner=self.row.owner,
                progress=self._telling(task),
                hold=self._hold,
            )
        with suppress(CancelledError):
            self._follow(job)
            failure = job.exception()
            self.check()  # what was cancelled tells nothing, a failure neither
            if failure is not None:
                raise as_reported(failure, task, self._role) from None
            return job.result()
        self.executor.await_end(job)
        raise self._refusal or OperationCancelledError

    def rest(self) -> None:
        """Wait for the end of the duration class: a refusal's duration must not disclose its reason.

        Raises:
            OperationCancelledError, ServiceUnavailableError: As ``job``.
        """
        self._over.wait(self.ticks.rest())
        self.check()

    def cancel(self) -> None:
        """Cancel the run, as its owner asked."""
        self._end(OperationCancelledError())

    def interrupt(self) -> None:
        """Stop the run, because the service stops."""
        self._end(ServiceUnavailableError())

    def check(self) -> None:
        """Raise the error with which the operation is to end, once it is to end."""
        if self._refusal is not None:
            raise self._refusal

    def _end(self, refusal: GencardError) -> None:
        with self._lock:
            self._refusal = self._refusal or refusal
            self._over.set()
            if self._job is not None:
                self._job.cancel()

    @property
    def _role(self) -> Role:
        return Identity.of(self.row.owner).role

    def _hold(self) -> None:
        """Wait for the next tick, unless the operation is cancelled."""
        if (left := self.ticks.left()) is not None:
            self._over.wait(left)

    def _follow(self, job: Future[Any]) -> None:
        """Wait for the end of a job, and report its progress at each tick.

        A job that is cancelled while queued has ended; ``futures.wait`` would wait for its turn.
        """
        is_over = threading.Event()
        job.add_done_callback(lambda _: is_over.set())
        try:
            while not is_over.wait(self.ticks.left()):
                self._report_heard()
        except GencardError:
            if job.cancel():
                self.executor.await_end(job)
            raise

    def _telling(self, task: AnyTask) -> Progress:
        """Return the progress to report: analysts see few steps, whose times may depend on records."""
        report = self._progress if self.ticks.left() is None else self._hear
        if task.steps is None or self._role is not Role.ANALYST:
            return report
        return InSteps(report, task.steps)

    def _hear(self, stage: str, fraction: float) -> None:
        self._heard = (stage, fraction)

    def _report_heard(self) -> None:
        report, self._heard = self._heard, None
        if report is not None:
            self._progress(*report)

    def _progress(self, stage: str, fraction: float) -> None:
        self.note(stage, round(1000 * min(max(fraction, 0.0), 1.0)))


@dataclass(slots=True)
class InSteps:
    """Progress that is reported only when another step is done, with the stage at that time."""

    report: Progress
    steps: int
    _done: int = -1

    def __call__(self, stage: str, fraction: float) -> None:
        steps_done = int(self.steps * fraction)
        if steps_done > self._done:
            self._done = steps_done
            self.report(stage, steps_done / self.steps)


def clear(work: Path) -> None:
    """Delete the folders that a crash left; restarted operations make new folders."""
    shutil.rmtree(work, ignore_errors=True)


@contextmanager
def scratch_folder(work: Path, name: str) -> Iterator[Path]:
    """Make a folder for the block, readable by its owner alone.

    Raises:
        StorageError: The folder cannot be made.
    """
    folder = work / name.replace("/", "-")
    if not _made(folder):
        raise StorageError
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _made(folder: Path) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(mode=0o700, parents=True)
    except OSError:
        return False
    return True
