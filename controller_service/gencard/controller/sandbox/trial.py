"""Whether a sandbox can be closed on this machine: tried, not guessed."""

from pathlib import Path

import numpy as np

from gencard.controller.sandbox.boxes import SandboxedProgram
from gencard.controller.sandbox.limits import Isolation, SandboxLimits
from gencard.controller.sandbox.program import Program
from gencard.controller.sandbox.sandbox import Sandbox
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import GencardError, IsolationError

_RESAMPLES = """
import ctypes
import os
import socket
from gencard.wire.black_box import black_box

if {hidden!r}:
    assert not os.path.exists({hidden!r})
    assert not os.path.exists("/proc") and not os.path.exists("/sys")
    assert os.uname().nodename == "cell"
    assert ctypes.CDLL(None).prctl({get_filter}, 0, 0, 0, 0) == {filtered}
    for family in socket.AF_INET, socket.AF_UNIX:
        try:
            socket.socket(family)
        except OSError:
            continue
        raise AssertionError

@black_box
def resample(table, rows, *, rng):
    return table.dataset.take(rng.integers(len(table), size=rows))

resample.main()
"""

_PR_GET_SECCOMP, _FILTERED = 21, 2
"""Of prctl(2): what asks how a process's calls are filtered, and the answer "by a program"."""


def check_isolation(isolation: Isolation, hidden: Path) -> None:
    """Run a box that looks for what it must not see: sockets, a folder, /proc, calls without a filter.

    Args:
        hidden: A folder of the controller's own, which must not be there inside.

    Raises:
        IsolationError: The box did not answer: there is no bubblewrap, namespaces or filters of system
            calls are not allowed, this kind of machine has other calls, what runs cannot be seen from
            outside, others cannot read the interpreter, or the sandbox shows what it should hide.
    """
    seen = str(hidden) if isolation is Isolation.NAMESPACES else ""
    text = _RESAMPLES.format(hidden=seen, get_filter=_PR_GET_SECCOMP, filtered=_FILTERED)
    program = Program(("python", "./box.py"), (("box.py", text.encode()),))
    box = SandboxedProgram(
        program, Sandbox(SandboxLimits(wall_seconds=60), isolation, program.environment())
    )
    dataset = Dataset.of_columns(Domain.of({"a": 2}), [np.array([0, 1])])
    try:
        box(dataset, 1, seed=0)
        return
    except GencardError:
        pass
    raise IsolationError
