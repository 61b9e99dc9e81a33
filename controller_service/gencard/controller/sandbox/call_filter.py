"""The filter of system calls, as the kernel's machine runs it (seccomp, classic BPF).

A call that is refused fails with ENOSYS, as if the kernel had none: programs are made to go on without.
"""

import errno
import struct
from collections.abc import Iterable, Iterator, Sequence

from gencard.controller.sandbox.call_table import (
    ARGUMENTS,
    MACHINES,
    NEWEST,
    OF_SEVERAL,
    REFUSED,
    THREADS_ALONE,
    Argument,
    Numbers,
)

_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Offsets in ``struct seccomp_data`` (linux/seccomp.h)."""

_LOAD, _AND, _EQUAL, _GREATER, _RETURN = 0x20, 0x54, 0x15, 0x25, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF_0000, 0x0005_0000 | errno.ENOSYS, 0x8000_0000
_AUDIT_ARCH = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
"""Of linux/audit.h: little-endian machines of 64 bits."""

Instruction = tuple[int, int, int, int]
"""Code, steps to jump where a comparison holds, steps where it does not, constant."""


def call_filter(machine: str, *, one_process: bool) -> bytes:
    """The program, for ``bwrap --seccomp``.

    Args:
        machine: As ``platform.machine`` says.
        one_process: Whether starting another process is refused; threads are not.

    Raises:
        OSError: The numbers of this machine's calls are not in the table.
    """
    if machine not in MACHINES:
        raise OSError(errno.ENOSYS, "no table of system calls")
    axis = MACHINES.index(machine)
    forks, arguments = (OF_SEVERAL, _with_threads_alone()) if one_process else ({}, ARGUMENTS)
    refused = [numbers for calls in (*REFUSED.values(), forks) for numbers in calls.values()]
    steps = _steps(machine, axis, refused, arguments)
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _with_threads_alone() -> tuple[Argument, ...]:
    return tuple(THREADS_ALONE if entry.call == "clone" else entry for entry in ARGUMENTS)


def _steps(
    machine: str, axis: int, refused: Iterable[Numbers], arguments: Iterable[Argument]
) -> Iterator[Instruction]:
    """Calls of another machine end the process; so does nothing else."""
    yield (_LOAD, 0, 0, _ARCHITECTURE)
    yield (_EQUAL, 1, 0, _AUDIT_ARCH[machine])
    yield (_RETURN, 0, 0, _KILL)
    yield (_LOAD, 0, 0, _NUMBER)
    yield from _refuse_where(_GREATER, NEWEST)
    for numbers in refused:
        if (number := numbers[axis]) is not None:
            yield from _refuse_where(_EQUAL, number)
    for argument in arguments:
        yield from _only_for(argument.numbers[axis], argument)
    yield (_RETURN, 0, 0, _ALLOW)


def _refuse_where(comparison: int, constant: int) -> Iterator[Instruction]:
    yield (comparison, 0, 1, constant)
    yield (_RETURN, 0, 0, _REFUSE)


def _only_for(number: int, argument: Argument) -> Iterator[Instruction]:
    looked_at = [*_look(argument.position, argument.mask), *_one_of(argument.allowed)]
    yield (_EQUAL, 0, len(looked_at), number)
    yield from looked_at


def _look(position: int, mask: int) -> Sequence[Instruction]:
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * position), (_AND, 0, 0, mask)


def _one_of(allowed: Sequence[int]) -> Iterator[Instruction]:
    for left, value in zip(reversed(range(len(allowed))), allowed, strict=True):
        yield (_EQUAL, left + 1, 0, value)
    yield (_RETURN, 0, 0, _REFUSE)
    yield (_RETURN, 0, 0, _ALLOW)
