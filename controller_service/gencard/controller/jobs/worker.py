"""The worker process: a job comes in, its progress and its end go out, as messages of ``tasks``.

No text of an error leaves, for it may quote a record. Standard input stays open as long as the
service lives; when it ends, so does the worker, with everything it started.
"""

import os
import resource
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, TypeVar

from gencard.controller.jobs import (
    process,
    synthesis,  # noqa: F401  # loaded while the worker waits: the commonest
)
from gencard.controller.jobs.tasks import JOBS, TASKS
from gencard.core.errors import GencardError, JobLimitError
from gencard.core.types import Progress

_Result = TypeVar("_Result")

_MIB = 1 << 20
_GRACE = 5
"""CPU seconds between the signal that ends a job over its limit and the one that nothing survives."""


def main() -> None:
    """Do one job, or each job that comes; then end."""
    channel, frames = process.served()
    report, is_limited, stays = Reporter(channel), False, True
    while stays:
        head, body = process.unpacked(frames.get())
        order = JOBS.read(process.Order, head, field="order")
        task = TASKS[order.task]
        task.function()  # before the limits, which are for its work
        if not is_limited:
            limit(order.cpu_seconds, order.memory_mib)
            is_limited = True
        ending, result = ended(partial(task.run, body), report)
        # the limit is one for all jobs of this process: another one must not end for the time of these
        if order.stays and time.process_time() < order.cpu_seconds / 2:
            ending = ending if isinstance(ending, process.Crashed) else replace(ending, stays=True)
        process.write_frame(channel, process.packed(ending, result))
        stays = not isinstance(ending, process.Crashed) and ending.stays
    os._exit(0)  # nothing is left to tidy up


def ended(
    work: Callable[[Progress], _Result], progress: Progress
) -> tuple[process.Ending, _Result | None]:
    """Do the work of a job: how it ended, and its result if it has one."""
    try:
        return process.Done(), work(progress)
    except GencardError as error:
        return process.Failed(error.reason, error.fields), None
    except MemoryError:
        limited = JobLimitError(what="memory")
        return process.Failed(limited.reason, limited.fields), None
    except Exception as error:  # the last place where an error can be caught
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return process.Crashed(type(error).__name__, f"{Path(frame.filename).name}:{frame.lineno}"), None


def limit(cpu_seconds: int, memory_mib: int) -> None:
    """Bound this process, for good; it leaves no core dump."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + _GRACE))
    resource.setrlimit(resource.RLIMIT_AS, (memory_mib * _MIB, memory_mib * _MIB))


class Reporter:
    """Writes progress, only when a stage begins or another hundredth is done."""

    def __init__(self, channel: IO[bytes]) -> None:
        self._channel = channel
        self._reported = ("", -1)

    def __call__(self, stage: str, fraction: float) -> None:
        hundredths = (stage, int(100 * fraction))
        if hundredths != self._reported:
            self._reported = hundredths
            process.write_frame(self._channel, process.packed(process.Reported(stage, float(fraction))))


if __name__ == "__main__":
    main()
