r"""New rows: synthetic records that no real record matches.

A real record matches if it has the same levels, the same missing values, and numbers x with
:math:`|x - s| \le t |s|` for each synthetic number s. SDMetrics tells their share as
NewRowSynthesis. A generator that adds a little to every number makes new rows only, and in a domain of
few cells there are none: neither says what leaks.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.errors import InvalidDatasetError, InvalidNumberError
from gencard.core.privacy.records import Column, Records, check_same_kinds
from gencard.core.privacy.tables.combinations import combination_numbers

_PAIRS = 2**20
"""Pairs of records that are compared at once: some 20 MiB."""


@dataclass(frozen=True, slots=True)
class NewRows:
    """How many synthetic records match no real one.

    Args:
        records: Synthetic records, at least 1.
        matched: Those that match some real record.
    """

    records: int
    matched: int

    @property
    def new(self) -> int:
        return self.records - self.matched

    @property
    def share(self) -> float:
        """New rows by synthetic records, 0 to 1."""
        return self.new / self.records


def new_rows(synthetic: Records, real: Records, *, tolerance: float = 0.01) -> NewRows:
    """Look for a match of each synthetic record.

    Args:
        tolerance: t, 0 to 1: by which share of itself a synthetic number may be off.

    Raises:
        DomainMismatchError: The tables differ in attributes.
        InvalidDatasetError: There is no synthetic record.
        InvalidNumberError: The tolerance is not from 0 to 1.
    """
    check_same_kinds(synthetic.kinds, real.kinds)
    if not 0 <= tolerance <= 1:
        raise InvalidNumberError(field="The tolerance", expected="from 0 to 1")
    if not len(synthetic):
        raise InvalidDatasetError(problem="a table to compare has no records")
    groups, other = _groups(synthetic, real)
    ours, theirs = _numbers(synthetic), _numbers(real)
    matched = 0
    for group in np.intersect1d(groups, other):
        some, others = ours[groups == group], theirs[other == group]
        matched += _matched(some, others, tolerance)
    return NewRows(len(synthetic), matched)


def _groups(one: Records, other: Records) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A number for each record, the same for equal levels and equal missing values."""
    pairs = zip(one.columns, other.columns, strict=True)
    codes = [np.concatenate([_codes(column) for column in pair]) for pair in pairs]
    columns = ((column, int(column.max(initial=0)) + 1) for column in codes)
    numbers = combination_numbers(len(one) + len(other), columns)
    return numbers[: len(one)], numbers[len(one) :]


def _codes(column: Column) -> NDArray[np.int64]:
    return np.isnan(column).astype(np.int64) if column.dtype.kind == "f" else column.astype(np.int64) + 1


def _numbers(records: Records) -> NDArray[np.float64]:
    """All numbers, missing ones 0; shape ``(n, attributes that hold numbers)``."""
    columns = [np.nan_to_num(column) for column in records.columns if column.dtype.kind == "f"]
    return np.column_stack(columns) if columns else np.empty((len(records), 0))


def _matched(ours: NDArray[np.float64], theirs: NDArray[np.float64], tolerance: float) -> int:
    """How many of the first records have all numbers near those of one of the others."""
    count, step = 0, max(1, _PAIRS // len(theirs))
    for start in range(0, len(ours), step):
        some = ours[start : start + step]
        near = np.ones((len(some), len(theirs)), dtype=bool)
        for mine, others in zip(some.T, theirs.T, strict=True):
            near &= np.abs(others - mine[:, None]) <= np.abs(tolerance * mine)[:, None]
        count += int(near.any(axis=1).sum())
    return count
