"""One operation as its coordinator drives it: jobs one after another, until they end or it is to end."""

import json
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from gencard.controller.jobs.executor import ProcessExecutor
from gencard.controller.jobs.tasks import Job, Progress, Task
from gencard.controller.state.operations import OperationRow
from gencard.core.errors import GencardError, OperationCancelledError, ServiceUnavailableError
from gencard.wire.identity import Identity, Role


@dataclass(slots=True)
class Run:
    """One operation as its coordinator drives it."""

    row: OperationRow
    executor: ProcessExecutor
    note: Callable[[str, int], None]
    _refusal: GencardError | None = None
    _job: Future[Any] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def request(self) -> dict[str, Any]:
        """What was asked for, as ``begin`` was given it."""
        asked: dict[str, Any] = json.loads(self.row.request)
        return asked

    def job(self, task: Task, description: Job) -> Job:
        """Run one job to its end in a process of its own.

        Raises:
            OperationCancelledError: The operation was cancelled; the process is gone.
            ServiceUnavailableError: The service stops; the operation goes on at the next start.
            GencardError: What the job ended with.
        """
        with self._lock:
            self.check()
            self._job = self.executor.submit(task, description, progress=self._telling(task))
        with suppress(CancelledError):
            result: Job = self._job.result()
            self.check()
            return result
        self.executor.await_end(self._job)
        raise self._refusal or OperationCancelledError

    def cancel(self) -> None:
        """Its owner does not want it any more."""
        self._end(OperationCancelledError())

    def interrupt(self) -> None:
        """The service stops."""
        self._end(ServiceUnavailableError())

    def check(self) -> None:
        """Raises what the operation is to end with, once it is to end."""
        if self._refusal is not None:
            raise self._refusal

    def _end(self, refusal: GencardError) -> None:
        with self._lock:
            self._refusal = self._refusal or refusal
            if self._job is not None:
                self._job.cancel()

    def _telling(self, task: Task) -> Progress:
        """Analysts hear of work at records in few steps: when each is done may depend on them."""
        if task.steps is None or Identity.of(self.row.owner).role is not Role.ANALYST:
            return self._progress
        return InSteps(self._progress, task.steps)

    def _progress(self, stage: str, fraction: float) -> None:
        self.note(stage, round(1000 * min(max(fraction, 0.0), 1.0)))


@dataclass(slots=True)
class InSteps:
    """Progress that is told on when another step is done, and with the stage that it was at then."""

    tell: Progress
    steps: int
    _done: int = -1

    def __call__(self, stage: str, fraction: float) -> None:
        done = int(self.steps * fraction)
        if done > self._done:
            self._done = done
            self.tell(stage, done / self.steps)
