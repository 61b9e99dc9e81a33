"""MST, AIM and PrivBayes beside other people's, at the same epsilon: error, and time from start to rows.

``python -m benchmarks.boxes_private [--quick] [--json FILE]``. Adult, all two-way marginals. Each run is
a process of its own, timed from outside, so that imports count. Noise is drawn afresh in each.

dpmm's AIM has a bound of 1 MiB on its model and 200 steps a fit, as in ``private_once``: with its
defaults it takes hours. DataSynthesizer has one parent for each attribute: where it may choose how many,
it was not through Adult after ten minutes. It draws half the noise that replacing a record needs, and
leaves out of its epsilon what its one-way marginals spend: the same number promises less there.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

import numpy as np

from benchmarks import bayes_once, bench, private_once
from benchmarks.accuracy import DELTA, EPSILON, Accuracy
from benchmarks.adult import adult
from benchmarks.peers import peers_python
from benchmarks.raking import pairs
from gencard.core.dataset import Dataset
from gencard.core.statistics.measure import measure_dataset

_ROWS = 500_000
"""So many that drawing them adds little to the error."""

_PATIENCE = 1_800
"""Seconds after which a program is given up."""

_OURS = 10
"""Runs of each of ours."""

_LEAST_TIMES = 3.0
"""How many times as fast ours must be."""


@dataclass(frozen=True, slots=True)
class Race:
    """A box of ours and a peer's program.

    Args:
        peer: Its name, for people.
        environment: Where it runs.
        command: Its script and the words before the job.
        settings: The words between the job and the number of rows.
        runs: How many, in full.
    """

    box: str
    peer: str
    environment: str
    command: tuple[str, ...]
    settings: tuple[str, ...]
    runs: int


_PRIVATE = (str(EPSILON), str(DELTA))

RACES = (
    Race("mst", "dpmm MST", ".venv-peers-private", (private_once.__file__, "MST"), _PRIVATE, 3),
    Race("aim", "dpmm AIM", ".venv-peers-private", (private_once.__file__, "AIM"), _PRIVATE, 2),
    Race(
        "privbayes",
        "DataSynthesizer",
        ".venv-peers-bayes",
        (bayes_once.__file__, "1"),
        (str(EPSILON),),
        2,
    ),
)


def run(quick: bool) -> bench.Result:
    dataset = adult()
    ours = {
        name: _runs(1 if quick else _OURS, dataset, _own(name)) for name in ("mst", "aim", "privbayes")
    }
    peers = {} if quick else {race: _runs(race.runs, dataset, _peers(race)) for race in RACES}
    rows = [(f"gencard {name}", *_figures(found)) for name, found in ours.items()]
    rows += [(race.peer, *_figures(found)) for race, found in peers.items()]
    table = bench.Table(
        f"All two-way marginals of Adult, epsilon {EPSILON}: total variation of rows; start to rows",
        ("program", "runs", "mean", "its standard error", "worst", "seconds"),
        rows,
    )
    return bench.Result([table], [*_targets(ours, peers)])


def _own(name: str) -> list[str]:
    parameters = {"epsilon": str(EPSILON)} | ({} if name == "privbayes" else {"delta": f"{DELTA:f}"})
    return [sys.executable, "-m", "benchmarks.box_once", name, "JOB", json.dumps(parameters)]


def _peers(race: Race) -> list[str]:
    return [str(peers_python(race.environment)), *race.command, "JOB", *race.settings]


def _runs(runs: int, dataset: Dataset, command: Sequence[str]) -> list[Accuracy]:
    return [_once(dataset, command, seed) for seed in range(1, runs + 1)]


def _once(dataset: Dataset, command: Sequence[str], seed: int) -> Accuracy:
    """One process; where it does not end in time, its error is not a number."""
    psi = measure_dataset(dataset, pairs(dataset))
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder) / "job.npz"
        np.savez(job, codes=dataset.codes, sizes=dataset.domain.sizes)
        words = [str(job) if word == "JOB" else word for word in command]
        begin = time.perf_counter()
        try:
            subprocess.run(
                [*words, str(_ROWS), str(seed)], capture_output=True, check=True, timeout=_PATIENCE
            )
        except subprocess.TimeoutExpired:
            return Accuracy(np.nan, np.nan, _PATIENCE)
        took = time.perf_counter() - begin
        return Accuracy.of(Dataset(dataset.domain, np.load(job.with_suffix(".npy"))), psi, took)


def _figures(found: Sequence[Accuracy]) -> tuple[bench.Cell, ...]:
    means = [one.mean for one in found]
    return (
        len(found),
        fmean(means),
        _error(means) if len(means) > 1 else None,
        fmean(one.worst for one in found),
        median(one.seconds for one in found),
    )


def _error(values: Sequence[float]) -> float:
    """Standard error of the mean."""
    return float(np.std(values, ddof=1)) / float(np.sqrt(len(values)))


def _targets(
    ours: dict[str, list[Accuracy]], peers: dict[Race, list[Accuracy]]
) -> Sequence[bench.Target]:
    """Ours has no more error than the peer, beyond two standard errors, and is so many times as fast."""
    targets = []
    for race, found in peers.items():
        own, theirs = ([one.mean for one in each] for each in (ours[race.box], found))
        chance = 2 * (_error(own) ** 2 + _error(theirs) ** 2) ** 0.5
        times = median(one.seconds for one in found) / median(one.seconds for one in ours[race.box])
        error = (fmean(own) - chance) / fmean(theirs)
        targets += [
            bench.Target(f"{race.box}: error to {race.peer}", error, 1, "at most", "x"),
            bench.Target(f"{race.box}: faster than {race.peer}", times, _LEAST_TIMES, "at least", "x"),
        ]
    return targets


if __name__ == "__main__":
    bench.main("boxes_private", run)
