"""Two-way marginals under differential privacy: ours beside MST and AIM, same records, same epsilon."""

import json
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np

from benchmarks import bench, private_once
from benchmarks.peers import peers_python
from benchmarks.raking import pairs
from gencard.controller.noise import OpenDpNoise
from gencard.core.card.budget import Mechanism, Neighbouring, Privacy
from gencard.core.dataset import Dataset
from gencard.core.generators.contract import rng_of
from gencard.core.generators.registry import generator_named
from gencard.core.noise.accounting import rho_of
from gencard.core.noise.mechanisms import noisy
from gencard.core.statistics.measure import measure_dataset
from gencard.core.statistics.psi import Psi

EPSILON, DELTA = Decimal(1), Decimal("1e-5")

_ROWS = 1_000_000
"""Rows drawn from each model, so many that drawing them adds next to nothing to the error."""

_PATIENCE = 600
"""Seconds after which a peer is given up."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Total variation of the two-way marginals of rows from those of the records.

    Args:
        mean: Over all pairs; not a number where the program did not end in time.
        worst: The largest.
        seconds: From records to rows.
    """

    mean: float
    worst: float
    seconds: float

    @classmethod
    def of(cls, rows: Dataset, psi: Psi, seconds: float) -> "Accuracy":
        found = measure_dataset(rows, psi.cliques).measurements
        variations = [
            0.5 * float(np.abs(one.values / len(rows) - m.values / m.values.sum()).sum())
            for one, m in zip(found, psi.measurements, strict=True)
        ]
        return cls(float(np.mean(variations)), max(variations), seconds)


def accuracies(dataset: Dataset, *, peers: bool) -> dict[str, Accuracy]:
    """Of each program, all of one record more or less."""
    psi = measure_dataset(dataset, pairs(dataset))
    by_root = [round(100 * m.values.size**0.5) for m in psi.measurements]
    found = {
        "gencard": ours(dataset, psi),
        "gencard, parts by root of cells": ours(dataset, psi, by_root),
    }
    return found | {name: peer(name, dataset, psi) for name in private_once.MECHANISMS if peers}


def ours(dataset: Dataset, psi: Psi, weights: Sequence[int] = ()) -> Accuracy:
    """All pairs with discrete Gaussian noise, reconciled, raked on a support."""
    privacy = Privacy(
        Mechanism.GAUSSIAN, Neighbouring.ADD_REMOVE, rho=rho_of(EPSILON, DELTA), delta=DELTA
    )
    begin = time.perf_counter()
    measured = noisy(psi, privacy, OpenDpNoise(), weights)
    generator = generator_named("support-raking", structural_zeros=(), max_cells=50_000_000)
    rows = generator.fit(measured, dataset.domain).sample(_ROWS, rng=rng_of(1))
    return Accuracy.of(rows, psi, time.perf_counter() - begin)


def peer(mechanism: str, dataset: Dataset, psi: Psi) -> Accuracy:
    """A mechanism of ``dpmm``, in its own environment and process."""
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder) / "job.npz"
        np.savez(job, codes=dataset.codes, sizes=dataset.domain.sizes)
        settings = [str(job), str(EPSILON), str(DELTA), str(_ROWS), "1"]
        python = str(peers_python(".venv-peers-private"))
        command = [python, private_once.__file__, mechanism, *settings]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=True, cwd=folder, timeout=_PATIENCE
            )
        except subprocess.TimeoutExpired:
            return Accuracy(np.nan, np.nan, _PATIENCE)
        rows = Dataset(dataset.domain, np.load(job.with_suffix(".npy")))
        return Accuracy.of(rows, psi, json.loads(done.stdout.splitlines()[-1])["seconds"])


def table(name: str, found: dict[str, Accuracy]) -> bench.Table:
    return bench.Table(
        f"All two-way marginals of {name}, epsilon {EPSILON}, delta {DELTA}: total variation of rows",
        ("program", "mean", "worst", "seconds"),
        [(program, one.mean, one.worst, one.seconds) for program, one in found.items()],
    )


def targets(name: str, found: dict[str, Accuracy]) -> list[bench.Target]:
    """Ours has no more error than the best peer, where peers were run."""
    peers = [one.mean for program, one in found.items() if program in private_once.MECHANISMS]
    if not peers:
        return []
    best = float(np.nanmin(peers))
    return [bench.Target(f"{name}: private error", found["gencard"].mean / best, 1, "at most", "x")]
