"""Audits of application 3 by one process and by workers: seconds, and the same bytes.

``python -m benchmarks.cluster [--quick] [--json FILE]``

Each member of the cluster is a program of its own, with TLS on loopback, and performs one run at a time.
In the last row one of two workers is killed when half of the runs are done. The moves between the runs
are made by the controller, one after the other: workers can only shorten the time in which it waits.
Of the two boxes, ``ipf`` fits in a tenth of a second and synthpop, in a sandbox, in several; each
performer keeps its last fits, so that two workers fit twice, side by side.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks import bench
from benchmarks.applications import Application, applications
from gencard.boxes.reference import ReferenceKind, ReferenceRecipe
from gencard.controller.jobs.cluster.executor import cluster_box
from gencard.controller.jobs.synthesis import box_of
from gencard.controller.sandbox.boxes import Recipe, built_in_recipe
from gencard.core.audit.plan import calls
from gencard.core.audit.run import audit
from gencard.core.audit.wording import report_to_json_object
from gencard.core.blackbox import BlackBox, runs_of
from gencard.core.dataset import Dataset
from gencard.core.types import Progress, ignore_progress
from tests.system.clusters import Cluster

SEED = 100
RUNS = 10

_LEAST_SHARE = 0.8


class Performance(NamedTuple):
    """One audit.

    Args:
        waited: Seconds of the controller in which it waited for runs; the rest is its own work.
    """

    performer: str
    seconds: float
    waited: float


def run(quick: bool) -> bench.Result:
    application = applications()[0 if quick else 2]
    tables, figures = [], {}
    targets: list[bench.Target] = []
    for box, recipe in _recipes(application).items():
        performances, checks = bench.alone(_audits, application, recipe)  # keeps its connections
        tables.append(_table(box, application, performances))
        targets += _targets(box, performances, checks)
        figures[box] = [performance._asdict() for performance in performances]
    return bench.Result(tables, targets, figures)


def _audits(application: Application, recipe: Recipe) -> tuple[list[Performance], dict[str, int]]:
    """One by each performer, and what must not differ or fail."""
    reports: list[bytes] = []

    def performed(performer: str, box: BlackBox, progress: Progress = ignore_progress) -> Performance:
        awaited = _Awaited(box)
        whole = bench.once(lambda: reports.append(_report(application, awaited, progress)))
        return Performance(performer, whole, awaited.seconds)

    performances = [performed("one process", box_of(recipe))]
    with TemporaryDirectory() as folder, Cluster(Path(folder)) as cluster:
        for number in ("1 worker", "2 workers"):
            cluster.add(1)
            performances.append(performed(number, cluster_box(recipe, cluster.job())))
        killing = _killing(cluster, calls(RUNS) // 2)
        box = cluster_box(recipe, cluster.job())
        performances.append(performed("2 workers, one killed", box, killing))
        survivors = sum(worker.poll() is None for worker in cluster.workers)
    return performances, {"different reports": len(set(reports)), "workers left of two": survivors}


def _allowed(performances: Sequence[Performance]) -> float:
    """Amdahl's law: how many times as fast 2 workers are that share what 1 was waited for."""
    alone = performances[1]
    return alone.seconds / (alone.seconds - alone.waited / 2)


def _targets(
    box: str, performances: Sequence[Performance], checks: Mapping[str, int]
) -> Iterator[bench.Target]:
    for name, value in checks.items():
        yield bench.Target(f"{box}: {name}", value, 1, "at most")
    faster = performances[1].seconds / performances[2].seconds
    share = faster / _allowed(performances)
    yield bench.Target(f"{box}: 2 workers", share, _LEAST_SHARE, "at least", "of the speed-up allowed")


def _table(box: str, application: Application, performances: Sequence[Performance]) -> bench.Table:
    return bench.Table(
        f"{box}: audit of application {application.name}, {calls(RUNS)} runs, {os.cpu_count()} cores; "
        f"2 workers can be {_allowed(performances):.2f} times as fast as 1",
        ("runs are performed by", "s", "of these waiting for runs", "times as fast as 1 worker"),
        [(*each, performances[1].seconds / each.seconds) for each in performances],
    )


@dataclass
class _Awaited:
    """A box, and for how long its runs were waited for."""

    box: BlackBox
    seconds: float = 0.0

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        return next(self.runs_by_seed(dataset, rows, seeds=[seed]))

    def runs_by_seed(self, dataset: Dataset, rows: int, *, seeds: Sequence[int]) -> Iterator[Dataset]:
        outputs = runs_of(self.box, dataset, rows, seeds)
        for _ in seeds:
            begin = time.perf_counter()
            output = next(outputs)
            self.seconds += time.perf_counter() - begin
            yield output


def _recipes(application: Application) -> dict[str, Recipe]:
    """By box; synthpop in a sandbox, as a controller runs it."""
    cliques, honest = tuple(application.cliques), ReferenceKind.HONEST
    return {
        "ipf": ReferenceRecipe(honest, "ipf", cliques, max_cells=50_000_000),
        "synthpop": replace(built_in_recipe("synthpop", {}), cliques=cliques),
    }


def _report(application: Application, box: BlackBox, progress: Progress) -> bytes:
    report = audit(box, application.dataset, application.plan(SEED, runs=RUNS), progress=progress)
    return json.dumps(report_to_json_object(report)).encode()


def _killing(cluster: Cluster, number: int) -> Progress:
    """Kills a worker when the run of this number is awaited."""

    def progress(stage: str, _fraction: float) -> None:
        if f"run {number} of" in stage:
            cluster.workers[0].kill()
            cluster.workers[0].wait()

    return progress


if __name__ == "__main__":
    bench.main("cluster", run)
