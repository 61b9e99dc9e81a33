"""Programs for cells, and records for them."""

import atexit
import shutil
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from gencard.controller.sandbox.boxes import SandboxedProgram, check_isolation
from gencard.controller.sandbox.environment import PYTHON, CompiledCopies
from gencard.controller.sandbox.limits import Isolation, SandboxLimits
from gencard.controller.sandbox.program import Program
from gencard.controller.sandbox.sandbox import Sandbox
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import IsolationError

DOMAIN = Domain.of({"a": 256, "b": 300})
RECORDS = Dataset.of_columns(DOMAIN, [np.arange(50), np.arange(50) * 6])
LIMITS = SandboxLimits(memory_mib=1_024, cpu_seconds=20, wall_seconds=30, processes=1, work_mib=4)

FORKS = True
"""Whether scripts in Python are forked, as the service does it; see the fixture ``each_way``."""

_REPORTING = """
import numpy as np
from gencard.wire.black_box import black_box

@black_box
def tell(table, rows, *, rng):
    return {"a": np.full(rows, tried()), "b": np.zeros(rows, dtype=int)}

tell.main()
"""


@cache
def isolation_works() -> bool:
    """Whether sandboxes work on this machine."""
    try:
        check_isolation(Isolation.NAMESPACES, Path("/nowhere"))
    except IsolationError:
        return False
    return True


needs_sandbox = pytest.mark.skipif(
    not isolation_works(), reason="no bubblewrap here, or it is not allowed namespaces"
)


@cache
def copies() -> str:
    """Compiled copies for all programs of a test run: without them each would compile numpy anew."""
    work = tempfile.mkdtemp(prefix="gencard-copies-")
    atexit.register(shutil.rmtree, work, ignore_errors=True)
    return CompiledCopies(Path(work), []).folder()


def box(
    text: str, *, interpreter: str = "python", isolation=Isolation.NAMESPACES, **limits
) -> SandboxedProgram:
    """A program of one file, as a black box."""
    program = Program((interpreter, "./box"), (("box", text.encode()),))
    environment = program.environment(copies() if interpreter == PYTHON else "")
    sandbox = Sandbox(replace(LIMITS, **limits), isolation, environment, forks=FORKS)
    return SandboxedProgram(program, sandbox)


def shell(text: str, **limits) -> SandboxedProgram:
    return box(text, interpreter="/bin/sh", **{"processes": 8} | limits)


def reporting_box(body: str, **limits) -> SandboxedProgram:
    """A box whose rows report the result of the function ``tried`` in this text, 0 to 255."""
    return box(body + _REPORTING, **limits)


def reported_value(body: str, **limits) -> int:
    """The result of ``tried`` in a sandbox."""
    return int(reporting_box(body, **limits)(RECORDS, 1, seed=0).column("a")[0])
