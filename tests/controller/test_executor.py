"""Jobs in processes of their own: bare, bounded, killable, and silent about what went wrong."""

import io
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from gencard.controller.jobs import executor as executor_module
from gencard.controller.jobs import process, tasks
from gencard.controller.jobs.executor import ProcessExecutor
from gencard.controller.jobs.process import WorkerProcess, packed, write_frame
from gencard.controller.jobs.synthesis import RowsFile
from gencard.controller.records.file_format import USUAL
from gencard.controller.records.schema_file import PublicSchema
from gencard.core.card.privacy import AS_COUNTED, EXACT
from gencard.core.coding import Attribute, Coding, Derivation, Labels
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import GencardError, InvalidInputError, JobFailedError, JobLimitError
from gencard.core.statistics.measure import measure_dataset
from gencard.wire.psi import psi_document
from tests.memory import endless_records
from tests.system.raw_calls import eventually, is_alive, open_files

CANARY = "CANARY-Ann-Smith-HIV"
CRASHES = {"computed": {"d": Derivation((CANARY,), (0,))}}
"""Changes of a job that no check of its form can find."""

LIMITS = {"cpu_seconds": 60, "memory_mib": 4096}

pytestmark = pytest.mark.usefixtures("started_workers")


def synthesis(folder: Path, **changes) -> tasks.SynthesisJob:
    """A job that is done at once."""
    domain = Domain.of({"a": 10, "b": 10, "c": 10})
    records = np.random.default_rng(1).integers(10, size=(60, 3))
    psi = measure_dataset(Dataset(domain, records), list(combinations(domain.attributes, 2)))
    document, rows_file = psi_document(psi), folder / "rows"
    job = tasks.SynthesisJob(document, "ipf", (), {}, 100, 7, 50_000_000, rows_file)
    return replace(job, **changes)


def endless() -> tasks.MeasureJob:
    """A job that does not end: its records are a file of 1 TiB, none of which is on the disk."""
    schema = PublicSchema("t", "", "d", False, Coding((Attribute("a", Labels(("x",))),)))
    records = tasks.RecordsSource(str(endless_records()), False, USUAL, schema, "0", b"", 1, "")
    return tasks.MeasureJob(records, (("a",),), (), EXACT, (), AS_COUNTED)


def shell_that_sends(*frames: bytes, then: str = "") -> tuple[str, ...]:
    """A command in place of a worker: it writes these bytes, whatever it is asked."""
    octets = "".join(f"\\{byte:03o}" for byte in b"".join(frames))
    return ("/bin/sh", "-c", f"printf '{octets}'; {then}")


def frame(content: bytes) -> bytes:
    file = io.BytesIO()
    write_frame(file, content)
    return file.getvalue()


class Reports(list):
    def __call__(self, *what: str) -> None:
        self.append(what)


@pytest.fixture
def reports():
    return Reports()


@pytest.fixture
def executor(reports):
    with ProcessExecutor(2, **LIMITS, report=reports) as executor:
        yield executor


def until(condition, seconds: float = 60.0) -> None:
    """Waits for the condition; fails where it does not hold in time."""
    assert eventually(condition, seconds), "it took too long"


def process_of(executor: ProcessExecutor, future) -> WorkerProcess:
    until(lambda: executor._jobs.get(future))
    return executor._jobs[future]


class TestResults:
    def test_a_job_gives_the_result_that_its_task_gives_here(self, executor, tmp_path):
        job = synthesis(tmp_path)
        result = executor.submit(tasks.SYNTHESISE, job).result()
        assert result == tasks.SYNTHESISE(job)
        assert RowsFile(tmp_path / "rows").dataset().digest() == result.digest

    def test_another_executor_can_take_its_place(self, tmp_path):
        with ThreadPoolExecutor(1) as threads:
            assert threads.submit(tasks.SYNTHESISE, synthesis(tmp_path)).result().digest

    def test_progress_is_told(self, executor, tmp_path):
        told = []
        executor.submit(
            tasks.SYNTHESISE, synthesis(tmp_path), progress=lambda *what: told.append(what)
        ).result()
        assert told == [("fit", 0.0), ("sample", 0.5)]

    def test_what_the_listener_raises_ends_the_job(self, executor, tmp_path):
        class GoneError(Exception):
            pass

        def listen(*_: object) -> None:
            raise GoneError

        future = executor.submit(tasks.MEASURE, endless(), progress=listen)
        assert isinstance(future.exception(timeout=60), GoneError)
        assert not executor._jobs

    def test_many_jobs_wait_their_turn(self, executor, tmp_path):
        futures = []
        for number in range(5):
            (tmp_path / str(number)).mkdir()
            futures.append(executor.submit(tasks.SYNTHESISE, synthesis(tmp_path / str(number))))
        assert len({future.result().digest for future in futures}) == 1

    def test_only_tasks_can_be_submitted(self, executor):
        with pytest.raises(TypeError):
            executor.submit(print, "job")

    def test_after_the_end_nothing_is_taken(self, tmp_path, reports):
        executor = ProcessExecutor(1, **LIMITS, report=reports)
        spare = executor._spare
        executor.shutdown()
        assert not is_alive(spare.pid)
        with pytest.raises(RuntimeError):
            executor.submit(tasks.SYNTHESISE, synthesis(tmp_path))

    def test_the_present_jobs_may_end_first(self, tmp_path, reports):
        executor = ProcessExecutor(1, **LIMITS, report=reports)
        future = executor.submit(tasks.SYNTHESISE, synthesis(tmp_path))
        executor.shutdown()
        assert future.done()
        assert future.result().digest


class TestErrors:
    def test_typed_errors_come_back_typed(self, executor, tmp_path):
        future = executor.submit(tasks.SYNTHESISE, synthesis(tmp_path, generator="none"))
        error = future.exception()
        assert type(error) is InvalidInputError
        assert error.fields == {"field": "generator", "problem": "no generator has this name"}

    def test_s15_an_unexpected_error_is_a_number_and_a_place(self, executor, tmp_path, reports):
        error = executor.submit(tasks.SYNTHESISE, synthesis(tmp_path, **CRASHES)).exception()
        assert type(error) is JobFailedError
        ((task, incident, what),) = reports
        assert (task, incident) == ("synthesise", error.fields["incident"])
        assert what.startswith("KeyError at derived_cells.py:")
        assert CANARY not in f"{error} {error.fields} {reports} {error.__context__}"

    def test_an_unknown_task_fails_alone(self, executor, tmp_path):
        unknown = replace(tasks.SYNTHESISE, name="format_disk")
        assert type(executor.submit(unknown, synthesis(tmp_path)).exception()) is JobFailedError
        assert executor.submit(tasks.SYNTHESISE, synthesis(tmp_path)).result()

    def test_a_worker_that_is_killed_from_outside_is_an_incident(self, executor, tmp_path, reports):
        future = executor.submit(tasks.MEASURE, endless())
        os.kill(process_of(executor, future).pid, signal.SIGKILL)
        assert type(future.exception(timeout=60)) is JobFailedError
        assert reports[0][2] == "no result was returned"

    def test_a_last_word_cut_short_is_no_word(self, monkeypatch, reports, tmp_path):
        whole = frame(packed(process.Done(), tasks.RowsResult(CANARY)))
        monkeypatch.setattr(process, "_COMMAND", shell_that_sends(whole[:-1]))
        with ProcessExecutor(1, **LIMITS, report=reports) as executor:
            error = executor.submit(tasks.SYNTHESISE, synthesis(tmp_path)).exception()
        assert type(error) is JobFailedError
        assert CANARY not in f"{error} {error.fields} {error.__context__} {reports}"

    def test_a_spare_that_died_is_replaced(self, executor, tmp_path):
        os.kill(executor._spare.pid, signal.SIGKILL)
        until(lambda: not is_alive(executor._spare.pid))
        assert executor.submit(tasks.SYNTHESISE, synthesis(tmp_path)).result()

    def test_s10_memory_is_bounded(self, tmp_path, reports):
        with ProcessExecutor(1, cpu_seconds=60, memory_mib=1024, report=reports) as executor:
            job = synthesis(tmp_path, rows=1_000_000_000)
            error = executor.submit(tasks.SYNTHESISE, job).exception()
        assert type(error) is JobLimitError
        assert error.fields == {"what": "memory"}

    def test_s10_cpu_time_is_bounded(self, tmp_path, reports):
        with ProcessExecutor(1, cpu_seconds=2, memory_mib=65_536, report=reports) as executor:
            error = executor.submit(tasks.MEASURE, endless()).exception()
        assert type(error) is JobLimitError
        assert error.fields == {"what": "CPU time"}
        assert not reports


class TestCancel:
    def test_s13_a_cancelled_job_is_gone_in_two_seconds(self, executor, tmp_path):
        future = executor.submit(tasks.MEASURE, endless())
        pid = process_of(executor, future).pid
        time.sleep(0.5)
        assert future.cancel()
        until(lambda: not is_alive(pid), 2)
        with pytest.raises(CancelledError):
            future.result()
        until(lambda: not executor._jobs, 2)

    def test_s13_who_hears_of_a_cancel_can_wait_for_the_end(self, executor, tmp_path, monkeypatch):
        """A caller may be quicker than the kill: a folder that is thrown away must not be written."""
        monkeypatch.setattr(ProcessExecutor, "_kill_where_cancelled", lambda *_: None)
        future = executor.submit(tasks.MEASURE, endless())
        pid = process_of(executor, future).pid
        assert future.cancel()
        assert is_alive(pid)
        executor.await_end(future)
        assert not is_alive(pid)
        executor.await_end(executor.submit(tasks.SYNTHESISE, synthesis(tmp_path)))

    def test_s13_whatever_a_worker_started_is_gone_too(self, monkeypatch):
        shell = r"sleep 60 & printf '\010\000\000\000\000\000\000\000%8d' $!; wait"
        monkeypatch.setattr(process, "_COMMAND", ("/bin/sh", "-c", shell))
        worker = WorkerProcess()
        child = int(next(worker.talk(b"")))
        assert is_alive(child)
        worker.kill()
        until(lambda: not is_alive(child) and not is_alive(worker.pid), 2)
        assert worker.end() == -signal.SIGKILL

    def test_a_waiting_job_never_starts(self, tmp_path, reports):
        with ProcessExecutor(1, **LIMITS, report=reports) as executor:
            first = executor.submit(tasks.MEASURE, endless())
            second = executor.submit(tasks.SYNTHESISE, synthesis(tmp_path))
            assert second.cancel()
            assert first.cancel()
            assert wait([first, second], timeout=60).not_done == set()
        assert not (tmp_path / "rows").exists()

    def test_a_finished_job_stays_finished(self, executor, tmp_path):
        future = executor.submit(tasks.SYNTHESISE, synthesis(tmp_path))
        future.result()
        assert not future.cancel()

    def test_a_stop_kills_what_runs(self, tmp_path, reports):
        executor = ProcessExecutor(1, **LIMITS, report=reports)
        future = executor.submit(tasks.MEASURE, endless())
        pid = process_of(executor, future).pid
        executor.shutdown(cancel_futures=True)
        assert future.cancelled()
        assert not is_alive(pid)

    @pytest.mark.parametrize("seconds", [0, 0.01, 0.05, 0.2])
    def test_cancelling_at_any_moment_ends_well(self, executor, tmp_path, seconds):
        future = executor.submit(tasks.SYNTHESISE, synthesis(tmp_path))
        time.sleep(seconds)
        assert future.cancel() or future.result()
        until(lambda: not executor._jobs)


_SERVICE = """
import sys, time
from gencard.controller.jobs.executor import ProcessExecutor
from gencard.controller.jobs import tasks
from tests.controller.test_executor import endless
executor = ProcessExecutor(1, cpu_seconds=60, memory_mib=4096, report=print)
future = executor.submit(tasks.MEASURE, endless())
while not executor._jobs[future]:
    time.sleep(0.01)
time.sleep(0.5)
print(executor._jobs[future].pid, flush=True)
time.sleep(60)
"""


class TestWorker:
    def test_it_dies_with_the_service(self, tmp_path):
        service = subprocess.Popen([sys.executable, "-c", _SERVICE], stdout=subprocess.PIPE, text=True)
        pid = int(service.stdout.readline())
        assert is_alive(pid)
        service.kill()
        service.wait()
        service.stdout.close()
        until(lambda: not is_alive(pid), 5)

    def test_it_gets_nothing_of_the_service_but_three_pipes(self, monkeypatch):
        monkeypatch.setenv("GENCARD_SECRET", CANARY)
        worker = WorkerProcess()
        try:
            until(lambda: b"LC_ALL" in Path(f"/proc/{worker.pid}/environ").read_bytes())
            environment = Path(f"/proc/{worker.pid}/environ").read_bytes()
            assert CANARY.encode() not in environment
            entries = dict(entry.split("=") for entry in environment.decode().split("\0") if entry)
            assert entries == process._ENVIRONMENT
            assert Path(f"/proc/{worker.pid}/cwd").readlink() == Path("/")
            until(lambda: "numpy" in Path(f"/proc/{worker.pid}/maps").read_text())
            assert not [name for name in open_files(worker.pid).values() if "socket" in name]
        finally:
            worker.end()

    def test_it_never_loads_grpc(self, executor, tmp_path):
        future = executor.submit(tasks.MEASURE, endless())
        pid = process_of(executor, future).pid
        until(lambda: "numpy" in Path(f"/proc/{pid}/maps").read_text())
        time.sleep(1)
        assert "grpc" not in Path(f"/proc/{pid}/maps").read_text()
        future.cancel()
        code = (
            "import sys; from gencard.controller.jobs import worker; from gencard.controller.jobs.tasks "
            "import TASKS; [task.function() for task in TASKS.values()]; sys.exit('grpc' in sys.modules)"
        )
        subprocess.run([sys.executable, "-I", "-c", code], check=True)

    def test_what_starts_for_each_job_is_small(self):
        """An audit at made-up records starts a worker for each of its 70 runs."""
        code = (
            "import sys; from gencard.controller.jobs import worker; "
            "sys.exit(bool({'pydantic', 'cryptography', 'sqlalchemy', 'tomlkit'} & {*sys.modules}))"
        )
        subprocess.run([sys.executable, "-I", "-c", code], check=True)

    def test_limits_hold_and_no_core_is_dumped(self, executor, tmp_path):
        future = executor.submit(tasks.MEASURE, endless())
        pid = process_of(executor, future).pid
        path = Path(f"/proc/{pid}/limits")
        until(lambda: f"{4096 << 20}" in path.read_text())
        limits = {line[:25].strip(): line[25:].split() for line in path.read_text().splitlines()[1:]}
        assert limits["Max core file size"][:2] == ["0", "0"]
        assert limits["Max cpu time"][:2] == ["60", "65"]
        future.cancel()

    def test_typed_errors_are_those_of_the_catalogue(self, executor, tmp_path):
        error = executor.submit(tasks.SYNTHESISE, synthesis(tmp_path, psi=CANARY.encode())).exception()
        assert isinstance(error, GencardError)
        assert error.reason == "INVALID_PSI"
        assert CANARY not in str(error)


class TestSeries:
    """Jobs of one series share a process, one after the other."""

    def run(self, executor, folder, series="one", **changes):
        job = synthesis(folder, **changes)
        executor.submit(tasks.SYNTHESISE, job, owner="ann", series=series).result(60)

    @pytest.fixture
    def pids(self, executor, monkeypatch):
        """Process of each job, in order."""
        pids, real = [], WorkerProcess.talk

        def talk(process, request):
            pids.append(process.pid)
            return real(process, request)

        monkeypatch.setattr(WorkerProcess, "talk", talk)
        return pids

    def test_jobs_of_a_series_and_no_others_share_a_process(self, executor, pids, tmp_path):
        for series in ("one", "one", "two", "", "one", ""):
            self.run(executor, tmp_path, series)
        first, second, other, alone, third, again = pids
        assert first == second == third
        assert len({first, other, alone, again}) == 4

    def test_one_that_fails_is_followed_by_the_next(self, executor, pids, tmp_path):
        self.run(executor, tmp_path)
        with pytest.raises(GencardError):
            self.run(executor, tmp_path, generator="nothing")
        self.run(executor, tmp_path)
        assert len(set(pids)) == 1

    def test_one_that_crashes_or_is_killed_is_followed_by_another_process(
        self, executor, pids, tmp_path
    ):
        self.run(executor, tmp_path)
        with pytest.raises(JobFailedError):
            self.run(executor, tmp_path, **CRASHES)
        self.run(executor, tmp_path)
        (idle,) = executor._idle
        os.kill(pids[-1], signal.SIGKILL)
        assert eventually(lambda: not idle.process.is_alive())  # all of its threads have ended
        self.run(executor, tmp_path)
        assert pids[0] == pids[1]
        assert len(set(pids)) == 3

    def test_processes_that_wait_are_few_and_end(self, executor, pids, tmp_path, monkeypatch):
        for series in ("one", "two", "three"):
            self.run(executor, tmp_path, series)
        assert eventually(lambda: [is_alive(pid) for pid in pids] == [False, True, True])
        executor.shutdown()
        assert eventually(lambda: not any(map(is_alive, pids)))

    def test_one_that_waits_for_long_ends(self, reports, pids, tmp_path, monkeypatch):
        monkeypatch.setattr(executor_module, "IDLE_SECONDS", 0.2)
        with ProcessExecutor(2, **LIMITS, report=reports) as executor:
            self.run(executor, tmp_path)
            assert eventually(lambda: not is_alive(pids[0]))
            self.run(executor, tmp_path)
        assert len(set(pids)) == 2

    def test_a_job_that_is_cancelled_takes_its_process_with_it(self, executor, pids, tmp_path):
        self.run(executor, tmp_path)
        running = executor.submit(tasks.MEASURE, endless(), owner="ann", series="one")
        assert eventually(lambda: len(pids) == 2)
        running.cancel()
        assert eventually(lambda: not is_alive(pids[0]))
        self.run(executor, tmp_path)
        assert pids[0] == pids[1] != pids[2]
