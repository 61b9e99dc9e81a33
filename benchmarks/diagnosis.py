"""The survey of Raab (2022), Tables 2 and 3, beside the repository: 5,000 records, 3, 5 or 7 attributes.

Social Diagnosis 2011 as the R package synthpop ships it (GPL-2 | GPL-3), age and income in five groups;
a missing value is one more level of the attributes that have any.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain

_FILE = Path(__file__).resolve().parents[2] / "shared" / "data" / "sd2011_s7.parquet"


def survey(attributes: int) -> Dataset:
    """The survey's first so many attributes: S3, S5 or S7 of the paper.

    Raises:
        SystemExit: The file is not there.
    """
    if not _FILE.exists():
        raise SystemExit(f"needs {_FILE.name} in ../shared/data, beside the repository")
    table = pq.read_table(_FILE)
    names = table.column_names[:attributes]
    columns = [table.column(name).combine_chunks() for name in names]
    sizes = [len(column.dictionary) + (column.null_count > 0) for column in columns]
    return Dataset.of_columns(Domain(tuple(names), tuple(sizes)), [_codes(column) for column in columns])


def _codes(column: Any) -> Any:
    """Codes of the levels in the order of the file, "missing" last."""
    missing = pa.scalar(len(column.dictionary), column.indices.type)
    return column.indices.fill_null(missing).to_numpy()
