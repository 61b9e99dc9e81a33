"""Attributes as columns of numbers, as learners want them."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError, TooLargeError

Matrix = NDArray[np.float64]
Values = Mapping[str, tuple[float, ...]]
"""For each attribute that is a number, the number of each code, NaN for missing."""

MOST_ENTRIES = 60_000_000
"""Of the table, records by columns: 480 MB."""

_LARGEST = 1e100
"""Squares are still numbers."""


def predictor_matrix(records: Dataset, attributes: Clique, values: Values) -> Matrix:
    """One column for each level of a nominal attribute, one for a number; shape ``(n, p)``.

    A missing number is 0, and a column says so where the attribute has a code for it.

    Raises:
        InvalidInputError: An attribute has another number of values than codes.
        TooLargeError: Too many levels for so many records.
        UnknownAttributeError: An attribute is not in the domain.
    """
    columns = sum(2 if name in values else records.domain.size(name) for name in attributes)
    if columns * len(records) > MOST_ENTRIES:
        raise TooLargeError(what="The table of predictors", limit=f"{MOST_ENTRIES} entries")
    return np.hstack([_columns(records, name, values) for name in attributes])


def numbers_of(name: str, size: int, values: Values) -> Matrix:
    """The numbers of an attribute's codes, NaN for missing; shape ``(size,)``.

    Raises:
        InvalidInputError: They are not as many as the codes, or infinite, or as good as.
    """
    numbers = np.asarray(values[name], dtype=np.float64)
    if numbers.shape != (size,) or np.any(np.abs(numbers) > _LARGEST):
        raise InvalidInputError(field=f"values.{name}", problem="need one number for each code")
    return numbers


def products(blocks: Sequence[Matrix]) -> Matrix:
    """Every product of one column of each block, those of the last block the fastest to change."""
    found = blocks[0]
    for block in blocks[1:]:
        found = (found[:, :, None] * block[:, None, :]).reshape(len(found), -1)
    return found


def _columns(records: Dataset, name: str, values: Values) -> Matrix:
    size, codes = records.domain.size(name), records.column(name)
    if name not in values:
        return np.asarray(codes[:, None] == np.arange(size), dtype=np.float64)
    numbers = numbers_of(name, size, values)
    absent = np.isnan(numbers)
    levels = np.where(absent, 0, numbers)[:, None]
    if absent.any():
        levels = np.column_stack([levels, absent])
    return np.asarray(levels[codes])
