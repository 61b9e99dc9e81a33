"""Iterative proportional fitting: block IPF beside the straightforward cyclic one.

``python -m benchmarks.ipf [--quick] [--json FILE]``
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import bench
from benchmarks.census import APPLICATION_1, APPLICATION_2, APPLICATION_3, census
from gencard.core.domain import Clique, Domain
from gencard.core.generators.contract import rng_of
from gencard.core.generators.family import ipf
from gencard.core.generators.models import TableModel
from gencard.core.statistics.marginals import project
from gencard.core.statistics.measure import measure_dataset
from gencard.core.statistics.psi import Psi

_TOLERANCE = 1e-4

APPLICATIONS: dict[str, tuple[Clique, tuple[Clique, ...]]] = {
    "1": (APPLICATION_1, tuple(combinations(APPLICATION_1, 2))),
    "2": (APPLICATION_2, (APPLICATION_2[:3], *((name, APPLICATION_2[3]) for name in APPLICATION_2[:3]))),
    "3": (APPLICATION_3, tuple(combinations(APPLICATION_3, 2))),
}


@dataclass(frozen=True, slots=True)
class Race:
    """Medians over several runs, taken by turns; ``gain`` is the median of the runs' own ratios."""

    cells: int
    ours: float
    cyclic: float
    gain: float
    error: float
    rows_per_second: float
    peak: float


def cyclic_ipf(psi: Psi, domain: Domain) -> NDArray[np.float64]:
    """The textbook: scale the whole table to each marginal in turn until a sweep finds all met."""
    table = np.full(domain.sizes, 1.0 / domain.cells)
    goals = [_goal(domain, measurement.clique, measurement.values) for measurement in psi.measurements]
    worst = np.inf
    while worst > _TOLERANCE:
        worst = 0.0
        for shares, axes in goals:
            marginal = table.sum(axis=axes, keepdims=True)
            worst = max(worst, float(np.abs(marginal - shares).sum()))
            table *= np.divide(shares, marginal, out=np.zeros_like(marginal), where=marginal > 0)
    return table


def _goal(domain: Domain, clique: Clique, values: NDArray[Any]) -> tuple[NDArray[Any], tuple[int, ...]]:
    """Shares, with an axis per attribute of the domain, and the axes to sum over."""
    axes = domain.axes(clique)
    shape = [size if axis in axes else 1 for axis, size in enumerate(domain.sizes)]
    others = tuple(axis for axis in range(len(domain)) if axis not in axes)
    return np.transpose(values, np.argsort(axes)).reshape(shape) / values.sum(), others


def worst_error(psi: Psi, domain: Domain, table: NDArray[np.float64]) -> float:
    """Largest L1 distance between a marginal of the table and psi, in shares."""
    return max(
        float(np.abs(project(table, domain.attributes, m.clique) - m.values / m.values.sum()).sum())
        for m in psi.measurements
    )


def race(application: str, repeats: int) -> Race:
    attributes, cliques = APPLICATIONS[application]
    dataset = census(attributes)
    psi = measure_dataset(dataset, cliques)
    generator = ipf(tolerance=_TOLERANCE)
    models: list[TableModel] = []

    def ours() -> None:
        models[:] = [generator.fit_table(psi, dataset.domain)]

    pairs = _by_turns(ours, lambda: cyclic_ipf(psi, dataset.domain), repeats)
    rows = 1_000_000
    return Race(
        cells=dataset.domain.cells,
        ours=median(one for one, _ in pairs),
        cyclic=median(other for _, other in pairs),
        gain=median(other / one for one, other in pairs),
        error=worst_error(psi, dataset.domain, models[0].probabilities),
        rows_per_second=rows / bench.seconds(lambda: models[0].sample(rows, rng=rng_of(1)), 3),
        peak=bench.peak_mib(ours),
    )


def _by_turns(
    one: Callable[[], object], other: Callable[[], object], repeats: int
) -> list[tuple[float, float]]:
    """Seconds of both, run by turns so that other work on the machine meets both alike."""
    one()
    return [(bench.once(one), bench.once(other)) for _ in range(repeats)]


def run(quick: bool) -> bench.Result:
    races = {
        application: bench.alone(race, application, 3 if quick else 7) for application in APPLICATIONS
    }
    table = bench.Table(
        f"IPF to an L1 error of {_TOLERANCE:g} per marginal; then 1,000,000 rows drawn",
        ("application", "cells", "ours, ms", "cyclic, ms", "times", "error", "rows/s", "fit, MiB"),
        [
            (name, r.cells, 1e3 * r.ours, 1e3 * r.cyclic, r.gain, r.error, r.rows_per_second, r.peak)
            for name, r in races.items()
        ],
    )
    first, big = races["1"], races["3"]
    return bench.Result(
        [table],
        [
            bench.Target("application 3, faster than cyclic", big.gain, 8, "at least", "x"),
            bench.Target("worst error", max(r.error for r in races.values()), _TOLERANCE, "at most"),
            bench.Target("rows/s, 936,000 cells", big.rows_per_second, 1e6, "at least"),
            bench.Target("rows/s, 200 cells", first.rows_per_second, 5e6, "at least"),
        ],
    )


if __name__ == "__main__":
    bench.main("ipf", run)
