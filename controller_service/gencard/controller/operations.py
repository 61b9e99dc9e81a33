"""Long-running work: begun in a transaction, run by a coordinator, watched, cancelled, resumed.

A coordinator is a thread that drives one operation: it starts jobs (processes of their own), writes
their progress into the state, and ends the operation. The state alone survives a crash: ``resume``
starts every unfinished operation again, and each reads from the state which steps were done.
"""

import json
import math
import platform
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection

from gencard.controller.base.fair_use import Turns, WorkTurn, trace_id, traced, working_for
from gencard.controller.failures import Refusals, as_reported, error_document, error_of_document
from gencard.controller.jobs.executor import ProcessExecutor, Report
from gencard.controller.jobs.tasks import JobTask, continue_at_once
from gencard.controller.state import requests
from gencard.controller.state.database import Database
from gencard.controller.state.requests import UNFINISHED, OperationRow, OperationState
from gencard.core.errors import (
    GencardError,
    InternalError,
    NotFoundError,
    OperationCancelledError,
    ServiceBusyError,
    ServiceUnavailableError,
    StorageError,
)
from gencard.core.generators.registry import source_digest
from gencard.core.types import Progress
from gencard.wire.keys import Identity, Role

# Run of an operation by its coordinator: its jobs, the times at which it may report, its folder.

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
    """A grid of times, from the moment at which an operation was begun; 0 seconds for no grid.

    The duration of work on records depends on the records. A caller who is notified at the next tick
    learns only between which two ticks the work ended.
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
        return (time.monotonic() - self.begun) % self.seconds


@dataclass(slots=True)
class Run:
    """One operation that a coordinator runs; progress and the end of a job are reported at ticks."""

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

        def hear(stage: str, fraction: float) -> None:
            self._heard = (stage, fraction)

        progress: Progress = self._progress if self.ticks.left() is None else hear
        role = Identity.of(self.row.owner).role
        if task.steps is not None and role is Role.ANALYST:
            progress = InSteps(progress, task.steps)  # times of single steps may depend on records
        with self._lock:
            self.check()
            self._job = job = self.executor.submit(
                task, request, owner=self.row.owner, progress=progress, hold=self._hold
            )
        with suppress(CancelledError):
            self._follow(job)
            failure = job.exception()
            self.check()  # what was cancelled tells nothing, a failure neither
            if failure is not None:
                raise as_reported(failure, task, role) from None
            return job.result()
        self.executor.await_end(job)
        raise self._refusal or OperationCancelledError

    def rest(self) -> None:
        """Wait for the end of the duration class: a refusal's duration must not disclose its reason."""
        self._over.wait(self.ticks.rest())
        self.check()

    def check(self) -> None:
        """Raise the error with which the operation is to end, once it is to end."""
        if self._refusal is not None:
            raise self._refusal

    def cancel(self, refusal: GencardError | None = None) -> None:
        """Cancel the run, as its owner asked or with another error, unless it is to end already."""
        with self._lock:
            self._refusal = self._refusal or refusal or OperationCancelledError()
            self._over.set()
            if self._job is not None:
                self._job.cancel()

    def _hold(self) -> None:
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
                report, self._heard = self._heard, None
                if report is not None:
                    self._progress(*report)
        except GencardError:
            if job.cancel():
                self.executor.await_end(job)
            raise

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


@contextmanager
def scratch_folder(work: Path, name: str) -> Iterator[Path]:
    folder = work / name.replace("/", "-")
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(mode=0o700, parents=True)
    except OSError:
        raise StorageError from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class OperationRunner(Protocol):
    def __call__(self, run: Run) -> None: ...

    def undo(self, tx: Connection, row: OperationRow, error: GencardError) -> None:
        """Release the budget that a failed operation held, in the transaction that ends it."""


RETRY_SECONDS = 1.0
"""Between two tries to write down how an operation ended."""


@dataclass(frozen=True, slots=True)
class OperationBounds:
    """Limits on the use of the service by operations.

    Args:
        coordinators: Number of operations that run at a time; others wait for their owner's turn.
        most_of_one: Largest number of unfinished operations of one identity.
        check_space: Raises StorageReserveError if no operation may begin.
        tick_seconds: Interval in seconds at which operations report progress and their end; 0 for none.
    """

    coordinators: int
    most_of_one: int
    check_space: Callable[[], None] = continue_at_once
    tick_seconds: float = 0.0


class Operations:
    def __init__(
        self,
        database: Database,
        refusals: Refusals,
        executor: ProcessExecutor,
        clock: Callable[[], datetime],
        report: Report,
        bounds: OperationBounds,
    ) -> None:
        self._database, self._refusals, self._executor = database, refusals, executor
        self._clock, self._report, self._bounds = clock, report, bounds
        self._pool = ThreadPoolExecutor(bounds.coordinators, thread_name_prefix="operation")
        self._turns: Turns[tuple[OperationRow, Ticks, str]] = Turns(bounds.coordinators)
        self._runners: dict[str, OperationRunner] = {}
        self._runs: dict[str, Run | None] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()

    def register_runner(self, kind: str, runner: OperationRunner) -> None:
        """Register the function that runs one kind of operation."""
        self._runners[kind] = runner

    def create(
        self, tx: Connection, who: Identity, kind: str, resource: str, request: Mapping[str, Any]
    ) -> str:
        """Return a new operation, queued once the transaction is true; its name.

        Raises:
            ServiceBusyError: ``who`` has too many unfinished operations.
            TooManyRefusalsError: Too many operations have failed on the records.
            StorageReserveError: There is too little free space.
        """
        self._bounds.check_space()
        self._refusals.check(tx, who, resource)
        own = sum(row.owner == who.uri for row in requests.unfinished_operations(tx))
        if own >= self._bounds.most_of_one:
            raise ServiceBusyError(what="unfinished operations of one certificate")
        name = f"operations/{secrets.token_hex(12)}"
        work = {"name": name, "owner": who.uri, "kind": kind, "resource": resource}
        content = json.dumps(request, sort_keys=True).encode()
        requests.create_operation(tx, **work, request=content, now=self._clock())
        return name

    def begin(self, name: str) -> OperationRow:
        """Queue a created operation; once is enough, more does nothing.

        Returns:
            The operation as it was created: a repeated request gets the same bytes again.
        """
        with self._database.reading() as tx:
            row = requests.get_operation(tx, name)
        with self._lock:
            if row.state in UNFINISHED and name not in self._runs and not self._stopping.is_set():
                self._runs[name] = None
                self._turns.add(WorkTurn((row, Ticks(self._bounds.tick_seconds), trace_id()), row.owner))
                self._begin_next()
        return replace(row, state=OperationState.QUEUED, stage="", permille=0, response=None, error=None)

    def resume(self) -> int:
        """Queue everything that a stop or crash left unfinished; how many."""
        with self._database.reading() as tx:
            rows = requests.unfinished_operations(tx)
        for row in rows:
            self.begin(row.name)
        return len(rows)

    def get(self, who: Identity, name: str) -> OperationRow:
        with self._database.reading() as tx:
            row = requests.get_operation(tx, name)
        if who.role is not Role.STEWARD and row.owner != who.uri:
            raise NotFoundError(what="operation")
        return row

    def page(self, who: Identity, before: str, limit: int) -> tuple[tuple[OperationRow, ...], str]:
        owner = None if who.role is Role.STEWARD else who.uri
        with self._database.reading() as tx:
            page = requests.list_operations(tx, owner=owner, before=before, limit=limit)
        return page.rows, page.next_token

    def cancel(self, who: Identity, name: str) -> None:
        """Stop an operation; its process is gone within two seconds. Ended ones stay as they are."""
        row = self.get(who, name)
        try:
            self._fail(row, OperationCancelledError())  # first, so that it does not start any more
        finally:
            with self._lock:
                run = self._runs.get(name)
            if run is not None:
                run.cancel()

    def check(self, tx: Connection, row: OperationRow) -> None:
        if requests.get_operation(tx, row.name).state not in UNFINISHED:
            raise OperationCancelledError

    def check_refusals(self, tx: Connection, row: OperationRow) -> None:
        """Raise TooManyRefusalsError if too much of the owner's work on records has failed."""
        self._refusals.check(tx, Identity.of(row.owner), row.resource)

    def others(self, tx: Connection, row: OperationRow) -> bool:
        """Whether another unfinished operation of the same kind works for the same resource."""
        return any(
            (other.kind, other.resource) == (row.kind, row.resource) and other.name != row.name
            for other in requests.unfinished_operations(tx)
        )

    def unfinished(self, tx: Connection, owner: str, kind: str) -> tuple[OperationRow, ...]:
        """Return the operations of one identity and kind that have not ended, oldest first."""
        rows = requests.unfinished_operations(tx)
        return tuple(row for row in rows if (row.owner, row.kind) == (owner, kind))

    def failures(self, tx: Connection, row: OperationRow, since: datetime) -> tuple[GencardError, ...]:
        """Return the errors of operations of the same kind and resource since then."""
        same = requests.operations_of_kind(tx, row.kind, row.resource)
        failed = [one for one in same if one.state is OperationState.FAILED]
        return tuple(error_of_document(one.error) for one in failed if one.changed >= since)

    def finish(self, tx: Connection, name: str, response: bytes) -> None:
        """End an operation with success, in the transaction that stores its effects."""
        if not requests.move_operation(
            tx, name, OperationState.SUCCEEDED, self._clock(), response=response, permille=1000
        ):
            raise OperationCancelledError

    def stop(self) -> None:
        """Kill running jobs; their operations stay unfinished and are resumed at the next start."""
        with self._lock:
            self._stopping.set()
            runs = [run for run in self._runs.values() if run is not None]
        for run in runs:
            run.cancel(ServiceUnavailableError())
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _begin_next(self) -> None:
        """Give a thread to each operation whose turn it is; the caller holds the lock."""
        for turn in () if self._stopping.is_set() else self._turns.begin():
            self._pool.submit(self._drive_in_turn, turn)

    def _drive_in_turn(self, turn: WorkTurn[tuple[OperationRow, Ticks, str]]) -> None:
        row, ticks, trace = turn.item
        try:
            with traced(trace), working_for(row.owner):  # trace of the call which began it
                self._drive(row, ticks)
        finally:
            with self._lock:
                self._turns.end(turn)
                self._begin_next()

    def _drive(self, row: OperationRow, ticks: Ticks) -> None:
        """Run one operation from its start to its end; catches every error."""
        run = Run(row, self._executor, partial(self._note, row.name), ticks)
        with self._lock:
            if self._stopping.is_set():
                return
            self._runs[row.name] = run
        failure: GencardError | None = None
        try:
            self._note(row.name, "start", 0)
            with self._database.reading() as tx:  # others may have failed since it was created
                self.check_refusals(tx, row)
            self._runners[row.kind](run)
        except GencardError as error:
            failure = error
        except Exception as error:  # this is where every error ends
            incident = secrets.token_hex(8)
            self._report(row.kind, incident, type(error).__name__)
            failure = InternalError(incident=incident)
        try:
            # the caller waits for its end, so retry while the state cannot be written
            while failure is not None and not self._stopping.is_set():
                try:
                    self._fail(row, failure)
                    break
                except StorageError:
                    self._stopping.wait(RETRY_SECONDS)
        finally:
            with self._lock:
                self._runs.pop(row.name, None)

    def _note(self, name: str, stage: str, permille: int) -> None:
        # an operation that waits in the queue runs from its first note on
        with self._database.transaction() as tx:
            going = requests.move_operation(
                tx, name, OperationState.RUNNING, self._clock(), stage=stage, permille=permille
            )
        if not going:
            raise OperationCancelledError

    def _fail(self, row: OperationRow, error: GencardError) -> None:
        now = self._clock()
        is_cancelled = isinstance(error, OperationCancelledError)
        state = OperationState.CANCELLED if is_cancelled else OperationState.FAILED
        values = {} if is_cancelled else {"error": error_document(error)}
        with self._database.transaction() as tx:
            if requests.move_operation(tx, row.name, state, now, **values):
                self._runners[row.kind].undo(tx, row, error)
