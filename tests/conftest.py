"""What holds for all tests."""

import os
import threading

import pytest
from hypothesis import HealthCheck, settings

# A console takes its width when it is made, and the processes of a parallel run are told one.
os.environ.pop("COLUMNS", None)

# A busy machine makes no test fail, and no run meets an example that the run before did not:
# `pytest --hypothesis-profile=search` looks for others.
settings.register_profile(
    "same", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", settings.get_profile("same"), derandomize=False)
settings.load_profile("same")


@pytest.fixture(scope="session", autouse=True)
def untraced_threads() -> None:
    """Coverage is measured in the main thread alone.

    Python 3.11 ends a thread at its start where another one begins to be traced at that moment. All of
    the core is tested without threads.
    """
    threading.settrace(None)  # type: ignore[arg-type]
