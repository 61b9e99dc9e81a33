"""Support raking of all pairs of 30 attributes beside two straightforward baselines.

``python -m benchmarks.wide_raking [--quick] [--json FILE]``
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from benchmarks import bench
from benchmarks.count import records
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.generators.contract import rng_of
from gencard.core.generators.family import independent as product_of_margins
from gencard.core.generators.support import SupportRaking
from gencard.core.statistics.measure import measure_dataset
from gencard.core.statistics.psi import Measurement, Psi

_KEPT = 0.5
"""Share of the second answers that are as the first ones."""

_SWEEPS = 30
"""Sweeps of the textbook's raking."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """Result of one method on all pairs.

    Args:
        variation: Mean total variation of its marginals from psi.
        worst: The largest one.
        effective: Records that equal weights would need for the same variance; NaN for none.
    """

    seconds: float
    peak: float
    variation: float
    worst: float
    effective: float


def widened(rows: int) -> Dataset:
    """The census sample, resampled, on its 15 attributes and on a second answer to each.

    A second answer is the record's own with probability 1/2; otherwise it is that of another record of
    the same age. All pairs of the 30 attributes depend on each other, and no tree holds them.
    """
    rng = rng_of(0)
    sample = records(50_000)
    first = sample.codes[rng.integers(len(sample), size=rows)]
    age = first[:, sample.domain.axes(("Age",))[0]]
    order = np.lexsort((rng.random(rows), age))
    other = np.empty_like(first)
    other[order] = first[np.roll(order, 1)]
    second = np.where(rng.random(first.shape) < _KEPT, first, other)
    sizes = dict(zip(sample.domain.attributes, sample.domain.sizes, strict=True))
    domain = Domain.of({**sizes, **{f"{name}, again": size for name, size in sizes.items()}})
    return Dataset(domain, np.hstack([first, second]))


def measured(rows: int) -> Psi:
    """All two-way marginals of the widened census."""
    dataset = widened(rows)
    return measure_dataset(dataset, list(combinations(dataset.domain.attributes, 2)))


def support_raking(psi: Psi) -> tuple[list[float], float]:
    """Total variation of each marginal, and the effective number of records."""
    model = SupportRaking().fit(psi, psi.domain)
    variations = [_variation(model.marginal(m.clique), m) for m in psi.measurements]
    return variations, float(1 / (model.weights @ model.weights))


def independent(psi: Psi) -> tuple[list[float], float]:
    """The product of the one-way marginals."""
    model = product_of_margins().fit(psi, psi.domain)
    return [_variation(model.marginal(m.clique), m) for m in psi.measurements], np.nan


def textbook_raking(psi: Psi) -> tuple[list[float], float]:
    """Records drawn from the product of the one-way marginals, with weights raked by plain numpy."""
    drawn = product_of_margins().fit(psi, psi.domain).sample(2**17, rng=rng_of(0))
    weights = np.full(len(drawn), 1 / len(drawn))
    columns = {name: drawn.column(name).astype(np.intp) for name in psi.domain.attributes}

    def marginal(m: Measurement) -> tuple[np.ndarray, np.ndarray]:
        cells = columns[m.clique[0]] * m.values.shape[1] + columns[m.clique[1]]
        return cells, np.bincount(cells, weights, minlength=m.values.size)

    for _ in range(_SWEEPS):
        for m in psi.measurements:
            cells, counted = marginal(m)
            goal = m.values.ravel() / m.values.sum()
            weights *= np.divide(goal, counted, out=np.zeros_like(counted), where=counted > 0)[cells]
    variations = [_variation(marginal(m)[1].reshape(m.values.shape), m) for m in psi.measurements]
    return variations, float(weights.sum() ** 2 / (weights @ weights))


METHODS = {
    "support-raking": support_raking,
    "independent": independent,
    "plain raking of independent records": textbook_raking,
}


def fitted(name: str, rows: int) -> Fitted:
    """One method, timed in one run and its memory measured in another."""
    psi = measured(rows)
    results: list[tuple[list[float], float]] = []
    seconds = bench.once(lambda: results.append(METHODS[name](psi)))
    peak = bench.peak_mib(lambda: METHODS[name](psi)) if name == "support-raking" else np.nan
    variations, effective = results[0]
    return Fitted(seconds, peak, float(np.mean(variations)), max(variations), effective)


def _variation(table: np.ndarray, measurement: Measurement) -> float:
    return 0.5 * float(np.abs(table - measurement.values / measurement.values.sum()).sum())


def run(quick: bool) -> bench.Result:
    rows = 57_000 if quick else 570_000
    fits = {name: bench.alone(fitted, name, rows) for name in METHODS}
    ours = fits["support-raking"]
    table = bench.Table(
        f"All 435 two-way marginals of 30 attributes, {rows:,} records",
        ("method", "seconds", "MiB", "mean TV", "worst TV", "effective support"),
        [(name, f.seconds, f.peak, f.variation, f.worst, f.effective) for name, f in fits.items()],
    )
    others = [f.variation for name, f in fits.items() if name != "support-raking"]
    return bench.Result(
        [table],
        [
            bench.Target("raking", ours.seconds, 60, "at most", "s"),
            bench.Target("memory", ours.peak, 2_048, "at most", "MiB"),
            bench.Target("mean TV", ours.variation, 5e-3, "at most"),
            bench.Target("baselines' mean TV by ours", min(others) / ours.variation, 1, "at least", "x"),
        ],
    )


if __name__ == "__main__":
    bench.main("wide_raking", run)
