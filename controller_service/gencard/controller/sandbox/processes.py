"""An open cell, for development where there is no bubblewrap: bounds on use, an empty environment."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from gencard.controller.sandbox.limits import CellLimits
from gencard.controller.sandbox.namespaces import VARIABLES
from gencard.controller.sandbox.offspring import tree_of
from gencard.controller.sandbox.resource_limits import limited


class Processes:
    """See ``confinement.Confinement``. The program reads what the service can, and has the network."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="gencard-box-"))

    @property
    def program_folder(self) -> Path:
        return self._folder / "box"

    def start(
        self, command: Sequence[str], files: Sequence[tuple[str, bytes]], limits: CellLimits
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
