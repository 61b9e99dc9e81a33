"""Limits and isolation of a program in a sandbox, and the watch over the memory of all its processes.

The watch is the second line of defence: several times a second, from outside. The first line is the
kernel's bounds on each process, which add up to the bound of the sandbox; see
``SandboxLimits.address_space``. They do not count the kernel's own memory for each entry of the working
folder, even an empty one. Memory of processes is counted as in proc(5): resident and swapped pages, and
if their sum exceeds the bound, the proportional share of shared pages.
"""

import os
import resource
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path

from gencard.core.errors import InvalidInputError, IsolationError, JobLimitError

_LEAST = 16  # MiB of address space in which a shell starts
_THREADS = 16  # largest number of threads of a sandbox's single process; they share its memory
_MIB = 1 << 20

_GRACE = 2
"""CPU seconds between the signal that names the reason (SIGXCPU) and the signal that kills (SIGKILL)."""

_FILES = 256
"""Open files of a process, the fewest that R starts with; each may be a pipe, which holds 64 KiB of the
kernel's memory."""

_SIGNALS = 256  # signals and timers of a user that wait in the kernel


class Isolation(StrEnum):
    """Kinds of isolation of a sandbox.

    NAMESPACES is bubblewrap: no network, no files but the program's, no other process in sight.
    PROCESSES bounds what is used and closes nothing: for development alone.
    """

    NAMESPACES = "namespaces"
    PROCESSES = "processes"


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Limits of one run; a job's own limits hold too, if they are lower.

    Args:
        memory_mib: Memory of all processes and files together, in MiB, at least 64. What ``work_mib``
            leaves is divided equally among ``processes`` and must be at least 16 for each.
        cpu_seconds: CPU time of each process, in seconds; then the process is killed.
        wall_seconds: Duration of the run, in seconds; then the run is ended.
        processes: Processes at the same time: 1 for Python, about 8 for a shell script. With 1, the
            process may have up to 16 threads and start no other process; with more, each thread
            counts as a process.
        work_mib: Size of the files in the working folder, in MiB. They are kept in memory.
        fit_mib: Size of the fit that a black box returns, in MiB; a run with a larger one fails.
    """

    memory_mib: int = 2_048
    cpu_seconds: int = 900
    wall_seconds: int = 1_200
    processes: int = 1
    work_mib: int = 64
    fit_mib: int = 256

    def __post_init__(self) -> None:
        if self.address_space < _LEAST:
            problem = f"is too little: less than {_LEAST} MiB for each process, besides work_mib"
            raise InvalidInputError(field="cell.memory_mib", problem=problem)

    @property
    def address_space(self) -> int:
        """Address space of each process, in MiB: processes and files together stay in the bound."""
        return (self.memory_mib - self.work_mib) // self.processes

    @property
    def tasks(self) -> int:
        """Processes and threads at a time."""
        return self.processes if self.processes > 1 else _THREADS


@dataclass(frozen=True, slots=True)
class SandboxSettings(SandboxLimits):
    """Sandbox of black boxes and of analysts' programs: isolation, and limits of one run.

    The limits of the job in ``[limits]`` hold too, if they are lower.

    Args:
        isolation: ``namespaces`` closes the sandbox with bubblewrap: no network, no other files, no
            other processes. ``processes`` isolates nothing; it is refused without ``insecure_dev`` in
            ``[server]``.
    """

    isolation: Isolation = Isolation.NAMESPACES

    @property
    def limits(self) -> SandboxLimits:
        """The limits alone, as digests of runs contain them."""
        return SandboxLimits(**{one.name: getattr(self, one.name) for one in fields(SandboxLimits)})


def bounds_of(limits: SandboxLimits, *, others: int = 0) -> dict[str, tuple[int, int]]:
    """Return soft and hard bound of each resource of a process, by its name in setrlimit(2).

    Bounds of this process are not exceeded: a job's limits hold for the processes that it starts.
    ``others`` are processes of the same user that are not the program's.
    """
    cpu = _at_most(limits.cpu_seconds, resource.RLIMIT_CPU)
    bounds = {
        "as": _at_most(limits.address_space * _MIB, resource.RLIMIT_AS),
        "fsize": _at_most(limits.work_mib * _MIB, resource.RLIMIT_FSIZE),
        "nproc": _at_most(limits.tasks + others, resource.RLIMIT_NPROC),
        "nofile": _at_most(_FILES, resource.RLIMIT_NOFILE),
        "sigpending": _at_most(_SIGNALS, resource.RLIMIT_SIGPENDING),
        "msgqueue": 0,
        "core": 0,
    }
    both = {name: (limit, limit) for name, limit in bounds.items()}
    return {"cpu": (cpu, _at_most(cpu + _GRACE, resource.RLIMIT_CPU)), **both}


def others(number: int) -> int:
    """Return how many of Gencard's processes have the program's user: none if root started them."""
    return number if os.geteuid() else 0


def limited(limits: SandboxLimits, *, others: int = 0) -> list[str]:
    """Return the command that sets these bounds for good, from inside, where processes are counted."""
    bounds = bounds_of(limits, others=others).items()
    return ["prlimit", *(f"--{name}={soft}:{hard}" for name, (soft, hard) in bounds), "--"]


def _at_most(bound: int, kind: int) -> int:
    hard = resource.getrlimit(kind)[1]
    return bound if hard == resource.RLIM_INFINITY else min(bound, hard)


def children_of(pid: int) -> list[int]:
    """Return the child processes of all threads of a process; raises OSError if it does not exist."""
    threads = list(Path(f"/proc/{pid}/task").iterdir())
    children: list[int] = []
    for thread in threads:
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended since
            children += map(int, (thread / "children").read_text(encoding="ascii").split())
    return children


def tree_of(pid: int) -> Iterator[int]:
    """Yield a process and its descendants, without descendants whose parent has ended."""
    yield pid
    with suppress(OSError):
        for child in children_of(pid):
            yield from tree_of(child)


_KIB = 1 << 10
_EVERY = 0.1  # seconds between looks
_LOOKS = 2  # consecutive checks over the bound before it acts: a process that forks may be counted twice
_ENTRY = 1 << 10  # bytes that the kernel takes for an entry of a folder in memory: inode and name

Members = Callable[[], Iterable[Path]]
"""Returns the folder in /proc of each process in the sandbox; raises OSError if it cannot be seen."""

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

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._thread.join()

    def check(self) -> None:
        """Raise JobLimitError or IsolationError if the watch has ended the sandbox."""
        if self._ended_for is JobLimitError:
            raise JobLimitError(what="memory for one run of a black box")
        if self._ended_for is IsolationError:
            raise IsolationError

    def _watch(self) -> None:
        over = 0
        reason: type[JobLimitError | IsolationError] | None = None
        while over < _LOOKS:
            if self._left.wait(_EVERY):
                return
            try:
                left = self._bound - _ENTRY * self._entries()
                reason = JobLimitError if _is_over(self._members(), left) else None
            except OSError:
                # Fail closed: a sandbox whose memory cannot be read may use any amount.
                reason = IsolationError
            over = over + 1 if reason else 0
        self._ended_for = reason
        self._kill()


def _is_over(members: Iterable[Path], bound: int) -> bool:
    """Whether memory exceeds the bound. The cheap sum comes first: it is never below the exact sum."""
    processes = list(members)
    if sum(map(_resident, processes)) <= bound:
        return False
    return sum(map(_proportional, processes)) > bound


def _resident(process: Path) -> int:
    return _sum_of(process / "status", "VmRSS", "VmSwap") or 0


def _proportional(process: Path) -> int:
    """Return the proportional memory of a process, or the resident one if that is unreadable."""
    shared = _sum_of(process / "smaps_rollup", "Pss", "SwapPss")
    return _resident(process) if shared is None else shared


def _sum_of(file: Path, *names: str) -> int | None:
    """Return the bytes in these lines of a file of /proc; None if unreadable, as after the end."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    entries = (line.partition(":") for line in lines)
    return sum(_KIB * int(value.split()[0]) for name, _, value in entries if name in names)
