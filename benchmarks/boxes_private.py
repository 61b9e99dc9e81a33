"""MST, AIM and PrivBayes beside other people's, at the same epsilon: error, and time from start to rows.

``python -m benchmarks.boxes_private [--quick] [--peers] [--json FILE]``. Adult, all two-way marginals.
Each run is a process of its own, timed from outside, so that imports count; seconds are the
processor's. Noise is drawn afresh in each.

dpmm's AIM has a bound of 1 MiB on its model and 200 steps a fit, as in ``private_once``: with its
defaults it takes hours. DataSynthesizer has one parent for each attribute: where it may choose how
many, it was not through Adult after ten minutes. It draws half the noise that replacing a record
needs, and leaves out of its epsilon what its one-way marginals spend: the same number promises less
there.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np

from benchmarks import bayes_once, bench, private_once
from benchmarks.accuracy import DELTA, DPMM, EPSILON, Accuracy, figures, once
from benchmarks.adult import adult
from benchmarks.peers import Figures, Peer, Peers, peers_python
from benchmarks.raking import pairs
from gencard.core.dataset import Dataset
from gencard.core.statistics.measure import measure_dataset

_ROWS = 500_000
"""Number of rows: so many that drawing them adds little to the error."""

_OURS = 10
"""Runs of each of ours."""

_LEAST_TIMES = 3.0
"""Least speed of ours, as a multiple of the other program's."""


@dataclass(frozen=True, slots=True)
class Race:
    """A box of ours and a peer's program.

    Args:
        peer: The program; its first word is the package.
        settings: For people.
        command: Its script and all words but the numbers of rows and of the run.
        runs: How many.
    """

    box: str
    peer: str
    settings: str
    environment: str
    command: tuple[str, ...]
    runs: int


_PRIVATE = ("JOB", str(EPSILON), str(DELTA))

RACES = (
    *(
        Race(
            mechanism.lower(),
            f"dpmm {mechanism}",
            settings,
            ".venv-peers-private",
            (*bench.by_file(private_once.__file__), mechanism, *_PRIVATE),
            3 if mechanism == "MST" else 2,
        )
        for mechanism, settings in DPMM.items()
    ),
    Race(
        "privbayes",
        "DataSynthesizer",
        f"epsilon {EPSILON}, degree 1",
        ".venv-peers-bayes",
        (*bench.by_file(bayes_once.__file__), "1", "JOB", str(EPSILON)),
        2,
    ),
)


def run(quick: bool, peers: bool = False) -> bench.Result:
    dataset = adult()
    ours = {race.box: _runs(1 if quick else _OURS, dataset, _own(race.box)) for race in RACES}
    others = Peers(peers)
    known = {
        race: others.peer(race.peer, "adult", race.settings, _measure(race, dataset)) for race in RACES
    }
    theirs = {race: peer for race, peer in known.items() if peer}
    rows = [(f"gencard {name}", *_cells(figures(runs))) for name, runs in ours.items()]
    rows += [(peer.name, *_cells(peer.figures)) for peer in theirs.values()]
    table = bench.Table(
        f"All two-way marginals of Adult, epsilon {EPSILON}: total variation of rows; start to rows",
        ("program", "runs", "mean", "its standard error", "worst", "processor seconds"),
        rows,
    )
    targets = [] if quick else _targets(ours, theirs)
    return bench.Result([table, others.table()], targets)


def _own(name: str) -> list[str]:
    parameters = {"epsilon": str(EPSILON)} | ({} if name == "privbayes" else {"delta": f"{DELTA:f}"})
    return [sys.executable, "-m", "benchmarks.box_once", name, "JOB", json.dumps(parameters)]


def _measure(race: Race, dataset: Dataset) -> Callable[[], Figures]:
    def measure() -> Figures:
        python = str(peers_python(race.environment))
        return figures(_runs(race.runs, dataset, [python, *race.command]))

    return measure


def _runs(runs: int, dataset: Dataset, command: Sequence[str]) -> list[Accuracy]:
    psi = measure_dataset(dataset, pairs(dataset))
    return [once(dataset, psi, command, _ROWS, seed) for seed in range(1, runs + 1)]


def _cells(runs: Figures) -> tuple[bench.Cell, ...]:
    means = runs["mean"]
    return (
        sum(runs.get("runs", [len(means)])),
        fmean(means),
        _error(runs),
        fmean(runs["worst"]) if "worst" in runs else None,
        median(runs["seconds"]),
    )


def _error(runs: Figures) -> float | None:
    """Standard error of the mean, also where it is all that was recorded; None of one run."""
    if "error" in runs:
        return runs["error"][0]
    means = runs["mean"]
    return float(np.std(means, ddof=1)) / len(means) ** 0.5 if len(means) > 1 else None


def _targets(ours: Mapping[str, Sequence[Accuracy]], peers: Mapping[Race, Peer]) -> list[bench.Target]:
    """Ours has no more error than the peer, beyond two standard errors, and is so many times as fast."""
    targets = []
    for race, peer in peers.items():
        own, theirs = figures(ours[race.box]), peer.figures
        chance = 2 * float(np.hypot(_error(own) or 0.0, _error(theirs) or 0.0))
        error = (fmean(own["mean"]) - chance) / fmean(theirs["mean"])
        times = peer.median("seconds") / median(own["seconds"])
        targets += [
            bench.Target(f"{race.box}: error to {race.peer}", error, 1, "at most", "x"),
            peer.speed(f"{race.box}: faster than {race.peer}", times, _LEAST_TIMES, "at least"),
        ]
    return targets


if __name__ == "__main__":
    bench.main("boxes_private", run, peers=True)
