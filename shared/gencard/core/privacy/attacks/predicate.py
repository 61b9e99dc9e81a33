"""Conditions on attributes that hold for some records, as a guess that they hold for exactly one."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.privacy.distances.differences import Positions
from gencard.core.privacy.records import Column, Records


class Relation(StrEnum):
    """How a record's value is to a condition's; only numbers have an order."""

    EQUAL = "equal"
    AT_MOST = "at most"
    AT_LEAST = "at least"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on one attribute, in its own unit; ``value`` is 0 where it is to be missing."""

    axis: int
    relation: Relation
    value: float

    def holds(self, records: Records) -> NDArray[np.bool_]:
        """For which records, shape ``(n,)``; a missing value is neither equal nor more nor less."""
        column = records.columns[self.axis]
        found: NDArray[np.bool_]
        match self.relation:
            case Relation.EQUAL:
                found = column == self.value
            case Relation.AT_MOST:
                found = column <= self.value
            case Relation.AT_LEAST:
                found = column >= self.value
            case Relation.MISSING:
                found = ~present(column)
        return found


Predicate = frozenset[Condition]
"""Conditions that all hold."""


def singles_out(predicate: Predicate, records: Records) -> bool:
    """Whether all conditions hold for exactly one record."""
    holds = [condition.holds(records) for condition in predicate]
    return int(np.logical_and.reduce(holds).sum()) == 1


def present(column: Column) -> NDArray[np.bool_]:
    """Where a value is not missing."""
    return ~np.isnan(column) if column.dtype.kind == "f" else column >= 0


def outliers(records: Records) -> Iterator[Predicate]:
    """Conditions on one attribute: a value that is there once, the least, the largest, a missing one."""
    for axis, column in enumerate(records.columns):
        values, counts = np.unique(column[present(column)], return_counts=True)
        for value in values[counts == 1]:
            yield frozenset([Condition(axis, Relation.EQUAL, float(value))])
        if column.dtype.kind == "f" and len(values):
            yield frozenset([Condition(axis, Relation.AT_MOST, float(values[0]))])
            yield frozenset([Condition(axis, Relation.AT_LEAST, float(values[-1]))])
        yield frozenset([Condition(axis, Relation.MISSING, 0.0)])


def middles(records: Records) -> list[float]:
    """The median of each attribute's numbers; NaN for levels and where all are missing."""
    return [
        float(np.median(column[known]))
        if column.dtype.kind == "f" and (known := present(column)).any()
        else np.nan
        for column in records.columns
    ]


def portrait(records: Records, row: int, axes: Positions, medians: list[float]) -> Predicate:
    """What one record is like: its levels, and its numbers or any farther from the median."""
    return frozenset(_trait(records.columns[axis], row, int(axis), medians[axis]) for axis in axes)


def _trait(column: Column, row: int, axis: int, median: float) -> Condition:
    value = float(column[row])
    if not present(column[row : row + 1])[0]:
        return Condition(axis, Relation.MISSING, 0.0)
    if column.dtype.kind != "f":
        return Condition(axis, Relation.EQUAL, value)
    return Condition(axis, Relation.AT_LEAST if value >= median else Relation.AT_MOST, value)


def by_luck(values: list[NDArray[Any]], axes: Positions, rng: np.random.Generator) -> Predicate:
    """Conditions with any of each attribute's ``values``, each as likely, in any relation."""
    return frozenset(_lucky(values[axis], int(axis), rng) for axis in axes)


def _lucky(values: NDArray[Any], axis: int, rng: np.random.Generator) -> Condition:
    place = int(rng.integers(len(values)))
    if not present(values[place : place + 1])[0]:
        return Condition(axis, Relation.MISSING, 0.0)
    relations = (Relation.EQUAL, Relation.AT_MOST, Relation.AT_LEAST)
    relation = relations[rng.integers(3)] if values.dtype.kind == "f" else Relation.EQUAL
    return Condition(axis, relation, float(values[place]))
