"""Limits and isolation of a program in a sandbox, and the command that sets the limits of a process."""

import os
import resource
from dataclasses import dataclass
from enum import StrEnum

from gencard.core.errors import InvalidInputError

_LEAST = 16
"""MiB of address space in which a shell starts."""

_THREADS = 16
"""Of the one process of a sandbox; they share its memory."""


_MIB = 1 << 20


_GRACE = 2
"""CPU seconds between the signal that says why and the one that nothing survives."""


_FILES = 256
"""Open files of a process, the fewest that R starts with; each may be a pipe, which holds 64 KiB of the
kernel's memory."""


_SIGNALS = 256
"""Signals and timers of a user that wait in the kernel."""


class Isolation(StrEnum):
    """How a sandbox is closed.

    NAMESPACES is bubblewrap: no network, no files but the program's, no other process in sight.
    PROCESSES bounds what is used and closes nothing: for development alone.
    """

    NAMESPACES = "namespaces"
    PROCESSES = "processes"


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Bounds of one run; a job's own bounds hold besides, where they are lower.

    Args:
        memory_mib: Memory of all processes and files together. What ``work_mib`` leaves of it is divided
            equally among the processes, as address space of each.
        cpu_seconds: CPU time of each process.
        wall_seconds: Time of the whole run.
        processes: Processes at a time. One may have threads and starts no other process; of several,
            each thread counts as a process.
        work_mib: Files in the working folder, which are memory.
        fit_mib: The largest fit that is kept.
    """

    memory_mib: int = 2_048
    cpu_seconds: int = 900
    wall_seconds: int = 1_200
    processes: int = 1
    work_mib: int = 64
    fit_mib: int = 256

    def __post_init__(self) -> None:
        """Raises InvalidInputError where a process would have too little memory to start."""
        if self.address_space < _LEAST:
            problem = f"is too little: less than {_LEAST} MiB for each process, besides work_mib"
            raise InvalidInputError(field="cell.memory_mib", problem=problem)

    @property
    def address_space(self) -> int:
        """Of each process, in MiB: with all of it in use, all processes and files fit the bound."""
        return (self.memory_mib - self.work_mib) // self.processes

    @property
    def tasks(self) -> int:
        """Processes and threads at a time."""
        return self.processes if self.processes > 1 else _THREADS


def bounds_of(limits: SandboxLimits, *, others: int = 0) -> dict[str, tuple[int, int]]:
    """Soft and hard bound of each resource of a process, by its name in setrlimit(2).

    A bound that this process has itself is not exceeded: a job's limits hold for what it starts.

    Args:
        others: Processes of the same user that are not the program's.
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
    both = {name: (bound, bound) for name, bound in bounds.items()}
    return {"cpu": (cpu, _at_most(cpu + _GRACE, resource.RLIMIT_CPU)), **both}


def others(number: int) -> int:
    """Processes of ours that have the program's user: none where root started them."""
    return number if os.geteuid() else 0


def limited(limits: SandboxLimits, *, others: int = 0) -> list[str]:
    """The command that sets these bounds from inside, where processes are counted, for good."""
    bounds = bounds_of(limits, others=others).items()
    return ["prlimit", *(f"--{name}={soft}:{hard}" for name, (soft, hard) in bounds), "--"]


def _at_most(bound: int, kind: int) -> int:
    hard = resource.getrlimit(kind)[1]
    return bound if hard == resource.RLIM_INFINITY else min(bound, hard)
