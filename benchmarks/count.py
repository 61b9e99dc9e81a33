"""Counting: all two-way marginals of 15 attributes, beside pandas and one bincount per pair.

``python -m benchmarks.count [--quick] [--json FILE]``
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks import bench
from benchmarks.census import census, names
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.statistics.marginals import Counter, count_all

_LEFT_OUT = ("Region", "Residence Type")

Tables = list[NDArray[Any]]


def records(rows: int) -> Dataset:
    """The census sample on 15 attributes, repeated until there are ``rows`` records."""
    sample = census(tuple(name for name in names() if name not in _LEFT_OUT))
    return sample.take(np.arange(rows) % len(sample))


def gencard(dataset: Dataset, cliques: Sequence[Clique]) -> Tables:
    return list(count_all(dataset, cliques))


def gencard_stream(dataset: Dataset, cliques: Sequence[Clique]) -> Tables:
    """Count batches of 100,000 records, as from a file."""
    counter = Counter(dataset.domain, cliques)
    for begin in range(0, len(dataset), 100_000):
        counter.add(dataset.codes[begin : begin + 100_000])
    return list(counter.marginals())


def numpy_bincount(dataset: Dataset, cliques: Sequence[Clique]) -> Tables:
    """The straightforward way: one pass over the records for each pair."""
    tables = []
    for one, other in cliques:
        rows, columns = dataset.domain.project((one, other)).sizes
        cells = dataset.column(one).astype(np.intp) * columns + dataset.column(other)
        tables.append(np.bincount(cells, minlength=rows * columns).reshape(rows, columns))
    return tables


def pandas_groupby(dataset: Dataset, cliques: Sequence[Clique]) -> Tables:
    frame = _frame(dataset)
    return [_table(frame.groupby(list(clique)).size(), dataset, clique) for clique in cliques]


def pandas_crosstab(dataset: Dataset, cliques: Sequence[Clique]) -> Tables:
    frame = _frame(dataset)
    counted = (pd.crosstab(frame[one], frame[other]).stack() for one, other in cliques)
    return [_table(counts, dataset, clique) for counts, clique in zip(counted, cliques, strict=True)]


def _frame(dataset: Dataset) -> pd.DataFrame:
    return pd.DataFrame({name: dataset.column(name) for name in dataset.domain.attributes})


def _table(counts: Any, dataset: Dataset, clique: Clique) -> NDArray[Any]:
    table = np.zeros(dataset.domain.project(clique).sizes, dtype=np.int64)
    table[tuple(np.array(counts.index.to_list()).T)] = counts.to_numpy()
    return table


METHODS: dict[str, Callable[[Dataset, Sequence[Clique]], Tables]] = {
    "gencard, in memory": gencard,
    "gencard, streamed": gencard_stream,
    "numpy bincount": numpy_bincount,
    "pandas groupby": pandas_groupby,
    "pandas crosstab": pandas_crosstab,
}


def timed(name: str, rows: int, repeats: int) -> tuple[float, float, int]:
    """Shortest seconds, peak memory in MiB above the records, and a checksum of all counts."""
    dataset = records(rows)
    cliques = list(combinations(dataset.domain.attributes, 2))
    count = METHODS[name]
    peak = bench.peak_mib(lambda: count(dataset, cliques))
    took = bench.fastest(lambda: count(dataset, cliques), repeats)
    weighed = (
        int((table.ravel() * np.arange(1, table.size + 1)).sum()) for table in count(dataset, cliques)
    )
    return took, peak, sum(place * weight for place, weight in enumerate(weighed, start=1))


def run(quick: bool) -> bench.Result:
    rows, repeats = (57_000, 15) if quick else (570_000, 9)
    measured = {
        name: bench.alone(timed, name, rows, 1 if name.startswith("pandas") else repeats)
        for name in METHODS
    }
    took = {name: seconds for name, (seconds, _, _) in measured.items()}
    ours = took["gencard, in memory"]
    table = bench.Table(
        f"105 two-way marginals of 15 attributes, {rows:,} records",
        ("method", "seconds", "times ours", "peak MiB above the records"),
        [(name, seconds, seconds / ours, peak) for name, (seconds, peak, _) in measured.items()],
    )
    answers = {answer for _, _, answer in measured.values()}
    figures = {
        name: {"seconds": seconds, "peak_mib": peak} for name, (seconds, peak, _) in measured.items()
    }
    return bench.Result([table], _targets(took, len(answers), quick), figures)


def _targets(took: Mapping[str, float], answers: int, quick: bool) -> list[bench.Target]:
    """With a tenth of the records, what counting costs for any number of them weighs most."""
    ours, least = took["gencard, in memory"], 1 if quick else 3
    pandas = min(took["pandas groupby"], took["pandas crosstab"])
    return [
        bench.Target("faster than pandas", pandas / ours, 10, "at least", "x"),
        bench.Target("faster than bincount", took["numpy bincount"] / ours, least, "at least", "x"),
        bench.Target("different answers", answers - 1, 0, "at most"),
    ]


if __name__ == "__main__":
    bench.main("count", run)
