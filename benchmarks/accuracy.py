"""Two-way marginals under differential privacy: ours beside MST and AIM, same records, same epsilon."""

import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import bench, private_once
from benchmarks.peers import ONE_THREAD, Figures, Peer, Peers, peers_python
from benchmarks.raking import pairs
from gencard.controller.noise import OpenDpNoise
from gencard.core.card.budget import Neighbouring
from gencard.core.card.privacy import Gaussian
from gencard.core.dataset import Dataset
from gencard.core.generators.contract import rng_of
from gencard.core.generators.registry import generator_named
from gencard.core.statistics.measure import measure_dataset
from gencard.core.statistics.noise import noisy, rho_of
from gencard.core.statistics.psi import Psi

EPSILON, DELTA = Decimal(1), Decimal("1e-5")

_ROWS = 1_000_000
"""Rows drawn from each model, so many that drawing them adds next to nothing to the error."""

_PATIENCE = 1_800
"""Seconds after which a program is given up."""

DPMM = {
    "MST": f"epsilon {EPSILON}, delta {DELTA}",
    "AIM": f"epsilon {EPSILON}, delta {DELTA}, model of 1 MiB, 200 steps a fit",
}
"""Mechanisms of dpmm that are compared, and their settings, for which ``private_once`` sees."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Total variation of the two-way marginals of rows from those of the records.

    Args:
        mean: Over all pairs; not a number where the program did not end in time.
        worst: The largest.
        seconds: Of the processor, from records to rows.
    """

    mean: float
    worst: float
    seconds: float

    @classmethod
    def of(cls, rows: Dataset, psi: Psi, seconds: float) -> "Accuracy":
        measurements = measure_dataset(rows, psi.cliques).measurements
        variations = [
            0.5 * float(np.abs(one.values / len(rows) - m.values / m.values.sum()).sum())
            for one, m in zip(measurements, psi.measurements, strict=True)
        ]
        return cls(float(np.mean(variations)), max(variations), seconds)


def accuracies(name: str, dataset: Dataset, peers: Peers) -> tuple[dict[str, Accuracy], list[Peer]]:
    """Ours, and the mechanisms of dpmm, all of one record more or less.

    ``benchmarks.boxes_private`` records those on Adult.
    """
    psi = measure_dataset(dataset, pairs(dataset))
    by_root = [round(100 * m.values.size**0.5) for m in psi.measurements]
    own = {"gencard": ours(dataset, psi), "gencard, parts by root of cells": ours(dataset, psi, by_root)}
    recorded = [
        peers.peer(
            f"dpmm {mechanism}",
            name,
            settings,
            None if name == "adult" else partial(peer, mechanism, dataset, psi),
        )
        for mechanism, settings in DPMM.items()
    ]
    return own, [one for one in recorded if one]


def ours(dataset: Dataset, psi: Psi, weights: Sequence[int] = ()) -> Accuracy:
    """All pairs with discrete Gaussian noise, reconciled, raked on a support."""
    privacy = Gaussian(Neighbouring.ADD_REMOVE, rho_of(EPSILON, DELTA), DELTA)
    begin = bench.processor_seconds()
    measured = noisy(psi, privacy, OpenDpNoise(), weights)
    generator = generator_named("support-raking", structural_zeros=(), max_cells=50_000_000)
    rows = generator.fit(measured, dataset.domain).sample(_ROWS, rng=rng_of(1))
    return Accuracy.of(rows, psi, bench.processor_seconds() - begin)


def peer(mechanism: str, dataset: Dataset, psi: Psi) -> Figures:
    """One run of a mechanism of ``dpmm``, in its own environment and process."""
    python = str(peers_python(".venv-peers-private"))
    command = [python, *bench.by_file(private_once.__file__), mechanism, "JOB", str(EPSILON), str(DELTA)]
    return figures([once(dataset, psi, command, _ROWS, 1)])


def once(dataset: Dataset, psi: Psi, command: Sequence[str], rows: int, seed: int) -> Accuracy:
    """One program in a process of its own, from records to rows; JOB in the command is the file of both.

    Its error is not a number where it does not end in time.
    """
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder) / "job.npz"
        np.savez(job, codes=dataset.codes, sizes=dataset.domain.sizes)
        words = [str(job) if word == "JOB" else word for word in command]
        begin = bench.processor_seconds(children=True)
        try:
            subprocess.run(
                [*words, str(rows), str(seed)],
                capture_output=True,
                check=True,
                timeout=_PATIENCE,
                env=os.environ | ONE_THREAD,
            )
        except subprocess.TimeoutExpired:
            return Accuracy(np.nan, np.nan, bench.processor_seconds(children=True) - begin)
        seconds = bench.processor_seconds(children=True) - begin
        return Accuracy.of(Dataset(dataset.domain, np.load(job.with_suffix(".npy"))), psi, seconds)


def figures(runs: Sequence[Accuracy]) -> Figures:
    """To be recorded."""
    return {name: [getattr(run, name) for run in runs] for name in ("mean", "worst", "seconds")}


def table(name: str, own: dict[str, Accuracy], peers: Sequence[Peer]) -> bench.Table:
    return bench.Table(
        f"All two-way marginals of {name}, epsilon {EPSILON}, delta {DELTA}: total variation of rows",
        ("program", "mean", "worst", "processor seconds"),
        [
            *((program, one.mean, one.worst, one.seconds) for program, one in own.items()),
            *((p.name, p.median("mean"), p.median("worst"), p.median("seconds")) for p in peers),
        ],
    )


def targets(name: str, own: dict[str, Accuracy], peers: Sequence[Peer]) -> list[bench.Target]:
    """Ours has no more error than the best peer."""
    if not peers:
        return []
    best = float(np.nanmin([one.median("mean") for one in peers]))
    return [bench.Target(f"{name}: private error", own["gencard"].mean / best, 1, "at most", "x")]
