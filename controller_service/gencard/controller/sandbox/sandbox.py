"""Runs in a sandbox: each has one program, one request, one answer, and nothing remains of it."""

import json
import os
import platform
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import IO, cast

from gencard.controller.sandbox.environment import COMPILED, VARIABLES, WORK, Environment
from gencard.controller.sandbox.limits import (
    Isolation,
    MemoryWatch,
    SandboxLimits,
    bounds_of,
    children_of,
    limited,
    others,
    tree_of,
)
from gencard.controller.sandbox.namespaces import (
    PROGRAM,
    ZYGOTE,
    Files,
    Namespaces,
    await_end,
    call_filter,
    sandbox_user,
)
from gencard.controller.sandbox.program import Program
from gencard.core.errors import BlackBoxError, IsolationError, JobLimitError
from gencard.wire.black_box import AnswerReader, BoxRequest, HundredthsReport, longest_answer

# Runs of a script in Python are forks of one process: its interpreter is started once.
#
# See ``zygote`` for the code that runs inside. Every run has its own namespaces, working folder, user,
# bounds, filter of calls, and pipes, as a separate sandbox would have. No code of the script runs before
# the fork: only modules of Gencard and of distributions that the program declares are loaded there.

PYTHON_COMMAND = (sys.executable, "-s", "-B", "-X", "faulthandler", "-X", f"pycache_prefix={COMPILED}")
"""Words that start Python in a sandbox, before the script."""

_MIB = 1 << 20
_PATIENCE = 300.0  # seconds in which a zygote must have loaded its modules, on a busy machine too

_CREDENTIALS = struct.Struct("3i")
"""Credentials of unix(7): process, user and group of a message's sender, as the receiver sees them."""


class Zygote:
    """A sandbox in which Gencard's code waits and forks the runs of one program, one at a time.

    The sandbox ends with this object, or with the thread that made it.

    Args:
        modules: Modules to load before the first run: of the standard library, of Gencard and for
            built-in boxes; never a module of the program, which could stay in memory.
        imports: Names of declared distributions, which are loaded too if they are modules.

    Raises:
        OSError: The sandbox cannot be started.
    """

    def __init__(
        self, environment: Environment, files: Files, modules: Sequence[str], imports: Sequence[str] = ()
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
        """Raise OSError if libraries have left a resource that forks would share, or lack; looks once.

        At its import, a library may start a thread, which no fork has; open a file, whose position all
        forks share; or map memory that one fork writes and another reads.

        Args:
            run: ID of a process that was just forked, and waits.
        """
        if not self.is_checked:
            status = Path(f"/proc/{run}/status").read_text(encoding="ascii", errors="replace")
            parents = [line.split()[1] for line in status.splitlines() if line.startswith("PPid:")]
            if not parents:
                raise OSError("the process has no parent")
            _check_alone(Path("/proc") / parents[0])
            self.is_checked = True


def _end(keeper: Namespaces, process: subprocess.Popen[bytes], control: socket.socket) -> None:
    keeper.kill()
    process.wait()
    control.close()


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
    """The first process of a run, used as ``subprocess.Popen`` is.

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

    def wait(self, timeout: float | None = None) -> int:
        """Return the program's exit code, or the code of the signal by which it was killed."""
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

    program_folder = PROGRAM
    _run: ForkedRun

    def __init__(self, zygote: Zygote) -> None:
        self._zygote = zygote
        self._user = ExitStack()

    def start(
        self, command: Sequence[str], _files: Files, limits: SandboxLimits, *, errors: bool = False
    ) -> ForkedRun:
        """Return the program, as the next fork; ``command`` begins with how Python is started.

        The files are there already.
        """
        with ExitStack() as resources:
            root = os.geteuid() == 0
            calls = call_filter(platform.machine(), one_process=limits.processes == 1)
            plan = {
                "words": list(command[len(PYTHON_COMMAND) :]),
                "folder": str(WORK),
                "size": limits.work_mib * _MIB,
                "bounds": bounds_of(limits, others=others(3)),  # three processes are Gencard's
                "user": resources.enter_context(sandbox_user()) if root else None,
                "calls": calls.hex(),
            }
            self._run = _forked(self._zygote, json.dumps(plan).encode(), errors=errors)
            self._user = resources.pop_all()
            return self._run

    def members(self) -> Iterator[Path]:
        """Yield all that descend from the first process, which is ours, as the zygote is."""
        with suppress(FileNotFoundError, ProcessLookupError):
            for child in children_of(self._run.pid):
                yield from (Path(f"/proc/{pid}") for pid in tree_of(child))

    def files(self) -> int:
        with suppress(OSError):
            work = os.statvfs(f"/proc/{self._run.pid}/root{WORK}")
            return work.f_files - work.f_ffree
        return 0

    def kill(self) -> None:
        """Kill the run; the zygote continues."""
        self._run.kill()
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
    reading, writing = os.pipe()
    ends = open(reading, "rb"), open(writing, "wb")  # noqa: SIM115
    for end in ends:
        opened.callback(end.close)
    return ends


def _sender(talk: socket.socket) -> int:
    message, credentials, _, _ = talk.recvmsg(16, socket.CMSG_SPACE(_CREDENTIALS.size))
    for level, kind, content in credentials:
        if message == b"ready" and (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            return int(_CREDENTIALS.unpack(content[: _CREDENTIALS.size])[0])
    raise OSError("the zygote has ended")


_AT_ONCE = 1 << 18


def exchange(
    into: IO[bytes], out: IO[bytes], request: bytes, *, most: int, seconds: float
) -> Iterator[bytes]:
    """Yield the answer as it comes, until the other side closes its output.

    Raises:
        BlackBoxError: The answer has more than ``most`` bytes.
        JobLimitError: The program takes longer than ``seconds`` from now.
    """
    end = time.monotonic() + seconds
    # In a thread of its own: a program that answers before it has read everything would fill its pipe
    # while this side still writes, and both would wait for ever.
    threading.Thread(target=_write, args=(into, request), daemon=True).start()
    ready = select.poll()
    ready.register(out, select.POLLIN)
    while True:
        if not ready.poll(1_000 * max(0.0, end - time.monotonic())):
            raise JobLimitError(what="time for one run of a black box")
        # One byte more than the answer may have shows that it is too long, without keeping the rest.
        data = os.read(out.fileno(), min(_AT_ONCE, most + 1))
        if not data:
            return
        most -= len(data)
        if most < 0:
            raise BlackBoxError(problem="its answer is too long")
        yield data


def _write(into: IO[bytes], request: bytes) -> None:
    """Write the request; a program need not read all of it."""
    with suppress(OSError, ValueError), into:
        into.write(request)


class Processes:
    """A ``Confinement`` without isolation: the program has the service's files and the network."""

    _process: subprocess.Popen[bytes]

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="gencard-box-"))
        self.program_folder = self._folder / "box"

    def start(
        self, command: Sequence[str], files: Files, limits: SandboxLimits, *, errors: bool = False
    ) -> subprocess.Popen[bytes]:
        """Start the program in a session of its own, whose leader dies with its parent."""
        work = self._folder / "work"
        work.mkdir()
        for path, content in files:
            target = self.program_folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod(0o555)
        own = {"HOME": str(work), "TMPDIR": str(work)}
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *limited(limits), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if errors else subprocess.DEVNULL,
            umask=0o077,
            cwd=work,
            env=VARIABLES | own,
            start_new_session=True,
        )
        return self._process

    def members(self) -> Iterator[Path]:
        """Return the processes in the tree of the first process, without those that left the tree."""
        return (Path(f"/proc/{pid}") for pid in tree_of(self._process.pid))

    def files(self) -> int:
        """Return 0: the files lie on a disk."""
        return 0

    def kill(self) -> None:
        """Kill the session's process group; a process that left the group survives."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        shutil.rmtree(self._folder, ignore_errors=True)


Running = subprocess.Popen[bytes] | ForkedRun
"""The program of a run."""

Confinement = Namespaces | Forks | Processes
"""One run of one program, which finds its own files in ``program_folder``.

``start`` returns the program, running: standard error is dropped unless ``errors``, all else is piped.
``members`` gives the folder in /proc of each process of the run, and raises OSError if none is seen.
``files`` is the number of entries of the working folder that the kernel keeps in memory. ``kill`` ends
the process and all processes that it started, even if it has ended by itself.
"""


_LAST_SECONDS = 5.0  # seconds that a program may take to end after its answer

MOST_WRITTEN = 1 << 16
"""Bytes of standard error to keep, from the end, where a traceback names the error."""


@dataclass(slots=True)
class Observed:
    """Course of a run of a program on made-up records.

    Args:
        answer: Bytes on standard output.
        code: Exit code, negative for a signal; None if the run was ended from outside.
        error: Reason for ending the run, or fault of its answer; None if there is none.
    """

    answer: bytes = b""
    code: int | None = None
    error: BlackBoxError | JobLimitError | None = None
    _parts: deque[bytes] = field(default_factory=deque)

    def read(self, pipe: IO[bytes]) -> None:
        kept = 0
        while data := pipe.read1(1 << 14):  # type: ignore[attr-defined]  # of a buffered reader
            self._parts.append(data)
            kept += len(data)
            while kept - len(self._parts[0]) >= MOST_WRITTEN:
                kept -= len(self._parts.popleft())

    @property
    def written(self) -> bytes:
        return b"".join(self._parts)[-MOST_WRITTEN:]


@dataclass(frozen=True, slots=True)
class Sandbox:
    """Runs programs, each in a new process with a new folder, so that no run can learn of another.

    Scripts in Python are forked from a process that has started the interpreter and loaded the declared
    distributions that they import, but none of their own modules. Other programs are started anew, and
    so are all programs without isolation, and all if ``forks`` is false.

    Args:
        check_seconds: Seconds of runs after a check of the environment that the next check covers.
    """

    limits: SandboxLimits
    isolation: Isolation
    environment: Environment
    forks: bool = True
    check_seconds: float = 0.0
    _checks: deque[float] = field(default_factory=lambda: deque([-inf], 1), init=False, repr=False)
    """When the environment was last checked."""
    _zygotes: dict[int, tuple[Program, Zygote]] = field(default_factory=dict, init=False, repr=False)
    """By the identity of the program."""

    def ask(
        self, program: Program, request: BoxRequest, *, report: HundredthsReport, checks: bool = True
    ) -> AnswerReader:
        """Return the program's answer; the program has ended when this returns, whatever happened.

        Args:
            report: Called with the progress; it may raise.
            checks: Whether the environment is checked afterwards; if not, the caller calls ``check``
                before it uses the answer.

        Raises:
            BlackBoxError: The program fails, or its answer is not valid.
            JobLimitError: The program takes too long, or too much memory.
            IsolationError: This machine cannot run sandboxes.
            GeneratorChangedError: A distribution was changed since it was compared with its RECORD.
        """
        reader = AnswerReader(request, report, most_saved=self.limits.fit_mib * _MIB)
        with self._running(program) as (keeper, process):
            self._watched(keeper, process, program, request, reader.feed)
        if checks and time.monotonic() - self._checks[-1] >= self.check_seconds:
            self.check()
        return reader

    def observed(self, program: Program, request: BoxRequest) -> Observed:
        """Run a program on made-up records, and keep what it writes and how it ends.

        Runs that succeed are not observed, so a program cannot tell a lent run from a run on records by
        its descriptors. Runs on records are never observed.
        """
        seen, parts = Observed(), list[bytes]()
        with self._running(program, errors=True) as (keeper, process):
            pipe = cast("IO[bytes]", process.stderr)
            listener = threading.Thread(target=seen.read, args=(pipe,), daemon=True)
            listener.start()
            try:
                self._watched(keeper, process, program, request, parts.append)
            except (BlackBoxError, JobLimitError) as error:
                seen.error = error
            with suppress(subprocess.TimeoutExpired):
                seen.code = process.wait(0)
            keeper.kill()
            listener.join()
        seen.answer = b"".join(parts)
        if seen.error is None:
            most_saved = self.limits.fit_mib * _MIB
            reader = AnswerReader(request, lambda _hundredths: None, most_saved=most_saved)
            try:
                reader.feed(seen.answer)
                reader.rows()
            except BlackBoxError as error:
                seen.error = error
        return seen

    @contextmanager
    def _running(
        self, program: Program, *, errors: bool = False
    ) -> Iterator[tuple[Confinement, Running]]:
        """Run a program during the block; it has ended after the block, whatever happened."""
        keeper, process = self._started(program, errors=errors)
        try:
            yield keeper, process
        finally:
            keeper.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                with suppress(OSError):
                    if pipe:
                        pipe.close()

    def check(self) -> None:
        """Raise GeneratorChangedError if programs may have read files that the digest does not cover."""
        self.environment.check_unchanged()
        self._checks.append(time.monotonic())

    def _started(self, program: Program, *, errors: bool) -> tuple[Confinement, Running]:
        # where libraries cannot be loaded beforehand, each run loads them
        for preloads in (True, False):
            with suppress(OSError):
                keeper = self._confinement(program, preloads=preloads)
                folder = keeper.program_folder
                words = [
                    f"{folder}/{word.removeprefix('./')}" if word.startswith("./") else word
                    for word in program.command
                ]
                if program.is_python:
                    words = [*PYTHON_COMMAND, *words[1:]]
                return keeper, keeper.start(words, program.files, self.limits, errors=errors)
            _, zygote = self._zygotes.get(id(program), (None, None))
            if zygote is None or zygote.is_checked:
                break
            del self._zygotes[id(program)]
        raise IsolationError

    def _confinement(self, program: Program, *, preloads: bool) -> Confinement:
        if self.isolation is not Isolation.NAMESPACES:
            return Processes()
        if not (self.forks and program.is_script):
            return Namespaces(self.environment)
        if id(program) not in self._zygotes:
            imports = program.imports(self.environment) if preloads else ()
            zygote = Zygote(self.environment, program.files, program.modules, imports)
            self._zygotes[id(program)] = program, zygote
        return Forks(self._zygotes[id(program)][1])

    def _watched(
        self,
        keeper: Confinement,
        process: Running,
        program: Program,
        request: BoxRequest,
        take: Callable[[bytes], None],
    ) -> None:
        """Send the request, and hand on the answer as it comes, until the program has ended."""
        bound = self.limits.memory_mib * _MIB
        most = longest_answer(request, self.limits.fit_mib * _MIB)
        into, out = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
        sent, seconds = program.encode(request), self.limits.wall_seconds
        with MemoryWatch(keeper.members, bound, keeper.kill, entries=keeper.files) as watch:
            try:
                for data in exchange(into, out, sent, most=most, seconds=seconds):
                    take(data)
                try:
                    code = process.wait(_LAST_SECONDS)
                except subprocess.TimeoutExpired:
                    raise BlackBoxError(problem="it continues after its answer") from None
                if code in {-signal.SIGXCPU, 128 + signal.SIGXCPU}:
                    raise JobLimitError(what="CPU time for one run of a black box")
                if code:
                    raise BlackBoxError(problem="it ended without an answer")
            except BlackBoxError:
                # A program that was killed for its memory looks like one that failed by itself; the
                # watch knows.
                watch.check()
                raise
