"""How much a program in a cell may use, and how it is kept apart."""

from dataclasses import dataclass
from enum import StrEnum

from gencard.core.errors import InvalidInputError

_LEAST = 16
"""MiB of address space in which a shell starts."""

_THREADS = 16
"""Of the one process of a cell; they share its memory."""


class Isolation(StrEnum):
    """How a cell is closed.

    NAMESPACES is bubblewrap: no network, no files but the program's, no other process in sight.
    PROCESSES bounds what is used and closes nothing: for development alone.
    """

    NAMESPACES = "namespaces"
    PROCESSES = "processes"


@dataclass(frozen=True, slots=True)
class CellLimits:
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
