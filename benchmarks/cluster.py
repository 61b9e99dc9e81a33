"""An audit of application 3 by one process and by Dask workers: seconds, and the same bytes.

``python -m benchmarks.cluster [--quick] [--json FILE]``

Each member of the cluster is a program of its own, with TLS on loopback, and performs one run at a time.
In the last row one of two workers is killed when half of the runs are done. The moves between the runs
are made by the controller, one after the other: workers can only shorten the time in which it waits.
"""

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import bench
from benchmarks.applications import Application, applications
from gencard.controller.cluster.executor import cluster_box
from gencard.controller.jobs.synthesis import box_of
from gencard.controller.jobs.tasks import Job
from gencard.core.audit.plan import calls
from gencard.core.audit.run import audit
from gencard.core.audit.wording import report_to_json_object
from gencard.core.blackbox import BlackBox, runs_of
from gencard.core.dataset import Dataset
from gencard.core.types import Progress, ignore_progress
from tests.system.clusters import Cluster

SEED = 100


def run(quick: bool) -> bench.Result:
    application = applications()[0 if quick else 2]
    recipe = _recipe(application)
    reports: list[bytes] = []

    def timed(
        performer: str, box: BlackBox, progress: Progress = ignore_progress
    ) -> tuple[bench.Cell, ...]:
        awaited = _Awaited(box)
        whole = bench.once(lambda: reports.append(_report(application, awaited, progress)))
        return performer, whole, awaited.seconds

    rows = [timed("one process", box_of(recipe))]
    with TemporaryDirectory() as folder, Cluster(Path(folder)) as cluster:
        cluster.add(1)
        rows.append(timed("1 worker", cluster_box(recipe, cluster.job())))
        cluster.add(1)
        rows.append(timed("2 workers", cluster_box(recipe, cluster.job())))
        killing = _killing(cluster, calls(10) // 2)
        rows.append(timed("2 workers, one killed", cluster_box(recipe, cluster.job()), killing))
        survivors = sum(worker.poll() is None for worker in cluster.workers)
    title = f"Audit of application {application.name}, {calls(10)} runs, {os.cpu_count()} cores"
    return bench.Result(
        [bench.Table(title, ("runs are performed by", "s", "of these waiting for runs"), rows)],
        [
            bench.Target("different reports", len(set(reports)), 1, "at most"),
            bench.Target("workers left of two", survivors, 1, "at most"),
        ],
        {str(name): seconds for name, seconds, _ in rows},
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


def _recipe(application: Application) -> Job:
    cliques = [list(clique) for clique in application.cliques]
    bounds = {"zeros": [], "max_cells": 50_000_000}
    return {"kind": "honest", "generator": "ipf", "cliques": cliques, **bounds}


def _report(application: Application, box: BlackBox, progress: Progress) -> bytes:
    report = audit(box, application.dataset, application.plan(SEED), progress=progress)
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
