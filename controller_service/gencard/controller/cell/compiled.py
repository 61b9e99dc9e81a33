"""Compiled copies of Python's sources, made by the service itself, by which programs start sooner.

Those that lie beside sources are never run in a cell: Python runs one whose time and size fit to the
source, whatever it holds.
"""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from threading import Lock

_MODULES = ("gencard.wire.black_box", "gencard.controller.cell.built_in", "numpy.random")
"""What every program in Python starts with."""

_MODULES_OF = {
    "synthpop": ("sklearn.tree",),
    "ctgan": ("gencard.core.blackbox.ctgan.training", "sklearn.mixture"),
    "pate-gan": ("gencard.core.blackbox.pate_gan.training", "scipy.stats"),
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
        self._modules = (*_MODULES, *(name for box in boxes for name in _MODULES_OF.get(box, ())))
        self._making = Lock()

    def folder(self) -> str:
        """Where they are; empty where they cannot be made, and programs start later."""
        made = self._parent / "copies"
        with self._making:
            if not made.is_dir() and not self._is_made(made):
                return ""
        return str(made)

    def _is_made(self, folder: Path) -> bool:
        """Other modules than those that are asked for come along, and are as good."""
        new = folder.with_name("new")
        script = f"import {', '.join(self._modules)}"
        try:
            self._parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            done = subprocess.run(
                [sys.executable, "-I", "-X", f"pycache_prefix={new}", "-c", script],
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                umask=_READABLE,
                timeout=_PATIENCE,
            )
            if done.returncode == 0:
                new.rename(folder)
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0
