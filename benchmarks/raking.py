"""Support raking of all two-way marginals, where the exact junction tree is refused."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from benchmarks import bench
from benchmarks.adult import adult
from benchmarks.count import records
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.errors import ModelTooLargeError
from gencard.core.generators.contract import rng_of
from gencard.core.generators.family import graphical
from gencard.core.generators.support import SupportRaking
from gencard.core.statistics.measure import measure_dataset

_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class Raked:
    """Result of support raking on all pairs of a dataset."""

    pairs: int
    seconds: float
    variation: float
    worst: float
    effective: float
    rows_per_second: float
    peak: float
    refused: bool


def rake(name: str, support: int) -> Raked:
    """All two-way marginals of a dataset."""
    dataset = DATASETS[name]()
    psi = measure_dataset(dataset, pairs(dataset))
    models = []
    peak = bench.peak_mib(lambda: models.append(SupportRaking(support=support).fit(psi, dataset.domain)))
    took = bench.once(lambda: SupportRaking(support=support).fit(psi, dataset.domain))
    model = models[0]
    distances = [
        0.5 * np.abs(model.marginal(m.clique) - m.values / m.values.sum()).sum()
        for m in psi.measurements
    ]
    return Raked(
        len(distances),
        took,
        float(np.mean(distances)),
        float(np.max(distances)),
        float(1 / (model.weights @ model.weights)),
        _ROWS / bench.fastest(lambda: model.sample(_ROWS, rng=rng_of(1)), 3),
        peak,
        is_refused(dataset),
    )


def is_refused(dataset: Dataset) -> bool:
    """Whether the exact tree of all pairs is."""
    try:
        graphical().check(pairs(dataset), dataset.domain)
    except ModelTooLargeError:
        return True
    return False


def fifteen() -> Dataset:
    """The census sample on 15 attributes."""
    return records(50_000)


def pairs(dataset: Dataset) -> list[Clique]:
    return list(combinations(dataset.domain.attributes, 2))


DATASETS = {"census": fifteen, "adult": adult}


def table(rakes: dict[str, Raked]) -> bench.Table:
    return bench.Table(
        "Support raking of all two-way marginals",
        ("records", "pairs", "seconds", "mean TV", "worst TV", "effective support", "rows/s", "MiB"),
        [
            (name, r.pairs, r.seconds, r.variation, r.worst, r.effective, r.rows_per_second, r.peak)
            for name, r in rakes.items()
        ],
    )


def targets(rakes: dict[str, Raked]) -> list[bench.Target]:
    targets = []
    for name, raked in rakes.items():
        targets += [
            bench.Target(f"{name}: raking", raked.seconds, 60, "at most", "s"),
            bench.Target(f"{name}: mean TV", raked.variation, 5e-3, "at most"),
            bench.Target(f"{name}: memory", raked.peak, 2_048, "at most", "MiB"),
            bench.Target(f"{name}: exact tree refused", float(raked.refused), 1, "at least"),
        ]
    return targets
