"""CTGAN beside the package ``ctgan`` at the same epochs, and PATE-GAN by itself.

``python -m benchmarks.boxes_deep [--quick] [--peers] [--json FILE]``, after ``make deep``. A fifth of
Adult, five attributes as numbers; each CTGAN is a process of its own on one thread, imports included,
and its time is the processor's, so that what else runs on the machine does not count. The package is
BUSL-1.1: it is in no environment but this benchmark's. PATE-GAN has no peer here.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

import numpy as np

from benchmarks import bench, ctgan_once
from benchmarks.adult import adult
from benchmarks.peers import ONE_THREAD, Figures, Peer, Peers, peers_python
from benchmarks.raking import pairs
from gencard.boxes.entry import Surroundings
from gencard.boxes.registry import BOXES, box_named
from gencard.controller.noise import OpenDpNoise
from gencard.core.dataset import Dataset
from gencard.core.generators.contract import rng_of
from gencard.core.statistics.marginals import count_all

_RECORDS = 10_000
_EPOCHS = 15
_NUMERIC = ("age", "education-num", "capital-gain", "capital-loss", "hours-per-week")

_PATE_GANS: Sequence[Mapping[str, str]] = (
    {"epsilon": "1", "delta": "0.00001"},
    {"epsilon": "1000", "delta": "0.00001", "iterations": "1000"},
)


@dataclass(frozen=True, slots=True)
class Run:
    """Mean total variation of all pairs from the records, and seconds of the processor."""

    variation: float
    seconds: float


def run(quick: bool, peers: bool = False) -> bench.Result:
    dataset = _records(1_000 if quick else _RECORDS)
    seeds = range(1, 2 if quick else 4)
    epochs = 1 if quick else _EPOCHS
    ours = [_ctgan("gencard", dataset, epochs, seed) for seed in seeds]
    others = Peers(peers)
    task = f"Adult, {len(dataset):,} records"

    def measure() -> Figures:
        return _recordable([_ctgan("ctgan", dataset, epochs, seed) for seed in seeds])

    peer = others.peer("ctgan", task, f"{epochs} epochs", measure)
    tables = [
        _ctgan_table(ours, peer),
        _pate_gan_table(dataset, _PATE_GANS[:1] if quick else _PATE_GANS),
    ]
    targets = _targets(ours, peer) if peer and not quick else []
    return bench.Result([*tables, others.table()], targets)


def _records(count: int) -> Dataset:
    whole = adult()
    return whole.take(rng_of(0).permutation(len(whole))[:count])


def _ctgan(program: str, dataset: Dataset, epochs: int, seed: int) -> Run:
    python = Path(sys.executable) if program == "gencard" else peers_python(".venv-peers-deep")
    numeric = dataset.domain.axes(_NUMERIC)
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder) / "job.npz"
        np.savez(job, codes=dataset.codes, sizes=dataset.domain.sizes, numeric=numeric)
        words = [program, str(job), str(epochs), str(len(dataset)), str(seed)]
        begin = bench.processor_seconds(children=True)
        subprocess.run(
            [str(python), *bench.by_file(ctgan_once.__file__), *words],
            check=True,
            capture_output=True,
            env=os.environ | ONE_THREAD,
        )
        rows = np.load(job.with_name("rows.npy"), allow_pickle=False)
        seconds = bench.processor_seconds(children=True) - begin
        return Run(_variation(dataset, Dataset(dataset.domain, rows)), seconds)


def _variation(dataset: Dataset, made: Dataset) -> float:
    cliques = pairs(dataset)
    both = zip(count_all(dataset, cliques), count_all(made, cliques), strict=True)
    return fmean(float(np.abs(x / x.sum() - y / y.sum()).sum()) / 2 for x, y in both)


def _recordable(runs: Sequence[Run]) -> Figures:
    return {name: [getattr(run, name) for run in runs] for name in ("variation", "seconds")}


def _ctgan_table(ours: Sequence[Run], peer: Peer | None) -> bench.Table:
    programs = {"gencard": _recordable(ours)} | ({peer.name: peer.figures} if peer else {})
    rows = [
        (
            f"{program}: CTGAN",
            int(sum(figures.get("runs", [len(figures["variation"])]))),
            fmean(figures["variation"]),
            _error(figures),
            fmean(figures["seconds"]),
        )
        for program, figures in programs.items()
    ]
    return bench.Table(
        "All pairs of a part of Adult: total variation from the records, after the same epochs",
        ("program", "runs", "mean", "its standard error", "processor seconds"),
        rows,
    )


def _pate_gan_table(dataset: Dataset, told: Sequence[Mapping[str, str]]) -> bench.Table:
    rows = []
    for parameters in told:
        claim = BOXES["pate-gan"].claim({**BOXES["pate-gan"].parameters, **parameters})
        box = box_named("pate-gan", parameters, Surroundings(noise=OpenDpNoise()))
        begin = time.perf_counter()
        made = box(dataset, len(dataset), seed=1)
        seconds = time.perf_counter() - begin
        rows.append((str(claim.epsilon), f"{claim.delta:f}", _variation(dataset, made), seconds))
    return bench.Table(
        "PATE-GAN on the same records", ("epsilon", "delta", "total variation", "seconds"), rows
    )


def _targets(ours: Sequence[Run], peer: Peer) -> list[bench.Target]:
    own, theirs = _recordable(ours), peer.figures
    gap = fmean(own["variation"]) - fmean(theirs["variation"])
    noise = float(np.hypot(_error(own), _error(theirs)))
    ratio = fmean(theirs["seconds"]) / fmean(own["seconds"])
    return [
        bench.Target("CTGAN's variation less ctgan's, by its standard error", gap / noise, 3, "at most"),
        peer.speed("CTGAN: faster than ctgan", ratio, 1.5, "at least"),
    ]


def _error(runs: Figures) -> float:
    """Standard error of the mean, also where it is all that was recorded; 0 of one run."""
    if "error" in runs:
        return runs["error"][0]
    return stdev(values) / len(values) ** 0.5 if len(values := runs["variation"]) > 1 else 0.0


if __name__ == "__main__":
    bench.main("boxes_deep", run, peers=True)
