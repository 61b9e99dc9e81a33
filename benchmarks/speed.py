"""The speed of this checkout beside that of an earlier commit, by turns, in one run.

``python -m benchmarks.speed [--against COMMIT] [--quick] [--only WORD] [--json FILE]``

Each operation is prepared once in a process of either commit and then called by turns. What is judged
is the median over rounds of the ratio of processor seconds, on one thread: on a busy machine wall
seconds say more about what else runs. Calls of a client (``--only client``) are judged by their fewest
wall seconds too, for client, service and workers wait for each other; their processor seconds are those
of all three together. ``../shared`` must lie beside the repository.
"""

import atexit
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
import venv
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

from benchmarks import bench, speed_once
from docs.house.comparison import FIRST, checkout

_ROOT = Path(__file__).resolve().parents[1]

_PACKAGES = ("", "shared", "protos", "controller_service", "analyst_client")

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

_SLOWER = 1.1
"""Ratio from which an operation counts as slower."""

Seconds = tuple[float, float]
"""Seconds of one call: wall, processor."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One operation, called by turns.

    Args:
        old, new: Of each round.
    """

    task: str
    old: Sequence[Seconds]
    new: Sequence[Seconds]

    def ratio(self, clock: int) -> float:
        """Median over rounds of new by old; 0 is wall, 1 is processor."""
        return median(new[clock] / old[clock] for old, new in zip(self.old, self.new, strict=True))

    @property
    def fastest(self) -> float:
        """Fewest wall seconds of new by fewest of old: other work on the machine only adds to them."""
        return min(new[0] for new in self.new) / min(old[0] for old in self.old)

    @property
    def row(self) -> tuple[bench.Cell, ...]:
        processor = [median(seconds[1] for seconds in side) for side in (self.old, self.new)]
        wall = [median(seconds[0] for seconds in side) for side in (self.old, self.new)]
        verdict = "SLOWER" if self.ratio(1) > _SLOWER else ""
        return (self.task, len(self.new), *processor, self.ratio(1), *wall, self.ratio(0), verdict)


def compared(task: str, old: Path, new: Path, *, most: float) -> Comparison:
    """Call an operation of two checkouts by turns: nine rounds, or three where they take too long."""
    seconds: tuple[list[Seconds], list[Seconds]] = ([], [])
    with calling(old, task) as call_old, calling(new, task) as call_new:
        # The order, and the calls in a turn, are those of the other side: a call right after one of the
        # same side finds warm caches, and takes up to a quarter less.
        times = max(call_old.least, call_new.least)
        begin = time.perf_counter()
        for number in range(9):
            for call, own in zip((call_old, call_new), seconds, strict=True):
                own.append(call(times))
            if number >= 2 and time.perf_counter() - begin > most:
                break
    return Comparison(task, *seconds)


@dataclass(frozen=True, slots=True)
class Side:
    """A process of a checkout that is ready to call an operation.

    Args:
        least: Calls that take long enough to be timed.
    """

    process: "subprocess.Popen[str]"
    least: int

    def __call__(self, times: int) -> Seconds:
        """Seconds of one call, when it is called so many times in a row."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{times}\n")
        self.process.stdin.flush()
        wall, processor = json.loads(self.process.stdout.readline())
        return wall, processor


@contextmanager
def calling(root: Path, task: str) -> Iterator[Side]:
    """Prepare an operation of a checkout, in a process of its own."""
    interpreter, variables = interpreter_of(root)
    command = [str(interpreter), speed_once.__file__, str(root), task]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables, cwd=root
    ) as process:
        assert process.stdin
        assert process.stdout
        ready, _, least = process.stdout.readline().partition(" ")
        if ready != "ready":
            raise SystemExit(f"{task}: does not start in {root}")
        yield Side(process, int(least))
        process.stdin.close()


def interpreter_of(root: Path) -> tuple[Path, dict[str, str]]:
    """An interpreter that imports a checkout's packages, all others as this one does, and its variables.

    The jobs of a service start an interpreter of their own, without the variables of its environment.
    Both sides have one of this kind, which starts faster than that of an editable installation.
    """
    paths = os.pathsep.join(str(root / package) for package in _PACKAGES)
    variables = {**os.environ, **_ONE_THREAD, "PYTHONPATH": paths, "PYTHONSAFEPATH": "1"}
    return _environment_of(root) / "bin" / "python", variables


@cache
def _environment_of(root: Path) -> Path:
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    environment = Path(folder.name)
    venv.create(environment, symlinks=True)
    libraries = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
    # a folder that such a file names is searched, but no such file in it is read: not ours, here
    folders = [*(root / package for package in _PACKAGES[1:]), sysconfig.get_path("purelib")]
    (libraries / "checkout.pth").write_text("\n".join(map(str, folders)))
    _write_commands(root, environment / "bin")
    return environment


def _write_commands(root: Path, folder: Path) -> None:
    """The commands of a checkout, as an installation makes them."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    for name, entry in project["scripts"].items():
        module, _, function = entry.partition(":")
        program = f"#!{folder}/python\nfrom {module} import {function}\n{function}()\n"
        (folder / name).write_text(program)
        (folder / name).chmod(0o755)


@contextmanager
def _with_data(root: Path) -> Iterator[Path]:
    """A checkout that finds the data beside it, as this one does."""
    beside = root.parent / "shared"
    beside.symlink_to(_ROOT.parent / "shared")
    try:
        yield root
    finally:
        beside.unlink()


def run(commit: str, tasks: Sequence[str], quick: bool) -> bench.Result:
    """Compare this checkout with the commit."""
    comparisons = []
    with ExitStack() as stack:
        old = stack.enter_context(_with_data(stack.enter_context(checkout(commit))))
        for task in tasks:
            comparisons.append(compared(task, old, _ROOT, most=8 if quick else 60))
            print(task, f"{comparisons[-1].ratio(1):.2f}", file=sys.stderr)
    targets = [bench.Target(one.task, one.ratio(1), _SLOWER, "at most", "x") for one in comparisons]
    targets += [
        bench.Target(f"{one.task}, fastest wall", one.fastest, _SLOWER, "at most", "x")
        for one in comparisons
        if one.task in speed_once.CLIENT_TASKS
    ]
    return bench.Result([_table(commit, comparisons)], targets)


def _table(commit: str, comparisons: Sequence[Comparison]) -> bench.Table:
    return bench.Table(
        f"Medians over rounds: processor seconds on one thread, and wall seconds; old is {commit}",
        ("operation", "rounds", "old", "new", "new/old", "wall, old", "new", "new/old", ""),
        [one.row for one in comparisons],
    )


def main() -> None:
    """Compare, and exit 1 where an operation is slower."""
    parser = bench.parser("speed")
    parser.add_argument("--against", default=FIRST, metavar="COMMIT", help=f"not {FIRST}")
    parser.add_argument("--only", default="", metavar="WORD", help="operations that hold the word")
    options = parser.parse_args()
    tasks = [task for task in speed_once.TASKS if options.only in task]
    bench.finish("speed", lambda quick: run(options.against, tasks, quick), options)


if __name__ == "__main__":
    main()
