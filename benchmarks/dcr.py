"""Distances to the closest record, beside other people's programs.

``python -m benchmarks.dcr [--quick] [--peers] [--json FILE]``

The leaking example of Adult (the test files of clearbox-synthetic-kit: 32,561 synthetic records, as
many of train, 4 numeric attributes and 9 of levels), exactly, missing levels as levels. Each program
runs in an environment and a process of its own, on one thread; seconds are the processor's. Where a
program would take many minutes it is given fewer records, and ~ marks seconds by the square of their
number. Two records that are nearest to nobody bring the same ranges to all.

Copies beside holdouts of several sizes: 500 records of six attributes of seven levels, as many rows;
how often the evaluations ``clones`` and ``dcr`` stand out without copies, and with as many as they say
that they show in 8 of 10.

One core needs 0.3 s for the arithmetic of 32,561 x 32,561 pairs, every one of them: four differences of
floats and nine comparisons of bytes for each.
"""

import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from os import environ
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import bench, dcr_once
from benchmarks.peers import ONE_THREAD, Figures, Peer, Peers, peers_python
from gencard.core.coding import Attribute, Coding, Labels
from gencard.core.dataset import Dataset
from gencard.measures.evaluation.evaluation import NOTHING_DECLARED, Material
from gencard.measures.evaluation.registry import evaluation_named
from gencard.measures.evaluation.risk_findings import DistanceFinding

_FOLDER = Path(__file__).resolve().parents[2] / "shared" / "oracles" / "metrics"

_NUMBERS = ("age", "capital_gain", "capital_loss", "hours_per_week")

_ADULT = 32_561

_ARITHMETIC = 0.3
"""Seconds of one core for all pairs of Adult."""

_MOST = {"gencard": _ADULT, "anonymeter": _ADULT, "gower": 10_000, "scipy": 10_000, "sdmetrics": 2_500}
"""Records of either table that a program is given at most."""

_SETTINGS = {
    "gower": "codes, one part less a record",
    "sdmetrics": "calculate_dcr, its own chunks",
    "anonymeter": "compiled beforehand, one neighbour",
    "scipy": "cdist by city blocks, 500 rows at once",
}
"""Other programs, and for people how they are called."""

_SMALL = 1_000
"""Records of either table on which all programs must agree."""


@dataclass(frozen=True, slots=True)
class Run:
    """Measured run of a program for ``rows`` by ``rows`` records, or for as many as it was given.

    Args:
        seconds: Of the processor, scaled to ``rows``.
        peak: Memory of its process, with the interpreter, in MiB, for what it was given.
        total: Sum of the distances.
        peer: Where the program is another's.
    """

    program: str
    rows: int
    given: int
    seconds: float
    peak: float
    total: float
    peer: Peer | None = None

    @property
    def name(self) -> str:
        return self.peer.name if self.peer else self.program

    @property
    def shown(self) -> str:
        return f"{'' if self.given == self.rows else '~'}{self.seconds:.3g}"


def adult() -> dict[str, NDArray[Any]]:
    """Synthetic records and train as one job: numbers first, then codes of levels.

    Raises:
        SystemExit: The files are not there.
    """
    synthetic, train = (_columns(part) for part in ("synthetic", "train"))
    names = [*_NUMBERS, *sorted(set(train) - set(_NUMBERS))]
    pairs = [_coded(name, synthetic[name], train[name]) for name in names]
    left, right = (np.column_stack(side) for side in zip(*pairs, strict=True))
    both = np.vstack([left, right])
    nobody = np.vstack([both.max(axis=0) + 1] * 2)
    nobody[:, : len(_NUMBERS)] = [edge(axis=0)[: len(_NUMBERS)] for edge in (both.min, both.max)]
    return {
        "left": left,
        "right": np.vstack([nobody, right])[: len(right)],
        "spans": np.ptp(nobody[:, : len(_NUMBERS)], axis=0),
    }


def levels(rows: int, others: int) -> dict[str, NDArray[Any]]:
    """Adult's attributes of levels at many records; each attribute is drawn by itself."""
    rng = np.random.default_rng(1)
    codes = adult()["left"][:, len(_NUMBERS) :].astype(np.uint8)
    left, right = (
        np.column_stack([rng.choice(column, size) for column in codes.T]) for size in (rows, others)
    )
    return {"left": left, "right": right, "spans": np.zeros(0)}


def identified(rows: int, others: int) -> dict[str, NDArray[Any]]:
    """The same with one more attribute, of 20,000 levels."""
    rng, job = np.random.default_rng(3), levels(rows, others)
    for side in ("left", "right"):
        code = rng.integers(0, 20_000, len(job[side]))
        job[side] = np.column_stack([job[side].astype(np.uint16), code.astype(np.uint16)])
    return job


def numbers(rows: int) -> dict[str, NDArray[Any]]:
    """Six normal attributes, independent."""
    left, right = np.random.default_rng(2).normal(size=(2, rows, 6))
    return {"left": left, "right": right, "spans": np.ptp(np.vstack([left, right]), axis=0)}


def measured(program: str, job: Path, left: int, right: int, rows: int = 0) -> Run:
    """One program on the first records of a job; seconds are scaled to ``rows`` by ``rows``."""
    ours = program == "gencard"
    python = Path(sys.executable) if ours else peers_python(f".venv-peers-{program}")
    command = [str(python), *bench.by_file(dcr_once.__file__), program, str(job), str(left), str(right)]
    output = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=job.parent, env=environ | ONE_THREAD
    ).stdout
    figures = json.loads(output.splitlines()[-1])
    scale = (rows / left) ** 2 if rows else 1.0
    return Run(program, rows or left, left, figures["seconds"] * scale, figures["peak"], figures["sum"])


def run(quick: bool, peers: bool = False) -> bench.Result:
    sizes = (1_000, 2_000) if quick else (10_000, _ADULT)
    others = Peers(peers)
    with tempfile.TemporaryDirectory() as folder:
        job = _written(Path(folder) / "adult.npz", adult())
        runs = [run for rows in sizes for run in (_own(job, rows), *_theirs(others, job, rows))]
        large = _large(Path(folder), quick)
        small = [_own(job, _SMALL), *_theirs(others, job, _SMALL)]
    beside = [shown(name, size, 20 if quick else 200) for name in _SHARES for size in _SHARES[name]]
    return bench.Result(
        [_adult_table(runs), _large_table(large), others.table(), _holdout_table(beside)],
        [
            *([] if quick else _speed(runs)),
            *_own_targets(runs, large, _differing(small)),
            *_holdout_targets(beside),
        ],
    )


def _own(job: Path, rows: int) -> Run:
    """The fastest of three runs."""
    return min((measured("gencard", job, rows, rows) for _ in range(3)), key=lambda run: run.seconds)


def _theirs(peers: Peers, job: Path, rows: int) -> list[Run]:
    """Run or look up every other program, with seconds scaled to this number of records."""
    runs = []
    for program, settings in _SETTINGS.items():
        given = min(rows, _MOST[program])

        def measure(program: str = program, given: int = given) -> Figures:
            run = measured(program, job, given, given)
            return {"seconds": [run.seconds], "peak": [run.peak], "total": [run.total]}

        peer = peers.peer(program, f"Adult, {given:,} x {given:,}", settings, measure)
        if peer:
            seconds, peak, total = (peer.median(name) for name in ("seconds", "peak", "total"))
            runs.append(Run(program, rows, given, seconds * (rows / given) ** 2, peak, total, peer))
    return runs


def _differing(runs: Sequence[Run]) -> int:
    """Programs whose distances are not ours; gower counts in single precision."""
    ours, *others = (run.total for run in runs)
    return sum(not np.isclose(ours, total, rtol=1e-5) for total in others)


def _large(folder: Path, quick: bool) -> dict[str, Run]:
    """Ours on tables that nobody else finishes."""
    rows, others = (20_000, 2_000) if quick else (1_000_000, 100_000)
    many = 2_000 if quick else _ADULT
    jobs = {
        f"9 of levels, {rows:,} x {others:,}": (levels(rows, others), rows, others),
        f"and one of 20,000 levels, {rows:,} x {others:,}": (identified(rows, others), rows, others),
        f"6 numeric, {many:,} x {many:,}": (numbers(many), many, many),
    }
    return {
        name: measured("gencard", _written(folder / "large.npz", job), *sizes)
        for name, (job, *sizes) in jobs.items()
    }


def _written(path: Path, job: dict[str, NDArray[Any]]) -> Path:
    np.savez(path, **job)  # type: ignore[arg-type]
    return path


def _adult_table(runs: list[Run]) -> bench.Table:
    ours = {run.rows: run.seconds for run in runs if run.program == "gencard"}
    return bench.Table(
        "Adult, 13 mixed attributes, synthetic to train (~ scaled from fewer records)",
        ("program", "records", "CPU seconds", "x ours", "measured at", "peak MiB there"),
        [
            (r.name, f"{r.rows:,}", r.shown, r.seconds / ours[r.rows], f"{r.given:,}", r.peak)
            for r in runs
        ],
    )


def _large_table(large: dict[str, Run]) -> bench.Table:
    rows = [(name, run.seconds, run.peak) for name, run in large.items()]
    return bench.Table("Gencard alone", ("attributes, records", "CPU seconds", "peak MiB"), rows)


def _speed(runs: list[Run]) -> list[bench.Target]:
    at = {run.program: run for run in runs if run.rows == _ADULT}
    ours = at["gencard"].seconds
    least = {"gower": 100, "anonymeter": 40}
    return [
        *(
            run.peer.speed(f"faster than {name}", run.seconds / ours, least[name], "at least")
            for name, run in at.items()
            if run.peer and name in least
        ),
        bench.Target("beside the arithmetic", ours / _ARITHMETIC, 5, "at most", "x"),
    ]


def _own_targets(runs: list[Run], large: dict[str, Run], differing: int) -> list[bench.Target]:
    ours = [run.peak for run in (*runs, *large.values()) if run.program == "gencard"]
    return [
        bench.Target("memory", max(ours), 300, "at most", "MiB"),
        bench.Target("different answers", differing, 0, "at most"),
    ]


_RECORDS = 500
_SHARES = {"clones": {25: 0.2, 100: 0.07, 500: 0.03}, "dcr": {25: 0.35, 100: 0.18, 500: 0.1}}
"""Shares of copies, by evaluation and holdout: a little more than those that it says it shows."""

_LEAST_POWER, _MOST_ALARMS = 0.6, 0.1  # of 20 releases 12 are two standard errors below 16


@dataclass(frozen=True, slots=True)
class Shown:
    """Number of releases in which an evaluation stands out beside a holdout.

    Args:
        stated: Share of copies that it says it shows in 8 of 10, on average; more than 1 is none.
        copies: Share of copies among the rows.
        seen: Share of the evaluations that stand out then; ``alarms`` without copies.
        interval: Share of those without copies in which the interval of the rows lies above one half.
    """

    evaluation: str
    holdout: int
    stated: float
    copies: float
    seen: float
    alarms: float
    interval: float | None


def shown(evaluation: str, holdout: int, times: int) -> Shown:
    """Evaluate made-up releases, with and without copies."""
    copies = _SHARES[evaluation][holdout]
    honest, copied = (
        [_found(evaluation, holdout, share, seed) for seed in range(times)] for share in (0.0, copies)
    )
    above = [one.low > 0.5 for one in honest if isinstance(one, DistanceFinding)]
    return Shown(
        evaluation,
        holdout,
        float(np.mean([one.detectable for one in honest])),
        copies,
        float(np.mean([one.stands_out for one in copied])),
        float(np.mean([one.stands_out for one in honest])),
        float(np.mean(above)) if above else None,
    )


def _found(evaluation: str, holdout: int, copies: float, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    coding = Coding(tuple(Attribute(name, Labels(tuple("abcdefg"))) for name in "uvwxyz"))
    train, others, rows = (rng.integers(0, 7, (size, 6)) for size in (_RECORDS, holdout, _RECORDS))
    copied = rng.random(_RECORDS) < copies
    rows[copied] = train[rng.integers(0, _RECORDS, int(copied.sum()))]
    release, records, unseen = (Dataset(coding.domain, codes) for codes in (rows, train, others))
    made = Material(release, coding, (), NOTHING_DECLARED, seed, records, unseen)
    return evaluation_named(evaluation).find(made)


def _holdout_table(beside: Sequence[Shown]) -> bench.Table:
    return bench.Table(
        "Copies beside a holdout; 500 records and rows",
        ("evaluation", "holdout", "says it shows", "copies", "stands out", "without", "by the interval"),
        [
            (
                one.evaluation,
                one.holdout,
                round(one.stated, 2),
                one.copies,
                one.seen,
                one.alarms,
                one.interval,
            )
            for one in beside
        ],
    )


def _holdout_targets(beside: Sequence[Shown]) -> list[bench.Target]:
    enough = [one.seen for one in beside if one.copies >= one.stated]
    return [
        bench.Target("copies that stand out, of those said", min(enough), _LEAST_POWER, "at least"),
        bench.Target(
            "alarms without copies", max(one.alarms for one in beside), _MOST_ALARMS, "at most"
        ),
    ]


def _columns(part: str) -> dict[str, list[str]]:
    file = _FOLDER / f"adult_clearbox_{part}.csv"
    if not file.exists():
        raise SystemExit(f"needs {file.name} in ../shared/oracles/metrics, beside the repository")
    with file.open(newline="") as text:
        names, *rows = csv.reader(text)
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def _coded(name: str, left: list[str], right: list[str]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Numbers as they are, levels as codes from 0 that mean the same on both sides."""
    if name in _NUMBERS:
        return np.array(left, float), np.array(right, float)
    codes = np.unique([*left, *right], return_inverse=True)[1]
    return codes[: len(left)].astype(float), codes[len(left) :].astype(float)


if __name__ == "__main__":
    bench.main("dcr", run, peers=True)
