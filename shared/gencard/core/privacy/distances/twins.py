"""Records that are equal, so that each is compared once however often it is there."""

import numpy as np
from numpy.typing import NDArray

from gencard.core.privacy.distances.gower import Gower
from gencard.core.privacy.records import Column, Records
from gencard.core.privacy.tables.combinations import combination_numbers


def twin_numbers(records: Records, gower: Gower) -> NDArray[np.int64]:
    """A number for each record, from 0 without holes, the same for equal ones; shape ``(n,)``.

    Missing is equal to missing. Attributes that weigh nothing say nothing.
    """
    pairs = zip(records.columns, gower.proportions, strict=True)
    ranked = (_ranks(column) for column, weight in pairs if weight)
    return combination_numbers(len(records), ((codes, _above(codes)) for codes in ranked))


def first_of_each(numbers: NDArray[np.int64], most: int = 1) -> NDArray[np.intp]:
    """Positions of the first so many records of each number; by number, then by position."""
    order = np.argsort(numbers, kind="stable")
    counts = np.bincount(numbers)
    places = np.arange(len(numbers)) - np.repeat(np.cumsum(counts) - counts, counts)
    return order[places < most]


def _ranks(column: Column) -> NDArray[np.int64]:
    if column.dtype.kind == "i" and column.max(initial=0) < len(column):
        return np.asarray(column + 1, np.int64)  # few levels need not be sorted
    return np.unique(column, return_inverse=True)[1].reshape(-1)


def _above(codes: NDArray[np.int64]) -> int:
    return int(codes.max(initial=0)) + 1
