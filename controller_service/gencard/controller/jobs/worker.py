"""The worker process: one job in, lines of JSON out.

    in    {"task": ..., "job": {...}, "cpu_seconds": ..., "memory_mib": ..., "stays": bool}
    out   {"progress": [stage, fraction]}     any number of these, and then one of
          {"result": {...}}
          {"error": {"reason": ..., "fields": {...}}}
          {"crash": {"kind": ..., "where": ...}}      the class of an unexpected error and its place
          with "stays": true where the process waits for another job, as it was asked to

No text of an error leaves, for it may quote a record. Standard input stays open as long as the
service lives; when it ends, so does the worker, with everything it started.
"""

import json
import os
import queue
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from gencard.controller.jobs import synthesis  # noqa: F401  # loaded while the worker waits: the commonest
from gencard.controller.jobs.tasks import TASKS, Job
from gencard.core.errors import GencardError, JobLimitError
from gencard.core.types import Progress

Answer = dict[str, Any]

_MIB = 1 << 20
_GRACE = 5
"""CPU seconds between the signal that ends a job over its limit and the one that nothing survives."""


def main() -> None:
    """Do one job, or each job that comes; then end."""
    channel = _claim_stdout()
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read_until_the_service_ends, args=(lines,), daemon=True).start()
    say, is_limited, stays = Speaker(channel), False, True
    while stays:
        request = json.loads(lines.get())
        function = TASKS[request["task"]].function()
        if not is_limited:
            limit(request["cpu_seconds"], request["memory_mib"])
            is_limited = True
        last = answer(function, request["job"], say)
        # the limit is one for all jobs of this process: another one must not end for the time of these
        half = request["cpu_seconds"] / 2
        stays = request.get("stays", False) and "crash" not in last and time.process_time() < half
        say.line(last | {"stays": True} if stays else last)
    os._exit(0)  # nothing is left to tidy up


def answer(function: Callable[[Job, Progress], Job], job: Job, progress: Progress) -> Answer:
    """Do the job; the last line to be said."""
    try:
        return {"result": function(job, progress)}
    except GencardError as error:
        return {"error": {"reason": error.reason, "fields": error.fields}}
    except MemoryError:
        limited = JobLimitError(what="memory")
        return {"error": {"reason": limited.reason, "fields": limited.fields}}
    except Exception as error:  # the last place where an error can be caught
        return {"crash": {"kind": type(error).__name__, "where": _place(error)}}


def limit(cpu_seconds: int, memory_mib: int) -> None:
    """Bound this process, for good; it leaves no core dump."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + _GRACE))
    resource.setrlimit(resource.RLIMIT_AS, (memory_mib * _MIB, memory_mib * _MIB))


class Speaker:
    """Writes messages; progress only when a stage begins or another hundredth is done."""

    def __init__(self, channel: TextIO) -> None:
        self._channel = channel
        self._reported = ("", -1)

    def __call__(self, stage: str, fraction: float) -> None:
        hundredths = (stage, int(100 * fraction))
        if hundredths != self._reported:
            self._reported = hundredths
            self.line({"progress": [stage, fraction]})

    def line(self, message: Answer) -> None:
        self._channel.write(json.dumps(message) + "\n")
        self._channel.flush()


def _claim_stdout() -> TextIO:
    """Keep standard output for the lines; whatever a library prints goes where errors go."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return channel


def _read_until_the_service_ends(lines: "queue.SimpleQueue[bytes]") -> None:
    while line := sys.stdin.buffer.readline():
        lines.put(line)
    os.killpg(0, signal.SIGKILL)


def _place(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"


if __name__ == "__main__":
    main()
