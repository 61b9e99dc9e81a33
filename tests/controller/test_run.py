"""Progress that the owner of an operation sees while a job runs at the records."""

from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from gencard.controller.jobs import tasks
from gencard.controller.operations import Run
from gencard.controller.state.requests import OperationRow, OperationState
from gencard.core.errors import OperationCancelledError
from tests.system.raw_calls import eventually

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Telling:
    """An executor whose jobs do nothing but tell how far they are, in 200 steps and ten stages."""

    def submit(self, task, _description, *, progress, hold, **_):
        done = Future()
        for step in range(201):
            progress(f"{task.name} {step // 20}", step / 200)
        done.set_result({})
        return done


class Cancelled:
    """An executor whose jobs are cancelled; what was waited for."""

    def __init__(self):
        self.awaited = []

    def submit(self, _task, _description, *, progress, hold, **_):
        job = Future()
        job.cancel()
        job.set_running_or_notify_cancel()
        return job

    def await_end(self, job):
        self.awaited.append(job)


class Busy(Cancelled):
    """An executor whose jobs wait for their turn."""

    def submit(self, _task, _description, **_):
        return Future()


def row_of(role):
    owner = f"spiffe://example/survey/{role}/somebody"
    return OperationRow(
        1,
        "operations/o",
        owner,
        "audit",
        "r",
        b"{}",
        OperationState.RUNNING,
        "",
        0,
        None,
        None,
        NOW,
        NOW,
    )


def told(task, role):
    """Stages and permilles that are written down for somebody to read."""
    found = []
    Run(row_of(role), Telling(), lambda stage, permille: found.append((stage, permille))).job(task, {})
    return found


@pytest.mark.parametrize("task", [tasks.AUDIT, tasks.KEEP])
def test_an_analyst_hears_of_long_work_at_the_records_in_tenths(task):
    assert told(task, "analyst") == [(f"{task.name} {tenth}", 100 * tenth) for tenth in range(11)]


@pytest.mark.parametrize("task", [tasks.COMPARE, tasks.THIN_OUT, tasks.MEASURE])
def test_of_the_rest_that_it_goes_on_and_is_through(task):
    assert told(task, "analyst") == [(f"{task.name} 0", 0), (f"{task.name} 10", 1000)]


@pytest.mark.parametrize("task", [tasks.SYNTHESISE, tasks.DRAW])
def test_and_all_of_what_sees_no_record(task):
    assert len(told(task, "analyst")) == 201


@pytest.mark.parametrize("role", ["auditor", "steward"])
@pytest.mark.parametrize("task", [tasks.AUDIT, tasks.COMPARE])
def test_who_may_read_the_results_hears_all(task, role):
    assert len(told(task, role)) == 201


def test_s13_nobody_goes_on_before_the_process_of_a_cancelled_job_is_gone():
    """The process may still be writing into the folder that is thrown away next."""
    executor = Cancelled()
    with pytest.raises(OperationCancelledError):
        Run(row_of("analyst"), executor, lambda *_: None).job(tasks.MEASURE, {})
    assert len(executor.awaited) == 1


def test_s13_a_job_that_waits_for_its_turn_ends_with_its_operation():
    """At once, and not when the jobs before it have ended."""
    run = Run(row_of("analyst"), Busy(), lambda *_: None)
    with ThreadPoolExecutor(1) as pool:
        ending = pool.submit(run.job, tasks.MEASURE, {})
        assert eventually(lambda: run._job is not None)
        run.cancel()
        assert isinstance(ending.exception(60), OperationCancelledError)
