"""Long-running work: begun in a transaction, run by a coordinator, watched, cancelled, resumed.

A coordinator is a thread that drives one operation: it starts jobs (processes of their own), writes
their progress into the state, and ends the operation. The state alone survives a crash: ``resume``
starts every unfinished operation again, and each reads from the state which steps were done.
"""

import json
import secrets
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Protocol

from sqlalchemy import Connection

from gencard.controller.base.fair_use import Turns, WorkTurn, trace_id, traced, working_for
from gencard.controller.jobs.executor import ProcessExecutor, Report
from gencard.controller.jobs.tasks import continue_at_once
from gencard.controller.operations.failures import Refusals, error_document, error_of_document
from gencard.controller.operations.run import Run, Ticks
from gencard.controller.state import requests
from gencard.controller.state.database import Database
from gencard.controller.state.requests import UNFINISHED, OperationRow, OperationState
from gencard.core.errors import (
    GencardError,
    InternalError,
    NotFoundError,
    OperationCancelledError,
    ServiceBusyError,
    StorageError,
)
from gencard.wire.signatures.identity import Identity, Role


class OperationRunner(Protocol):
    """Runner of one kind of operation."""

    def __call__(self, run: Run) -> None:
        """Run an operation and finish it, in one transaction with its effects."""

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
    """All operations of this controller."""

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
        self._clock, self._report = clock, report
        self._bounds = bounds
        self._pool = ThreadPoolExecutor(bounds.coordinators, thread_name_prefix="operation")
        self._turns: Turns[tuple[OperationRow, Ticks, str]] = Turns(bounds.coordinators)
        self._runners: dict[str, OperationRunner] = {}
        self._runs: dict[str, Run | None] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()

    def carries(self, kind: str, runner: OperationRunner) -> None:
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
        if (
            sum(row.owner == who.uri for row in requests.unfinished_operations(tx))
            >= self._bounds.most_of_one
        ):
            raise ServiceBusyError(what="unfinished operations of one certificate")
        name = f"operations/{secrets.token_hex(12)}"
        requests.create_operation(
            tx,
            name=name,
            owner=who.uri,
            kind=kind,
            resource=resource,
            request=json.dumps(request, sort_keys=True).encode(),
            now=self._clock(),
        )
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
        """Raises NotFoundError for an unknown operation, or another's."""
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
        """Raise OperationCancelledError if the operation was ended."""
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
        failed = requests.failed_operations(tx, row.kind, row.resource)
        return tuple(error_of_document(one.error) for one in failed if one.changed >= since)

    def finish(self, tx: Connection, name: str, response: bytes) -> None:
        """End an operation with success, in the transaction that stores its effects.

        Raises:
            OperationCancelledError: The operation was ended before; the transaction must roll back.
        """
        if not requests.succeed_operation(tx, name, response, self._clock()):
            raise OperationCancelledError

    def stop(self) -> None:
        """Kill running jobs; their operations stay unfinished and are resumed at the next start."""
        with self._lock:
            self._stopping.set()
            runs = [run for run in self._runs.values() if run is not None]
        for run in runs:
            run.interrupt()
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
            if failure is not None:
                self._surely_fail(row, failure)
        finally:
            with self._lock:
                self._runs.pop(row.name, None)

    def _surely_fail(self, row: OperationRow, error: GencardError) -> None:
        """End an operation, and retry while the state cannot be written: a caller waits for its end."""
        while not self._stopping.is_set():
            try:
                self._fail(row, error)
                break
            except StorageError:
                self._stopping.wait(RETRY_SECONDS)

    def _note(self, name: str, stage: str, permille: int) -> None:
        with self._database.transaction() as tx:
            going = requests.report_progress(tx, name, stage, permille, self._clock())
        if not going:
            raise OperationCancelledError

    def _fail(self, row: OperationRow, error: GencardError) -> None:
        now = self._clock()
        with self._database.transaction() as tx:
            if isinstance(error, OperationCancelledError):
                ended_row = requests.cancel_operation(tx, row.name, now)
            else:
                ended_row = requests.fail_operation(tx, row.name, error_document(error), now)
            if ended_row:
                self._runners[row.kind].undo(tx, row, error)
