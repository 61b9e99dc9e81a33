"""Names and versions of what computes, for receipts and reports."""

import platform
from functools import cache
from importlib.metadata import version

COMPUTES = ("gencard", "numpy", "scipy")


@cache
def versions() -> tuple[tuple[str, str], ...]:
    """Pairs of name and version, sorted by name."""
    found = {name: version(name) for name in COMPUTES} | {"python": platform.python_version()}
    return tuple(sorted(found.items()))
