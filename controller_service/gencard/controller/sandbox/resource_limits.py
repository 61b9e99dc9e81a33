"""Bounds on one process and what it starts, as the command that sets them and becomes the program."""

import resource

from gencard.controller.sandbox.limits import CellLimits

_MIB = 1 << 20
_GRACE = 2
"""CPU seconds between the signal that says why and the one that nothing survives."""

_FILES = 128
"""Open files of a process; each may be a pipe, which holds 64 KiB of the kernel's memory."""

_SIGNALS = 256
"""Signals and timers of a user that wait in the kernel."""


def limited(limits: CellLimits, *, others: int = 0) -> list[str]:
    """Set from inside, where processes are counted; nothing can raise a bound again.

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
    hard_cpu = _at_most(cpu + _GRACE, resource.RLIMIT_CPU)
    words = [f"--{name}={bound}:{bound}" for name, bound in bounds.items()]
    return ["prlimit", f"--cpu={cpu}:{hard_cpu}", *words, "--"]


def _at_most(bound: int, kind: int) -> int:
    hard = resource.getrlimit(kind)[1]
    return bound if hard == resource.RLIM_INFINITY else min(bound, hard)
