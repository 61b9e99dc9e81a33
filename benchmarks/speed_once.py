"""One operation of one commit, called again for each line of standard input, in a process of its own.

``python speed_once.py ROOT TASK`` reads how many times to call it, and prints one line of JSON for each
line: wall seconds of a call, and seconds of the processor with those of a server that it started. It
runs with the packages of the checkout ``ROOT`` alone, so it names only what both commits have: their own
``benchmarks``, and the client and the commands.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from itertools import combinations, count
from math import ceil
from pathlib import Path
from random import Random
from typing import Any

Call = Callable[[], object]

_ROWS = 10_000

_LEAST = 0.3
"""Processor seconds of what is timed at once, by calling again where a call takes less."""


@contextmanager
def _count(name: str) -> Iterator[tuple[Call, int]]:
    counting = import_module("benchmarks.count")
    dataset = counting.records(570_000)
    cliques = list(combinations(dataset.domain.attributes, 2))
    yield lambda: counting.METHODS[name](dataset, cliques), 0


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
    """Prepare one run of the box. The number of runs in an audit depends on what the audit tests."""
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


@contextmanager
def _client(name: str) -> Iterator[tuple[Call, int]]:
    """Calls of the client alone, to a controller that its own commands made and serve."""
    with tempfile.TemporaryDirectory() as folder, _serving(Path(folder)) as (person, server):
        client = import_module("gencard.client")
        with client.Analyst.connect(folder=person) as analyst:
            yield _CLIENT[name](analyst, client.all_marginals(2)), server


def _proposing(analyst: Any, marginals: Any) -> Call:
    return lambda: analyst.propose("records", marginals, purpose="a benchmark", rows=_ROWS)


def _generating(analyst: Any, marginals: Any, rows: int = _ROWS) -> Call:
    card, seeds = _agreed(analyst, marginals, rows=rows), count(1)
    return lambda: card.generate(rows=rows, seed=next(seeds), progress=False)


def _replaying(analyst: Any, marginals: Any) -> Call:
    card = _agreed(analyst, marginals)
    rows = card.generate(rows=_ROWS, seed=1, progress=False)
    return lambda: card.replay(rows)


def _running(analyst: Any, marginals: Any) -> Call:
    """Each run under a card of its own, for the same question under one card is answered at once."""
    analyses = {"kinds": ["crosstab"], "checked_runs": 1, "numbers": 100}
    cards = iter([_agreed(analyst, marginals, analyses=analyses) for _ in range(_MOST_CALLS)])
    return lambda: next(cards).run("attribute0 ~ attribute1", "crosstab", progress=False)


def _auditing(analyst: Any, marginals: Any) -> Call:
    card = _agreed(analyst, marginals)
    return lambda: card.audit(where="card", progress=False)


def _agreed(analyst: Any, marginals: Any, **more: Any) -> Any:
    given = {"rows": _ROWS, **more}
    return analyst.propose("records", marginals, purpose="a benchmark", **given).accept()


_MOST_CALLS = 24
_CLIENT: dict[str, Callable[[Any, Any], Call]] = {
    "propose": _proposing,
    "generate": _generating,
    "generate 100,000 rows": partial(_generating, rows=100_000),
    "generate 1,000,000 rows": partial(_generating, rows=1_000_000),
    "replay": _replaying,
    "checked run": _running,
    "audit": _auditing,
}

_SETTINGS = {
    r"(?m)^mechanisms = .*$": 'mechanisms = ["exact"]',
    r"(?m)^noise = .*\n": "",
    r"(?m)^most_rows = .*$": "most_rows = 1_000_000",
    r"(?m)^(most_per_card|dataset|project|analyst) = \{.*$": r"\1 = { statistics = 1_000_000 }",
    r"(?m)^# (analyses = .*)$": r"\1",
    r"(?m)^\[limits\].*$": "[limits]\naudits = 1_000",
    r"(?m)^(open_proposals|cards|releases) = \w+": r"\1 = 100_000",
}
"""Changes of the drafted settings: exact counts, checked runs, and limits that the calls need."""


@contextmanager
def _serving(folder: Path) -> Iterator[tuple[Path, int]]:
    """A controller with made-up records: an analyst's connection folder, and the service's process."""
    code = Random(1)
    lines = [",".join(f"level{code.randrange(3)}" for _ in range(8)) for _ in range(5_000)]
    header = ",".join(f"attribute{number}" for number in range(8))
    (folder / "records.csv").write_text("\n".join([header, *lines, ""]))
    home, program = folder / "controller", Path(sys.executable).with_name("gencard-controller")
    init = [str(program), "init", str(home), "--data", str(folder / "records.csv"), "--demo-people"]
    subprocess.run(init, check=True, stdout=subprocess.DEVNULL)
    settings = home / "controller.toml"
    text = settings.read_text()
    for pattern, replacement in _SETTINGS.items():
        text = re.sub(pattern, replacement, text)
    settings.write_text(text)
    environment = {**os.environ, "GENCARD_SERVER__ADDRESS": "localhost:0", "NO_COLOR": "1"}
    serve = [str(program), "serve", "--unreviewed", "--config", str(settings)]
    with subprocess.Popen(serve, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = next(line for line in process.stdout or () if "Serving on" in line)
            address = f"localhost:{re.findall('[0-9]+', line)[-1]}"
            (home / "people/ana/connection.toml").write_text(f'address = "{address}"\n')
            yield home / "people/ana", process.pid
        finally:
            process.terminate()


def _either(module: Any, name: str) -> Any:
    """A generator, which was a class of its own once."""
    return getattr(module, name, None) or getattr(module, name.capitalize())


CLIENT_TASKS = tuple(f"client: {name}" for name in _CLIENT)

TASKS: dict[str, tuple[Callable[[str], Any], str]] = {
    **{task: (_client, name) for task, name in zip(CLIENT_TASKS, _CLIENT, strict=True)},
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
"""Name of each timed call -> function that prepares the call, and the argument of that function."""


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
        print("ready", times, flush=True)
        for line in sys.stdin:
            print(json.dumps(_timed(call, server, int(line))), flush=True)


def _timed(call: Call, server: int, times: int) -> tuple[float, float]:
    """Wall and processor seconds of one call, or of one of the parts whose number it returns."""
    wall, used, parts = time.perf_counter(), _processor_seconds(server), 0
    for _ in range(times):
        answer = call()
        parts += answer if isinstance(answer, int) else 1
    return (time.perf_counter() - wall) / parts, (_processor_seconds(server) - used) / parts


def _processor_seconds(server: int) -> float:
    """Seconds of this process, and of a server with all its processes; 0 for no server (Linux)."""
    if not server:
        return time.process_time()
    ticks, parents = dict[int, int](), dict[int, int]()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile, and its parent has its seconds
            # Fields of proc(5) from the third on; the name, which may hold blanks, ends with a bracket.
            fields = path.read_text().rpartition(")")[2].split()
            # those of children that have ended count too: workers live as long as a job
            ticks[int(path.parent.name)] = sum(map(int, fields[11:15]))
            parents[int(path.parent.name)] = int(fields[1])
    ours = {server}
    while more := {one for one, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return time.process_time() + sum(ticks.get(one, 0) for one in ours) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
