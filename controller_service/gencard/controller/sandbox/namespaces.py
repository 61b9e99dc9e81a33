"""Isolation by bubblewrap: own namespaces, an empty root, and only what the program needs.

Started by root, each run has a user ID of its own that owns nothing; otherwise a user namespace. The
kernel counts processes by user: two runs under one user ID would be counted together, and each could see
how many processes the other has.
"""

import json
import os
import platform
import secrets
import select
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType

from gencard.controller.sandbox.call_filter import call_filter
from gencard.controller.sandbox.environment import Environment, closing_of, root_of
from gencard.controller.sandbox.limits import SandboxLimits, limited
from gencard.controller.sandbox.memory_watch import children_of, tree_of


class MemoryFiles:
    """Some of them, closed together."""

    def __init__(self) -> None:
        self._open: list[int] = []

    def __enter__(self) -> "MemoryFiles":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for descriptor in self._open:
            os.close(descriptor)

    def of(self, content: bytes) -> int:
        """A descriptor at the beginning of this content."""
        descriptor = os.memfd_create("box", os.MFD_CLOEXEC)
        self._open.append(descriptor)
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    @property
    def descriptors(self) -> tuple[int, ...]:
        return tuple(self._open)


_USERS = range(61_184, 65_520)
"""Users that belong to nobody, by convention of systemd."""


_TRIES = 50


class SandboxUser:
    """A user's number, drawn anew for each run, and held until it is let go.

    It is held by a name that the system gives to one socket at a time, and takes back when its process
    dies.

    Raises:
        OSError: Each one that was tried belongs to another sandbox.
    """

    def __init__(self) -> None:
        for number in secrets.SystemRandom().sample(_USERS, _TRIES):
            held = _name_held(number)
            if held is not None:
                self.number, self._held = number, held
                return
        raise OSError("no user is free")

    def __enter__(self) -> "SandboxUser":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()


def _name_held(number: int) -> socket.socket | None:
    """A socket of the user's name; None where somebody has it."""
    held = socket.socket(socket.AF_UNIX)
    try:
        held.bind(f"\0gencard-cell-user-{number}")
    except OSError:
        held.close()
        return None
    return held


PROGRAM = Path("/cell/program")
"""Where the program's files are, read-only."""

WORK = Path("/cell/work")
"""The working folder: empty, its own, and gone with the run."""

_MIB = 1 << 20
_AT_MOST = 2.0
"""Seconds for a namespace to end."""

_ALONE = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try")
_SET_USER = ("--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add",
             "CAP_SETPCAP")  # fmt: skip


class Namespaces:
    """See ``confinement.Confinement``. The first process is held, for with it all others end.

    Args:
        environment: What of the machine is there inside.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._first: int | None = None
        self._user = ExitStack()

    def start(
        self, command: Sequence[str], files: Sequence[tuple[str, bytes]], limits: SandboxLimits
    ) -> subprocess.Popen[bytes]:
        """Stays in the group of whoever starts it, and dies with it, and everything inside with it."""
        with ExitStack() as held, MemoryFiles() as memory:
            placed = [
                word
                for path, content in files
                for word in ("--perms", "0555", "--file", str(memory.of(content)), str(PROGRAM / path))
            ]
            calls = call_filter(platform.machine(), one_process=limits.processes == 1)
            closed = [*_closed(), "--seccomp", str(memory.of(calls))]
            words = [*closed, *root_of(self._environment), *placed, *self._folders(limits)]
            inside = [*_dropped(held), *limited(limits, others=_others()), *command]
            process = self._started(words, inside, memory)
            self._user = held.pop_all()
            return process

    def _folders(self, limits: SandboxLimits) -> list[str]:
        """There is no /proc: it shows the machine's memory and load, and which pages others map."""
        work = ["--perms", "1777", "--size", str(limits.work_mib * _MIB), "--tmpfs", str(WORK)]
        system = [*_devices(), *closing_of(self._environment), "--remount-ro", "/"]
        variables = [word for pair in VARIABLES.items() for word in ("--setenv", *pair)]
        return [*work, *system, *variables, "--chdir", str(WORK)]

    def _started(
        self, words: Sequence[str], inside: Sequence[str], memory: MemoryFiles
    ) -> subprocess.Popen[bytes]:
        reading, writing = os.pipe()
        whole = memory.of(_null_ended([*words, "--info-fd", str(writing)]))
        with open(reading, encoding="utf-8") as info:
            try:
                process = subprocess.Popen(
                    ["bwrap", "--args", str(whole), "--", *inside],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    umask=0o077,
                    cwd="/",
                    env={"PATH": "/usr/bin:/bin"},
                    pass_fds=(*memory.descriptors, writing),
                )
            finally:
                os.close(writing)
            self._first = _held(info.read())
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """All of it: the kernel lets the first process of a namespace end after all others."""
        if self._first is not None:
            with suppress(OSError, subprocess.TimeoutExpired):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
                process.wait(_AT_MOST)
            _await_end(self._first)
            os.close(self._first)
            self._first = None
        process.kill()
        self._user.close()

    def members(self, process: subprocess.Popen[bytes]) -> Iterator[Path]:
        """All that descend from bubblewrap: an orphan is a child of the namespace's first one."""
        with suppress(FileNotFoundError, ProcessLookupError):
            for first in _children(process):
                yield from (Path(f"/proc/{pid}") for pid in tree_of(first))

    def files(self, process: subprocess.Popen[bytes]) -> int:
        """Entries of the working folder, hidden ones too; 0 until it is there."""
        with suppress(OSError):
            for first in _children(process):
                work = os.statvfs(f"/proc/{first}/root{WORK}")
                return work.f_files - work.f_ffree
        return 0

    @property
    def program_folder(self) -> Path:
        return PROGRAM


def _held(info: str) -> int | None:
    """A descriptor of the process that bubblewrap says is the first; None where it has ended already."""
    try:
        return os.pidfd_open(json.loads(info)["child-pid"])
    except (OSError, ValueError, KeyError):
        return None


def _await_end(held: int) -> None:
    ended = select.poll()
    ended.register(held, select.POLLIN)
    ended.poll(1_000 * _AT_MOST)


def _children(process: subprocess.Popen[bytes]) -> list[int]:
    if process.poll() is not None:
        return []
    return children_of(process.pid)


def _closed() -> list[str]:
    alone = [*_ALONE, "--hostname", "cell", "--die-with-parent", "--new-session", "--clearenv"]
    if os.geteuid() == 0:
        return [*alone, *_SET_USER]
    nobody = ["--uid", "65534", "--gid", "65534"]
    return [*alone, "--unshare-user", *_no_more_users(), *nobody, "--cap-drop", "ALL"]


def _no_more_users() -> list[str]:
    """By number too, besides the filter of calls; a container's read-only settings do not allow that."""
    settings = os.statvfs("/proc/sys").f_flag
    return [] if settings & os.ST_RDONLY else ["--disable-userns"]


def _others() -> int:
    """Processes of bubblewrap's that have the program's user: its first one, unless root started it."""
    return int(os.geteuid() != 0)


def _dropped(held: ExitStack) -> list[str]:
    """As root: become some user of no other process, for good, so that its processes can be counted.

    Another one in each run, or the runs of one audit would have in common what the next run has not.
    """
    if os.geteuid() != 0:
        return []
    user = str(held.enter_context(SandboxUser()).number)
    become = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups"]
    return [*become, "--inh-caps=-all", "--bounding-set=-all"]


def _devices() -> Iterator[str]:
    """No terminal, no shared memory, and no /dev/zero, which is shared memory to whoever maps it."""
    yield from ("--perms", "0755", "--dir", "/dev")
    for name in ("null", "random", "urandom"):
        yield from ("--dev-bind", f"/dev/{name}", f"/dev/{name}")


VARIABLES = {
    "HOME": str(WORK),
    "LC_ALL": "C.UTF-8",
    "MALLOC_ARENA_MAX": "2",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PATH": "/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "TMPDIR": str(WORK),
}
"""The whole environment: the same for every program, on every machine."""


def _null_ended(words: Sequence[str]) -> bytes:
    return b"".join(os.fsencode(word) + b"\0" for word in words)
