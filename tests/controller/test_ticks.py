"""S28: when an operation ends is told at ticks, so that its time says nothing finer of the records."""

import os
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from gencard.controller.audits import Journals
from gencard.controller.base.disk import StateFiles
from gencard.controller.jobs import tasks
from gencard.controller.jobs.executor import ProcessExecutor
from gencard.controller.jobs.synthesis import RowsFile
from gencard.controller.operations import Run, Ticks
from gencard.controller.releases import BoxRelease
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import BlackBoxError, OperationCancelledError, StorageError
from gencard.wire.tables import encoded_chunks
from tests.controller.test_run import row_of
from tests.system.raw_calls import eventually

QUICK, SLOW = 0.02, 1.0
TICK = 5.0
PAIRS = 20


class Working:
    """An executor whose jobs take a time, as a box can at one record and not at its neighbour."""

    def __init__(self, seconds=0.0, failure=None):
        self.seconds, self.failure, self.ended = seconds, failure, threading.Event()

    def submit(self, task, _description, *, progress, hold, **_):
        job = Future()
        threading.Thread(target=self._work, args=(job, progress, hold), daemon=True).start()
        return job

    def await_end(self, job):
        assert job.cancelled()

    def _work(self, job, progress, hold):
        for half in (0.0, 0.5):
            progress("run", half)
            time.sleep(self.seconds / 2)
        self.ended.set()
        hold()
        if not job.set_running_or_notify_cancel():
            return
        if self.failure is None:
            job.set_result({})
        else:
            job.set_exception(self.failure)


def run_of(executor, ticks, note=lambda *_: None):
    return Run(row_of("analyst"), executor, note, ticks)


def seconds(work, tick):
    """Duration of an operation, as its caller sees it."""
    begun = time.monotonic()
    run_of(Working(work), Ticks(tick)).job(tasks.KEEP, {})
    return time.monotonic() - begun


def times(tick):
    """Measure operations at two neighbouring datasets, in turn and side by side."""
    works = [QUICK, SLOW] * PAIRS
    with ThreadPoolExecutor(len(works)) as pool:
        found = list(pool.map(seconds, works, [tick] * len(works)))
    return found[::2], found[1::2]


def test_s28_times_tell_neighbouring_datasets_apart_only_without_ticks():
    """Kolmogorov-Smirnov; under equal distributions the bound is broken less than once in a million."""
    quick, slow = times(TICK)
    assert min(quick + slow) >= TICK
    assert ks_2samp(quick, slow).pvalue > 1e-6
    assert ks_2samp(*times(0.0)).pvalue < 0.05


@pytest.mark.parametrize("task", tasks.TASKS.values(), ids=lambda task: task.name)
@pytest.mark.parametrize("failure", [None, BlackBoxError(problem="it raised an error")])
def test_s28_every_job_ends_at_a_tick_however_it_ends(task, failure):
    executor, told = Working(failure=failure), []
    run = run_of(executor, Ticks(3_600.0), lambda *step: told.append(step))
    with ThreadPoolExecutor(1) as pool:
        over = pool.submit(run.job, task, {})
        assert executor.ended.wait(60)
        assert not over.done()
        assert told == []
        run.cancel()
        assert isinstance(over.exception(60), OperationCancelledError)


class Stepping(Working):
    """An executor whose job goes on when what it said before was told."""

    def __init__(self, told):
        super().__init__()
        self.told = told

    def _work(self, job, progress, hold):
        for said, fraction in enumerate((0.1, 0.5), 1):
            progress("run", fraction)
            eventually(lambda said=said: len(self.told) == said)
        job.set_result({})


def test_s28_progress_is_told_at_ticks():
    """A tick that has nothing new is silent."""
    told: list[tuple[float, int]] = []
    begun = time.monotonic()
    run_of(
        Stepping(told),
        Ticks(0.5, begun),
        lambda _stage, permille: told.append((time.monotonic() - begun, permille)),
    ).job(tasks.SYNTHESISE, {})
    assert [permille for _, permille in told] == [100, 500]
    assert told[0][0] >= 0.5
    assert told[1][0] >= 1.0


def test_s28_a_failure_that_is_held_back_is_not_told_by_a_cancel():
    executor = Working(failure=BlackBoxError(problem="it raised an error"))
    run = run_of(executor, Ticks(3_600.0))
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(run.job, tasks.KEEP, {})
        assert executor.ended.wait(60)
        run.cancel()
        assert isinstance(ended.exception(60), OperationCancelledError)


def test_a_job_whose_progress_cannot_be_noted_does_not_go_on():
    """A state that cannot be written ends the job, because no caller would receive its result."""

    def fail(*_):
        raise StorageError

    executor = Working(3.0)
    with pytest.raises(StorageError):
        run_of(executor, Ticks(0.1), fail).job(tasks.SYNTHESISE, {})


def test_s28_a_place_is_taken_until_the_tick(tmp_path):
    """Otherwise a waiting caller would learn when the job before ended."""
    gate = threading.Event()
    executor = ProcessExecutor(1, cpu_seconds=60, memory_mib=2_048, report=print)
    try:
        first = executor.submit(tasks.MEASURE, {}, hold=gate.wait)
        process = eventually_process(executor, first)
        assert eventually(lambda: not process.is_alive())
        second = executor.submit(tasks.MEASURE, {})
        assert not first.done()
        assert executor._jobs[second] is None
        gate.set()
        assert second.exception(60)
    finally:
        gate.set()
        executor.shutdown(cancel_futures=True)


def eventually_process(executor, future):
    assert eventually(lambda: executor._jobs.get(future) is not None)
    return executor._jobs[future]


def test_the_grid_begins_with_the_operation():
    ticks = Ticks(1_000.0, begun=time.monotonic() - 2_400.0)
    assert 500.0 < ticks.left() <= 600.0
    assert 400.0 <= time.time() - ticks.last() < 500.0
    assert Ticks().left() is None


class Ending:
    """A run whose job leaves something and is cancelled, or whatever else ends it."""

    def __init__(self, folder, error):
        self.folder, self.error = folder, error

    def job(self, _task, _description):
        (self.folder / tasks.KEPT_FIT).write_bytes(b"made from records")
        raise self.error


@pytest.mark.parametrize(("error", "left"), [(OperationCancelledError(), []), (StorageError(), ["fit"])])
def test_s28_what_a_cancelled_run_left_is_thrown_away(tmp_path, error, left):
    """Otherwise the next operation's time would tell whether the first had come to its end."""
    release = BoxRelease(*[None] * 3, StateFiles(tmp_path))
    with pytest.raises(type(error)):
        release._run_once(Ending(tmp_path, error), {}, tmp_path / "failed")
    assert [path.name for path in tmp_path.iterdir()] == left


def test_s28_of_a_cancelled_audit_those_runs_stay_that_ended_at_a_tick(tmp_path):
    journals = Journals(StateFiles(tmp_path))
    folder = journals.open("datasets/d/cards/c/audits/a")
    for name, ended in (("before", 100.0), ("at", 200.0), ("after", 200.5)):
        (folder / name).write_bytes(b"")
        os.utime(folder / name, (ended, ended))
    journals.forget_since("datasets/d/cards/c/audits/a", 200.0)
    assert sorted(path.name for path in folder.iterdir()) == ["at", "before"]
    journals.forget_since("datasets/d/cards/c/audits/none", 200.0)


@given(st.integers(1, 400), st.integers(0, 2**32), st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_s28_rows_take_as_many_bytes_whatever_they_are(tmp_path_factory, rows, one, other):
    """Message by message: codes are of a fixed width, which the domain gives."""
    domain = Domain.of({"a": 3, "b": 256, "c": 300})
    path = tmp_path_factory.mktemp("sizes") / "rows"
    sizes = []
    for seed in (one, other):
        rng = np.random.default_rng(seed)
        drawn = Dataset.of_columns(domain, [rng.integers(0, size, rows) for size in domain.sizes])
        RowsFile(path).write(drawn)
        with RowsFile(path).opened() as columns:
            layouts = [
                encoded_chunks(columns, drawn.digest(), packed=packed) for packed in (False, True)
            ]
            sizes.append([len(one) for layout in layouts for one in layout])
    assert sizes[0] == sizes[1]
