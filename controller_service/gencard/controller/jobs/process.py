"""One worker process as the service sees it: lines of JSON in and out, killed with its process group."""

import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import IO, Any

from gencard.core.errors import JobLimitError

Message = dict[str, Any]

_LENGTH = struct.Struct("<Q")

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


def write_frame(file: IO[bytes], content: bytes) -> None:
    """Bytes, after their number in eight bytes."""
    file.write(_LENGTH.pack(len(content)))
    file.write(content)
    file.flush()


def read_frame(file: IO[bytes]) -> bytes | None:
    """What ``write_frame`` wrote; None where there is no more, or where it is cut short."""
    length = file.read(_LENGTH.size)
    if len(length) < _LENGTH.size:
        return None
    size = _LENGTH.unpack(length)[0]
    content = file.read(size)
    return content if len(content) == size else None


class WorkerProcess:
    """A process that waits for one job, does it, and ends.

    It leads a session of its own, so that killing its group ends whatever it started; and it ends
    by itself when the service does, because its standard input ends then.

    Args:
        command: Another one than for jobs.
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

    def talk(self, request: Message) -> Iterator[Message]:
        """Send the job; yield the messages of the worker until it ends.

        Raises:
            JobLimitError: It ended because it had used its CPU time.
        """
        self._send(request)
        for line in self._process.stdout or ():
            if line.endswith(b"\n"):  # a line cut short by death says nothing
                yield json.loads(line)
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        if self.end() == -signal.SIGXCPU:
            raise JobLimitError(what="CPU time")

    def exchange(self, content: bytes) -> bytes | None:
        """Send a frame; the frame that comes back, or None where the process has ended."""
        into, out = self._process.stdin, self._process.stdout
        with contextlib.suppress(OSError, ValueError):
            if into and out:
                write_frame(into, content)
                return read_frame(out)
        return None

    def _send(self, request: Message) -> None:
        # where it has ended already, there will be no answer, and that is handled
        with contextlib.suppress(BrokenPipeError):
            if self._process.stdin:
                self._process.stdin.write(json.dumps(request).encode() + b"\n")
                self._process.stdin.flush()

    def is_alive(self) -> bool:
        with self._reaping:
            return self._process.poll() is None

    def kill(self) -> None:
        """End it and everything it started, at once."""
        with self._reaping:
            if self._process.returncode is None:  # until it is reaped, nobody else has its number
                os.killpg(self.pid, signal.SIGKILL)

    def kill_and_wait(self) -> None:
        """The same, and return once it has ended; whoever talks to it reaps it."""
        self.kill()
        with self._reaping:
            if self._process.returncode is None:
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    def end(self) -> int:
        """Kill what is left, and reap: the exit code, negative for a signal."""
        self.kill()
        with self._reaping:
            code = self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                with contextlib.suppress(BrokenPipeError):  # what was not sent is for nobody now
                    if pipe:
                        pipe.close()
        return code
