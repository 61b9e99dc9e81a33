"""One run in a sandbox: one program, one request, one answer, and nothing remains."""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import IO, cast

from gencard.controller.sandbox.confinement import Confinement, confinement
from gencard.controller.sandbox.environment import COMPILED, PYTHON, Environment
from gencard.controller.sandbox.limits import Isolation, SandboxLimits
from gencard.controller.sandbox.memory_watch import MemoryWatch
from gencard.core.errors import BlackBoxError, IsolationError, JobLimitError
from gencard.wire.box_answer import AnswerReader, HundredthsReport, longest_answer
from gencard.wire.box_request import BoxRequest, bytes_of_request

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
        JobLimitError: It takes longer.
    """
    end = time.monotonic() + seconds
    threading.Thread(target=_write, args=(into, request), daemon=True).start()
    while data := _next(out, end, min(_AT_ONCE, most + 1)):
        most -= len(data)
        if most < 0:
            raise BlackBoxError(problem="its answer is too long")
        yield data


def _next(out: IO[bytes], end: float, at_once: int) -> bytes:
    ready = select.poll()
    ready.register(out, select.POLLIN)
    if not ready.poll(1_000 * max(0.0, end - time.monotonic())):
        raise JobLimitError(what="time for one run of a black box")
    return os.read(out.fileno(), at_once)


def _write(into: IO[bytes], request: bytes) -> None:
    """Whoever does not read it all is not made to."""
    with suppress(OSError, ValueError), into:
        into.write(request)


_MIB = 1 << 20
_PATIENCE = 5.0
"""Seconds that a program may take to end after its answer."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """Runs programs, each in a new process with a new folder, so that no run can learn of another.

    Args:
        environment: What a program finds of the machine.
    """

    limits: SandboxLimits
    isolation: Isolation
    environment: Environment

    def ask(
        self,
        command: Sequence[str],
        files: Sequence[tuple[str, bytes]],
        request: BoxRequest,
        *,
        report: HundredthsReport,
    ) -> AnswerReader:
        """The program's answer; the program has ended when this returns, whatever happened.

        Args:
            command: As ``program.Program`` has it.
            files: What it finds in its folder.
            report: Called with the progress; it may raise.

        Raises:
            BlackBoxError: It fails, or its answer cannot be right.
            JobLimitError: It takes too long, or too much memory.
            IsolationError: Nothing can be run in a sandbox here.
            GeneratorChangedError: A distribution was changed since it was compared with its RECORD.
        """
        reader = AnswerReader(request, report, most_saved=self.limits.fit_mib * _MIB)
        keeper = confinement(self.isolation, self.environment)
        process = self._started(keeper, command, files)
        try:
            self._watched(keeper, process, request, reader)
        finally:
            keeper.kill(process)
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):
                    if pipe:
                        pipe.close()
        self.environment.check_unchanged()  # so what the program read is what the digest names
        return reader

    def _started(
        self, keeper: Confinement, command: Sequence[str], files: Sequence[tuple[str, bytes]]
    ) -> "subprocess.Popen[bytes]":
        words = [_placed(word, str(keeper.program_folder)) for word in command]
        if words[0] == PYTHON:
            words = [sys.executable, "-s", "-B", "-X", f"pycache_prefix={COMPILED}", *words[1:]]
        with suppress(OSError):
            return keeper.start(words, files, self.limits)
        raise IsolationError

    def _watched(
        self,
        keeper: Confinement,
        process: "subprocess.Popen[bytes]",
        request: BoxRequest,
        reader: AnswerReader,
    ) -> None:
        members, kill = partial(keeper.members, process), partial(keeper.kill, process)
        entries, bound = partial(keeper.files, process), self.limits.memory_mib * _MIB
        with MemoryWatch(members, bound, kill, entries=entries) as watch:
            try:
                self._listen(process, request, reader)
            except BlackBoxError:
                watch.check()
                raise

    def _listen(
        self, process: "subprocess.Popen[bytes]", request: BoxRequest, reader: AnswerReader
    ) -> None:
        into, out = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
        most = longest_answer(request, self.limits.fit_mib * _MIB)
        sent, seconds = bytes_of_request(request), self.limits.wall_seconds
        for data in exchange(into, out, sent, most=most, seconds=seconds):
            reader.feed(data)
        _check_end(process)


def _placed(word: str, folder: str) -> str:
    return f"{folder}/{word.removeprefix('./')}" if word.startswith("./") else word


def _check_end(process: "subprocess.Popen[bytes]") -> None:
    """Raises where the program did not end well after its answer."""
    try:
        code = process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        raise BlackBoxError(problem="it continues after its answer") from None
    if code in {-signal.SIGXCPU, 128 + signal.SIGXCPU}:
        raise JobLimitError(what="CPU time for one run of a black box")
    if code:
        raise BlackBoxError(problem="it ended without an answer")
