"""Fixtures and settings of all tests."""

import atexit
import gc
import os
import shutil
import subprocess
from collections.abc import Generator, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Before numpy is imported: the processes of a run share the cores, and waiting threads of BLAS spin.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tests.job_server import CLONE, JobServer, popen_of
from tests.memory import MEMORY, own_prefix, remove_abandoned
from tests.parts import PARTS, part_of

IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ
"""Whether this is one of several processes that share the tests."""

if IS_WORKER:
    # Registered first, so called last: taking all objects apart would take each process three seconds.
    atexit.register(os._exit, 0)

# Nearly all that imports and fixtures make stays: looking for garbage less often costs a third less to
# collect the tests, and a twentieth less to run them.
gc.set_threshold(20_000, 20, 20)

# A console takes its width when it is made, which is not to be the one that a test sets.
os.environ.pop("COLUMNS", None)

# A busy machine makes no test fail, and no run meets an example that the run before did not:
# `pytest --hypothesis-profile=search` looks for others.
settings.register_profile(
    "same", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", settings.get_profile("same"), derandomize=False)
settings.load_profile("same")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--part first`` or ``--part rest`` runs one part of the tests; see ``tests.parts``."""
    parser.addoption("--part", choices=PARTS, default="", help="run one part of the tests")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files of the other part."""
    part = config.getoption("--part")
    is_file = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    return True if part and is_file and part_of(collection_path) != part else None


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A failure is named when it happens: a run that is stopped from outside prints no summary."""
    if report.failed and not IS_WORKER:
        print(f"\n{report.nodeid} failed in {report.when} after {report.duration:.0f} s", flush=True)


@pytest.hookimpl(optionalhook=True)  # mutants run without the plugin
def pytest_xdist_auto_num_workers() -> int:
    """One more than cores: for a third of its time a test waits, for a process or for a time to pass."""
    return len(os.sched_getaffinity(0)) + 1


LAST_FOLDERS = ("golden", "wire")
SPARK = (
    "test_awkward_columns.py",
    "test_person_tables.py",
    "test_spark_connect.py",
    "test_table_sums.py",
    "test_tables.py",
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file stays in one process, and those of Spark in the same one, which starts Java once."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "spark" if file.endswith(SPARK) else file

    return Scheduling(config, log) if config.option.dist == "loadfile" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In each of several processes, the files of a folder are spread over the run.

    Tests of pages wait for a browser, those of the core for nothing: beside each other, no core idles.
    Short files that only compute come last, so that all processes end together.
    """
    if not IS_WORKER:
        return
    folders: dict[Path, list[Path]] = {}
    for file in dict.fromkeys(item.path for item in items):
        folders.setdefault(file.parent, []).append(file)
    place = {
        file: (nth + 0.5) / len(files) + (folder.name in LAST_FOLDERS)
        for folder, files in folders.items()
        for nth, file in enumerate(files)
    }
    items.sort(key=lambda item: place[item.path])


NEEDED_BYTES = 4 * 2**30
FOLDER = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Folders of tests are in memory where there is room: hundreds of databases wait for no disk."""
    if config.option.basetemp is None and not IS_WORKER:
        remove_abandoned()
        with suppress(OSError):
            if shutil.disk_usage(MEMORY).free > NEEDED_BYTES:
                folder = config.stash[FOLDER] = Path(mkdtemp(prefix=own_prefix(), dir=MEMORY))
                config.option.basetemp = folder / "tests"


def pytest_unconfigure(config: pytest.Config) -> None:
    if not IS_WORKER:
        gc.unfreeze()  # libraries look at their end whether something is left
    if folder := config.stash.get(FOLDER, None):
        shutil.rmtree(folder, ignore_errors=True)


def pytest_collection_finish() -> None:
    for shell in ("client", "controller"):
        import_module(f"gencard.{shell}.shell.terminal")  # makes its console
    forget()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, Any, Any]:
    result = yield
    if nextitem is None or nextitem.path != item.path:
        forget()
    return result


def forget() -> None:
    """Freeze all present objects, so that later garbage collections skip them."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def forked_workers() -> Iterator[None]:
    """Services in a process of the tests get workers that have imported everything."""
    if CLONE is None:
        yield
        return
    from gencard.controller.jobs import process

    server = JobServer(process._ENVIRONMENT)
    popen = popen_of(server, process._COMMAND)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "subprocess", SimpleNamespace(**vars(subprocess) | {"Popen": popen}))
        yield
    server.close()


@pytest.fixture
def started_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers as they are outside of tests."""
    from gencard.controller.jobs import process

    monkeypatch.setattr(process, "subprocess", subprocess)
