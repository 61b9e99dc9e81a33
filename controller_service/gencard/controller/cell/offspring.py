"""Processes by who started them, as the kernel lists them."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def children_of(pid: int) -> list[int]:
    """Those of its first thread; raises OSError where there is no such process."""
    own = Path(f"/proc/{pid}/task/{pid}/children")
    return list(map(int, own.read_text(encoding="ascii").split()))


def tree_of(pid: int) -> Iterator[int]:
    """A process, and all that descend from it and have not lost a parent."""
    yield pid
    with suppress(OSError):
        for child in children_of(pid):
            yield from tree_of(child)
