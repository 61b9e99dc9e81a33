"""The memory of a sandbox, checked from outside several times a second: the second line of defence.

The first line is the kernel's bounds on each process, which add up to the bound of the sandbox; see
``limits.SandboxLimits.address_space``. They do not count what the kernel itself keeps for each entry of
the working folder, even an empty one. Memory of processes is counted as in proc(5): resident and swapped
pages, and where their sum is over the bound, the proportional share of shared pages.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol

from gencard.core.errors import IsolationError, JobLimitError


class Running(Protocol):
    """A process that runs for a sandbox; one of ``subprocess.Popen`` is one."""

    @property
    def pid(self) -> int: ...
    @property
    def stdin(self) -> IO[bytes] | None: ...
    @property
    def stdout(self) -> IO[bytes] | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def kill(self) -> None: ...


def children_of(pid: int) -> list[int]:
    """Child processes of all threads of a process; raises OSError where there is no such process."""
    threads = list(Path(f"/proc/{pid}/task").iterdir())
    return [child for thread in threads for child in _children_of_thread(thread)]


def _children_of_thread(thread: Path) -> list[int]:
    try:
        return list(map(int, (thread / "children").read_text(encoding="ascii").split()))
    except (FileNotFoundError, ProcessLookupError):
        return []  # it has ended since


def tree_of(pid: int) -> Iterator[int]:
    """A process and its descendants, without those whose parent has ended."""
    yield pid
    with suppress(OSError):
        for child in children_of(pid):
            yield from tree_of(child)


_KIB = 1 << 10
_EVERY = 0.1
"""Seconds between looks."""

_LOOKS = 2
"""Consecutive checks over the bound before it acts: a process that forks may be counted twice."""

_ENTRY = 1 << 10
"""Bytes that the kernel takes for an entry of a folder in memory: inode and name."""

Members = Callable[[], Iterable[Path]]
"""The folder in /proc of each process in the sandbox; raises OSError where it cannot be seen."""

Entries = Callable[[], int]
"""Gives the number of entries in the working folder."""


class MemoryWatch:
    """Checks until its block ends; kills a sandbox that is over its bound, or cannot be inspected.

    Args:
        bound: Bytes.
        kill: Ends the sandbox; called in a thread of this watch.
    """

    def __init__(
        self, members: Members, bound: int, kill: Callable[[], None], *, entries: Entries = lambda: 0
    ) -> None:
        self._members, self._bound, self._kill = members, bound, kill
        self._entries = entries
        self._left = threading.Event()
        self._ended_for: type[JobLimitError | IsolationError] | None = None
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "MemoryWatch":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set()
        self._thread.join()

    def check(self) -> None:
        """Raises JobLimitError or IsolationError where the watch has ended the sandbox."""
        if self._ended_for is JobLimitError:
            raise JobLimitError(what="memory for one run of a black box")
        if self._ended_for is IsolationError:
            raise IsolationError

    def _watch(self) -> None:
        over = 0
        while over < _LOOKS:
            if self._left.wait(_EVERY):
                return
            reason = self._reason()
            over = over + 1 if reason else 0
        self._ended_for = reason
        self._kill()

    def _reason(self) -> type[JobLimitError | IsolationError] | None:
        try:
            left = self._bound - _ENTRY * self._entries()
            return JobLimitError if _is_over(self._members(), left) else None
        except OSError:
            return IsolationError


def _is_over(members: Iterable[Path], bound: int) -> bool:
    """The cheap sum first: shared pages count for each process in it, so it is never too small."""
    processes = list(members)
    if sum(map(_resident, processes)) <= bound:
        return False
    return sum(map(_proportional, processes)) > bound


def _resident(process: Path) -> int:
    return _sum_of(process / "status", "VmRSS", "VmSwap") or 0


def _proportional(process: Path) -> int:
    """Where it is not ours to see, what is resident."""
    shared = _sum_of(process / "smaps_rollup", "Pss", "SwapPss")
    return _resident(process) if shared is None else shared


def _sum_of(file: Path, *names: str) -> int | None:
    """Bytes in these lines of a file of /proc; None where it cannot be read, as after the end."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    entries = (line.partition(":") for line in lines)
    return sum(_KIB * int(value.split()[0]) for name, _, value in entries if name in names)
