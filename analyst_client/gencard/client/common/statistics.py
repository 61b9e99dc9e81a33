"""Files of Stata and SPSS, the part that needs pyreadstat.

Labels are value labels of the numbers that ``numbers_of_levels`` returns, or texts in a column of texts.
Whole numbers, numbers, dates and times of day are themselves, "missing" is the system's missing value.
"""

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyreadstat
from numpy.typing import NDArray

from gencard.client.common.formats import is_text, numbers_of_levels
from gencard.core.coding import Attribute, Coding, Edges
from gencard.core.dataset import Dataset
from gencard.core.errors import InvalidInputError
from gencard.files.apart import end_with_parent, run_apart
from gencard.files.statistics import SPSS_DAYS, STATA_DAYS
from gencard.run.levels import Values, is_integer, is_ordered, names_of

# Codes, labels and formats of a file of Stata or SPSS, read in a process of its own.
#
# Run as a module with the number of the process that started it, the file, a folder for the result and
# the most cells that are read.


_VALUES, _FACTS = "values.parquet", "facts.json"

_TOO_LARGE = 3
"""Exit status for a file that has too many cells."""


@dataclass(frozen=True, slots=True)
class StatisticsFile:
    """Content of a file of Stata or SPSS.

    Args:
        values: As they are stored: codes, texts, and numbers of days, seconds or milliseconds.
        forms: By column, its display format.
    """

    values: pd.DataFrame
    labels: dict[str, dict[float, str]]
    forms: dict[str, str]
    declares_missing: bool


def read_statistics(path: Path, most_cells: int) -> StatisticsFile:
    """Read a file whose name ends in .dta or .sav; raises OSError, or InvalidInputError if too large."""
    with tempfile.TemporaryDirectory() as folder:
        done = run_apart("gencard.client.common.statistics", path, folder, most_cells)
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
    pd.DataFrame({name: _plain(frame[name]) for name in frame.columns}).to_parquet(folder / _VALUES)
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


_LONG = 2_147_483_620
"""Largest whole number that Stata keeps in four bytes."""

_DESCRIPTION = 80
"""Characters of a description that fit: longer ones end in an ellipsis."""


@dataclass(frozen=True, slots=True)
class _Variable:
    """A column as pyreadstat takes it: shape ``(rows,)``, labels of numbers, display format.

    Args:
        form: Display format; empty for the usual one.
        measure: Level of measurement in SPSS.
    """

    values: "pd.Series[Any]"
    labels: Mapping[Any, str] = field(default_factory=dict)
    form: str = ""
    measure: str = "nominal"


def write_statistics(
    dataset: Dataset, coding: Coding, path: Path, values: Values | None, ending: str
) -> None:
    """Write rows that ``check_fits`` accepts; pyreadstat takes them whole, not in batches."""
    attributes = [coding.attribute(name) for name in dataset.domain.attributes]
    columns = {one.name: _column(one, dataset.column(one.name), values, ending) for one in attributes}
    frame = pd.DataFrame({name: column.values for name, column in columns.items()}, copy=False)
    facts: dict[str, Any] = {
        "column_labels": {one.name: _short(one.description) for one in attributes if one.description},
        "variable_value_labels": {name: dict(one.labels) for name, one in columns.items() if one.labels},
        "variable_format": {name: one.form for name, one in columns.items() if one.form},
    }
    measures = {name: one.measure for name, one in columns.items()}
    try:
        if ending == ".dta":
            pyreadstat.write_dta(frame, path.absolute(), version=15, **facts)
        else:
            facts |= {"variable_measure": measures, "row_compress": True}
            pyreadstat.write_sav(frame, path.absolute(), **facts)
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError):
        raise OSError from None


def _column(attribute: Attribute, codes: NDArray[Any], values: Values | None, ending: str) -> _Variable:
    coding, names = attribute.coding, names_of(attribute)
    if isinstance(coding, Edges) and values is not None:
        whole = coding.decimals == 0 and values.is_value(attribute.name)
        return _numbers(coding, values.of(attribute.name, coding, codes), whole, ending)
    measure = "ordinal" if is_ordered(attribute) else "nominal"
    if is_text(attribute):
        texts = pd.Index((*names, ""))  # a missing text is an empty one
        known = pd.Categorical.from_codes(codes.astype(np.int32), texts)
        return _Variable(pd.Series(known), measure=measure)
    numbers = numbers_of_levels(attribute)
    levels = np.array([*numbers, np.nan])[codes]
    if is_integer(attribute):
        return _Variable(_whole(levels), form=_spss_number(numbers, 0, ending), measure="scale")
    is_whole = all(isinstance(number, int) for number in numbers)
    labels = dict(zip(numbers, names, strict=True))
    form = _spss_number(numbers, 0, ending) if is_whole else ""
    return _Variable(_whole(levels) if is_whole else pd.Series(levels), labels, form, measure)


def _numbers(coding: Edges, numbers: NDArray[np.float64], whole: bool, ending: str) -> _Variable:
    if coding.dates:
        days = np.floor(numbers)
        if ending == ".dta":
            return _Variable(_whole(days + STATA_DAYS), form="%td", measure="scale")
        return _Variable(pd.Series((days + SPSS_DAYS) * 86_400), form="SDATE10", measure="scale")
    if coding.times:
        seconds = np.floor(numbers) * 60
        if ending == ".dta":
            return _Variable(pd.Series(seconds * 1000), form="%tcHH:MM", measure="scale")
        return _Variable(pd.Series(seconds), form="TIME5", measure="scale")
    decimals = 0 if whole else coding.decimals
    form = "" if decimals is None else _spss_number(coding.edges, decimals, ending)
    return _Variable(_whole(numbers) if whole else pd.Series(numbers), form=form, measure="scale")


def _whole(numbers: NDArray[np.float64]) -> "pd.Series[Any]":
    """Whole numbers in four bytes if they fit, else as they are; NaN is missing."""
    absent = np.isnan(numbers)
    known = np.where(absent, 0, numbers)
    if len(known) and np.abs(known).max() > _LONG:
        return pd.Series(numbers)
    column = known.astype(np.int32)
    return pd.Series(pd.arrays.IntegerArray(column, absent) if absent.any() else column)


def _short(description: str) -> str:
    fits = len(description) <= _DESCRIPTION
    return description if fits else f"{description[: _DESCRIPTION - 1]}…"


def _spss_number(numbers: Sequence[float], decimals: int, ending: str) -> str:
    """Return the format in which SPSS shows all of some numbers; in Stata they have the usual one."""
    width = max(8, *(len(f"{number:.{decimals}f}") for number in numbers))
    return f"F{min(width, 40)}.{decimals}" if ending == ".sav" else ""


_TIME_FORMATS = ("%td", "%tcHH:MM", "SDATE10", "TIME5")
"""Formats of dates and times of day, without which they are other numbers."""


def difference(path: Path, again: Path, most_cells: int) -> str | None:
    """Return what a file holds otherwise than the same rows written again: names, values, labels.

    Descriptions are not compared: no signed schema has them.
    """
    file, expected = (read_statistics(one, most_cells) for one in (path, again))
    if list(file.values.columns) != list(expected.values.columns):
        return "the columns or their order"
    for name in expected.values.columns:
        one, other = file.values[name], expected.values[name]
        if pd.api.types.is_numeric_dtype(one) and pd.api.types.is_numeric_dtype(other):
            one, other = one.astype(np.float64), other.astype(np.float64)
        if not one.equals(other):
            return f"the values of '{name}'"
        if file.labels.get(name) != expected.labels.get(name):
            return f"the labels of '{name}'"
        if expected.forms[name] in _TIME_FORMATS and file.forms[name] != expected.forms[name]:
            return f"the type of '{name}'"
    return "what it declares as missing" if file.declares_missing else None
