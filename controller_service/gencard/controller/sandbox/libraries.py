"""Where Python's distributions lie: the files and folders that each brings, and what it requires."""

import importlib.metadata
import re
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path

_NAME = re.compile(r"^[A-Za-z0-9._-]+")


def entries_of(names: Iterable[str], *, required: bool = True) -> frozenset[str]:
    """Paths of what these distributions have brought beside each other.

    What is not installed brings nothing; what is only required for an extra does not come along.

    Args:
        required: Whether those that they require come along.
    """
    found = _installed(names, required=required)
    return frozenset(path for distribution in found for path in _entries(distribution))


def _installed(names: Iterable[str], *, required: bool) -> Iterator[Distribution]:
    left, seen = list(names), set()
    while left:
        name = left.pop()
        if name not in seen:
            seen.add(name)
            try:
                found = importlib.metadata.distribution(name)
            except PackageNotFoundError:
                continue
            wanted = found.requires or () if required else ()
            left += [_name(words) for words in wanted if "extra ==" not in words]
            yield found


def _name(requirement: str) -> str:
    match = _NAME.match(requirement)
    return match[0].lower() if match else ""


def _entries(distribution: Distribution) -> Iterator[str]:
    """Where no list of its files was kept, the whole folder that it lies in."""
    listed = distribution.read_text("RECORD")
    names = (
        {line.partition("/")[0].partition(",")[0] for line in listed.splitlines()} if listed else {""}
    )
    for name in names - {"..", "__pycache__"}:
        path = Path(str(distribution.locate_file(name)))
        if path.exists():
            yield str(path)
