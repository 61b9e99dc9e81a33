"""Starts controllers that may be killed, quickly: imports everything once, and forks for each one.

``python -m tests.system.fork_server`` takes lines of JSON and answers with lines of JSON:

    {"settings": path, "die_at": n, "file_bytes": n, "gate": path}    a new controller
    {"pid": ..., "port": ...}                                         it serves
    {"armed": true}                                                   it was sent SIGUSR1

Once armed, a controller kills itself (SIGKILL) at its n-th step, and cannot write a file beyond
``file_bytes``; each of the three may be null. Without a gate its jobs run in its own threads, so that
their steps are counted too; with one they are ``gated_worker`` processes.
"""

import json
import os
import resource
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from gencard.controller.base import logs
from gencard.controller.jobs import process
from gencard.controller.service import operations as watching
from gencard.controller.settings import Settings
from gencard.controller.wiring.serving import serve
from tests.system import gated_worker, thread_jobs
from tests.system.faults import Error, Faults

_SERVICE = ("call", "operation", "job")


@dataclass
class Failpoints(Faults):
    """Dies in place of an error: before and after each commit, and at every touch of a file."""

    _committed: bool = False

    def watch_commits(self) -> None:
        """Call before an engine exists: a thread that uses one fails where a listener is added."""
        event.listen(Engine, "commit", self._before_commit)
        event.listen(Engine, "begin", self._after_commit)

    def _before_commit(self, _connection: object) -> None:
        self.step("before a commit")
        self._committed = True

    def _after_commit(self, _connection: object) -> None:
        """The next beginning of a transaction is the first moment after the commit."""
        if self._committed:
            self._committed = False
            self.step("after a commit")

    def step(self, site: str, error: Error | None = None) -> None:
        try:
            super().step(site)
        except OSError:
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system reaps
    logs.configure()  # what failed is named by place and class, where a test shows it
    for line in sys.stdin:
        arguments = json.loads(line)
        if os.fork() == 0:
            _live(**arguments)


def _live(settings: str, die_at: int | None, file_bytes: int | None, gate: str | None) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    patch, failpoints = pytest.MonkeyPatch(), Failpoints(Path(settings).parent.parent)
    patch.setattr(watching, "LOOK_EVERY", 0.01)
    if gate is None:
        thread_jobs.run_jobs_in_threads(patch)
        failpoints.watch_files(patch)
        failpoints.watch_engine(patch)
    else:
        patch.setattr(process, "_COMMAND", gated_worker.command(gate))
    failpoints.watch_commits()
    controller = serve(Settings.load(Path(settings)))
    _say({"pid": os.getpid(), "port": controller.port})
    signal.sigwait({signal.SIGUSR1})
    if file_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, resource.RLIM_INFINITY))
    with failpoints.armed(die_at or 0, _SERVICE):
        _say({"armed": True})
        while True:
            signal.pause()


def _say(message: Any) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    main()
