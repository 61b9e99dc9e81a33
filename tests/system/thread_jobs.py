"""Jobs in threads of the service itself: fast, and every step of theirs can be made to fail."""

import json
from concurrent.futures import Future
from typing import Any

import pytest

from gencard.controller import wiring
from gencard.controller.jobs import executor, worker
from gencard.controller.jobs.tasks import TASKS


class ThreadExecutor(executor.ProcessExecutor):
    """What a worker would answer is answered here, and passes the same lines of JSON."""

    def _run(self, future: Future[Any], task: str, job: Any, progress: Any) -> Any:
        answer = worker.answer(TASKS[task].function(), json.loads(json.dumps(job)), progress)
        return self._result_of(task, json.loads(json.dumps(answer)))


def run_jobs_in_threads(patch: pytest.MonkeyPatch) -> None:
    """Controllers started from now on have no workers."""
    patch.setattr(wiring, "ProcessExecutor", ThreadExecutor)
    patch.setattr(executor, "_started", lambda: None)
