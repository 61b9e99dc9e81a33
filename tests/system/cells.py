"""Programs for cells, and records for them."""

import atexit
import shutil
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from gencard.controller.sandbox.box import CellBox
from gencard.controller.sandbox.cell import Cell
from gencard.controller.sandbox.compiled import CompiledCopies
from gencard.controller.sandbox.limits import CellLimits, Isolation
from gencard.controller.sandbox.program import Program
from gencard.controller.sandbox.trial import check_isolation
from gencard.controller.sandbox.views import PYTHON
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import IsolationError

DOMAIN = Domain.of({"a": 256, "b": 300})
RECORDS = Dataset.of_columns(DOMAIN, [np.arange(50), np.arange(50) * 6])
LIMITS = CellLimits(memory_mib=1_024, cpu_seconds=20, wall_seconds=30, processes=1, work_mib=4)

_TELLING = """
import numpy as np
from gencard.wire.black_box import black_box

@black_box
def tell(table, rows, *, rng):
    return {"a": np.full(rows, tried()), "b": np.zeros(rows, dtype=int)}

tell.main()
"""


@cache
def closes() -> bool:
    """Whether cells can be closed on this machine."""
    try:
        check_isolation(Isolation.NAMESPACES, Path("/nowhere"))
    except IsolationError:
        return False
    return True


needs_cell = pytest.mark.skipif(
    not closes(), reason="no bubblewrap here, or it is not allowed namespaces"
)


@cache
def copies() -> str:
    """Compiled copies for all programs of a test run: without them each would compile numpy anew."""
    work = tempfile.mkdtemp(prefix="gencard-copies-")
    atexit.register(shutil.rmtree, work, ignore_errors=True)
    return CompiledCopies(Path(work), []).folder()


def box(text: str, *, interpreter: str = "python", isolation=Isolation.NAMESPACES, **limits) -> CellBox:
    """A program of one file, as a black box."""
    program = Program((interpreter, "./box"), (("box", text.encode()),))
    view = replace(program.view(), compiled=copies() if interpreter == PYTHON else "")
    return CellBox(program, Cell(replace(LIMITS, **limits), isolation, view))


def shell(text: str, **limits) -> CellBox:
    return box(text, interpreter="/bin/sh", **{"processes": 8} | limits)


def telling(body: str, **limits) -> CellBox:
    """A box that tells in its rows what the function ``tried`` in this text found, 0 to 255."""
    return box(body + _TELLING, **limits)


def told(body: str, **limits) -> int:
    """What ``tried`` found in a cell."""
    return int(telling(body, **limits)(RECORDS, 1, seed=0).column("a")[0])
