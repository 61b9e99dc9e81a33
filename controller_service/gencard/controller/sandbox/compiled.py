"""Compiled copies of Python's sources, made by the service itself, by which programs start sooner.

Those that lie beside sources are never run in a cell: Python runs one whose time and size fit to the
source, whatever it holds.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from threading import Lock

from gencard.controller.sandbox.contents import digest_of_view
from gencard.controller.sandbox.view import View
from gencard.core.errors import GeneratorChangedError

_MODULES = ("gencard.wire.black_box", "gencard.controller.sandbox.built_in", "numpy.random")
"""What every program in Python starts with."""

_MODULES_OF = {
    "synthpop": ("sklearn.tree",),
    "ctgan": ("gencard.boxes.nets.ctgan_training", "sklearn.mixture"),
    "pate-gan": ("gencard.boxes.nets.pate_gan_training", "scipy.stats"),
}
"""What boxes of the registry load besides."""

_PATIENCE = 300.0
"""Seconds for all of them."""

_READABLE = 0o022
"""What others may not do with a copy: write. In a cell it is another user who reads."""


class CompiledCopies:
    """A folder of them, made when it is asked for first.

    Args:
        work: A private folder, in which it is made.
        boxes: Those of the registry that will start, by name.
    """

    def __init__(self, work: Path, boxes: Iterable[str]) -> None:
        self._parent = work / "compiled"
        special = [name for box in boxes for name in _MODULES_OF.get(box, ())]
        self._modules = ", ".join((*_MODULES, *special))
        self._digest: str | None = None
        self._making = Lock()

    def folder(self) -> str:
        """Where they are; empty where they cannot be made, and programs start later.

        Raises:
            GeneratorChangedError: Something there is not as it was made.
        """
        made = self._parent / "copies"
        view = View((str(made),))
        with self._making:
            if self._digest is None:
                self._digest = digest_of_view(view) if self._are_made(made) else ""
        if self._digest and digest_of_view(view) != self._digest:
            raise GeneratorChangedError
        return str(made) if self._digest else ""

    def _are_made(self, folder: Path) -> bool:
        """Copies of other modules that are imported on the way come along, and are as good."""
        shutil.rmtree(self._parent, ignore_errors=True)
        try:
            folder.mkdir(parents=True)
            self._parent.chmod(0o700)
            return self._compiled(folder) == 0
        except (OSError, subprocess.TimeoutExpired):
            return False

    def _compiled(self, folder: Path) -> int:
        folder.chmod(0o755)
        done = subprocess.run(
            [sys.executable, "-I", "-X", f"pycache_prefix={folder}", "-c", f"import {self._modules}"],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            umask=_READABLE,
            timeout=_PATIENCE,
        )
        return done.returncode
