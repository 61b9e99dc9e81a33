"""One worker process as the service sees it: frames in and out, killed with its process group.

A frame is the number of its bytes, and these. One that holds a message begins with the length of a JSON
array: head, body, and names with lengths of the body's fields of bytes, which follow it as they are.
"""

import contextlib
import json
import os
import queue
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import IO

from gencard.controller.jobs.tasks import JOBS, AnyTask
from gencard.core.errors import GencardError, JobLimitError
from gencard.core.json_codecs import Json

_LENGTH = struct.Struct("<Q")
_HEADER = struct.Struct("<I")

MOST_BYTES = 1 << 30
"""Bytes of the largest frame: an order of a cluster, or psi as the largest value of a database."""

# -I: no variable of the environment and no module of the working folder decides what a worker runs.
_COMMAND = (sys.executable, "-I", "-m", "gencard.controller.jobs.worker")
_ENVIRONMENT = {
    "LC_ALL": "C.UTF-8",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    # what allocators would set aside counts against the limit of a job
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
}
"""The whole environment of a worker; nothing of the service's own is passed on."""


@dataclass(frozen=True, slots=True)
class Order:
    """Head of a message to a worker; the request of its task is the body.

    The limits are those of the worker process, for good; ``stays``: it waits for another job afterwards.
    """

    task: str
    cpu_seconds: int
    memory_mib: int
    stays: bool


@dataclass(frozen=True, slots=True)
class Reported:
    """Head of a message from a worker: its progress, a share from 0 to 1 of a stage."""

    event: str = field(init=False, default="progress")
    stage: str
    share: float


@dataclass(frozen=True, slots=True)
class Done:
    """Head of the last message of a job; its result is the body."""

    event: str = field(init=False, default="result")
    stays: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """Head of the last message of a job that ended with an error of the catalogue."""

    event: str = field(init=False, default="error")
    reason: str
    fields: Mapping[str, str]
    stays: bool = False


@dataclass(frozen=True, slots=True)
class Crashed:
    """Head of the last message of a job that ended with an unexpected error: its class and place.

    The error's own text may quote a record and does not leave.
    """

    event: str = field(init=False, default="crash")
    kind: str
    where: str


Ending = Done | Failed | Crashed
Reply = Reported | Ending

for _head in (Order, Reply):
    JOBS.codec(_head)


class MalformedMessageError(Exception):
    """A frame that no program of this version sends; the text has no part of it."""


def write_frame(file: IO[bytes], content: bytes) -> None:
    file.write(_LENGTH.pack(len(content)))
    file.write(content)
    file.flush()


def read_frame(file: IO[bytes]) -> bytes | None:
    """Return what ``write_frame`` wrote; None if there is no more, or if it is cut short."""
    length = file.read(_LENGTH.size)
    if len(length) < _LENGTH.size:
        return None
    left = _LENGTH.unpack(length)[0]
    if left > MOST_BYTES:
        raise MalformedMessageError("a frame that is too large")
    parts = []
    # a MiB at a time: memory is taken for what has come, not for what was announced
    while left and (part := file.read(min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    return None if left else b"".join(parts)


def packed(head: object, body: object | None = None) -> bytes:
    """Write a message of dataclasses of ``tasks`` as the content of a frame; all numbers are finite."""
    document: Json | None = None if body is None else JOBS.write(body)
    fields = {name: one for name, one in (document or {}).items() if isinstance(one, bytes)}
    rest = document and {name: one for name, one in document.items() if name not in fields}
    lengths = {name: len(one) for name, one in fields.items()}
    header = json.dumps([JOBS.write(head), rest, lengths], allow_nan=False).encode()
    return b"".join((_HEADER.pack(len(header)), header, *fields.values()))


def unpacked(content: bytes) -> tuple[object, object]:
    """Return head and body of a message as JSON, in which fields of bytes are bytes."""
    with contextlib.suppress(struct.error, ValueError, TypeError, AttributeError, RecursionError):
        (length,) = _HEADER.unpack_from(content)
        place = _HEADER.size + length
        header = content[_HEADER.size : place].decode("ascii")
        head, body, lengths = json.loads(header, parse_float=_finite, parse_constant=_finite)
        for name, size in lengths.items():
            if type(size) is not int or size < 0 or name in body:
                raise ValueError
            body[name] = content[place : place + size]
            place += size
        if place == len(content):
            return head, body
    raise MalformedMessageError("a message of another form")


def received(task: AnyTask, content: bytes) -> tuple[Reply, object]:
    """Return a message of a worker and the result in it, None if it has none.

    A result is believed only if it has the form of its task's: a worker reads files that others wrote.
    """
    head, body = unpacked(content)
    # the text of an error could hold a part of the message
    with contextlib.suppress(GencardError, ArithmeticError, AttributeError, LookupError, RecursionError):
        reply: Reply = JOBS.read(Reply, head, field="message")  # type: ignore[arg-type]  # a union
        if isinstance(reply, Done):
            return reply, JOBS.read(task.result, body, field="result")
        if body is None:
            return reply, None
    raise MalformedMessageError("a message of another form")


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError
    return number


def served() -> tuple[IO[bytes], "queue.SimpleQueue[bytes]"]:
    """Begin to serve, in a worker: return the file for its frames, and the incoming frames.

    Standard output is kept for frames: output of libraries goes to standard error. When standard input
    ends, so does the process, with everything that it started.
    """
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    frames: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read_until_the_service_ends, args=(frames,), daemon=True).start()
    return channel, frames


def _read_until_the_service_ends(frames: "queue.SimpleQueue[bytes]") -> None:
    with contextlib.suppress(MalformedMessageError):
        while (frame := read_frame(sys.stdin.buffer)) is not None:
            frames.put(frame)
    os.killpg(0, signal.SIGKILL)


class WorkerProcess:
    """A process that waits for one job, does it, and ends.

    It leads a session of its own, so that killing its group ends whatever it started; and it ends
    by itself when the service does, because its standard input ends then.
    """

    def __init__(self, *command: str) -> None:
        self._process = subprocess.Popen(
            command or _COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # a traceback may quote a record
            cwd="/",
            env=_ENVIRONMENT,
            start_new_session=True,
            umask=0o077,
        )
        self._reaping = threading.Lock()

    @property
    def pid(self) -> int:
        return self._process.pid

    def talk(self, request: bytes) -> Iterator[bytes]:
        """Send a frame; yield the frames of the worker until it ends.

        Raises:
            JobLimitError: The process ended because it had used its CPU time.
        """
        self._send(request)
        while self._process.stdout and (content := read_frame(self._process.stdout)) is not None:
            yield content
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        if self.end() == -signal.SIGXCPU:
            raise JobLimitError(what="CPU time")

    def exchange(self, content: bytes) -> bytes | None:
        """Send a frame; the frame that comes back, or None if the process has ended."""
        self._send(content)
        with contextlib.suppress(OSError, ValueError):
            try:
                return read_frame(self._process.stdout) if self._process.stdout else None
            except MalformedMessageError:
                self.kill()
        return None

    def _send(self, content: bytes) -> None:
        # where it has ended already, there will be no answer, and that is handled
        with contextlib.suppress(OSError, ValueError):
            if self._process.stdin:
                write_frame(self._process.stdin, content)

    def is_alive(self) -> bool:
        with self._reaping:
            return self._process.poll() is None

    def kill(self) -> None:
        with self._reaping:
            if self._process.returncode is None:  # until it is reaped, no other process has its ID
                os.killpg(self.pid, signal.SIGKILL)

    def kill_and_wait(self) -> None:
        """Kill the process, and return once it has ended; the thread that talks to it reaps it."""
        self.kill()
        with self._reaping:
            if self._process.returncode is None:
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    def end(self) -> int:
        """Kill remaining processes, reap the process, and return its exit code (signals: negative)."""
        self.kill()
        with self._reaping:
            code = self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                with contextlib.suppress(BrokenPipeError):  # unsent bytes are dropped
                    if pipe:
                        pipe.close()
        return code
