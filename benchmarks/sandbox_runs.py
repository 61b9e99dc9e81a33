"""Runs in the sandbox, forked from one interpreter and each with its own: seconds of each.

``python -m benchmarks.sandbox_runs [--quick] [--json FILE]``

Both ways take turns, with the same seeds, and must give the same rows. What an audit computes besides
its runs is not in these figures, see ``benchmarks.audit``.
"""

import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks import bench
from benchmarks.adult import adult
from gencard.controller.sandbox.boxes import SandboxedProgram, built_in_program, sandboxed_box
from gencard.controller.sandbox.environment import CompiledCopies
from gencard.controller.sandbox.limits import Isolation, SandboxLimits
from gencard.controller.sandbox.program import Program
from gencard.controller.sandbox.sandbox import Sandbox
from gencard.core.audit.plan import calls
from gencard.core.card.terms import AuditTerms
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain

_TRIVIAL = b"""
from gencard.wire.black_box import black_box

@black_box
def resample(table, rows, *, rng):
    return {name: rng.choice(table.column(name), rows) for name in table.domain.attributes}

resample.main()
"""

_RUNS = 40
_RUNS_OF_AUDIT = calls(AuditTerms().runs)
_MOST_TRIVIAL, _MOST_SYNTHPOP = 10.0, 180.0
"""Seconds: of 40 runs of a trivial box, and of all runs of an audit of SynthPop on Adult."""


def run(quick: bool) -> bench.Result:
    with tempfile.TemporaryDirectory() as work:
        Path(work).chmod(0o755)
        copies = CompiledCopies(Path(work), ["synthpop"]).folder()
        return _measured(copies, quick)


def _measured(copies: str, quick: bool) -> bench.Result:
    small = Dataset.of_columns(Domain.of({"a": 4, "b": 9}), [np.arange(1_000) % 4, np.arange(1_000) % 9])
    rows, targets = [], []
    seconds = _by_turns(_trivial(copies), small, _RUNS)
    rows.append(("trivial, 1,000 records", *_cells(seconds)))
    targets.append(_target("40 runs of a trivial box", sum(seconds["forked"]), _MOST_TRIVIAL))
    records = adult()
    boxes = _synthpop(copies)
    seconds = _by_turns(boxes, records, 2 if quick else 5)
    rows.append(("SynthPop, Adult", *_cells(seconds)))
    if not quick:
        every = _by_turns({"forked": boxes["forked"]}, records, _RUNS_OF_AUDIT)["forked"]
        targets.append(
            _target(f"{_RUNS_OF_AUDIT} runs of SynthPop on Adult", sum(every), _MOST_SYNTHPOP)
        )
    columns = ("box", "runs", "own interpreter, s a run", "forked, s a run", "forked, s for the first")
    return bench.Result([bench.Table("Runs in the sandbox", columns, rows)], targets)


def _target(name: str, value: float, bound: float) -> bench.Target:
    return bench.Target(name, value, bound, "at most", "s")


def _trivial(copies: str) -> Mapping[str, SandboxedProgram]:
    program = Program(("python", "./box.py"), (("box.py", _TRIVIAL),))
    anew, forked = (_sandbox(program, copies, forks) for forks in (False, True))
    return {"anew": SandboxedProgram(program, anew), "forked": SandboxedProgram(program, forked)}


def _synthpop(copies: str) -> Mapping[str, SandboxedProgram]:
    program = built_in_program("synthpop", {})
    return {
        name: sandboxed_box("synthpop", {}, _sandbox(program, copies, name == "forked"))
        for name in ("anew", "forked")
    }


def _sandbox(program: Program, copies: str, forks: bool) -> Sandbox:
    limits = replace(SandboxLimits(), wall_seconds=600)
    return Sandbox(limits, Isolation.NAMESPACES, program.environment(copies), forks=forks)


def _by_turns(
    boxes: Mapping[str, SandboxedProgram], records: Dataset, runs: int
) -> Mapping[str, list[float]]:
    """Seconds of each run; raises AssertionError where the rows differ."""
    seconds: dict[str, list[float]] = {name: [] for name in boxes}
    for seed in range(runs):
        digests = set()
        for name, box in boxes.items():
            begin = time.perf_counter()
            digests.add(box(records, len(records), seed=seed).digest())
            seconds[name].append(time.perf_counter() - begin)
        assert len(digests) == 1
    return seconds


def _cells(seconds: Mapping[str, list[float]]) -> tuple[bench.Cell, ...]:
    anew, forked = seconds["anew"], seconds["forked"]
    return len(anew), median(anew), median(forked), forked[0]


if __name__ == "__main__":
    bench.main("sandbox_runs", run)
