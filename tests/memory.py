"""Folders of the tests in memory, under names by which the next run removes what a killed one left."""

import os
import shutil
from pathlib import Path

MEMORY = Path("/dev/shm")
_PREFIX = "gencard-tests-"


def own_prefix() -> str:
    """How the name of each folder of this process begins."""
    return f"{_PREFIX}{os.getpid()}-"


def remove_abandoned() -> None:
    """Remove the folders of processes that are no more."""
    for folder in MEMORY.glob(f"{_PREFIX}*"):
        if not Path("/proc", folder.name.removeprefix(_PREFIX).split("-")[0]).exists():
            shutil.rmtree(folder, ignore_errors=True)
