"""Ways to keep a program apart."""

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from gencard.controller.sandbox.limits import CellLimits, Isolation
from gencard.controller.sandbox.namespaces import Namespaces
from gencard.controller.sandbox.processes import Processes
from gencard.controller.sandbox.view import View


class Confinement(Protocol):
    """One run of one program."""

    @property
    def program_folder(self) -> Path:
        """Where the program finds its own files."""
        ...

    def start(
        self, command: Sequence[str], files: Sequence[tuple[str, bytes]], limits: CellLimits
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


def confinement(isolation: Isolation, view: View) -> Confinement:
    """A fresh one, that shows this view where it can show less than all."""
    return Namespaces(view) if isolation is Isolation.NAMESPACES else Processes()
