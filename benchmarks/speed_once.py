"""One operation of one commit, called again for each line of standard input, in a process of its own.

``python speed_once.py ROOT TASK`` prints one line of JSON for each line: wall seconds, and seconds of
the processor with those of a server that it started. It runs with the packages of the checkout
``ROOT`` alone, so it names only what both commits have: their own ``benchmarks``.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import combinations
from math import ceil
from pathlib import Path
from typing import Any

Call = Callable[[], object]

_LEAST = 0.3
"""Processor seconds of what is timed at once, by calling again where a call takes less."""


@contextmanager
def _count(name: str) -> Iterator[tuple[Call, int]]:
    count = import_module("benchmarks.count")
    dataset = count.records(570_000)
    cliques = list(combinations(dataset.domain.attributes, 2))
    yield lambda: count.METHODS[name](dataset, cliques), 0


@contextmanager
def _ipf(_: str) -> Iterator[tuple[Call, int]]:
    ipf, job = import_module("benchmarks.ipf"), import_module("benchmarks.generators").job
    psi, dataset = job("3")
    generator = _either(ipf, "ipf")(tolerance=1e-4)
    yield lambda: generator.fit(psi, dataset.domain), 0


@contextmanager
def _sampling(name: str) -> Iterator[tuple[Call, int]]:
    generators = import_module("benchmarks.generators")
    psi, dataset = generators.job(name)
    model = _either(generators, "graphical")().fit(psi, dataset.domain)
    yield lambda: model.sample(1_000_000, rng=generators.rng_of(1)), 0


@contextmanager
def _graphical(name: str) -> Iterator[tuple[Call, int]]:
    generators = import_module("benchmarks.generators")
    psi, dataset = generators.job(name)
    generator = _either(generators, "graphical")()
    yield lambda: generator.fit(psi, dataset.domain), 0


@contextmanager
def _raking(name: str) -> Iterator[tuple[Call, int]]:
    raking = import_module("benchmarks.raking")
    dataset = raking.DATASETS[name]()
    psi = raking.measure_dataset(dataset, raking.pairs(dataset))
    yield lambda: raking.SupportRaking(support=2**16).fit(psi, dataset.domain), 0


@contextmanager
def _audit(name: str) -> Iterator[tuple[Call, int]]:
    """Of one run of the box: how often an audit runs it is a question of what the audit tests."""
    number, box_name = name.split(", ")
    series = import_module("benchmarks.audit_series").series
    application = import_module("benchmarks.applications").applications()[int(number) - 1]
    box, runs = application.boxes()[box_name], [0]

    def counted(dataset: Any, rows: int, *, seed: int) -> Any:
        runs[0] += 1
        return box(dataset, rows, seed=seed)

    def call() -> int:
        runs[0] = 0
        series(application, box_name, counted, range(100, 101))
        return runs[0]

    yield call, 0


@contextmanager
def _dcr(_: str) -> Iterator[tuple[Call, int]]:
    dcr, once = import_module("benchmarks.dcr"), import_module("benchmarks.dcr_once")
    with tempfile.TemporaryDirectory() as folder:
        path = dcr._written(Path(folder) / "job.npz", dcr.adult())
        yield once.gencard(once.Job(str(path), 20_000, 20_000)), 0


@contextmanager
def _stream(way: str) -> Iterator[tuple[Call, int]]:
    stream = import_module("benchmarks.stream")
    rows = 500_000
    with tempfile.TemporaryDirectory() as name, stream.serving(Path(name)) as (folder, server):
        ((card, release),) = stream.releases(folder, (rows,))
        scratch = Path(name) / "scratch"
        scratch.mkdir()
        with stream.Analyst.connect(folder=folder / "people/ana") as analyst:
            agreement = analyst.card(card).agreement
            yield lambda: stream.WAYS[way](agreement, release, rows, scratch), server


def _either(module: Any, name: str) -> Any:
    """A generator, which was a class of its own once."""
    return getattr(module, name, None) or getattr(module, name.capitalize())


TASKS: dict[str, tuple[Callable[[str], Any], str]] = {
    "count: 105 pairs, 570,000 records": (_count, "gencard, in memory"),
    "count: the same in batches": (_count, "gencard, streamed"),
    "ipf: fit, 936,000 cells": (_ipf, ""),
    "audit: application 1, honest, per run of the box": (_audit, "1, honest"),
    "audit: application 2, dishonest, per run of the box": (_audit, "2, dishonest"),
    "audit: application 3, dishonest, per run of the box": (_audit, "3, dishonest"),
    "dcr: Adult, 20,000 x 20,000": (_dcr, ""),
    "stream: 500,000 rows as codes": (_stream, "codes, in memory"),
    "stream: 500,000 rows as a data frame": (_stream, "data frame"),
    "generators: graphical, application 1": (_graphical, "1"),
    "generators: graphical, application 2": (_graphical, "2"),
    "generators: graphical, application 3": (_graphical, "3"),
    "generators: graphical, tree": (_graphical, "14-attribute tree"),
    "generators: support-raking, census": (_raking, "census"),
    "generators: support-raking, Adult": (_raking, "adult"),
    "generators: 1,000,000 rows, application 1": (_sampling, "1"),
    "generators: 1,000,000 rows, tree": (_sampling, "14-attribute tree"),
}
"""What is timed: how it is prepared, and the word that it is prepared with."""


def main(root: Path, task: str) -> None:
    """Prepare the task, then call it once for each line.

    Raises:
        SystemExit: The packages imported are not those of ``root``.
    """
    if not Path(import_module("gencard.core.domain").__file__ or "").is_relative_to(root):
        raise SystemExit(f"the packages are not those of {root}")
    prepare, word = TASKS[task]
    with prepare(word) as (call, server):
        call()  # loads and caches
        used = _processor_seconds(server)
        call()
        times = ceil(_LEAST / max(_processor_seconds(server) - used, 1e-3))
        print("ready", flush=True)
        for _ in sys.stdin:
            print(json.dumps(_timed(call, server, times)), flush=True)


def _timed(call: Call, server: int, times: int) -> tuple[float, float]:
    """Wall and processor seconds of one call, or of one of the parts whose number it returns."""
    wall, used, parts = time.perf_counter(), _processor_seconds(server), 0
    for _ in range(times):
        answer = call()
        parts += answer if isinstance(answer, int) else 1
    return (time.perf_counter() - wall) / parts, (_processor_seconds(server) - used) / parts


def _processor_seconds(server: int) -> float:
    """Of this process and of another one, 0 for none; not of the children of either (Linux)."""
    if not server:
        return time.process_time()
    # Fields 14 and 15 of proc(5); the name, which may hold blanks, ends with the last bracket.
    fields = Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()
    return time.process_time() + sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
