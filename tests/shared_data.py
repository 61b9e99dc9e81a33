"""The data sets beside the repository, for tests that want real records."""

from pathlib import Path

import pytest

_SHARED = Path(__file__).resolve().parents[2] / "shared"


def shared_file(name: str) -> Path:
    """Path of ``../shared/data/NAME``; skips the test where it is absent."""
    return _present(_SHARED / "data" / name)


def oracle_file(name: str) -> Path:
    """Path of ``../shared/oracles/NAME``; skips the test where it is absent."""
    return _present(_SHARED / "oracles" / name)


def _present(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"needs ../{path.relative_to(_SHARED.parent)} beside the repository")
    return path
