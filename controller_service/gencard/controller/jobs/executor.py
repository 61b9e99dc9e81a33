"""Jobs in separate processes, behind the interface of ``concurrent.futures.Executor``.

A thread or cluster executor could take its place: what is submitted is a ``Task``, its argument is
JSON, and its result too. What this one adds: each job runs in a fresh process that can be killed,
under limits, and never forked from a process that speaks gRPC.
"""

import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from gencard.controller.jobs.process import Message, WorkerProcess
from gencard.controller.jobs.tasks import Task, continue_at_once
from gencard.controller.turns import Turn, Turns, trace_id, traced
from gencard.core.errors import GencardError, JobFailedError, OperationCancelledError
from gencard.core.types import Progress, ignore_progress
from gencard.wire.codecs.error_table import error_named

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

Report = Callable[[str, str, str], None]
"""Called with (task, incident, class and place of the error) when a job ends as none should."""


@dataclass(frozen=True, slots=True, eq=False)
class _Submission:
    """A job as it was submitted."""

    future: Future[Any]
    task: str
    job: Message
    progress: Progress
    hold: Callable[[], None]
    trace: str


class ProcessExecutor(Executor):
    """At most ``workers`` jobs at a time; the others wait until it is their owner's turn.

    Owners take turns, and one owner has all workers but one at most (``controller.turns``). A lent job
    never runs at the same time as one at records: a program can measure what others do to the machine.

    A future can be cancelled until its result is there, also while its job runs: the process and
    all it started are killed. One spare process is kept warm, so that a job starts at once.

    Args:
        cpu_seconds: CPU time of one job.
        memory_mib: Address space of one job.
    """

    def __init__(self, workers: int, *, cpu_seconds: int, memory_mib: int, report: Report) -> None:
        self._limits = {"cpu_seconds": cpu_seconds, "memory_mib": memory_mib}
        self._report = report
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="job")
        self._lock = threading.Lock()
        self._ended = threading.Condition(self._lock)
        """Notified when no job is left."""
        self._turns: Turns[_Submission] = Turns(workers)
        self._jobs: dict[Future[Any], WorkerProcess | None] = {}
        self._spare = _started()
        self._open = self._begins = True

    def submit(
        self,
        fn: Callable[_Arguments, _Result],
        /,
        *args: _Arguments.args,
        **kwargs: _Arguments.kwargs,
    ) -> Future[_Result]:
        """Queue ``Task(job, owner=...)``; ``progress=...`` is called in a thread of this process.

        ``owner`` is the URI of the identity whose turn the job waits for.

        ``hold=...`` is called there, too, once the process has ended: until it returns, the job has
        not ended for anybody, and its place is not free.

        The future ends with the task's result or a GencardError: what the task raised,
        JobLimitError for a limit, JobFailedError for anything unexpected.

        Raises:
            RuntimeError: The executor was shut down.
        """
        if not isinstance(fn, Task):
            raise TypeError("only a Task can run in a process of its own")
        arguments: dict[str, Any] = dict(kwargs)
        owner = arguments.get("owner", "")
        progress, hold = (
            arguments.get("progress", ignore_progress),
            arguments.get("hold", continue_at_once),
        )
        future: Future[Any] = Future()
        job: Any = args[0]
        submission = _Submission(future, fn.name, job, progress, hold, trace_id())
        turn = Turn(submission, owner, at_records=fn.at_records, lent=fn.lent)
        with self._lock:
            if not self._open:
                raise RuntimeError("the executor was shut down")
            self._jobs[future] = None
            self._turns.add(turn)
            self._begin()
        future.add_done_callback(lambda _: self._kill_where_cancelled(turn))
        return future

    def await_end(self, future: Future[Any]) -> None:
        """Return once no process works for a future any more, where need be by killing it.

        Who waits for a future may hear that it was cancelled before its process is killed.
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
        if spare:
            spare.end()
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
        """A job waits and runs no more; the caller holds the lock."""
        self._jobs.pop(future, None)
        self._begin()
        if not self._jobs:
            self._ended.notify_all()

    def _supervise(self, turn: Turn[_Submission]) -> None:
        """One job from its turn to its end. Until then its future is pending, so it can be cancelled."""
        submission, result, failure = turn.item, None, None
        future = submission.future
        if not future.cancelled():
            try:
                with traced(submission.trace):
                    result = self._run(future, submission.task, submission.job, submission.progress)
            except BaseException as error:  # it belongs to whoever waits
                failure = error
            submission.hold()
        with self._lock:
            self._turns.end(turn)
            self._forget(future)
        if not future.set_running_or_notify_cancel():
            return
        if failure is None:
            future.set_result(result)
        else:
            future.set_exception(failure)

    def _run(self, future: Future[Any], task: str, job: Message, progress: Progress) -> Message:
        process = self._take(future, task)
        try:
            if future.cancelled():  # between its turn and its process
                process.kill()
            for message in process.talk({"task": task, "job": job, **self._limits}):
                if "progress" in message:
                    progress(*message["progress"])
                else:
                    return self._result_of(task, message)
        finally:
            process.end()
            self._warm()
        if future.cancelled():
            raise OperationCancelledError
        raise JobFailedError(incident=self._incident(task, "no result was returned"))

    def _result_of(self, task: str, message: Message) -> Message:
        if "result" in message:
            result: Message = message["result"]
            return result
        if "error" in message:
            error: GencardError | None = error_named(**message["error"])
            raise error or JobFailedError(incident=self._incident(task, "an unlisted error"))
        crash = message["crash"]
        raise JobFailedError(incident=self._incident(task, f"{crash['kind']} at {crash['where']}"))

    def _incident(self, task: str, what: str) -> str:
        incident = secrets.token_hex(8)
        self._report(task, incident, what)
        return incident

    def _take(self, future: Future[Any], task: str) -> WorkerProcess:
        with self._lock:
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

    def _warm(self) -> None:
        with self._lock:
            if self._open and self._spare is None:
                self._spare = _started()

    def _kill_where_cancelled(self, turn: Turn[_Submission]) -> None:
        """A cancelled job that waits is out at once; of one that runs, the process is killed."""
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
    """A new process; None where the system has none to give at present."""
    try:
        return WorkerProcess()
    except OSError:
        return None
