"""Processes by who started them, as the kernel lists them."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def children_of(pid: int) -> list[int]:
    """Those of all its threads; raises OSError where there is no such process."""
    threads = list(Path(f"/proc/{pid}/task").iterdir())
    return [child for thread in threads for child in _children_of_thread(thread)]


def _children_of_thread(thread: Path) -> list[int]:
    try:
        return list(map(int, (thread / "children").read_text(encoding="ascii").split()))
    except (FileNotFoundError, ProcessLookupError):
        return []  # it has ended since


def tree_of(pid: int) -> Iterator[int]:
    """A process, and all that descend from it and have not lost a parent."""
    yield pid
    with suppress(OSError):
        for child in children_of(pid):
            yield from tree_of(child)
