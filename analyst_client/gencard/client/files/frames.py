"""Codes <-> data frames with the declared labels and types.

Labels become categoricals of text or of whole numbers, ordered where that is declared. Edges become
numbers drawn inside them, or ordered categoricals of intervals ``[low, high)``, the last of which is
closed on the right too. "Missing" becomes NA. Nothing is rounded: the way back gives the same codes.
"""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gencard.client.files.rows import UNDECLARED, Numbers, code_of
from gencard.core.coding import Attribute, Coding, Edges, Labels, codes_of_numbers
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import DomainMismatchError, UndeclaredLevelError


def frame_of(dataset: Dataset, coding: Coding, numbers: Numbers | None = None) -> pd.DataFrame:
    """The records with their labels; one column for each attribute of the dataset.

    Args:
        numbers: Draws numbers inside the intervals, which stand as they are where it is not given.
    """
    columns = {
        name: _series(coding.attribute(name), dataset.column(name), numbers)
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


def categories_of(attribute: Attribute) -> "pd.CategoricalDtype":
    """The declared type of a column."""
    match attribute.coding:
        case Labels(labels, integer, ordered, _):
            values = [int(label) for label in labels] if integer else list(labels)
            return pd.CategoricalDtype(values, ordered=ordered)
        case Edges(edges, _):
            return pd.CategoricalDtype(pd.IntervalIndex.from_breaks(edges, closed="left"), ordered=True)


def _series(attribute: Attribute, codes: NDArray[Any], numbers: Numbers | None) -> "pd.Series[Any]":
    if numbers is not None and isinstance(attribute.coding, Edges):
        return pd.Series(numbers.of(attribute.name, attribute.coding, codes))
    dtype = categories_of(attribute)
    positions = codes.astype(np.int32)
    positions[positions == len(dtype.categories)] = -1  # the code after the last level is "missing"
    return pd.Series(pd.Categorical.from_codes(positions, dtype=dtype))


def _codes(attribute: Attribute, column: "pd.Series[Any]") -> NDArray[Any]:
    if isinstance(attribute.coding, Edges) and pd.api.types.is_numeric_dtype(column):
        return codes_of_numbers(attribute.name, attribute.coding, column.to_numpy(np.float64))
    if isinstance(column.dtype, pd.CategoricalDtype):
        known, inverse = column.cat.categories, column.cat.codes.to_numpy()
    else:
        inverse, known = pd.factorize(column)
    codes_of = _code_of_value(attribute)
    code_of_known = np.array([codes_of.get(value, UNDECLARED) for value in known] + [codes_of[None]])
    codes: NDArray[np.int64] = code_of_known[inverse]  # position -1, an absent value, is the last
    if (codes == UNDECLARED).any():
        raise UndeclaredLevelError(attribute=attribute.name)
    return codes


def _code_of_value(attribute: Attribute) -> dict[Any, int]:
    """``levels.code_of``, and the code of each interval."""
    levels = categories_of(attribute).categories
    return {**code_of(attribute), **{level: code for code, level in enumerate(levels)}}
