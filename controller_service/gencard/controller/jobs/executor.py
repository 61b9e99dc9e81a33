"""Jobs in separate processes, behind the interface of ``concurrent.futures.Executor``.

A thread or cluster executor could take its place: a ``Task`` is submitted with its request, and ends
with its result. This one runs each job in a fresh process that can be killed, under limits, and never
forks from a process that speaks gRPC.
"""

import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from gencard.controller.base.fair_use import Turns, WorkTurn, trace_id, traced
from gencard.controller.jobs.process import (
    Crashed,
    Ending,
    Failed,
    MalformedMessageError,
    Order,
    Reported,
    WorkerProcess,
    packed,
    received,
)
from gencard.controller.jobs.tasks import JOBS, TASKS, AnyTask, JobTask, continue_at_once
from gencard.core.errors import JobFailedError, OperationCancelledError
from gencard.core.types import Progress, ignore_progress
from gencard.wire.error_table import error_named

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

Report = Callable[[str, str, str], None]
"""Called with (task, incident, class and place of the error) when a job ends as none should."""

IDLE_SECONDS = 20.0
"""For which a process waits for the next job of its series."""


@dataclass(frozen=True, slots=True, eq=False)
class _Submission:
    future: Future[Any]
    task: AnyTask
    job: object
    progress: Progress
    hold: Callable[[], None]
    trace: str


@dataclass(frozen=True, slots=True, eq=False)
class _Idle:
    """A process that waits for the next job of its series, since a moment of the monotonic clock."""

    series: str
    process: WorkerProcess
    since: float


class ProcessExecutor(Executor):
    """At most ``workers`` jobs at a time; the others wait until it is their owner's turn.

    Owners take turns, and one owner has all workers but one at most (``base.fair_use``). A lent job
    never runs at the same time as one at records: a program can measure what others do to the machine.

    A future can be cancelled until its result is there, also while its job runs: the process and
    all it started are killed. One spare process is kept warm, so that a job starts at once.

    Jobs of one series, such as the runs of a lent audit, may share a process, one after the other: what
    the first has prepared is there for the next. Between them the process waits, and each job waits for
    its own turn. No more processes wait than there are workers, and none for longer than
    ``IDLE_SECONDS``. The limits are those of one job.
    """

    def __init__(self, workers: int, *, cpu_seconds: int, memory_mib: int, report: Report) -> None:
        self._cpu_seconds, self._memory_mib = cpu_seconds, memory_mib
        self._report = report
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="job")
        self._lock = threading.Lock()
        self._ended = threading.Condition(self._lock)
        """Notified when no job is left."""
        self._turns: Turns[_Submission] = Turns(workers)
        self._jobs: dict[Future[Any], WorkerProcess | None] = {}
        self._spare = _started()
        for task in TASKS.values():  # so that no job waits for the types and codecs of its messages
            JOBS.codec(task.request)
            JOBS.codec(task.result)
        self._series: dict[Future[Any], str] = {}
        self._staying: set[Future[Any]] = set()
        """Jobs whose process waits for another one."""
        self._idle: list[_Idle] = []
        """In order of time, the process that has waited longest first."""
        self._workers = workers
        self._timer: threading.Timer | None = None
        self._open = self._begins = True

    def submit(
        self, fn: Callable[_Arguments, _Result], /, *args: _Arguments.args, **kwargs: _Arguments.kwargs
    ) -> Future[_Result]:
        """Queue ``Task(job, owner=...)``; ``progress=...`` is called in a thread of this process.

        ``owner`` is the URI of the identity whose turn the job waits for.

        ``series=...`` names jobs that may share a process: of one owner, and with one recipe.

        ``hold=...`` is called there, too, once the process has ended: until it returns, the job has
        not ended for its caller, and its place is not free.

        The future ends with the task's result or a GencardError: what the task raised,
        JobLimitError for a limit, JobFailedError for anything unexpected.
        """
        if not isinstance(fn, JobTask):
            raise TypeError("only a Task can run in a process of its own")
        arguments: dict[str, Any] = dict(kwargs)
        owner = arguments.get("owner", "")
        progress = arguments.get("progress", ignore_progress)
        hold = arguments.get("hold", continue_at_once)
        future: Future[Any] = Future()
        submission = _Submission(future, fn, args[0], progress, hold, trace_id())
        turn = WorkTurn(submission, owner, at_records=fn.at_records, lent=fn.lent)
        with self._lock:
            if not self._open:
                raise RuntimeError("the executor was shut down")
            self._jobs[future] = None
            self._series[future] = arguments.get("series", "")
            self._turns.add(turn)
            self._begin()
        future.add_done_callback(lambda _: self._kill_where_cancelled(turn))
        return future

    def await_end(self, future: Future[Any]) -> None:
        """Return once no process works for a future any more; kills the process if necessary.

        A waiting caller may be notified that a future was cancelled before its process is killed.
        """
        with self._lock:
            process = self._jobs.get(future)
        if process:
            process.kill_and_wait()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more jobs; let the present ones end, or with ``cancel_futures`` kill them."""
        with self._lock:
            self._open, self._begins = False, not cancel_futures
            jobs, spare, self._spare = list(self._jobs), self._spare, None
            idle, self._idle = [one.process for one in self._idle], []
            if self._timer:
                self._timer.cancel()
        for process in (spare, *idle):
            if process:
                process.end()
        for future in jobs if cancel_futures else ():
            future.cancel()
        if wait:
            with self._ended:
                self._ended.wait_for(lambda: not self._jobs)
        self._threads.shutdown(wait=wait)

    def _begin(self) -> None:
        """Give a thread to each job whose turn it is; the caller holds the lock."""
        for turn in self._turns.begin() if self._begins else ():
            self._threads.submit(self._supervise, turn)

    def _forget(self, future: Future[Any]) -> None:
        """Forget a job, which neither waits nor runs any more; the caller holds the lock."""
        self._jobs.pop(future, None)
        self._series.pop(future, None)
        self._staying.discard(future)
        self._begin()
        if not self._jobs:
            self._ended.notify_all()

    def _supervise(self, turn: WorkTurn[_Submission]) -> None:
        """Run one job, once it is its turn. Until then its future is pending, so it can be cancelled."""
        submission, result, failure = turn.item, None, None
        future = submission.future
        if not future.cancelled():
            try:
                with traced(submission.trace):
                    result = self._run(submission)
            except BaseException as error:  # it is raised to the waiting caller
                failure = error
            submission.hold()
        with self._lock:
            self._turns.end(turn)
            # under the lock: who cancels the job from now on finds no process of it to kill
            ended = self._let_wait(future)
            self._forget(future)
        for process in ended:
            process.end()
        if not future.set_running_or_notify_cancel():
            return
        if failure is None:
            future.set_result(result)
        else:
            future.set_exception(failure)

    def _run(self, submission: _Submission) -> object:
        future, task = submission.future, submission.task
        series = self._series[future]
        process = self._take(future, task.name, series)
        order = Order(task.name, self._cpu_seconds, self._memory_mib, stays=bool(series))
        try:
            if future.cancelled():  # between its turn and its process
                process.kill()
            for content in process.talk(packed(order, submission.job)):
                reply, result = received(task, content)
                if isinstance(reply, Reported):
                    submission.progress(reply.stage, reply.share)
                    continue
                if not isinstance(reply, Crashed) and reply.stays:
                    self._staying.add(future)
                return self._outcome(task, reply, result)
        except MalformedMessageError as fault:
            raise JobFailedError(incident=self._incident(task.name, f"{fault}")) from None
        finally:
            if future not in self._staying:
                process.end()
            with self._lock:
                if self._open and self._spare is None:
                    self._spare = _started()
        if future.cancelled():
            raise OperationCancelledError
        raise JobFailedError(incident=self._incident(task.name, "no result was returned"))

    def _outcome(self, task: AnyTask, ending: Ending, result: object) -> object:
        if isinstance(ending, Failed):
            error = error_named(ending.reason, ending.fields)
            raise error or JobFailedError(incident=self._incident(task.name, "an unlisted error"))
        if isinstance(ending, Crashed):
            what = f"{ending.kind} at {ending.where}"
            raise JobFailedError(incident=self._incident(task.name, what))
        return result

    def _incident(self, task: str, what: str) -> str:
        incident = secrets.token_hex(8)
        self._report(task, incident, what)
        return incident

    def _take(self, future: Future[Any], task: str, series: str) -> WorkerProcess:
        """Return a process for a job: one that waits for its series, the spare one, or a new one."""
        with self._lock:
            mine = [one for one in self._idle if one.series == series]
            if mine:
                self._idle.remove(mine[-1])
                spare: WorkerProcess | None = mine[-1].process
            else:
                spare, self._spare = self._spare, None
        if spare and not spare.is_alive():
            spare.end()
            spare = None
        process = spare or _started()
        if process is None:
            raise JobFailedError(incident=self._incident(task, "no process could be started"))
        with self._lock:
            self._jobs[future] = process
        return process

    def _let_wait(self, future: Future[Any]) -> list[WorkerProcess]:
        """Let a process wait for its series; return those to be ended. The caller holds the lock."""
        process = self._jobs.get(future)
        if process is None or future not in self._staying:
            return []
        if future.cancelled() or not self._open:
            return [process]
        self._idle.append(_Idle(self._series[future], process, time.monotonic()))
        over, self._idle = self._idle[: -self._workers], self._idle[-self._workers :]
        self._watch_idle()
        return [one.process for one in over]

    def _watch_idle(self) -> None:
        """Look again when the next process has waited for long; the caller holds the lock."""
        if self._idle and self._timer is None:
            left = self._idle[0].since + IDLE_SECONDS - time.monotonic()
            self._timer = threading.Timer(max(0.0, left), self._end_idle)
            self._timer.daemon = True
            self._timer.start()

    def _end_idle(self) -> None:
        late = time.monotonic() - IDLE_SECONDS
        with self._lock:
            ended = [one.process for one in self._idle if one.since <= late]
            self._idle = [one for one in self._idle if one.since > late]
            self._timer = None
            self._watch_idle()
        for process in ended:
            process.end()

    def _kill_where_cancelled(self, turn: WorkTurn[_Submission]) -> None:
        """Cancel a job: a waiting job is removed at once, the process of a running job is killed."""
        future = turn.item.future
        if not future.cancelled():
            return
        with self._lock:
            process = self._jobs.get(future)
            if was_waiting := self._turns.withdraw(turn):
                self._forget(future)
        if was_waiting:
            future.set_running_or_notify_cancel()
        elif process:
            process.kill()


def _started() -> WorkerProcess | None:
    try:
        return WorkerProcess()
    except OSError:
        return None
