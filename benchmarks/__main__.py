"""Every benchmark, one after the other: how long each takes, and whether its targets are met.

``python -m benchmarks [NAME ...] [--limit SECONDS] [--logs FOLDER]``. Each is called without options, in
a process of its own, and is stopped at the limit. Exit code 1 where one was stopped, failed or missed a
target. Run it on a machine that does nothing else.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks import bench

FOLDER = Path(__file__).parent
LIMIT = 720.0
"""Seconds that every benchmark ends within, on two quiet cores."""

_TIDY_UP = 10.0
"""Seconds that one which is stopped gets to end what it started."""

_ENDS = {0: "targets met", 1: "missed or failed"}


@dataclass(frozen=True, slots=True)
class Run:
    """End of one benchmark.

    Args:
        seconds: Wall time.
        end: In words.
    """

    name: str
    seconds: float
    end: str

    @property
    def is_good(self) -> bool:
        return self.end == _ENDS[0]


def names() -> list[str]:
    """The modules that are benchmarks: programs that are not one step of another one (``_once``)."""
    return sorted(
        path.stem
        for path in FOLDER.glob("*.py")
        if path != Path(__file__)
        and not path.stem.endswith("_once")
        and '__name__ == "__main__"' in path.read_text(encoding="utf-8")
    )


def run(name: str, command: Sequence[str], log: Path, limit: float) -> Run:
    """Run one command, its output in a file; end it and all that it started at the limit."""
    begin = time.perf_counter()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code = process.wait(limit)
            end = _ENDS.get(code, f"exit code {code}")
        except BaseException as stopped:
            _stop(process)
            if not isinstance(stopped, subprocess.TimeoutExpired):
                raise
            end = f"stopped after {limit:.0f} s"
    return Run(name, time.perf_counter() - begin, end)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a benchmark and its children: with time to tidy up, then without."""
    for kind in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, kind)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_TIDY_UP)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks; default: all")
    parser.add_argument(
        "--limit",
        type=float,
        default=LIMIT,
        help="time limit of each benchmark in seconds (default: %(default)s)",
    )
    parser.add_argument(
        "--logs", type=Path, default=Path("dist/benchmarks"), help="folder for their output"
    )
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(names()):
        parser.error(
            f"unknown benchmarks: {', '.join(sorted(unknown))}; available: {', '.join(names())}"
        )
    options.logs.mkdir(parents=True, exist_ok=True)
    runs = []
    for name in options.names or names():
        print(f"{name} ...", file=sys.stderr, flush=True)
        command = [sys.executable, "-m", f"benchmarks.{name}"]
        runs.append(run(name, command, options.logs / f"{name}.log", options.limit))
        print(f"{name}: {runs[-1].seconds:.0f} s, {runs[-1].end}", file=sys.stderr, flush=True)
    rows = [(one.name, round(one.seconds), one.end) for one in runs]
    bench.show([bench.Table("Benchmarks", ("name", "seconds", "end"), rows)])
    return 0 if all(one.is_good for one in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
