"""Isolation by bubblewrap: own namespaces, few files and few system calls.

If root starts it, each run has a user ID of its own that owns nothing; otherwise a user namespace. The
kernel counts processes by user: two runs under one user ID would be counted together, and each could see
how many processes the other has.
"""

import errno
import json
import os
import platform
import secrets
import select
import signal
import socket
import struct
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gencard.controller.sandbox import zygote
from gencard.controller.sandbox.environment import VARIABLES, WORK, Environment, root_of
from gencard.controller.sandbox.limits import SandboxLimits, children_of, limited, others, tree_of

# System calls that no program in a sandbox has, each with its reason, and the filter that refuses them.
#
# The kernel's machine runs the filter (seccomp, classic BPF). A call that is refused fails with ENOSYS,
# as if the kernel had none: programs are made to go on without.
#
# Numbers are those of the kernel's tables (``asm/unistd_64.h`` and ``asm-generic/unistd.h``), for x86_64
# and aarch64; calls from 424 on have one number everywhere. None: the machine lacks the call.

MACHINES = ("x86_64", "aarch64")

NEWEST = 453
"""Last call that was reviewed: later calls are refused, and programs behave as on an older kernel."""

Numbers = tuple[int, int | None]
"""Numbers of a call on x86_64 and aarch64."""

REFUSED: Mapping[str, Mapping[str, Numbers]] = {
    "look into other processes, or change them": {
        "kcmp": (312, 272),
        "pidfd_getfd": (438, 438),
        "process_madvise": (440, 440),
        "process_mrelease": (448, 448),
        "process_vm_readv": (310, 270),
        "process_vm_writev": (311, 271),
        "ptrace": (101, 117),
    },
    "keep something in the kernel for whoever comes later": {
        "add_key": (248, 217),
        "keyctl": (250, 219),
        "request_key": (249, 218),
    },
    "show the state of the whole machine: memory, load, disks, numbers of its processes and mounts": {
        "fstatfs": (138, 44),
        "name_to_handle_at": (303, 264),
        "pidfd_open": (434, 434),
        "statfs": (137, 43),
        "statx": (332, 291),
        "sysinfo": (99, 179),
    },
    "change what others find of the machine's disks and caches": {
        "readahead": (187, 213),
        "sync": (162, 81),
        "syncfs": (306, 267),
    },
    "show what others do with files that all cells share, or what was read of them": {
        "cachestat": (451, 451),
        "fanotify_init": (300, 262),
        "flock": (73, 32),
        "inotify_init": (253, None),
        "inotify_init1": (294, 26),
        "mincore": (27, 232),
        "preadv2": (327, 286),
    },
    "reach other processes, or hold memory that no process is seen to have": {
        "memfd_create": (319, 279),
        "memfd_secret": (447, 447),
        "mq_getsetattr": (245, 185),
        "mq_notify": (244, 184),
        "mq_open": (240, 180),
        "mq_timedreceive": (243, 183),
        "mq_timedsend": (242, 182),
        "mq_unlink": (241, 181),
        "msgctl": (71, 187),
        "msgget": (68, 186),
        "msgrcv": (70, 188),
        "msgsnd": (69, 189),
        "remap_file_pages": (216, 234),
        "semctl": (66, 191),
        "semget": (64, 190),
        "semop": (65, 193),
        "semtimedop": (220, 192),
        "shmat": (30, 196),
        "shmctl": (31, 195),
        "shmdt": (67, 197),
        "shmget": (29, 194),
        "socket": (41, 198),
        "socketpair": (53, 199),
        "vmsplice": (278, 75),
    },
    "are large and young parts of the kernel, where ways out were found": {
        "bpf": (321, 280),
        "io_setup": (206, 0),
        "io_uring_enter": (426, 426),
        "io_uring_register": (427, 427),
        "io_uring_setup": (425, 425),
        "perf_event_open": (298, 241),
        "userfaultfd": (323, 282),
    },
    "make or enter namespaces; of clone3 a filter cannot see the flags": {
        "clone3": (435, 435),
        "setns": (308, 268),
        "unshare": (272, 97),
    },
    "change what is mounted, or open files by other ways than their path": {
        "chroot": (161, 51),
        "fsconfig": (431, 431),
        "fsmount": (432, 432),
        "fsopen": (430, 430),
        "fspick": (433, 433),
        "mount": (165, 40),
        "mount_setattr": (442, 442),
        "move_mount": (429, 429),
        "open_by_handle_at": (304, 265),
        "open_tree": (428, 428),
        "pivot_root": (155, 41),
        "quotactl": (179, 60),
        "quotactl_fd": (443, 443),
        "umount2": (166, 39),
    },
    "are for whoever runs the machine, or for programs of long ago": {
        "_sysctl": (156, None),
        "acct": (163, 89),
        "adjtimex": (159, 171),
        "clock_adjtime": (305, 266),
        "clock_settime": (227, 112),
        "delete_module": (176, 106),
        "finit_module": (313, 273),
        "init_module": (175, 105),
        "ioperm": (173, None),
        "iopl": (172, None),
        "kexec_file_load": (320, 294),
        "kexec_load": (246, 104),
        "lookup_dcookie": (212, 18),
        "migrate_pages": (256, 238),
        "modify_ldt": (154, None),
        "move_pages": (279, 239),
        "nfsservctl": (180, 42),
        "personality": (135, 92),
        "reboot": (169, 142),
        "setdomainname": (171, 162),
        "sethostname": (170, 161),
        "settimeofday": (164, 170),
        "swapoff": (168, 225),
        "swapon": (167, 224),
        "sysfs": (139, None),
        "syslog": (103, 116),
        "uselib": (134, None),
        "ustat": (136, None),
        "vhangup": (153, 58),
    },
}


@dataclass(frozen=True, slots=True)
class Argument:
    """A call that a program has for some values of an argument alone.

    Args:
        position: Position of the argument, from 0.
        mask: The bits that are compared, of the lower 32.
    """

    call: str
    numbers: tuple[int, int]
    position: int
    mask: int
    allowed: tuple[int, ...]
    why: str


_ALL = 0xFFFF_FFFF
_NAMESPACES = 0x7E02_0000
_PIDFD, _THREAD = 0x1000, 0x1_0000
_SHARED, _ANONYMOUS = 0x01, 0x20
_FCNTL = (0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 15, 16, 1030, 1033, 1034)
"""Descriptors, flags, owners, locks, seals; no leases, notices, hints, pipe sizes, locks of others."""

_IOCTL = (0x5401, 0x540F, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x5452, 0x802C_542A)
"""Requests that ask whether a file is a terminal and how much can be read, or set flags.

Requests of devices and file systems are refused.
"""

_MADVISE = (0, 1, 2, 3, 4, 8, 9, 10, 11, 13, 14, 15, 16, 17, 18, 19, 22, 23, 24, 25, 102, 103)
"""All but MERGEABLE, COLD, PAGEOUT and the tests of failing memory."""

_OUTLIVES = "makes shared memory that outlives what is seen of it"
_STARTS = "starts a process with memory of its own"
_MAKES = "makes namespaces, or a descriptor that shows how many processes the machine has had"

ARGUMENTS = (
    Argument("clone", (56, 220), 0, _NAMESPACES | _PIDFD, (0,), _MAKES),
    Argument("fcntl", (72, 25), 1, _ALL, _FCNTL, "tells of others at the same file"),
    Argument("ioctl", (16, 29), 1, _ALL, _IOCTL, "shows devices and file systems of the machine"),
    Argument("madvise", (28, 233), 2, _ALL, _MADVISE, "merges pages with other cells, or evicts pages"),
    Argument("mmap", (9, 222), 3, _SHARED | _ANONYMOUS, (0, _SHARED, _ANONYMOUS), _OUTLIVES),
)

OF_SEVERAL: Mapping[str, Numbers] = {
    "fork": (57, None),
    "pipe": (22, None),
    "pipe2": (293, 59),
    "vfork": (58, None),
}
"""Calls refused in addition in a sandbox of one process: to start processes, and to make pipes.

Pipes are numbered by one counter of the whole machine, which a later cell can read at its own.
"""

THREADS_ALONE = Argument("clone", (56, 220), 0, _NAMESPACES | _PIDFD | _THREAD, (_THREAD,), _STARTS)
"""Replacement of the entry of ``clone`` above in a sandbox of one process."""


_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in ``struct seccomp_data`` (linux/seccomp.h)
_LOAD, _AND, _EQUAL, _GREATER, _RETURN = 0x20, 0x54, 0x15, 0x25, 0x06
# ENOSYS and not EPERM: only then does glibc fall back from clone3, whose flags lie in memory that a
# filter cannot read, to clone (moby/moby#42681).
_ALLOW, _REFUSE, _KILL = 0x7FFF_0000, 0x0005_0000 | errno.ENOSYS, 0x8000_0000
_AUDIT_ARCH = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
"""Constants of linux/audit.h for little-endian machines of 64 bits."""

Instruction = tuple[int, int, int, int]
"""Code, steps to jump if a comparison is true, steps if it is false, constant."""


def call_filter(machine: str, *, one_process: bool) -> bytes:
    """Return the program, for ``bwrap --seccomp``.

    Args:
        machine: Result of ``platform.machine``.
        one_process: Whether starting another process is refused; threads are not.
    """
    if machine not in MACHINES:
        raise OSError(errno.ENOSYS, "no table of system calls")
    axis = MACHINES.index(machine)
    forks: Mapping[str, Numbers] = {}
    arguments: tuple[Argument, ...] = ARGUMENTS
    if one_process:
        forks = OF_SEVERAL
        arguments = tuple(THREADS_ALONE if entry.call == "clone" else entry for entry in ARGUMENTS)
    refused_calls = [numbers for calls in (*REFUSED.values(), forks) for numbers in calls.values()]
    steps = _steps(machine, axis, refused_calls, arguments)
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _steps(
    machine: str, axis: int, refused: Iterable[Numbers], arguments: Iterable[Argument]
) -> Iterator[Instruction]:
    # The architecture first: a 64-bit process can make 32-bit calls, whose numbers mean other calls.
    # Anything above NEWEST is refused, and with it the x32 ABI, whose numbers have bit 30 set.
    yield (_LOAD, 0, 0, _ARCHITECTURE)
    yield (_EQUAL, 1, 0, _AUDIT_ARCH[machine])
    yield (_RETURN, 0, 0, _KILL)
    yield (_LOAD, 0, 0, _NUMBER)
    yield from _refuse_where(_GREATER, NEWEST)
    for numbers in refused:
        if (number := numbers[axis]) is not None:
            yield from _refuse_where(_EQUAL, number)
    for argument in arguments:
        # The filter reads 32 bits at a time. On these little-endian machines that is the lower half of
        # the argument, where all flags and commands are.
        looked_at = [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument.position), (_AND, 0, 0, argument.mask)]
        for left, value in zip(reversed(range(len(argument.allowed))), argument.allowed, strict=True):
            looked_at.append((_EQUAL, left + 1, 0, value))
        looked_at += [(_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW)]
        yield (_EQUAL, 0, len(looked_at), argument.numbers[axis])
        yield from looked_at
    yield (_RETURN, 0, 0, _ALLOW)


def _refuse_where(comparison: int, constant: int) -> Iterator[Instruction]:
    yield (comparison, 0, 1, constant)
    yield (_RETURN, 0, 0, _REFUSE)


class MemoryFiles(ExitStack):
    """Files in memory, closed together."""

    def __init__(self) -> None:
        super().__init__()
        self.descriptors: list[int] = []

    def of(self, content: bytes) -> int:
        """Return a descriptor at the beginning of this content."""
        descriptor = os.memfd_create("box", os.MFD_CLOEXEC)
        self.descriptors.append(descriptor)
        self.callback(os.close, descriptor)
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor


_USERS = range(61_184, 65_520)  # user IDs that no account has, by convention of systemd
_TRIES = 50


@contextmanager
def sandbox_user() -> Iterator[int]:
    """Yield a user ID, drawn anew for each run, and reserved until the block ends.

    A socket's name reserves the ID: the system gives a name to one socket at a time, and frees it when
    its process dies.

    Raises:
        OSError: Every ID that was tried belongs to another sandbox.
    """

    for number in secrets.SystemRandom().sample(_USERS, _TRIES):
        with socket.socket(socket.AF_UNIX) as name_socket:
            try:
                name_socket.bind(f"\0gencard-cell-user-{number}")
            except OSError:  # another process has the name
                continue
            yield number
            return
    raise OSError("no user is free")


PROGRAM = Path("/cell/program")
"""Folder of the program's files, read-only."""

ZYGOTE = Path("/cell/zygote.py")

Process = subprocess.Popen[bytes]
Files = Sequence[tuple[str, bytes]]
"""Path below the program's folder, and content."""

_MIB = 1 << 20
_AT_MOST = 2.0  # seconds for a namespace to end
_ALONE = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try")
_SET_USER = ("--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add",
             "CAP_SETPCAP")  # fmt: skip


class Namespaces:
    """A ``sandbox.Confinement`` by bubblewrap. With its first process all other processes end."""

    program_folder = PROGRAM
    _process: Process

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._first: int | None = None
        self._user = ExitStack()

    def start(
        self, command: Sequence[str], files: Files, limits: SandboxLimits, *, errors: bool = False
    ) -> Process:
        """Start a program in the process group of its parent; it dies with the parent."""
        with ExitStack() as resources, MemoryFiles() as memory:
            calls = call_filter(platform.machine(), one_process=limits.processes == 1)
            work = ["--perms", "1777", "--size", str(limits.work_mib * _MIB), "--tmpfs", str(WORK)]
            words = [*_closed(), "--seccomp", str(memory.of(calls)), *self._root(files, memory, work)]
            dropped: list[str] = []
            if os.geteuid() == 0:
                # Processes are counted by user. A user of its own in each run prevents runs of one audit
                # from having in common what the next run does not have.
                user = str(resources.enter_context(sandbox_user()))
                dropped = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups"]
                dropped += ["--inh-caps=-all", "--bounding-set=-all"]
            inside = [*dropped, *limited(limits, others=others(1)), *command]
            self._start(words, inside, memory, errors=errors)
            self._user = resources.pop_all()
            return self._process

    def start_zygote(self, command: Sequence[str], files: Files, control: socket.socket) -> Process:
        """Start a program of Gencard that closes the sandbox of each run itself; see ``zygote``.

        ``files`` are those of the program and of the zygote; ``control`` is the zygote's standard input.
        """
        with MemoryFiles() as memory:
            text = str(memory.of(Path(zygote.__file__).read_bytes()))
            work = ["--perms", "0755", "--dir", str(WORK)]
            work += ["--perms", "0444", "--file", text, str(ZYGOTE)]
            words = [*_closed(_OF_ZYGOTE), *self._root(files, memory, work)]
            self._start(words, command, memory, control)
            return self._process

    def _root(self, files: Files, memory: MemoryFiles, work: Sequence[str]) -> list[str]:
        """Return options of the root, without /proc: it shows the machine's memory, load and pages."""
        placed = [
            word
            for path, content in files
            for word in ("--perms", "0555", "--file", str(memory.of(content)), str(PROGRAM / path))
        ]
        # no terminal, no shared memory, and so no /dev/zero either
        paths = [f"/dev/{name}" for name in ("null", "random", "urandom")]
        devices = [word for path in paths for word in ("--dev-bind", path, path)]
        hidden = [word for path in self._environment.hidden for word in ("--remount-ro", path)]
        system = ["--perms", "0755", "--dir", "/dev", *devices, *hidden, "--remount-ro", "/"]
        variables = [word for pair in VARIABLES.items() for word in ("--setenv", *pair)]
        root = [*root_of(self._environment), *placed, *work]
        return [*root, *system, *variables, "--chdir", str(WORK)]

    def _start(
        self,
        words: Sequence[str],
        inside: Sequence[str],
        memory: MemoryFiles,
        control: socket.socket | None = None,
        *,
        errors: bool = False,
    ) -> None:
        reading, writing = os.pipe()
        options = [*words, "--info-fd", str(writing)]
        whole = memory.of(b"".join(os.fsencode(option) + b"\0" for option in options))
        with open(reading, encoding="utf-8") as info:
            try:
                self._process = subprocess.Popen(
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
            facts = info.read()
        with suppress(OSError, ValueError, KeyError):
            self._first = os.pidfd_open(json.loads(facts)["child-pid"])

    def kill(self) -> None:
        """Kill the run. The kernel ends the first process of a namespace after all others."""
        if self._first is not None:
            with suppress(OSError, subprocess.TimeoutExpired):
                # By descriptor and not by number: the number may belong to another process by now.
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
                self._process.wait(_AT_MOST)
            await_end(self._first)
            os.close(self._first)
            self._first = None
        self._process.kill()
        self._user.close()

    def members(self) -> Iterator[Path]:
        """Yield all descendants of bubblewrap; orphans are children of the namespace's first process."""
        with suppress(FileNotFoundError, ProcessLookupError):
            for first in self._children():
                yield from (Path(f"/proc/{pid}") for pid in tree_of(first))

    def files(self) -> int:
        with suppress(OSError):
            for first in self._children():
                work = os.statvfs(f"/proc/{first}/root{WORK}")
                return work.f_files - work.f_ffree
        return 0

    def _children(self) -> list[int]:
        return children_of(self._process.pid) if self._process.poll() is None else []


def await_end(held: int) -> None:
    """Return once the process of a descriptor has ended, or does not end."""
    poll = select.poll()
    poll.register(held, select.POLLIN)
    poll.poll(1_000 * _AT_MOST)


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
