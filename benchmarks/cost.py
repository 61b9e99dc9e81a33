"""Cost of a fit: it grows with the model, and not with the number of records behind psi."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from benchmarks import bench
from benchmarks.count import records
from gencard.core.generators.family import graphical
from gencard.core.generators.junction_tree import JunctionTree
from gencard.core.statistics.measure import measure_dataset

_SAMPLE = 50_000


@dataclass(frozen=True, slots=True)
class Cost:
    """Processor seconds of measuring and of fitting all pairs of some attributes on a junction tree.

    Args:
        attributes: How many.
        cells: Of the tree's cliques together.
    """

    records: int
    attributes: int
    cells: int
    measuring: float
    fitting: float


def cost(copies: int, attributes: int) -> Cost:
    """Fit repeated copies of the census sample: the same shares, of more records."""
    sample = records(_SAMPLE * copies)
    dataset = sample.project(sample.domain.attributes[:attributes])
    cliques = list(combinations(dataset.domain.attributes, 2))
    psi = measure_dataset(dataset, cliques)
    tree = JunctionTree.of(dataset.domain, cliques)
    return Cost(
        len(dataset),
        attributes,
        sum(dataset.domain.project(clique).cells for clique in tree.cliques),
        bench.least_processor_seconds(lambda: measure_dataset(dataset, cliques), 3),
        bench.least_processor_seconds(lambda: graphical().fit(psi, dataset.domain), 9),
    )


def costs_by_records(quick: bool) -> list[Cost]:
    return [cost(copies, 7) for copies in ((1, 4, 16) if quick else (1, 4, 16, 64))]


def costs_by_model(quick: bool) -> list[Cost]:
    return [cost(1, attributes) for attributes in range(4, 8 if quick else 10)]


def part(
    by_records: Sequence[Cost], by_model: Sequence[Cost]
) -> tuple[list[bench.Table], list[bench.Target]]:
    """Both tables, and the bound on what more records may cost."""
    growth = by_records[-1].fitting / by_records[0].fitting
    return [
        _table("Cost: the same model, more records", by_records),
        _table("Cost: the same records, a larger model", by_model),
    ], [bench.Target("fit, more records", growth, 2, "at most", "x")]


def _table(title: str, costs: Sequence[Cost]) -> bench.Table:
    return bench.Table(
        title,
        ("records", "attributes", "cells of the model", "measuring, ms", "fitting, ms"),
        [(c.records, c.attributes, c.cells, 1e3 * c.measuring, 1e3 * c.fitting) for c in costs],
    )


def plot(path: Path, by_records: Sequence[Cost], by_model: Sequence[Cost]) -> None:
    """Both, side by side, on logarithmic axes."""
    import matplotlib  # noqa: PLC0415 - only where a plot is wanted

    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.5), sharey=True, layout="constrained")
    left.loglog([c.records for c in by_records], [c.fitting for c in by_records], "o-", label="fitting")
    left.loglog(
        [c.records for c in by_records], [c.measuring for c in by_records], "s--", label="measuring"
    )
    left.set(xlabel="records", ylabel="seconds", title="The same model, more records")
    left.legend()
    right.loglog([c.cells for c in by_model], [c.fitting for c in by_model], "o-")
    right.set(xlabel="cells of the model", title="The same records, a larger model")
    figure.savefig(path)
