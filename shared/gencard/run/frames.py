"""Codes <-> data frames with the declared labels and types.

Text labels become categoricals, ordered where that is declared; whole numbers and truth values become
themselves. Edges become numbers or dates inside them, whole numbers as integers if they are values that
the attribute can have; see ``session.records``. As levels, all attributes are categoricals, and those
with edges have intervals ``[low, high)``, the last of which is closed on the right too. "Missing"
becomes NA. The way back gives the same codes.
"""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gencard.core.coding import Attribute, Coding, Edges, Labels, adjusted, codes_of_numbers
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import DomainMismatchError, UndeclaredLevelError
from gencard.run.levels import (
    UNDECLARED,
    UNKNOWN_NUMBER,
    NumberedRows,
    Values,
    code_of,
    codes_of_values,
    level_numbers,
    names_of,
)


def frame_of(dataset: Dataset, coding: Coding, values: Values | None = None) -> pd.DataFrame:
    """The records with their labels; one column for each attribute of the dataset.

    Args:
        values: What stands in place of intervals. None: all attributes as levels.
    """
    columns = {
        name: _series(coding.attribute(name), dataset.column(name), values)
        for name in dataset.domain.attributes
    }
    return pd.DataFrame(columns, copy=False)


def dataset_of_frame(frame: pd.DataFrame, coding: Coding, domain: Domain) -> Dataset:
    """The codes behind a frame, over ``domain``, whatever the order of its columns.

    Raises:
        DomainMismatchError: An attribute of the domain is not in the frame.
        UndeclaredLevelError: A value is not declared for its attribute.
    """
    absent = [name for name in domain.attributes if name not in frame.columns]
    if absent:
        raise DomainMismatchError(problem=f"the data have no attribute '{absent[0]}'")
    columns = [_codes(coding.attribute(name), frame[name]) for name in domain.attributes]
    return Dataset.of_columns(domain, columns)


def rows_of_frame(frame: pd.DataFrame, coding: Coding, domain: Domain) -> NumberedRows:
    """The codes and the numbers of a frame; raises as ``dataset_of_frame``."""
    dataset = dataset_of_frame(frame, coding, domain)

    def numbers(name: str) -> NDArray[np.float64] | None:
        edges = coding.attribute(name).coding
        if not isinstance(edges, Edges):
            return None
        given = _numbers_of(frame[name])
        known = level_numbers(edges)[dataset.column(name)] if given is None else adjusted(edges, given)
        return None if (known == UNKNOWN_NUMBER).any() else known

    return NumberedRows(dataset, numbers)


def categories_of(attribute: Attribute) -> "pd.CategoricalDtype":
    """The declared type of a column."""
    match attribute.coding:
        case Labels(labels, integer, ordered):
            values = [int(label) for label in labels] if integer else list(labels)
            return pd.CategoricalDtype(values, ordered=ordered)
        case Edges(edges, dates=dates, scale=scale):
            if scale is not None and edges[-2] == edges[-1]:  # a level of one number; [5, 5) holds none
                edges = (*edges[:-1], edges[-1] + float(scale.step))
            breaks = pd.to_datetime(np.asarray(edges), unit="D") if dates else pd.Index(edges)
            return pd.CategoricalDtype(pd.IntervalIndex.from_breaks(breaks, closed="left"), ordered=True)


def _series(attribute: Attribute, codes: NDArray[Any], values: Values | None) -> "pd.Series[Any]":
    match attribute.coding:
        case Edges() as edges if values is not None:
            whole = edges.decimals == 0 and values.is_value(attribute.name)
            return _numbers(edges, values.of(attribute.name, edges, codes), whole=whole)
        case Labels(integer=True) | Labels(boolean=True) if values is not None:
            return _plain(attribute, codes)
    dtype = categories_of(attribute)
    positions = codes.astype(np.int32)
    positions[positions == len(dtype.categories)] = -1  # the code after the last level is "missing"
    return pd.Series(pd.Categorical.from_codes(positions, dtype=dtype))


def _numbers(edges: Edges, numbers: NDArray[np.float64], *, whole: bool) -> "pd.Series[Any]":
    """Numbers, whole ones as integers, or dates."""
    if edges.dates:
        absent = np.isnan(numbers)
        midnights = np.where(absent, 0, numbers).astype("datetime64[D]").astype("datetime64[s]")
        return pd.Series(np.where(absent, np.datetime64("NaT"), midnights))
    if not whole:
        return pd.Series(numbers)
    return pd.Series(numbers).astype("Int64" if edges.missing else "int64")


def _plain(attribute: Attribute, codes: NDArray[Any]) -> "pd.Series[Any]":
    """Whole numbers, or truth values."""
    names, missing = names_of(attribute), attribute.coding.missing
    if attribute.coding == Labels(names, boolean=True, missing=missing):
        table, dtype = np.array([False, True, False]), "boolean" if missing else "bool"
    else:
        table, dtype = np.array([*map(int, names), 0]), "Int64" if missing else "int64"
    return pd.Series(table[codes], dtype=dtype).mask(codes == len(names))


def _codes(attribute: Attribute, column: "pd.Series[Any]") -> NDArray[Any]:
    if isinstance(attribute.coding, Edges) and (numbers := _numbers_of(column)) is not None:
        return codes_of_numbers(attribute.name, attribute.coding, numbers)
    if isinstance(column.dtype, pd.CategoricalDtype):
        known, inverse = column.cat.categories, column.cat.codes.to_numpy()
    else:
        inverse, known = pd.factorize(column)
    levels = categories_of(attribute).categories
    # levels as they are written, and the code of each interval
    codes_of = {**code_of(attribute), **{level: code for code, level in enumerate(levels)}}
    code_of_known = np.array(codes_of_values(attribute, codes_of, [*known, None]))
    codes: NDArray[np.int64] = code_of_known[inverse]  # position -1, an absent value, is the last
    if (codes == UNDECLARED).any():
        raise UndeclaredLevelError(attribute=attribute.name)
    return codes


def _numbers_of(column: "pd.Series[Any]") -> NDArray[np.float64] | None:
    """A column of numbers, or of dates as days since 1970-01-01; None where it holds neither."""
    if pd.api.types.is_datetime64_dtype(column):
        days = column.to_numpy().astype("datetime64[D]")
        absent = np.isnat(days)
        return np.where(absent, np.nan, np.where(absent, 0, days.astype(np.int64)))
    if pd.api.types.is_numeric_dtype(column):
        return column.to_numpy(np.float64, na_value=np.nan)
    return None
