"""Jobs in threads of the service itself: fast, and every step of theirs can be made to fail."""

from functools import partial

import pytest

from gencard.controller.jobs import executor
from gencard.controller.jobs.process import Done, Reported, packed, received, unpacked
from gencard.controller.jobs.worker import ended
from gencard.controller.wiring import serving as wiring


class ThreadExecutor(executor.ProcessExecutor):
    """Answer as a worker would, by the same messages."""

    def _run(self, submission: executor._Submission) -> object:
        task = submission.task
        _, body = unpacked(packed(Done(), submission.job))
        ending = packed(*ended(partial(task.run, body), submission.progress))
        reply, result = received(task, ending)
        assert not isinstance(reply, Reported)
        return self._outcome(task, reply, result)


def run_jobs_in_threads(patch: pytest.MonkeyPatch) -> None:
    """Controllers started from now on have no workers."""
    patch.setattr(wiring, "ProcessExecutor", ThreadExecutor)
    patch.setattr(executor, "_started", lambda: None)
