"""Records with names and numbers: the survey and the census as they are, and tables to judge rows by.

Social Diagnosis 2011 as the R package synthpop ships it (GPL-2 | GPL-3), 5,000 records; UCI Adult
(Becker, Kohavi 1996, CC BY 4.0), 48,842 records; both beside the repository.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks import bench
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.measures.utility.table_utility import mean_measure, table_utilities

SHARED = Path(__file__).resolve().parents[2] / "shared"

_GROUPS = 5
_FEWEST_GROUPS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Mixed:
    """Records as they came, and as codes.

    Args:
        frame: Numbers as floats, all else as text; a missing value is null.
        dataset: One level for each value that occurs, "missing" last.
        values: For each attribute with numbers that of each code.
        levels: The value of each code, by attribute.
    """

    frame: pd.DataFrame
    dataset: Dataset
    values: Mapping[str, tuple[float, ...]]
    levels: Mapping[str, NDArray[Any]]

    def decoded(self, made: Dataset) -> pd.DataFrame:
        """Rows in the form of ``frame``."""
        return pd.DataFrame({name: levels[made.column(name)] for name, levels in self.levels.items()})


def mixed(frame: pd.DataFrame) -> Mixed:
    """Records as codes."""
    columns, levels = {}, {}
    for name in frame.columns:
        codes, labels = pd.factorize(frame[name], sort=True)
        missing = codes == -1
        levels[name] = np.append(labels, np.nan) if missing.any() else np.asarray(labels)
        columns[name] = np.where(missing, len(labels), codes)
    domain = Domain.of({name: len(each) for name, each in levels.items()})
    values = {name: tuple(map(float, levels[name])) for name in frame.columns if is_number(frame[name])}
    return Mixed(frame, Dataset.of_columns(domain, list(columns.values())), values, levels)


def survey(count: int | None = None, *, leave_out: Sequence[str] = ()) -> Mixed:
    """The survey's first so many attributes after some are left out, all 35 without a number."""
    frame = _read("sd2011.parquet").drop(columns=list(leave_out))
    return mixed(frame.iloc[:, :count])


def census() -> Mixed:
    """Adult without the sampling weight and the native country: 13 attributes."""
    return mixed(_read("adult_raw.parquet").drop(columns=["fnlwgt", "native-country", "split"]))


def small_survey(file: str) -> pd.DataFrame:
    """1,000 records of the survey on 6 attributes, or one of synthpop's five syntheses of them."""
    path = SHARED / "oracles" / "synthpop" / file
    if not path.exists():
        raise SystemExit(f"needs {path.name} in ../shared/oracles, beside the repository")
    return _plain(pd.read_csv(path))


def utility(original: pd.DataFrame, synthetic: pd.DataFrame) -> float:
    """Mean S_pMSE of all pairs as synthpop 1.9-3 computes it: numbers in groups, missing as a level.

    The groups are quintiles of original and synthetic numbers together, closed on the left; equal
    intervals where quintiles give fewer than three.
    """
    both = pd.concat([original, synthetic], ignore_index=True)
    columns = {name: _grouped(both[name]) for name in original.columns}
    domain = Domain.of({name: int(codes.max()) + 1 for name, codes in columns.items()})
    pooled = Dataset.of_columns(domain, list(columns.values()))
    whole = np.arange(len(both))
    ours, theirs = pooled.take(whole[: len(original)]), pooled.take(whole[len(original) :])
    return bench.defined(mean_measure(table_utilities(ours, theirs, 2).values(), "S_pMSE"))


def is_number(column: "pd.Series[Any]") -> bool:
    return bool(pd.api.types.is_numeric_dtype(column))


def _grouped(column: "pd.Series[Any]") -> NDArray[Any]:
    if not is_number(column):
        return pd.factorize(column, use_na_sentinel=False)[0]
    numbers = column.to_numpy(dtype=np.float64)
    known = numbers[~np.isnan(numbers)]
    edges = np.unique(np.quantile(known, np.linspace(0, 1, _GROUPS + 1)))
    if len(edges) <= _FEWEST_GROUPS:
        edges = np.linspace(known.min(), known.max(), _GROUPS + 1)
    groups = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, len(edges) - 2)
    return np.where(np.isnan(numbers), len(edges) - 1, groups)


def _read(name: str) -> pd.DataFrame:
    path = SHARED / "data" / name
    if not path.exists():
        raise SystemExit(f"needs {name} in ../shared/data, beside the repository")
    return _plain(pq.read_table(path).to_pandas())


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Numbers as floats, all else as text or null."""
    return pd.DataFrame(
        {
            name: frame[name].astype(float) if is_number(frame[name]) else frame[name].astype(object)
            for name in frame.columns
        }
    )
