"""Parts that all benchmarks share: a table, targets with their verdict, JSON, one line, an exit code.

A benchmark is a module with a function ``run(quick: bool) -> Result`` that ends in
``bench.main("name", run)``; it takes ``--quick``, ``--json FILE`` and ``--plot FILE``, and where quick
is what it usually is, ``--full``. With ``run(quick: bool, peers: bool)`` and
``peers=True`` it takes ``--peers`` too: run other packages, whose figures are shown as recorded
otherwise (``benchmarks.peers``).
"""

import argparse
import ctypes
import gc
import json
import multiprocessing
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable

Cell = str | int | float | None
Answer = TypeVar("Answer")

_MIB = 1024.0 * 1024.0


@dataclass(frozen=True, slots=True)
class Table:
    """One table of results; each row has one cell per column."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True, slots=True)
class Target:
    """A bound that a figure must keep.

    Args:
        unchecked: Why the bound says nothing here, as where the other side was timed on another machine.

    >>> Target("speed-up", 12.0, 8.0, "at least").met
    True
    """

    name: str
    value: float
    bound: float
    direction: Literal["at least", "at most"]
    unit: str = ""
    unchecked: str = ""

    @property
    def met(self) -> bool:
        """False also for a value that is not a number; true where it is not checked."""
        if self.unchecked:
            return True
        return self.value >= self.bound if self.direction == "at least" else self.value <= self.bound


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a benchmark.

    Args:
        figures: Anything more that belongs in the JSON.
        plot: Draws it to a file, where it can be drawn.
    """

    tables: Sequence[Table]
    targets: Sequence[Target]
    figures: dict[str, Any] | None = None
    plot: Callable[[Path], None] | None = None


def main(
    name: str,
    run: Callable[..., Result],
    arguments: Sequence[str] | None = None,
    *,
    usually_quick: bool = False,
    peers: bool = False,
) -> NoReturn:
    """Run a benchmark as a program; exit 1 where a target is missed.

    Args:
        peers: Whether ``run`` takes ``peers``, and the program ``--peers``.
    """
    options = parser(name, usually_quick=usually_quick, peers=peers).parse_args(arguments)
    finish(name, run, options)


def parser(name: str, *, usually_quick: bool = False, peers: bool = False) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    made = argparse.ArgumentParser(prog=f"benchmarks.{name}")
    made.add_argument(
        "--quick", action="store_true", default=usually_quick, help="a small part, in little time"
    )
    if usually_quick:
        made.add_argument("--full", action="store_false", dest="quick", help="all of it")
    if peers:
        made.add_argument(
            "--peers", action="store_true", help="run the other packages, and record their figures"
        )
    made.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE too")
    made.add_argument("--plot", type=Path, metavar="FILE", help="draw the plot, if it has one, to FILE")
    return made


def finish(name: str, run: Callable[..., Result], options: argparse.Namespace) -> NoReturn:
    """Run it as the options say, show and write what it measured; exit 1 where a target is missed."""
    begin = time.perf_counter()
    result = run(options.quick, **({"peers": options.peers} if "peers" in options else {}))
    summary = _summary(name, result, time.perf_counter() - begin)
    show([*result.tables, _target_table(result.targets)])
    if options.json:
        options.json.write_text(
            json.dumps(_report(name, options.quick, result, summary), indent=2) + "\n"
        )
    if options.plot and result.plot:
        result.plot(options.plot)
    print(summary)
    sys.exit(0 if all(target.met for target in result.targets) else 1)


def by_file(path: str) -> list[str]:
    """Arguments by which any interpreter runs a file, without the other modules of its folder.

    Here they would hide modules of Python of the same name, such as ``numbers``.
    """
    program = "import runpy, sys; del sys.path[0], sys.argv[0]"
    return ["-c", f"{program}; runpy.run_path(sys.argv[0], run_name='__main__')", path]


def defined(value: float | None) -> float:
    """A measure for a target: one that is not defined is no number, which meets no bound."""
    return float("nan") if value is None else value


def seconds(function: Callable[[], object], repeats: int = 5) -> float:
    """Median wall time of one call, in seconds, after one call to warm up."""
    function()
    return statistics.median(once(function) for _ in range(repeats))


def fastest(function: Callable[[], object], repeats: int = 5) -> float:
    """Shortest wall time of one call, in seconds: other work on the machine only ever adds to it."""
    return min(once(function) for _ in range(repeats))


def least_processor_seconds(function: Callable[[], object], repeats: int = 5) -> float:
    """Fewest processor seconds of one call."""
    used = []
    for _ in range(repeats):
        begin = processor_seconds()
        function()
        used.append(processor_seconds() - begin)
    return min(used)


def processor_seconds(children: bool = False) -> float:
    """Used so far by this process, or by its children that have ended: not what else runs here."""
    if not children:
        return time.process_time()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def once(function: Callable[[], object]) -> float:
    """Wall time of one call, in seconds."""
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def alone(function: Callable[..., Answer], *arguments: object) -> Answer:
    """Call a function of a module in a fresh process, so that its memory is its own."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(function, *arguments).result()


def on_all_cores(function: Callable[..., Answer], arguments: Sequence[Sequence[object]]) -> list[Answer]:
    """Call a function of a module with each of some arguments, in as many processes as there are cores.

    For figures that no clock is in.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        return [call.result() for call in [pool.submit(function, *each) for each in arguments]]


def processor() -> str:
    """Name of the processor (Linux), and how many of them there are."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return f"{name or platform.machine()}, {os.cpu_count()} cores"


def resident_mib() -> float:
    """Memory resident in this process now, in MiB (Linux)."""
    return _status_mib("VmRSS")


def peak_mib(function: Callable[[], object]) -> float:
    """Peak memory of one call above what the process held before it, in MiB (Linux)."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # memory that was freed must not count as held
    Path("/proc/self/clear_refs").write_text("5")  # sets the kernel's high-water mark back
    before = resident_mib()
    function()
    return max(0.0, _status_mib("VmHWM") - before)


def _status_mib(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    kib = next(line.split()[1] for line in lines if line.startswith(field + ":"))
    return int(kib) * 1024.0 / _MIB


def show(tables: Sequence[Table]) -> None:
    """Print tables."""
    # A log file has no width; wide tables must not be folded there.
    console = Console() if sys.stdout.isatty() else Console(width=140)
    for table in tables:
        shown = RichTable(title=table.title, title_justify="left")
        for index, column in enumerate(table.columns):
            shown.add_column(column, justify="left" if index == 0 else "right")
        for row in table.rows:
            shown.add_row(*(_text(cell) for cell in row))
        console.print(shown)


def _target_table(targets: Sequence[Target]) -> Table:
    rows = [
        (
            target.name,
            target.value,
            f"{target.direction} {_text(target.bound)}",
            target.unit,
            _verdict(target),
        )
        for target in targets
    ]
    return Table("Targets", ("target", "value", "bound", "unit", "verdict"), rows)


def _verdict(target: Target) -> str:
    if target.unchecked:
        return f"not checked: {target.unchecked}"
    return "met" if target.met else "MISSED"


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def _summary(name: str, result: Result, elapsed: float) -> str:
    missed = [target.name for target in result.targets if not target.met]
    checked = [target for target in result.targets if not target.unchecked]
    verdict = f"MISSED {', '.join(missed)}" if missed else f"all {len(checked)} targets met"
    if len(checked) < len(result.targets):
        verdict += f", {len(result.targets) - len(checked)} not checked"
    figures = ", ".join(
        f"{target.name} {_text(target.value)} {target.unit}".strip() for target in result.targets
    )
    return f"{name}: {verdict} in {elapsed:.1f} s ({figures})"


def _report(name: str, quick: bool, result: Result, summary: str) -> dict[str, Any]:
    return {
        "benchmark": name,
        "quick": quick,
        "machine": {
            "processor": processor(),
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        "tables": [asdict(table) for table in result.tables],
        "targets": [asdict(target) | {"met": target.met} for target in result.targets],
        "figures": result.figures or {},
        "summary": summary,
    }
