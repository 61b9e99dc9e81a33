"""Columns of Arrow as files of Excel, Stata and SPSS, and which columns these cannot hold."""

import datetime as dt
from math import isnan
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import pyarrow as pa
import pyreadstat

FORMATS = ("xlsx", "dta", "sav")
LARGE = 2**53


def holds(kind: str, values: pa.Array) -> bool:
    """Whether a file of this kind can hold a column as it is.

    Numbers are floats of 53 bits in all three, and none is NaN. Stata and SPSS have no truth values.
    """
    if pa.types.is_float32(values.type) or any(map(_is_nan, values.to_pylist())):
        return False
    numbers = [one for one in values.to_pylist() if isinstance(one, int) and not isinstance(one, bool)]
    if any(abs(number) >= LARGE for number in numbers) or pa.types.is_decimal(values.type):
        return all(abs(one) < LARGE for one in values.to_pylist() if one is not None)
    return kind == "xlsx" or not pa.types.is_boolean(values.type)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and isnan(value)


def write(table: pa.Table, path: Path) -> None:
    """Write a table; the kind is the ending."""
    if path.suffix == ".xlsx":
        _write_workbook(table, path)
        return
    frame = pd.DataFrame({name: _column(table.column(name)) for name in table.column_names})
    getattr(pyreadstat, f"write_{path.suffix[1:]}")(frame, path)


def _column(values: pa.ChunkedArray) -> pd.Series:
    items = values.to_pylist()
    if pa.types.is_string(values.type) or pa.types.is_date(values.type):
        return pd.Series(items, dtype=object)
    return pd.Series([None if one is None else float(one) for one in items], dtype=float)


def _write_workbook(table: pa.Table, path: Path) -> None:
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("records")
    sheet.append(table.column_names)
    columns = [[_cell(value) for value in column.to_pylist()] for column in table.columns]
    for row in zip(*columns, strict=True):
        sheet.append([_typed(sheet, value) for value in row])
    book.save(path)


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, str | bool | dt.date) else float(value)


def _typed(sheet: Any, value: Any) -> Any:
    """A text that looks like a formula or an error stays a text."""
    if not isinstance(value, str):
        return value
    cell = openpyxl.cell.WriteOnlyCell(sheet, value)
    cell.data_type = "s"
    return cell
