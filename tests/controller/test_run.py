"""What the owner of an operation is told while a job runs at the records."""

from concurrent.futures import Future
from datetime import UTC, datetime

import pytest

from gencard.controller.jobs import tasks
from gencard.controller.run import Run
from gencard.controller.state.operations import OperationRow, OperationState

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Telling:
    """An executor whose jobs do nothing but tell how far they are, in 200 steps and ten stages."""

    def submit(self, task, _description, *, progress):
        done = Future()
        for step in range(201):
            progress(f"{task.name} {step // 20}", step / 200)
        done.set_result({})
        return done


def told(task, role):
    """Stages and permilles that are written down for somebody to read."""
    owner = f"spiffe://example/survey/{role}/somebody"
    row = OperationRow(
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
    found = []
    Run(row, Telling(), lambda stage, permille: found.append((stage, permille))).job(task, {})
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
