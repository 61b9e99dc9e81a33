"""UCI Adult beside the repository, coded for the benchmarks: 14 attributes of at most 32 levels.

Becker, Kohavi 1996 (CC BY 4.0), 48,842 records. Numbers in equal intervals of declared ranges.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain

FILE = Path(__file__).resolve().parents[2] / "shared" / "data" / "adult_raw.parquet"

_LEFT_OUT = ("fnlwgt", "split")
"""The sampling weight, which describes the survey and not the person, and the parts of the file."""

_LEVELS = 32

_RANGES = {"age": (16, 96, _LEVELS), "education-num": (1, 17, 16), "hours-per-week": (0, 100, _LEVELS)}
"""Lowest value, the value after the highest, number of intervals."""

_MOSTLY_ZERO = {"capital-gain": 100_000, "capital-loss": 4_400}
"""Zero is a level of its own; the others share the range up to the value named."""


def adult() -> Dataset:
    """The records; of 42 countries the 31 most frequent have a level each.

    Raises:
        SystemExit: The file is not there.
    """
    if not FILE.exists():
        raise SystemExit(f"needs {FILE.name} in ../shared/data, beside the repository")
    table = pq.read_table(FILE)
    names = [name for name in table.column_names if name not in _LEFT_OUT]
    coded = [_coded(name, table.column(name)) for name in names]
    domain = Domain(tuple(names), tuple(size for _, size in coded))
    return Dataset.of_columns(domain, [codes for codes, _ in coded])


def _coded(name: str, column: Any) -> tuple[NDArray[Any], int]:
    """Codes and number of levels."""
    if name in _RANGES:
        low, high, levels = _RANGES[name]
        return (column.to_numpy() - low) * levels // (high - low), levels
    if name in _MOSTLY_ZERO:
        values = column.to_numpy()
        above = 1 + (values - 1) * (_LEVELS - 1) // _MOSTLY_ZERO[name]
        return np.where(values == 0, 0, above), _LEVELS
    _, codes, counts = np.unique(
        column.cast("string").to_numpy().astype(str), return_inverse=True, return_counts=True
    )
    rank = np.argsort(np.argsort(-counts, kind="stable"), kind="stable")
    return np.minimum(rank, _LEVELS - 1)[codes], min(len(counts), _LEVELS)
