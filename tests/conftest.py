"""What holds for all tests."""

import os
import subprocess
import threading
from collections.abc import Iterator
from importlib import import_module
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings

from tests.job_server import CLONE, JobServer, popen_of

# A console takes its width when it is made: now, and not in the first test that sets one.
os.environ.pop("COLUMNS", None)
for shell in ("client", "controller"):
    import_module(f"gencard.{shell}.shell.terminal")

# A busy machine makes no test fail, and no run meets an example that the run before did not:
# `pytest --hypothesis-profile=search` looks for others.
settings.register_profile(
    "same", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", settings.get_profile("same"), derandomize=False)
settings.load_profile("same")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A failure is named when it happens: a run that is stopped from outside prints no summary."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\n{report.nodeid} failed in {report.when} after {report.duration:.0f} s", flush=True)


@pytest.fixture(scope="session", autouse=True)
def untraced_threads() -> None:
    """Coverage is measured in the main thread alone.

    Python 3.11 ends a thread at its start where another one begins to be traced at that moment. All of
    the core is tested without threads.
    """
    threading.settrace(None)  # type: ignore[arg-type]


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
