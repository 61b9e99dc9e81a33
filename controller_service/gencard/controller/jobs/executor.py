"""Jobs in processes of their own, behind the shape of ``concurrent.futures.Executor``.

A thread or cluster executor could take its place: what is submitted is a ``Task``, its argument is
JSON, and its result too. What this one adds: each job runs in a fresh process that can be killed,
under limits, and never forked from a process that speaks gRPC.
"""

import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from gencard.controller.jobs.process import Message, WorkerProcess
from gencard.controller.jobs.tasks import Progress, Task, go_on, no_progress
from gencard.core.errors import GencardError, JobFailedError, OperationCancelledError
from gencard.wire.error_table import error_named

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

Report = Callable[[str, str, str], None]
"""Called with (task, incident, class and place of the error) when a job ends as none should."""


class ProcessExecutor(Executor):
    """At most ``workers`` jobs at a time; the others wait in order.

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
        self._jobs: dict[Future[Any], WorkerProcess | None] = {}
        self._spare = _started()
        self._open = True

    def submit(
        self,
        fn: Callable[_Arguments, _Result],
        /,
        *args: _Arguments.args,
        **kwargs: _Arguments.kwargs,
    ) -> Future[_Result]:
        """Queue ``Task(job, progress=...)``; ``progress`` is called in a thread of this process.

        ``hold=...`` is called there, too, once the process has ended: until it returns, the job has
        not ended for anybody, and its place is not free.

        The future ends with the task's result or a GencardError: what the task raised,
        JobLimitError for a limit, JobFailedError for anything unexpected.

        Raises:
            RuntimeError: The executor was shut down.
        """
        if not isinstance(fn, Task):
            raise TypeError("only a Task can run in a process of its own")
        job: Any = args[0]
        progress: Any = kwargs.get("progress", no_progress)
        hold: Any = kwargs.get("hold", go_on)
        future: Future[Any] = Future()
        with self._lock:
            if not self._open:
                raise RuntimeError("the executor was shut down")
            self._jobs[future] = None
            self._threads.submit(self._supervise, future, hold, fn.name, job, progress)
        future.add_done_callback(self._kill_where_cancelled)
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
            self._open = False
            jobs, spare, self._spare = list(self._jobs), self._spare, None
        if spare:
            spare.end()
        for future in jobs if cancel_futures else ():
            future.cancel()
        self._threads.shutdown(wait=wait)

    def _supervise(
        self,
        future: Future[Any],
        hold: Callable[[], None],
        task: str,
        job: Message,
        progress: Progress,
    ) -> None:
        """One job from its turn to its end. Until then its future is pending, so it can be cancelled."""
        result, failure = None, None
        if not future.cancelled():
            try:
                result = self._run(future, task, job, progress)
            except BaseException as error:  # it belongs to whoever waits
                failure = error
            hold()
        with self._lock:
            self._jobs.pop(future, None)
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
        raise JobFailedError(incident=self._incident(task, "it ended without a word"))

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

    def _kill_where_cancelled(self, future: Future[Any]) -> None:
        with self._lock:
            process = self._jobs.get(future)
        if process and future.cancelled():
            process.kill()


def _started() -> WorkerProcess | None:
    """A new process; None where the system has none to give at present."""
    try:
        return WorkerProcess()
    except OSError:
        return None
