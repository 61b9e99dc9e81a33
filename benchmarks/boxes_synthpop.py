"""Sequential trees beside R: seconds and mean two-way S_pMSE, on records with names and numbers.

``python -m benchmarks.boxes_synthpop [--quick] [--peers] [--json FILE]``

synthpop itself comes from CRAN only: its seconds were recorded once, and five of its syntheses lie
beside the repository. Its default method is written anew in ``sequential_trees.R``, which ``--peers``
runs beside ours where R has rpart (``apt-get install r-base-core r-cran-rpart``).
"""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import sqrt
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd

from benchmarks import bench
from benchmarks.mixed import Mixed, census, is_number, mixed, small_survey, survey, utility
from benchmarks.peers import Figures, Peer, Peers
from gencard.boxes.synthpop import Options, SynthPop

_SCRIPT = Path(__file__).with_name("sequential_trees.R")

_VARIANTS = {"gencard": Options(), "gencard, pruned as rpart": Options(pruning="misclassification")}


@dataclass(frozen=True, slots=True)
class Runs:
    """Seconds and utilities of several syntheses of the same records.

    Args:
        seconds: Median of fit and rows; not a number where it was not measured.
        utilities: Mean two-way S_pMSE of each; 1 is expected of rows drawn from the truth.
    """

    seconds: float
    utilities: Sequence[float]

    @classmethod
    def of(cls, peer: Peer) -> "Runs":
        return cls(peer.median("seconds"), peer.figures.get("utility", ()))

    @property
    def mean(self) -> float:
        return float(np.mean(self.utilities))

    @property
    def error(self) -> float:
        """Standard error of the mean."""
        return float(np.std(self.utilities, ddof=1) / sqrt(len(self.utilities)))


@dataclass(frozen=True, slots=True)
class Case:
    """Records of which R's figures are recorded, and the number of syntheses of either program."""

    records: Callable[[], Mixed]
    syntheses: int


CASES = {
    "survey, 20 attributes": Case(lambda: survey(20, leave_out=("eduspec", "region")), 10),
    "Adult, 13 attributes": Case(census, 3),
}

_LARGER: Mapping[str, Callable[[], Mixed]] = {
    "survey, first 20 (eduspec: 27 levels)": lambda: survey(20),
    "survey, all 35": survey,
}
"""Records that synthpop did not finish in 595 seconds."""


def run(quick: bool, peers: bool = False) -> bench.Result:
    cases = dict(list(CASES.items())[:1]) if quick else CASES
    others = Peers(peers)
    rows: list[Sequence[bench.Cell]] = []
    targets: list[bench.Target] = []
    for name, case in cases.items():
        records, syntheses = case.records(), 5 if quick else case.syntheses
        own = {variant: ours(records, options, syntheses) for variant, options in _VARIANTS.items()}
        theirs = _theirs(others, name, records, syntheses)
        rows += [(name, program, *_cells(runs)) for program, runs in own.items()]
        rows += [(name, peer.name, *_cells(Runs.of(peer))) for peer in theirs]
        targets += _targets(name, own, theirs)
    tables = [bench.Table("Sequential trees", _COLUMNS, rows)]
    if not quick:
        more = _small(), _larger()
        tables += [table for table, _ in more]
        targets += [target for _, added in more for target in added]
    return bench.Result([*tables, others.table()], targets)


_COLUMNS = ("records", "program", "seconds", "two-way S_pMSE", "standard error", "syntheses")


def _theirs(peers: Peers, name: str, records: Mixed, syntheses: int) -> list[Peer]:
    def measure() -> Figures:
        runs = by_rpart(records, syntheses)
        return {"seconds": [runs.seconds], "utility": runs.utilities}

    runnable = measure if has_rpart() else None
    known = (
        peers.peer("rpart", name, "sequential_trees.R; wall seconds", runnable, version=rpart_version()),
        peers.peer("synthpop", name, "default method; wall seconds", None),
    )
    return [peer for peer in known if peer]


def ours(records: Mixed, options: Options, syntheses: int) -> Runs:
    """Fit and draw as many rows as there are records, once for each seed."""
    box = SynthPop(options, records.values)
    box(records.dataset.take(np.arange(100)), 1, seed=0)  # loads scikit-learn
    seconds, utilities = [], []
    for seed in range(syntheses):
        begin = time.perf_counter()
        made = box(records.dataset, len(records.dataset), seed=seed)
        seconds.append(time.perf_counter() - begin)
        utilities.append(utility(records.frame, records.decoded(made)))
    return Runs(median(seconds), utilities)


def by_rpart(records: Mixed, syntheses: int) -> Runs:
    """The same by R."""
    seconds, made = rows_by_rpart(records.frame, syntheses)
    return Runs(median(seconds), [utility(records.frame, rows) for rows in made])


def rows_by_rpart(frame: pd.DataFrame, syntheses: int) -> tuple[list[float], list[pd.DataFrame]]:
    """Seconds and rows of each synthesis by R: each column from a tree on those before it."""
    types = "".join("n" if is_number(frame[name]) else "f" for name in frame.columns)
    seeds = ",".join(map(str, range(1, syntheses + 1)))
    with tempfile.TemporaryDirectory() as folder:
        frame.to_csv(f"{folder}/in.csv", index=False)
        command = ["Rscript", str(_SCRIPT), f"{folder}/in.csv", types, f"{folder}/out", seeds]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        made = [pd.read_csv(f"{folder}/out{seed}.csv") for seed in seeds.split(",")]
    return [float(line.split()[1]) for line in output.splitlines()], made


@cache
def has_rpart() -> bool:
    """Whether R and its package rpart are installed here."""
    if not shutil.which("Rscript"):
        return False
    return (
        subprocess.run(["Rscript", "-e", "library(rpart)"], capture_output=True, check=False).returncode
        == 0
    )


def rpart_version() -> str:
    if not has_rpart():
        return ""
    script = 'cat(as.character(packageVersion("rpart")), R.version.string)'
    return subprocess.run(["Rscript", "-e", script], capture_output=True, text=True, check=True).stdout


def _cells(runs: Runs) -> Sequence[bench.Cell]:
    if not runs.utilities:
        return runs.seconds, None, None, None
    return runs.seconds, runs.mean, runs.error, len(runs.utilities)


def _targets(name: str, own: Mapping[str, Runs], peers: Sequence[Peer]) -> list[bench.Target]:
    mine, pruned = own["gencard"], own["gencard, pruned as rpart"]
    targets = []
    for peer in peers:
        ratio = peer.median("seconds") / mine.seconds
        targets.append(peer.speed(f"{name}: {peer.program}'s seconds to ours", ratio, 3, "at least"))
        theirs = Runs.of(peer)
        if theirs.utilities:
            bound = float(theirs.mean + 3 * np.hypot(mine.error, theirs.error))
            beside = f"beside {peer.program}'s"
            targets += [
                bench.Target(f"{name}: S_pMSE {beside}", mine.mean, bound, "at most"),
                bench.Target(f"{name}: S_pMSE, pruned, {beside}", pruned.mean, bound, "at most"),
            ]
    return targets


def _small() -> tuple[bench.Table, list[bench.Target]]:
    """Beside rows that synthpop itself made."""
    original = small_survey("pairD_mixed_orig.csv")
    records = mixed(original)
    made = [small_survey(f"pairD_mixed_syn{number}.csv") for number in range(1, 6)]
    theirs = Runs(float("nan"), [utility(original, rows) for rows in made])
    own = {name: ours(records, options, 20) for name, options in _VARIANTS.items()}
    mine = own["gencard"]
    bound = float(theirs.mean + 3 * np.hypot(mine.error, theirs.error))
    rows = [("1,000 records, 6 attributes", name, *_cells(runs)) for name, runs in own.items()]
    rows.append(("1,000 records, 6 attributes", "synthpop 1.9-3", None, *_cells(theirs)[1:]))
    table = bench.Table("Beside syntheses by synthpop", _COLUMNS, rows)
    return table, [bench.Target("1,000 records: S_pMSE beside synthpop's", mine.mean, bound, "at most")]


def _larger() -> tuple[bench.Table, list[bench.Target]]:
    own = {name: ours(records(), Options(), 3) for name, records in _LARGER.items()}
    rows = [(name, "gencard", *_cells(runs)) for name, runs in own.items()]
    table = bench.Table("What synthpop did not finish in 595 s", _COLUMNS, rows)
    return table, [bench.Target(name, runs.seconds, 5, "at most", "s") for name, runs in own.items()]


if __name__ == "__main__":
    bench.main("boxes_synthpop", run, peers=True)
