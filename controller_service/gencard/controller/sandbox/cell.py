"""The cell: one program, one request, one answer, and nothing left."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import IO, cast

from gencard.controller.sandbox.confinement import Confinement, confinement
from gencard.controller.sandbox.contents import digest_of_view
from gencard.controller.sandbox.exchange import exchange
from gencard.controller.sandbox.limits import CellLimits, Isolation
from gencard.controller.sandbox.memory_watch import MemoryWatch
from gencard.controller.sandbox.root import COMPILED
from gencard.controller.sandbox.view import View
from gencard.controller.sandbox.views import PYTHON
from gencard.core.errors import BlackBoxError, GeneratorChangedError, IsolationError, JobLimitError
from gencard.wire.box_answer import AnswerReader, Told, longest_answer
from gencard.wire.box_request import BoxRequest, bytes_of_request

_MIB = 1 << 20
_PATIENCE = 5.0
"""Seconds that a program may take to end after its answer."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Runs programs, each run in a fresh process with a fresh folder: none can remember another.

    Args:
        view: What a program finds of the machine.
        seen: Views and the digests that they are to have after each run too.
    """

    limits: CellLimits
    isolation: Isolation
    view: View
    seen: tuple[tuple[View, str], ...] = ()

    def ask(
        self,
        command: Sequence[str],
        files: Sequence[tuple[str, bytes]],
        request: BoxRequest,
        *,
        told: Told,
    ) -> AnswerReader:
        """What the program answers; whatever becomes of it, it is dead when this returns.

        Args:
            command: As ``program.Program`` has it.
            files: What it finds in its folder.
            told: Hears of the progress; it may raise.

        Raises:
            BlackBoxError: It fails, or its answer cannot be right.
            JobLimitError: It takes too long, or too much memory.
            IsolationError: Nothing can be run in a cell here.
            GeneratorChangedError: What the cell shows was changed since it was digested.
        """
        reader = AnswerReader(request, told, most_saved=self.limits.fit_mib * _MIB)
        keeper = confinement(self.isolation, self.view)
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
        self._check_unchanged()
        return reader

    def _check_unchanged(self) -> None:
        """What was digested before the run and is the same after it has been the same in between."""
        if any(digest_of_view(view) != digest for view, digest in self.seen):
            raise GeneratorChangedError

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
