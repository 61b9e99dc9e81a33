"""Ways to isolate a program: by namespaces, or for development by limits alone."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from gencard.controller.sandbox.environment import Environment
from gencard.controller.sandbox.limits import Isolation, SandboxLimits, limited
from gencard.controller.sandbox.memory_watch import tree_of
from gencard.controller.sandbox.namespaces import VARIABLES, Namespaces


class Confinement(Protocol):
    """One run of one program."""

    @property
    def program_folder(self) -> Path:
        """Where the program finds its own files."""
        ...

    def start(
        self, command: Sequence[str], files: Sequence[tuple[str, bytes]], limits: SandboxLimits
    ) -> subprocess.Popen[bytes]:
        """The program, running, its standard input and output piped, its words about errors dropped.

        Raises:
            OSError: It cannot be started.
        """
        ...

    def members(self, process: subprocess.Popen[bytes]) -> Iterator[Path]:
        """The folder in /proc of each process that runs for it; raises OSError where none is seen."""
        ...

    def files(self, process: subprocess.Popen[bytes]) -> int:
        """Entries of the working folder that the kernel keeps in memory."""
        ...

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """End it and everything it started, at once; also where it has ended by itself."""
        ...


class Processes:
    """See ``confinement.Confinement``. The program reads what the service can, and has the network."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="gencard-box-"))

    @property
    def program_folder(self) -> Path:
        return self._folder / "box"

    def start(
        self, command: Sequence[str], files: Sequence[tuple[str, bytes]], limits: SandboxLimits
    ) -> subprocess.Popen[bytes]:
        """A session of its own, whose leader dies with whoever starts it."""
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
            stderr=subprocess.DEVNULL,
            umask=0o077,
            cwd=work,
            env=VARIABLES | own,
            start_new_session=True,
        )

    def members(self, process: subprocess.Popen[bytes]) -> Iterator[Path]:
        """Those that have not left the tree of who started them."""
        return (Path(f"/proc/{pid}") for pid in tree_of(process.pid))

    def files(self, process: subprocess.Popen[bytes]) -> int:  # noqa: ARG002  # they lie on a disk
        """None are kept in memory."""
        return 0

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """The session's group; a process that left it lives on."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        shutil.rmtree(self._folder, ignore_errors=True)


def confinement(isolation: Isolation, environment: Environment) -> Confinement:
    """A fresh one, that shows this environment where it can show less than all."""
    return Namespaces(environment) if isolation is Isolation.NAMESPACES else Processes()
