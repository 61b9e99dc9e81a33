"""Isolation by bubblewrap: own namespaces, an empty root, and only the files that the program needs.

If root starts it, each run has a user ID of its own that owns nothing; otherwise a user namespace. The
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

from gencard.controller.sandbox import zygote
from gencard.controller.sandbox.call_filter import call_filter
from gencard.controller.sandbox.environment import VARIABLES, WORK, Environment, closing_of, root_of
from gencard.controller.sandbox.limits import (
    Running,
    SandboxLimits,
    children_of,
    limited,
    others,
    tree_of,
)


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
        """Return a descriptor at the beginning of this content."""
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
"""User IDs that no account has, by convention of systemd."""


_TRIES = 50


class SandboxUser:
    """A user ID, drawn anew for each run, and reserved until it is released.

    A socket's name reserves the ID: the system gives a name to one socket at a time, and frees it when
    its process dies.

    Raises:
        OSError: Every ID that was tried belongs to another sandbox.
    """

    def __init__(self) -> None:
        for number in secrets.SystemRandom().sample(_USERS, _TRIES):
            name_socket = _name_held(number)
            if name_socket is not None:
                self.number, self._held = number, name_socket
                return
        raise OSError("no user is free")

    def __enter__(self) -> "SandboxUser":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()


def _name_held(number: int) -> socket.socket | None:
    """Return a socket with the user's name; None if another process has it."""
    name_socket = socket.socket(socket.AF_UNIX)
    try:
        name_socket.bind(f"\0gencard-cell-user-{number}")
    except OSError:
        name_socket.close()
        return None
    return name_socket


PROGRAM = Path("/cell/program")
"""Folder of the program's files, read-only."""

ZYGOTE = Path("/cell/zygote.py")

_MIB = 1 << 20
_AT_MOST = 2.0
"""Seconds for a namespace to end."""

_ALONE = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try")
_SET_USER = ("--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add",
             "CAP_SETPCAP")  # fmt: skip


class Namespaces:
    """A ``sandbox.Confinement`` by bubblewrap. With its first process all other processes end.

    Args:
        environment: Files of the machine that the sandbox shows.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._first: int | None = None
        self._user = ExitStack()

    def start(
        self,
        command: Sequence[str],
        files: Sequence[tuple[str, bytes]],
        limits: SandboxLimits,
        *,
        errors: bool = False,
    ) -> subprocess.Popen[bytes]:
        """Start a program in the process group of its parent; it dies with the parent."""
        with ExitStack() as resources, MemoryFiles() as memory:
            calls = call_filter(platform.machine(), one_process=limits.processes == 1)
            work = ["--perms", "1777", "--size", str(limits.work_mib * _MIB), "--tmpfs", str(WORK)]
            words = [*_closed(), "--seccomp", str(memory.of(calls)), *self._root(files, memory, work)]
            inside = [*_dropped(resources), *limited(limits, others=others(1)), *command]
            process = self._started(words, inside, memory, errors=errors)
            self._user = resources.pop_all()
            return process

    def start_zygote(
        self, command: Sequence[str], files: Sequence[tuple[str, bytes]], control: socket.socket
    ) -> subprocess.Popen[bytes]:
        """Start a program of Gencard that closes the sandbox of each run itself; see ``zygote``.

        Args:
            files: Files of the program to run, and of the zygote, which ``command`` names.
            control: Standard input of the zygote.
        """
        with MemoryFiles() as memory:
            text = str(memory.of(Path(zygote.__file__).read_bytes()))
            work = [
                "--perms",
                "0755",
                "--dir",
                str(WORK),
                "--perms",
                "0444",
                "--file",
                text,
                str(ZYGOTE),
            ]
            words = [*_closed(_OF_ZYGOTE), *self._root(files, memory, work)]
            return self._started(words, command, memory, control)

    def _root(
        self, files: Sequence[tuple[str, bytes]], memory: MemoryFiles, work: Sequence[str]
    ) -> list[str]:
        """Return options of the root, without /proc: it shows the machine's memory, load and pages."""
        placed = [
            word
            for path, content in files
            for word in ("--perms", "0555", "--file", str(memory.of(content)), str(PROGRAM / path))
        ]
        system = [*_devices(), *closing_of(self._environment), "--remount-ro", "/"]
        variables = [word for pair in VARIABLES.items() for word in ("--setenv", *pair)]
        root = [*root_of(self._environment), *placed, *work]
        return [*root, *system, *variables, "--chdir", str(WORK)]

    def _started(
        self,
        words: Sequence[str],
        inside: Sequence[str],
        memory: MemoryFiles,
        control: socket.socket | None = None,
        *,
        errors: bool = False,
    ) -> subprocess.Popen[bytes]:
        reading, writing = os.pipe()
        options = [*words, "--info-fd", str(writing)]
        whole = memory.of(b"".join(os.fsencode(option) + b"\0" for option in options))
        with open(reading, encoding="utf-8") as info:
            try:
                process = subprocess.Popen(
                    ["bwrap", "--args", str(whole), "--", *inside],
                    stdin=control.fileno() if control else subprocess.PIPE,
                    stdout=subprocess.DEVNULL if control else subprocess.PIPE,
                    stderr=subprocess.PIPE if errors else subprocess.DEVNULL,
                    umask=0o077,
                    cwd="/",
                    env={"PATH": "/usr/bin:/bin"},
                    pass_fds=(*memory.descriptors, writing),
                )
            finally:
                os.close(writing)
            self._first = _held(info.read())
        return process

    def kill(self, process: Running) -> None:
        """Kill the run. The kernel ends the first process of a namespace after all others."""
        if self._first is not None:
            with suppress(OSError, subprocess.TimeoutExpired):
                # By descriptor and not by number: the number may belong to another process by now.
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
                process.wait(_AT_MOST)
            await_end(self._first)
            os.close(self._first)
            self._first = None
        process.kill()
        self._user.close()

    def members(self, process: Running) -> Iterator[Path]:
        """Yield all descendants of bubblewrap; orphans are children of the namespace's first process."""
        with suppress(FileNotFoundError, ProcessLookupError):
            for first in _children(process):
                yield from (Path(f"/proc/{pid}") for pid in tree_of(first))

    def files(self, process: Running) -> int:
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
    """Return a descriptor of the first process, from bubblewrap's report; None if it has ended."""
    try:
        return os.pidfd_open(json.loads(info)["child-pid"])
    except (OSError, ValueError, KeyError):
        return None


def await_end(held: int) -> None:
    """Return once the process of a descriptor has ended, or does not end."""
    poll = select.poll()
    poll.register(held, select.POLLIN)
    poll.poll(1_000 * _AT_MOST)


def _children(process: Running) -> list[int]:
    if process.poll() is not None:
        return []
    return children_of(process.pid)


def _closed(capabilities: Sequence[str] = ()) -> list[str]:
    """Return options that drop all other capabilities, except that root may change its user."""
    alone = [*_ALONE, "--hostname", "cell", "--die-with-parent", "--new-session", "--clearenv"]
    if os.geteuid() == 0:
        return [*alone, *_SET_USER, *capabilities]
    # user namespaces are limited by number, too, besides the filter; impossible with read-only /proc/sys
    is_read_only = os.statvfs("/proc/sys").f_flag & os.ST_RDONLY
    users = ["--unshare-user", *([] if is_read_only else ["--disable-userns"])]
    nobody = ["--uid", "65534", "--gid", "65534"]
    return [*alone, *users, *nobody, "--cap-drop", "ALL", *capabilities]


_OF_ZYGOTE = ("--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETPCAP")
"""Capabilities to make namespaces and a working folder for each run, and to drop capabilities."""


def _dropped(held: ExitStack) -> list[str]:
    """Return the command by which root becomes, for good, a user that no other process has.

    Processes are counted by user. A user of its own in each run prevents runs of one audit from having
    in common what the next run does not have.
    """
    if os.geteuid() != 0:
        return []
    user = str(held.enter_context(SandboxUser()).number)
    become = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups"]
    return [*become, "--inh-caps=-all", "--bounding-set=-all"]


def _devices() -> Iterator[str]:
    """Yield options of devices: no terminal, no shared memory, and so no /dev/zero either."""
    yield from ("--perms", "0755", "--dir", "/dev")
    for name in ("null", "random", "urandom"):
        yield from ("--dev-bind", f"/dev/{name}", f"/dev/{name}")
