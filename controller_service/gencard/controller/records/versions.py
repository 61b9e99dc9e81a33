"""Names and versions of what computes, for receipts and reports."""

import platform
from importlib.metadata import version

COMPUTES = ("gencard", "numpy", "scipy")

VERSIONS = tuple(
    sorted(({name: version(name) for name in COMPUTES} | {"python": platform.python_version()}).items())
)
"""Pairs of name and version, sorted by name; as they were when the service started."""
