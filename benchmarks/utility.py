"""Table utility, replicated uniques and disclosure of a survey, beside pandas and R's synthpop.

``python -m benchmarks.utility [--quick] [--json FILE]``

The survey S7 of Raab (2022) is resampled to the size wanted, twice, with ages and incomes shuffled so
that some records are unique. pandas runs beside ours and must find the same. synthpop's seconds, for the
survey resampled and a synthesis of it, are recorded.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import bench
from benchmarks.diagnosis import survey
from benchmarks.peers import Peers
from gencard.core.dataset import Dataset
from gencard.measures.privacy.disclosure import disclosure_risk, replicated_uniques
from gencard.measures.utility.table_utility import table_utilities

Pair = tuple[Dataset, Dataset]

Method = Callable[[Dataset, Dataset], float]
"""Measures two datasets; what it returns tells whether two methods agree."""


@dataclass(frozen=True, slots=True)
class Task:
    """One measure.

    Args:
        rows: Records of either dataset.
        least: How many times as fast ours is to be.
    """

    name: str
    rows: int
    least: float
    ours: Method
    pandas: Method


def statistics(original: Dataset, synthetic: Dataset, width: int) -> float:
    """The sum of VW over all tables of so many attributes; all other measures are computed too."""
    tables = table_utilities(original, synthetic, width).values()
    return sum(table.voas_williamson for table in tables)


def statistics_by_pandas(original: Dataset, synthetic: Dataset, width: int) -> float:
    """VW alone, for two datasets of one size."""
    ours, theirs = _frame(original), _frame(synthetic)
    total = 0.0
    for clique in map(list, combinations(ours.columns, width)):
        counts = pd.concat([ours.groupby(clique).size(), theirs.groupby(clique).size()], axis=1).fillna(
            0
        )
        total += float((2 * (counts[1] - counts[0]) ** 2 / (counts[1] + counts[0])).sum())
    return total


def uniques(original: Dataset, synthetic: Dataset) -> float:
    """Combinations of all attributes that are unique in one or the other, or in both."""
    counts = replicated_uniques(original, synthetic)
    return counts.in_original + counts.in_synthetic + counts.replicated


def uniques_by_pandas(original: Dataset, synthetic: Dataset) -> float:
    """The same."""
    ours, theirs = (
        frame.groupby(list(frame.columns)).size() for frame in map(_frame, (original, synthetic))
    )
    ours, theirs = ours[ours == 1], theirs[theirs == 1]
    return len(ours) + len(theirs) + len(ours.index.intersection(theirs.index))


def disclosure(original: Dataset, synthetic: Dataset) -> float:
    """DiSCO of the last attribute from the others, in records; all other measures are computed too."""
    *keys, target = original.domain.attributes
    return disclosure_risk(original, synthetic, tuple(keys), target).attribute.correct


def disclosure_by_pandas(original: Dataset, synthetic: Dataset) -> float:
    """DiSCO alone."""
    ours, theirs = _frame(original), _frame(synthetic)
    *keys, target = ours.columns
    distinct = theirs.drop_duplicates()
    unique_keys = distinct[~distinct.duplicated(keys, keep=False)]
    return len(ours.merge(unique_keys, on=[*keys, target]))


def _frame(dataset: Dataset) -> pd.DataFrame:
    return pd.DataFrame({name: dataset.column(name) for name in dataset.domain.attributes})


def tasks(quick: bool) -> list[Task]:
    """List the tasks that are measured."""
    rows = 100_000 if quick else 1_000_000
    return [
        Task("all two-way tables", rows, 20, *_tables(2)),
        Task("all three-way tables", 5_000, 10, *_tables(3)),
        Task("replicated uniques", rows, 20, uniques, uniques_by_pandas),
        Task("disclosure from 6 keys", rows, 20, disclosure, disclosure_by_pandas),
    ]


def _tables(width: int) -> tuple[Method, Method]:
    return partial(statistics, width=width), partial(statistics_by_pandas, width=width)


def resampled(rows: int) -> Pair:
    """The survey's records drawn with replacement, twice, ages and incomes in orders of their own."""
    rng = np.random.default_rng(7)
    one, other = (_shuffled(rows, rng) for _ in range(2))
    return one, other


def _shuffled(rows: int, rng: np.random.Generator) -> Dataset:
    records = survey(7)
    drawn = records.take(rng.integers(0, len(records), rows))
    columns = [drawn.column(name) for name in drawn.domain.attributes]
    for axis in drawn.domain.axes(("age", "income")):
        columns[axis] = rng.permutation(columns[axis])
    return Dataset.of_columns(drawn.domain, columns)


def timed(task: Task) -> dict[str, Any]:
    """Shortest seconds of ours and of pandas, and whether they agree."""
    pair = resampled(task.rows)
    return {
        "seconds": bench.fastest(lambda: task.ours(*pair), 5),
        "pandas": bench.fastest(lambda: task.pandas(*pair), 1),
        "agree": bool(np.isclose(task.ours(*pair), task.pandas(*pair), rtol=1e-9)),
    }


def run(quick: bool) -> bench.Result:
    peers = Peers(run=False)
    measured = {task: timed(task) for task in tasks(quick)}
    recorded = {
        task: peers.peer("synthpop", f"{task.name}, {task.rows:,} records", "", None)
        for task in measured
    }
    table = bench.Table(
        "Survey S7 of 7 attributes, resampled",
        ("measure", "records", "seconds", "pandas, less of it", "synthpop (recorded)"),
        [
            (
                *(task.name, f"2 x {task.rows:,}", figures["seconds"], figures["pandas"]),
                peer.median("seconds") if (peer := recorded[task]) else None,
            )
            for task, figures in measured.items()
        ],
    )
    different = sum(not figures["agree"] for figures in measured.values())
    speeds = [
        peer.speed(
            f"{task.name}: faster than synthpop",
            peer.median("seconds") / measured[task]["seconds"],
            task.least,
            "at least",
        )
        for task, peer in recorded.items()
        if peer
    ]
    return bench.Result(
        [table, peers.table()],
        [*speeds, bench.Target("different answers", different, 0, "at most")],
        {task.name: figures for task, figures in measured.items()},
    )


if __name__ == "__main__":
    bench.main("utility", run)
