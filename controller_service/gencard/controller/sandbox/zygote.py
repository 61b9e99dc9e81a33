"""Runs inside a sandbox: loads what programs in Python need, once, and forks a process for each run.

No code of a program runs here before it is forked, and no request passes through: the forked process
itself receives the pipes of its run. So every run finds the same memory, and none finds another's.

Standard input is a socket of the service. For each run it brings one message, the plan of the run as
``sandbox.Forks`` writes it, with three descriptors: the request, the answer, and a socket on which the
first process of the run says that it is ready, and then the exit code of the program. A fourth takes
what the program writes to standard error, which otherwise goes nowhere.

Of Python this needs the standard library only: the service puts its text into the sandbox.
"""

import atexit
import ctypes
import gc
import importlib
import importlib.util
import json
import os
import platform
import random
import resource
import runpy
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from itertools import chain, repeat
from typing import Any

_LIBC = ctypes.PyDLL(None, use_errno=True)
_CLONE = {"x86_64": 56, "aarch64": 220}
_OWN = 0x0002_0000 | 0x0400_0000 | 0x0800_0000 | 0x2000_0000 | 0x4000_0000 | 17
"""Flags of clone(2): new namespaces for mounts, host name, IPC, processes and network; SIGCHLD."""

_IMPOSSIBLE = 0x0002_0000 | 0x0000_0200
"""CLONE_NEWNS and CLONE_FS exclude each other: the kernel makes nothing."""

_PEEK, _AT_ONCE = 0x02, 0x40
"""MSG_PEEK and MSG_DONTWAIT: see whether a message is there, and leave it for the forked process."""

_MOST_DESCRIPTORS = 1 << 16
_PASSES = 1 << 14  # the loop has run a random number of times, up to this, before the first run
_clone = ctypes.PYFUNCTYPE(None, *[ctypes.c_long] * 6)(("syscall", _LIBC))
_recv = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)(
    ("recv", _LIBC)
)
_wait = ctypes.PYFUNCTYPE(None, ctypes.c_int, *[ctypes.c_void_p] * 3)(("wait4", _LIBC))


def is_forked() -> bool:
    """Fork for each message: true in each first process of a run, false once the service has gone.

    A run could learn from what is left in memory how many came before it, and behave in the first one
    only. So results that count them are dropped (the process ID of a child is never an object of
    Python), and what the interpreter counts by itself begins anywhere.
    """
    call, byte = _CLONE[platform.machine()], ctypes.create_string_buffer(1)
    passes = repeat((_AT_ONCE, _IMPOSSIBLE), int.from_bytes(os.urandom(8), "big") % _PASSES)
    for waits, flags in chain(passes, repeat((0, _OWN))):
        if not _recv(0, byte, 1, _PEEK | waits):
            return False
        _clone(call, flags, 0, 0, 0, 0)
        if os.getpid() == 1:
            return True
        _wait(-1, None, None, None)
    return False


def begun() -> Sequence[str]:
    """Prepare a run and start its program's process: returns there alone, with the words of its command.

    This process is the first of the run's namespaces. With it ends whatever the program started.
    """
    control = socket.socket(fileno=0)
    message, (request, answer, ready, *errors), _, _ = socket.recv_fds(control, 1 << 16, 4)
    plan, service = json.loads(message), socket.socket(fileno=ready)
    # Private, so that what is mounted next cannot propagate to another run's namespace.
    _call("mount", None, b"/", None, 0x4000 | 0x4_0000, None)  # MS_REC, MS_PRIVATE
    folder, options = plan["folder"], f"mode=1777,size={plan['size']}"
    _call("mount", b"tmpfs", folder.encode(), b"tmpfs", 2 | 4, options.encode())  # no devices, no suid
    os.chdir(folder)
    # No code of the program runs before "go": the service first takes hold of this process, whose number
    # the kernel states in the message, and checks what libraries left behind.
    service.send(b"ready")
    if service.recv(2) != b"go":
        os._exit(1)
    program = os.fork()
    if program == 0:
        control.detach(), service.detach()  # or they would close what takes their numbers
        _confine(plan, (request, answer, *errors))
        return [str(word) for word in plan["words"]]
    for descriptor in (control.detach(), request, answer, *errors):
        os.close(descriptor)
    _drop_capabilities()
    number, status = os.wait()
    while number != program:  # orphans may end before the program
        number, status = os.wait()
    service.send(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _confine(plan: dict[str, Any], pipes: Sequence[int]) -> None:
    """Become the process of a program: its pipes, bounds, a user without rights, a filter of calls."""
    os.setsid()
    for number, pipe in enumerate(pipes):
        os.dup2(pipe, number)
    # A descriptor that stays open would be a way to the service or to the pipes of another run.
    os.closerange(3, _MOST_DESCRIPTORS)
    for name, (soft, hard) in plan["bounds"].items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name.upper()}"), (soft, hard))
    # The order matters. The bounding set needs CAP_SETPCAP, which the change of user takes away; groups
    # can only be dropped as root; the filter needs no_new_privs, which `_drop_capabilities` sets.
    read, drop = 23, 24
    for capability in range(64):
        if _LIBC.prctl(read, capability, 0, 0, 0) > 0:
            _call("prctl", drop, capability, 0, 0, 0)
    if plan["user"] is not None:
        os.setgroups([])
        os.setresgid(*[plan["user"]] * 3)
        os.setresuid(*[plan["user"]] * 3)
    _drop_capabilities()
    calls = bytes.fromhex(plan["calls"])
    seccomp, by_program = 22, 2
    _call("prctl", seccomp, by_program, ctypes.byref(_Filter(len(calls) // 8, calls)), 0, 0)


def _drop_capabilities() -> None:
    """For good, for nothing that this process becomes may have more than it has."""
    ambient, clear, no_new_privileges, version = 47, 4, 38, 0x2008_0522
    _call("prctl", no_new_privileges, 1, 0, 0, 0)
    _call("prctl", ambient, clear, 0, 0, 0)
    _call("capset", (ctypes.c_uint32 * 2)(version, 0), (ctypes.c_uint32 * 6)())


class _Filter(ctypes.Structure):
    _fields_ = (("steps", ctypes.c_ushort), ("program", ctypes.c_char_p))


def _call(name: str, *arguments: Any) -> None:
    if getattr(_LIBC, name)(*arguments):
        raise OSError(ctypes.get_errno(), name)


def as_script(words: Sequence[str], reseed: Callable[[], None]) -> None:
    """Make this process as if Python had been started with a script.

    Without ``reseed``, libraries that draw without a seed would draw the same in each run.
    """
    sys.argv[:] = words
    sys.path.insert(0, os.path.dirname(words[0]))
    text: Any = {"encoding": "utf-8", "errors": "surrogateescape", "closefd": False}
    sys.stdin, sys.stdout = os.fdopen(0, **text), os.fdopen(1, "w", **text)
    reseed()
    gc.enable()


def load(modules: Sequence[str], imports: Sequence[str]) -> None:
    """Import modules, which must be there, and what a program imports as far as it is there.

    Args:
        imports: "a.b" for ``import a.b``, and "a.b:c" for ``from a.b import c``. The program itself
            imports what is missing, and fails where it has to.
    """
    for name in modules:
        importlib.import_module(name)
    for line in imports:
        name, _, member = line.partition(":")
        if not _is_module(name):
            continue
        module = importlib.import_module(name)
        if member and not hasattr(module, member) and _is_module(f"{name}.{member}"):
            importlib.import_module(f"{name}.{member}")


def _is_module(name: str) -> bool:
    parts = name.split(".")
    above = {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError as missing:
        if missing.name not in above:
            raise
        return False


def reseeding() -> Callable[[], None]:
    """Return a function that gives new random states to all sources of random numbers that exist now.

    A library that makes one while it is imported would have the same state in each fork: noise would be
    the same in each run, and runs would not differ where they would as processes of their own.
    """
    sources = [one for one in gc.get_objects() if isinstance(one, random.Random)]
    numpy_random: Any = sys.modules.get("numpy.random")
    kind = numpy_random.BitGenerator if numpy_random else ()
    generators = [one for one in gc.get_objects() if isinstance(one, kind)]

    def reseed() -> None:
        for source in sources:
            random.Random.seed(source)
        for generator in generators:
            generator.state = type(generator)().state
        if numpy_random:
            numpy_random.seed()
        if "torch" in sys.modules:
            sys.modules["torch"].seed()

    return reseed


def run_script(path: str) -> int:
    """Run a script as Python does, and return the exit code that Python would end with.

    Objects that are left are not destroyed one by one: that takes longer than most runs.
    """
    code = 0
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        # as the interpreter has it: 0 for None, a number itself, and all else is printed
        if end.code is None or isinstance(end.code, int):
            code = int(end.code or 0) & 0xFF
        else:
            sys.stderr.write(f"{end.code}\n")
            code = 1
    except BaseException as error:
        trace = error.__traceback__
        while trace and trace.tb_frame.f_code.co_filename in {__file__, "<frozen runpy>"}:
            trace = trace.tb_next
        error.__traceback__ = trace
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]  # as the interpreter does: wait for threads
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or 120
    return code


def main(modules: Sequence[str], imports: Sequence[str]) -> None:
    """Load modules; then fork, and run the program of each plan as Python runs a script."""
    sys.path.pop(0)
    gc.disable()  # until a program begins: looking through modules for garbage finds next to none
    load(modules, imports)
    reseed = reseeding()
    # What is loaded is out of the collector's sight: a collection in a fork would otherwise write to its
    # pages, and each fork would copy them.
    gc.freeze()
    if not is_forked():
        return
    try:
        words = begun()
    except BaseException:
        os._exit(1)
    as_script(words, reseed)
    os._exit(run_script(words[0]))


if __name__ == "__main__":
    split = sys.argv.index("--", 1)
    main(sys.argv[1:split], sys.argv[split + 1 :])
