"""One run in a sandbox: one program, one request, one answer, and nothing remains."""

import os
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from typing import IO, Protocol, cast

from gencard.controller.sandbox.environment import VARIABLES, Environment
from gencard.controller.sandbox.forks import PYTHON_COMMAND, Forks, Zygote
from gencard.controller.sandbox.limits import (
    Isolation,
    MemoryWatch,
    Running,
    SandboxLimits,
    limited,
    tree_of,
)
from gencard.controller.sandbox.namespaces import Namespaces
from gencard.controller.sandbox.program import Program
from gencard.core.errors import BlackBoxError, IsolationError, JobLimitError
from gencard.wire.black_box import AnswerReader, BoxRequest, HundredthsReport, longest_answer

_AT_ONCE = 1 << 18


def exchange(
    into: IO[bytes], out: IO[bytes], request: bytes, *, most: int, seconds: float
) -> Iterator[bytes]:
    """Yield the answer as it comes, until the other side closes its output.

    Args:
        most: Bytes that the answer may have.
        seconds: From now until all of it must be there.

    Raises:
        BlackBoxError: The answer is longer.
        JobLimitError: The program takes longer.
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


class Confinement(Protocol):
    """One run of one program."""

    @property
    def program_folder(self) -> Path:
        """Folder in which the program finds its own files."""
        ...

    def start(
        self,
        command: Sequence[str],
        files: Sequence[tuple[str, bytes]],
        limits: SandboxLimits,
        *,
        errors: bool = False,
    ) -> Running:
        """Return the program, running, its standard input and output piped.

        Args:
            errors: Whether standard error is piped too; otherwise it is dropped.

        Raises:
            OSError: The program cannot be started.
        """
        ...

    def members(self, process: Running) -> Iterator[Path]:
        """Return the folder in /proc of each process of the run; raises OSError if none is seen."""
        ...

    def files(self, process: Running) -> int:
        """Entries of the working folder that the kernel keeps in memory."""
        ...

    def kill(self, process: Running) -> None:
        """End the process and all processes that it started, even if it has ended by itself."""
        ...


class Processes:
    """A ``Confinement`` without isolation: the program has the service's files and the network."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="gencard-box-"))

    @property
    def program_folder(self) -> Path:
        return self._folder / "box"

    def start(
        self,
        command: Sequence[str],
        files: Sequence[tuple[str, bytes]],
        limits: SandboxLimits,
        *,
        errors: bool = False,
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
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *limited(limits), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if errors else subprocess.DEVNULL,
            umask=0o077,
            cwd=work,
            env=VARIABLES | own,
            start_new_session=True,
        )

    def members(self, process: Running) -> Iterator[Path]:
        """Return the processes in the tree of the first process, without those that left the tree."""
        return (Path(f"/proc/{pid}") for pid in tree_of(process.pid))

    def files(self, process: Running) -> int:  # noqa: ARG002  # they lie on a disk
        """Return 0: no files are kept in memory."""
        return 0

    def kill(self, process: Running) -> None:
        """Kill the session's process group; a process that left the group survives."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        shutil.rmtree(self._folder, ignore_errors=True)


_MIB = 1 << 20
_PATIENCE = 5.0
"""Seconds that a program may take to end after its answer."""


MOST_WRITTEN = 1 << 16
"""Bytes of standard error to keep, from the end, where a traceback names the error."""


@dataclass(slots=True)
class Observed:
    """Course of a run of a program on made-up records.

    Args:
        answer: Bytes on standard output.
        written: Bytes on standard error, the last ``MOST_WRITTEN``.
        code: Exit code, negative for a signal; None if the run was ended from outside.
        error: Reason for ending the run, or fault of its answer; None if there is none.
    """

    answer: bytes = b""
    code: int | None = None
    error: BlackBoxError | JobLimitError | None = None
    _parts: deque[bytes] = field(default_factory=deque)

    def read(self, pipe: IO[bytes]) -> None:
        """Read a pipe to its end."""
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
    so are all programs without isolation.

    Args:
        environment: Files of the machine that a program finds.
        forks: Whether scripts in Python are forked.
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

        Raises:
            IsolationError: This machine cannot run sandboxes.
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
            keeper.kill(process)
            listener.join()
        seen.answer = b"".join(parts)
        seen.error = seen.error or _fault(seen.answer, request, self.limits.fit_mib * _MIB)
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
            keeper.kill(process)
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
        """Return a new confinement; an isolating one shows the environment alone."""
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
        members, kill = partial(keeper.members, process), partial(keeper.kill, process)
        entries, bound = partial(keeper.files, process), self.limits.memory_mib * _MIB
        most = longest_answer(request, self.limits.fit_mib * _MIB)
        into, out = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
        sent, seconds = program.encode(request), self.limits.wall_seconds
        with MemoryWatch(members, bound, kill, entries=entries) as watch:
            try:
                for data in exchange(into, out, sent, most=most, seconds=seconds):
                    take(data)
                _check_end(process)
            except BlackBoxError:
                # A program that was killed for its memory looks like one that failed by itself; the
                # watch knows.
                watch.check()
                raise


def _fault(answer: bytes, request: BoxRequest, most_saved: int) -> BlackBoxError | None:
    """Return the fault of an answer; None if it has none."""
    reader = AnswerReader(request, lambda _hundredths: None, most_saved=most_saved)
    try:
        reader.feed(answer)
        reader.rows()
    except BlackBoxError as error:
        return error
    return None


def _check_end(process: Running) -> None:
    """Raise BlackBoxError if the program did not end with success after its answer."""
    try:
        code = process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        raise BlackBoxError(problem="it continues after its answer") from None
    if code in {-signal.SIGXCPU, 128 + signal.SIGXCPU}:
        raise JobLimitError(what="CPU time for one run of a black box")
    if code:
        raise BlackBoxError(problem="it ended without an answer")
