"""Codes, labels and formats of a file of Stata or SPSS, read in a process of its own.

Run as a module with the number of the process that started it, the file, a folder for the result and the
most cells that are read.
"""

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyreadstat

from gencard.core.errors import InvalidInputError
from gencard.files.apart import end_with_parent, run_apart

_VALUES, _FACTS = "values.parquet", "facts.json"

_TOO_LARGE = 3
"""Exit status for a file that has too many cells."""


@dataclass(frozen=True, slots=True)
class StatisticsFile:
    """Content of a file of Stata or SPSS.

    Args:
        values: As they are stored: codes, texts, and numbers of days, seconds or milliseconds.
        labels: By column, the label of each code.
        forms: By column, its display format.
        declares_missing: Values are declared as missing.
    """

    values: pd.DataFrame
    labels: dict[str, dict[float, str]]
    forms: dict[str, str]
    declares_missing: bool


def read_statistics(path: Path, most_cells: int) -> StatisticsFile:
    """Read a file whose name ends in .dta or .sav.

    Raises:
        InvalidInputError: The file has too many cells.
        OSError: It cannot be read.
    """
    with tempfile.TemporaryDirectory() as folder:
        done = run_apart("gencard.client.common.files.statistics_reading", path, folder, most_cells)
        if done.returncode == _TOO_LARGE:
            problem = f"has more than {most_cells:,} cells: {path}"
            raise InvalidInputError(field="file", problem=problem)
        if done.returncode:
            raise OSError
        facts = json.loads((Path(folder) / _FACTS).read_bytes())
        labels = {
            name: {float(code): label for code, label in own}
            for name, own in facts.pop("labels").items()
        }
        return StatisticsFile(pd.read_parquet(Path(folder) / _VALUES), labels, **facts)


def _main(parent: int, path: Path, folder: Path, most_cells: int) -> int:
    end_with_parent(parent)
    read: Any = pyreadstat.read_dta if path.suffix.lower() == ".dta" else pyreadstat.read_sav
    options = {"user_missing": True, "disable_datetime_conversion": True}
    _, size = read(path, metadataonly=True, **options)
    if (size.number_rows or 0) * size.number_columns > most_cells:
        return _TOO_LARGE
    frame, facts = read(path, **options)
    known = {name: _plain(frame[name]) for name in frame.columns}
    pd.DataFrame(known).to_parquet(folder / _VALUES)
    document = {
        "labels": {name: list(own.items()) for name, own in facts.variable_value_labels.items()},
        "forms": facts.original_variable_types,
        "declares_missing": bool(facts.missing_ranges or facts.missing_user_values),
    }
    (folder / _FACTS).write_text(json.dumps(document))
    return 0


def _plain(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Whole numbers with missing values as numbers, and as text beside codes of missing values."""
    if column.dtype != object:
        return column
    try:
        return pd.to_numeric(column)
    except ValueError:
        return column.astype(str)


if __name__ == "__main__":
    sys.exit(_main(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])))
