"""Attributes as columns of numbers, as learners want them."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError

Matrix = NDArray[np.float64]
Values = Mapping[str, tuple[float, ...]]
"""For each attribute that is a number, the number of each code, NaN for missing."""


def predictor_matrix(records: Dataset, attributes: Clique, values: Values) -> Matrix:
    """One column for each level of a nominal attribute, one for a number; shape ``(n, p)``.

    A missing number is 0, and a column says so where the attribute has a code for it.

    Raises:
        InvalidInputError: An attribute has another number of values than codes.
        UnknownAttributeError: An attribute is not in the domain.
    """
    return np.hstack([_columns(records, name, values) for name in attributes])


def numbers_of(name: str, size: int, values: Values) -> Matrix:
    """The numbers of an attribute's codes, NaN for missing; shape ``(size,)``.

    Raises:
        InvalidInputError: They are not as many as the codes, or infinite.
    """
    numbers = np.asarray(values[name], dtype=np.float64)
    if numbers.shape != (size,) or np.isinf(numbers).any():
        raise InvalidInputError(field=f"values.{name}", problem="need one number for each code")
    return numbers


def _columns(records: Dataset, name: str, values: Values) -> Matrix:
    size = records.domain.size(name)
    if name not in values:
        levels: Matrix = np.eye(size)
    else:
        numbers = numbers_of(name, size, values)
        absent = np.isnan(numbers)
        levels = np.where(absent, 0, numbers)[:, None]
        if absent.any():
            levels = np.column_stack([levels, absent])
    return np.asarray(levels[records.column(name)])
