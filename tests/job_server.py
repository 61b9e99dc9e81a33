"""Worker processes of the tests: forked from one that has imported all, as each import takes 0.6 s.

What a service gets is what it would have started: a process of its own, its child, in a session of its
own, with the bare environment of a worker. Only on machines whose number of ``clone`` stands here.
"""

import ctypes
import json
import os
import platform
import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine())
CLONE_PARENT = 0x8000
"""The new process is a child of the server's parent, which so can wait for it."""

_HERE = str(Path(__file__).parent)

ONE_THREAD = {"JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""The allocator of pyarrow begins no thread of its own."""


class JobServer:
    """The process that forks; it ends with the tests."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment | ONE_THREAD
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket, self._its_end = socket.socketpair()

    def fork(self, script: tuple[str, ...], *files: int) -> int:
        """A worker with these as standard input, output and error; its process id.

        Args:
            script: A worker's own script and its arguments; empty for the service's worker.
        """
        with self._lock:
            self._process = self._process or self._started()
            socket.send_fds(self._socket, [json.dumps(script).encode()], files)
            return int(self._socket.recv(32))

    def _started(self) -> subprocess.Popen[bytes]:
        command = (sys.executable, "-I", __file__)
        with self._its_end as stdin:
            return subprocess.Popen(command, stdin=stdin, cwd="/", env=self._environment, umask=0o077)

    def close(self) -> None:
        self._socket.close()
        self._its_end.close()
        if self._process:
            self._process.wait()


def popen_of(server: JobServer, command: tuple[str, ...]) -> Callable[..., Any]:
    """In place of ``Popen``: forks where this command or a script here is to be started, else starts."""
    python = command[:2]

    class Forked(subprocess.Popen[bytes]):
        def _execute_child(self, *arguments: Any) -> None:
            pipes = arguments[10:16]
            try:
                read, _, _, write, _, error = pipes
                script = () if self.args == command else tuple(self.args[len(python) :])
                self.pid = server.fork(script, read, write, error)
                self._child_created = True
            finally:
                self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def start(args: tuple[str, ...], **options: Any) -> subprocess.Popen[bytes]:
        is_script = args[: len(python)] == python and args[len(python)].startswith(_HERE)
        return (Forked if args == command or is_script else subprocess.Popen)(args, **options)

    return start


def serve() -> None:
    """Fork a worker for each message, until there is nobody left who sends any."""
    import gc

    from gencard.controller.jobs import worker

    for task in worker.TASKS.values():
        task.function()
    assert len(os.listdir("/proc/self/task")) == 1  # else a fork could stop at a lock
    gc.freeze()
    channel = socket.socket(fileno=os.dup(0))
    while True:
        message, files, _, _ = socket.recv_fds(channel, 1 << 16, 3)
        if not message:
            os._exit(0)
        ready, leads = os.pipe()
        pid = _fork_for_the_parent()
        if pid == 0:
            script = json.loads(message)
            main = partial(_run, script) if script else worker.main
            _work(files, (channel.fileno(), ready, leads), main)
        os.close(leads)
        os.read(ready, 1)  # its group can be killed from here on
        for file in (ready, *files):
            os.close(file)
        channel.send(str(pid).encode())


def _run(script: list[str]) -> None:
    sys.argv[:] = script
    runpy.run_path(script[0], run_name="__main__")


def _fork_for_the_parent() -> int:
    python = ctypes.PyDLL(None)  # which keeps the lock of the interpreter, as fork does
    python.PyOS_BeforeFork()
    pid: int = python.syscall(CLONE, CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    return pid


def _work(files: list[int], others: tuple[int, ...], main: Callable[[], None]) -> None:
    try:
        os.setsid()
        for number, file in enumerate(files):
            os.dup2(file, number)
        for file in (*files, *others):
            os.close(file)
        main()
        os._exit(0)
    finally:
        os._exit(1)


if __name__ == "__main__":
    serve()
