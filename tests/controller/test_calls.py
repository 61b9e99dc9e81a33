"""The filter of system calls: its program, run step by step; its numbers, beside those of libseccomp."""

import ctypes
import errno
import struct

import pytest

from gencard.controller.sandbox import namespaces
from gencard.controller.sandbox.namespaces import (
    ARGUMENTS,
    MACHINES,
    NEWEST,
    OF_SEVERAL,
    REFUSED,
    call_filter,
)
from gencard.core.errors import IsolationError
from tests.system.sandboxes import RECORDS, shell

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
I386 = 0x40000003
ALLOW, REFUSE, KILL = 0x7FFF0000, 0x50000 | errno.ENOSYS, 0x80000000
LONGEST = 4_096
"""Steps that the kernel takes at most (BPF_MAXINSNS)."""

NUMBERS = {name: numbers for calls in REFUSED.values() for name, numbers in calls.items()}
IN_PART = {argument.call: argument for argument in ARGUMENTS}


def answered(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """Compute the answer of the kernel's filter machine."""
    data = struct.pack("=IIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    steps, at, held = list(struct.iter_unpack("=HBBI", program)), 0, 0
    while True:
        code, there, else_there, constant = steps[at]
        at += 1
        match code:
            case 0x20:
                held = struct.unpack_from("=I", data, constant)[0]
            case 0x54:
                held &= constant
            case 0x15:
                at += there if held == constant else else_there
            case 0x25:
                at += there if held > constant else else_there
            case 0x06:
                return constant


@pytest.fixture(params=MACHINES)
def asked(request):
    """Filter of calls on this machine, in a cell of several processes."""
    return filter_of(request.param, one_process=False)


def filter_of(machine, *, one_process):
    program = call_filter(machine, one_process=one_process)
    assert len(program) // 8 <= LONGEST
    axis = MACHINES.index(machine)

    def ask(call: int | str, *arguments: int) -> int:
        numbers = {**NUMBERS, **OF_SEVERAL, **{name: entry.numbers for name, entry in IN_PART.items()}}
        number = numbers[call][axis] if isinstance(call, str) else call
        return answered(program, ARCHITECTURES[machine], number, *arguments)

    ask.axis, ask.program = axis, program
    return ask


def test_what_is_in_the_table_is_refused_and_nothing_else(asked):
    refused = {numbers[asked.axis] for numbers in NUMBERS.values()} - {None}
    in_part = {entry.numbers[asked.axis] for entry in ARGUMENTS}
    assert not refused & in_part
    for number in range(NEWEST + 1):
        if number not in in_part:
            assert asked(number) == (REFUSE if number in refused else ALLOW), number


def test_later_calls_and_those_of_other_machines_are_refused(asked):
    for number in (NEWEST + 1, 512, 0x40000000, 0x40000000 | 59, 0xFFFFFFFF):
        assert asked(number) == REFUSE
    for architecture in {I386, *ARCHITECTURES.values()}:
        whole = answered(asked.program, architecture, 63)
        assert (whole == ALLOW) == (architecture == ARCHITECTURES[MACHINES[asked.axis]])
        assert whole in (ALLOW, KILL)


@pytest.mark.parametrize(
    ("call", "arguments", "passes"),
    [
        ("clone", (0x1200011,), True),  # fork
        ("clone", (0x3D0F00,), True),  # a thread
        ("clone", (0x10000000 | 17,), False),
        ("clone", (0x40000000 | 17,), False),
        ("clone", (0x20000,), False),
        ("clone", (0x1011,), False),  # a descriptor of the child
        ("ioctl", (0, 0x5401), True),
        ("ioctl", (0, 0x5401 | 1 << 32), True),  # the kernel does not look at the upper half either
        ("ioctl", (0, 0x80045200), False),
        ("madvise", (0, 4096, 4), True),
        ("madvise", (0, 4096, 12), False),
        ("mmap", (0, 4096, 3, 0x22), True),
        ("mmap", (0, 4096, 3, 0x01), True),
        ("mmap", (0, 4096, 3, 0x21), False),
        ("mmap", (0, 4096, 3, 0x23), False),  # MAP_SHARED_VALIDATE
        ("fcntl", (0, 6), True),
        ("fcntl", (0, 5), False),
        ("fcntl", (0, 1026), False),
        ("fcntl", (0, 1030), True),
        ("fcntl", (0, 1031), False),
        ("fcntl", (0, 1036), False),
    ],
)
def test_some_calls_are_there_in_part(asked, call, arguments, passes):
    assert asked(call, *arguments) == (ALLOW if passes else REFUSE)


@pytest.mark.parametrize("machine", MACHINES)
def test_one_process_has_threads_and_no_child(machine):
    alone, several = (filter_of(machine, one_process=one) for one in (True, False))
    assert alone("clone", 0x3D0F00) == several("clone", 0x3D0F00) == ALLOW
    for flags in (0x1200011, 0x4111, 17, 0x3D0F00 | 0x10000000):
        assert alone("clone", flags) == REFUSE
    calls = [
        call for call, numbers in OF_SEVERAL.items() if numbers[MACHINES.index(machine)] is not None
    ]
    assert {alone(call) for call in calls} == {REFUSE}
    assert {several(call) for call in calls} == {ALLOW}


def test_numbers_are_those_of_libseccomp():
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        pytest.skip("libseccomp is not here")
    for axis, machine in enumerate(MACHINES):
        for name, numbers in [
            *NUMBERS.items(),
            *OF_SEVERAL.items(),
            *((name, e.numbers) for name, e in IN_PART.items()),
        ]:
            number = library.seccomp_syscall_resolve_name_arch(
                ctypes.c_uint32(ARCHITECTURES[machine]), name.encode()
            )
            unknown = number < 0 and numbers[axis] is not None and numbers[axis] > 440
            assert unknown or (number if number >= 0 else None) == numbers[axis], name


def test_where_calls_are_not_known_nothing_runs(monkeypatch):
    with pytest.raises(OSError, match="no table"):
        call_filter("riscv64", one_process=True)
    monkeypatch.setattr(namespaces.platform, "machine", lambda: "riscv64")
    with pytest.raises(IsolationError):
        shell("exit 0")(RECORDS, 1, seed=0)
