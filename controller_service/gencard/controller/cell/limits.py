"""How much a program in a cell may use, and how it is kept apart."""

from dataclasses import dataclass
from enum import StrEnum


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
        memory_mib: Address space of each process, and what all of them have in memory together.
        cpu_seconds: CPU time of each process.
        wall_seconds: Time of the whole run.
        processes: Processes and threads at a time.
        work_mib: Files in the working folder, which are memory.
        fit_mib: The largest fit that is kept.
    """

    memory_mib: int = 2_048
    cpu_seconds: int = 900
    wall_seconds: int = 1_200
    processes: int = 16
    work_mib: int = 64
    fit_mib: int = 256
