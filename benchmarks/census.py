"""The census sample beside the repository, coded for the benchmarks.

ONS 2011 Census Microdata Teaching File, first 50,000 records (Open Government Licence). Attributes have
the levels that occur in the sample.
"""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain

FILE = Path(__file__).resolve().parents[2] / "shared" / "data" / "ons2011_first50k.parquet"

APPLICATION_1: Clique = ("Economic Activity", "Occupation", "Sex")
APPLICATION_2: Clique = (
    "Ethnic Group",
    "Country of Birth",
    "Family Composition",
    "Approximated Social Grade",
)
APPLICATION_3: Clique = (
    "Health",
    "Hours worked per week",
    "Age",
    "Marital Status",
    "Occupation",
    "Industry",
    "Region",
)


def census(attributes: Clique) -> Dataset:
    """The sample's records on some attributes; levels in ascending order of their text.

    Raises:
        SystemExit: The file is not there.
    """
    columns = [_column(name) for name in attributes]
    domain = Domain(tuple(attributes), tuple(len(levels) for levels, _ in columns))
    return Dataset.of_columns(domain, [codes for _, codes in columns])


def names() -> Clique:
    """All attributes of the file, in its order, but the person's number."""
    return tuple(name for name in pq.read_schema(_present()).names if name != "Person ID")


@cache
def _column(name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    values = pq.read_table(_present(), columns=[name]).column(0).cast("string").to_numpy()
    return np.unique(values.astype(str), return_inverse=True)


def _present() -> Path:
    if not FILE.exists():
        raise SystemExit(f"needs {FILE.name} in ../shared/data, beside the repository")
    return FILE
