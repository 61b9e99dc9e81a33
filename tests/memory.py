"""Folders of the tests in memory, under names by which the next run removes what a killed one left."""

import os
import shutil
from pathlib import Path

MEMORY = Path("/dev/shm")
_PREFIX = "gencard-tests-"


def own_prefix() -> str:
    """Opening of the name of each folder of this process."""
    return f"{_PREFIX}{os.getpid()}-"


def remove_abandoned() -> None:
    """Remove the folders of processes that are no more."""
    for folder in MEMORY.glob(f"{_PREFIX}*"):
        if not Path("/proc", folder.name.removeprefix(_PREFIX).split("-")[0]).exists():
            shutil.rmtree(folder, ignore_errors=True)


def endless_records() -> Path:
    """A CSV file of 1 TiB without a byte on the disk: reading it goes on until it is stopped."""
    path = MEMORY / f"{own_prefix()}endless" / "records.csv"
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        file.truncate(1 << 40)
    return path
