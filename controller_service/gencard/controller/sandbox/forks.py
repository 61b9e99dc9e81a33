"""Runs of a script in Python as forks of one process: its interpreter is started once.

See ``zygote`` for the code that runs inside. Every run has its own namespaces, working folder, user,
bounds, filter of calls, and pipes, as a separate sandbox would have. No code of the script runs before
the fork: only modules of Gencard and of distributions that the program declares are loaded there.
"""

import json
import os
import platform
import signal
import socket
import struct
import subprocess
import sys
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from gencard.controller.sandbox.environment import COMPILED, WORK, Environment
from gencard.controller.sandbox.limits import (
    Running,
    SandboxLimits,
    bounds_of,
    children_of,
    others,
    tree_of,
)
from gencard.controller.sandbox.namespaces import (
    PROGRAM,
    ZYGOTE,
    Namespaces,
    SandboxUser,
    await_end,
    call_filter,
)

PYTHON_COMMAND = (
    *(sys.executable, "-s", "-B", "-X", "faulthandler"),
    *("-X", f"pycache_prefix={COMPILED}"),
)
"""Words that start Python in a sandbox, before the script."""

_MIB = 1 << 20
_PATIENCE = 300.0
"""Seconds in which a zygote must have loaded its modules, on a busy machine too."""

_CREDENTIALS = struct.Struct("3i")
"""Credentials of unix(7): process, user and group of a message's sender, as the receiver sees them."""


class Zygote:
    """A sandbox in which Gencard's code waits and forks the runs of one program, one at a time.

    The sandbox ends with this object, or with the thread that made it.

    Args:
        files: Files of the program.
        modules: Modules to load before the first run: of the standard library, of Gencard and for
            built-in boxes; never a module of the program, which could stay in memory.
        imports: Names of declared distributions, which are loaded too if they are modules.

    Raises:
        OSError: The sandbox cannot be started.
    """

    def __init__(
        self,
        environment: Environment,
        files: Sequence[tuple[str, bytes]],
        modules: Sequence[str],
        imports: Sequence[str] = (),
    ) -> None:
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        keeper = Namespaces(environment)
        try:
            with theirs:
                command = [*PYTHON_COMMAND, str(ZYGOTE), *modules, "--", *imports]
                process = keeper.start_zygote(command, files, theirs)
        except BaseException:
            self.control.close()
            raise
        self.is_checked = not imports
        self.end = weakref.finalize(self, _end, keeper, process, self.control)

    def check(self, run: int) -> None:
        """Check once that libraries have left no resource that forks would share, or lack.

        At its import, a library may start a thread, which no fork has; open a file, whose position all
        forks share; or map memory that one fork writes and another reads.

        Args:
            run: ID of a process that was just forked, and waits.

        Raises:
            OSError: There is such a resource, or the check failed.
        """
        if not self.is_checked:
            _check_alone(_parent_of(run))
            self.is_checked = True


def _end(keeper: Namespaces, process: subprocess.Popen[bytes], control: socket.socket) -> None:
    keeper.kill(process)
    process.wait()
    control.close()


def _parent_of(pid: int) -> Path:
    """Return the folder in /proc of the parent of a process."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("PPid:"):
            return Path("/proc") / line.split()[1]
    raise OSError("the process has no parent")


_PIPES = {"0", "1", "2"}


def _check_alone(process: Path) -> None:
    """Raise OSError if a process has threads, files besides its pipes, or shared memory."""
    threads = len(list((process / "task").iterdir()))
    files = {file.name for file in (process / "fd").iterdir()}
    maps = (process / "maps").read_text(encoding="utf-8", errors="replace").splitlines()
    shared = any(line.split(maxsplit=2)[1].endswith("s") and "w" in line.split()[1] for line in maps)
    if threads != 1 or files != _PIPES or shared:
        raise OSError("a library has left a thread, a file or shared memory")


@dataclass(eq=False)
class ForkedRun:
    """The first process of a run, as ``memory_watch.Running``.

    Args:
        pid: Process ID, as this process sees it.
        held: A descriptor of the process.
        talk: On which it says how the program ended.
    """

    pid: int
    held: int
    talk: socket.socket
    stdin: IO[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes] | None
    code: int | None = None

    def poll(self) -> int | None:
        """Return the program's exit code; None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Return the program's exit code, or the code of the signal by which it was killed.

        Raises:
            subprocess.TimeoutExpired: The program still runs.
        """
        if self.code is None:
            self.talk.settimeout(timeout)
            try:
                message = self.talk.recv(16)
            except (BlockingIOError, TimeoutError):
                raise subprocess.TimeoutExpired("program", timeout or 0) from None
            self.talk.close()
            self.code = int(message) if message else -signal.SIGKILL
        return self.code

    def kill(self) -> None:
        """End it, and with it everything in its namespaces; returns once it has ended."""
        if self.held >= 0:
            with suppress(OSError):
                signal.pidfd_send_signal(self.held, signal.SIGKILL)
            await_end(self.held)
            os.close(self.held)
            self.held = -1


class Forks:
    """A ``sandbox.Confinement`` of one run, forked from a zygote."""

    def __init__(self, zygote: Zygote) -> None:
        self._zygote = zygote
        self._user = ExitStack()

    @property
    def program_folder(self) -> Path:
        return PROGRAM

    def start(
        self,
        command: Sequence[str],
        files: Sequence[tuple[str, bytes]],  # noqa: ARG002  # they are there
        limits: SandboxLimits,
        *,
        errors: bool = False,
    ) -> ForkedRun:
        """Return the program, as the next fork; ``command`` begins with how Python is started."""
        with ExitStack() as resources:
            root = os.geteuid() == 0
            calls = call_filter(platform.machine(), one_process=limits.processes == 1)
            plan = {
                "words": list(command[len(PYTHON_COMMAND) :]),
                "folder": str(WORK),
                "size": limits.work_mib * _MIB,
                "bounds": bounds_of(limits, others=others(3)),  # three processes are Gencard's
                "user": resources.enter_context(SandboxUser()).number if root else None,
                "calls": calls.hex(),
            }
            run = _forked(self._zygote, json.dumps(plan).encode(), errors=errors)
            self._user = resources.pop_all()
            return run

    def members(self, process: Running) -> Iterator[Path]:
        """Yield all that descend from the first process, which is ours, as the zygote is."""
        with suppress(FileNotFoundError, ProcessLookupError):
            for child in children_of(process.pid):
                yield from (Path(f"/proc/{pid}") for pid in tree_of(child))

    def files(self, process: Running) -> int:
        """Entries of the working folder, hidden ones too."""
        with suppress(OSError):
            work = os.statvfs(f"/proc/{process.pid}/root{WORK}")
            return work.f_files - work.f_ffree
        return 0

    def kill(self, process: Running) -> None:
        """Kill the run; the zygote continues."""
        process.kill()
        self._user.close()


def _forked(zygote: Zygote, plan: bytes, *, errors: bool) -> ForkedRun:
    """Send the plan; raises OSError if no process answers that it is ready, or a check fails."""
    with ExitStack() as resources:
        request, into = _pipe(resources)
        out, answer = _pipe(resources)
        written = None
        talk, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        resources.callback(talk.close)
        with request, answer, theirs, ExitStack() as more:
            # The kernel attaches the sender's process number, translated to this namespace: the sender
            # itself knows another number, and could state a wrong one.
            talk.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            talk.settimeout(_PATIENCE)
            inside = [request.fileno(), answer.fileno(), theirs.fileno()]
            if errors:
                written, into_errors = _pipe(resources)
                inside.append(more.enter_context(into_errors).fileno())
            socket.send_fds(zygote.control, [plan], inside)
        pid = _sender(talk)
        zygote.check(pid)
        pidfd = os.pidfd_open(pid)  # it waits for us, so this is still its number
        talk.send(b"go")
        resources.pop_all()
        return ForkedRun(pid, pidfd, talk, into, out, written)


def _pipe(opened: ExitStack) -> tuple[IO[bytes], IO[bytes]]:
    """Return the end to read and the end to write."""
    reading, writing = os.pipe()
    ends = open(reading, "rb"), open(writing, "wb")  # noqa: SIM115
    for end in ends:
        opened.callback(end.close)
    return ends


def _sender(talk: socket.socket) -> int:
    """Return the process that says it is ready."""
    message, credentials, _, _ = talk.recvmsg(16, socket.CMSG_SPACE(_CREDENTIALS.size))
    for level, kind, content in credentials:
        if message == b"ready" and (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            return int(_CREDENTIALS.unpack(content[: _CREDENTIALS.size])[0])
    raise OSError("the zygote has ended")
