"""A cluster on this machine: authority, controller and workers, each worker a program of its own."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from gencard.controller.jobs.tasks import ClusterPart
from gencard.controller.people.keys import KeyPair, issue_member, new_authority, write_new

PROGRAM = (str(Path(sys.executable).with_name("gencard-controller")),)


def write_member(folder: Path, authority: KeyPair, name: str) -> Path:
    """Authority, certificate and key of one member, as `worker certificate` writes them."""
    uri = f"spiffe://cluster.house.example/health/controller/{name}"
    write_new(folder / "authority.pem", authority.certificate_pem, private=False)
    issue_member(authority, uri, datetime.now(UTC)).write(folder)
    return folder


@dataclass
class Cluster:
    """Started by ``with``; every member ends with it.

    Args:
        folder: For certificates.
    """

    folder: Path
    authority: KeyPair = field(
        default_factory=lambda: new_authority("cluster.house.example", datetime.now(UTC))
    )
    addresses: dict[str, str] = field(default_factory=dict)
    workers: list[subprocess.Popen[str]] = field(default_factory=list)
    stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> "Cluster":
        self.files = write_member(self.folder / "controller", self.authority, "controller")
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def add(self, number: int = 1, *, runs: int = 1, program: Sequence[str] = PROGRAM) -> None:
        """Start workers; all are ready when this returns."""
        started = {}
        for _ in range(number):
            name = f"worker-{len(self.workers)}"
            files = str(write_member(self.folder / name, self.authority, name))
            words = ("--files", files, "--port", "0", "--runs", str(runs))
            started[name] = self.member("start", *words, program=program)
            self.workers.append(started[name])
        for name, worker in started.items():
            line = first_line(worker)
            assert line.startswith("Ready")
            self.addresses[name] = line.rpartition(" ")[2].strip(" .\n")

    def member(self, *words: str, program: Sequence[str] = PROGRAM) -> subprocess.Popen[str]:
        """A member, starting."""
        variables = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        variables["TMPDIR"] = str(self.folder)  # what a killed member leaves behind goes with it
        process = subprocess.Popen(
            [*program, "worker", *words], stdout=subprocess.PIPE, text=True, env=variables
        )
        self.stack.callback(end, process)
        return process

    def job(self) -> ClusterPart:
        """The part of a job's request about this cluster."""
        return ClusterPart(dict(self.addresses), self.files, 0.1, 600, 4_096)


def first_line(process: subprocess.Popen[str]) -> str:
    """Read the line that a member prints once it is ready."""
    assert process.stdout
    return process.stdout.readline()


def end(process: subprocess.Popen[str]) -> None:
    """Kill a member, and reap it."""
    process.send_signal(signal.SIGKILL)
    process.wait()
    if process.stdout:
        process.stdout.close()


def processes_below(pid: int) -> set[int]:
    """Processes that a process has started, and those that these have."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True)
    pairs = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]
    family = {pid}
    for _ in range(6):
        family |= {child for child, parent in pairs if parent in family}
    return family - {pid}
