"""What holds for all tests."""

import os

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
