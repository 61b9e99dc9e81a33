"""Bounds on one process and what it starts, as the command that sets them and becomes the program."""

import resource

from gencard.controller.cell.limits import CellLimits

_MIB = 1 << 20
_GRACE = 2
"""CPU seconds between the signal that says why and the one that nothing survives."""

_FILES = 256
"""Open files of a process."""


def limited(limits: CellLimits) -> list[str]:
    """Set from inside, where processes are counted; nothing can raise a bound again.

    A bound that this process has itself is not exceeded: a job's limits hold for what it starts.
    """
    cpu = _at_most(limits.cpu_seconds, resource.RLIMIT_CPU)
    bounds = {
        "as": memory_bound(limits),
        "fsize": _at_most(limits.work_mib * _MIB, resource.RLIMIT_FSIZE),
        "nproc": _at_most(limits.processes + 1, resource.RLIMIT_NPROC),
        "nofile": _at_most(_FILES, resource.RLIMIT_NOFILE),
        "core": 0,
    }
    hard_cpu = _at_most(cpu + _GRACE, resource.RLIMIT_CPU)
    words = [f"--{name}={bound}:{bound}" for name, bound in bounds.items()]
    return ["prlimit", f"--cpu={cpu}:{hard_cpu}", *words, "--"]


def memory_bound(limits: CellLimits) -> int:
    """Bytes: of address space for each process, of memory for all of them together."""
    return _at_most(limits.memory_mib * _MIB, resource.RLIMIT_AS)


def _at_most(bound: int, kind: int) -> int:
    hard = resource.getrlimit(kind)[1]
    return bound if hard == resource.RLIM_INFINITY else min(bound, hard)
