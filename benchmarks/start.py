"""How much processor time programs take to start, beside an interpreter that does nothing.

``python -m benchmarks.start [--quick] [--json FILE]``

``gencard cards`` is called at a real service over TLS. Seconds are those of the processor, user and
system, and the median of some calls: on a busy machine wall seconds say more about what else runs.
"""

import contextlib
import os
import sys
import tempfile
from pathlib import Path
from statistics import median

from benchmarks import bench
from examples import demo

_BIN = Path(sys.executable).parent
Words = tuple[str, ...]

_PYTHON = (sys.executable, "-c")
_BARE = (*_PYTHON, "pass")

_BOUNDS: dict[str, tuple[Words, float]] = {
    "gencard --help": ((str(_BIN / "gencard"), "--help"), 0.5),
    "gencard-controller --help": ((str(_BIN / "gencard-controller"), "--help"), 0.8),
    "import gencard.client": ((*_PYTHON, "import gencard.client"), 0.4),
}
_OTHERS: dict[str, Words] = {
    "from gencard.client import Analyst": (*_PYTHON, "from gencard.client import Analyst"),
    "start of a worker": (*_PYTHON, "import gencard.controller.jobs.worker"),
    "start of the service": (*_PYTHON, "import gencard.controller.wiring"),
}


def seconds(command: Words) -> float:
    """Processor time of one call, user and system."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    silent = [(os.POSIX_SPAWN_DUP2, nowhere, 1)]
    pid = os.posix_spawn(command[0], command, os.environ, file_actions=silent)
    _, status, usage = os.wait4(pid, 0)
    os.close(nowhere)
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    return usage.ru_utime + usage.ru_stime


def run(quick: bool) -> bench.Result:
    """Time each program some times; the first time, which compiles what is new, does not count."""
    calls = 3 if quick else 9
    commands: dict[str, Words] = {"python -c pass": _BARE}
    commands |= {name: words for name, (words, _) in _BOUNDS.items()}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        demo.prepare()
        with demo.serving() as meter:
            address = f'address = "localhost:{meter.target}"\n'
            (demo.ANA / "connection.toml").write_text(address)
            cards = (str(_BIN / "gencard"), "cards", "-c", str(demo.ANA))
            commands |= {"gencard cards": cards} | _OTHERS
            took = {name: _median(command, calls) for name, command in commands.items()}
    bare = took["python -c pass"]
    rows = [(name, value, value - bare) for name, value in took.items()]
    table = bench.Table("Processor time to start, in s", ("program", "seconds", "above bare"), rows)
    targets = [
        bench.Target(name, took[name], bound, "at most", "s") for name, (_, bound) in _BOUNDS.items()
    ]
    return bench.Result([table], targets, took)


def _median(command: Words, calls: int) -> float:
    seconds(command)
    return median(seconds(command) for _ in range(calls))


if __name__ == "__main__":
    bench.main("start", run)
