r"""Singling out: whether synthetic records tell conditions that exactly one real record meets.

The attack takes conditions that exactly one synthetic record meets, and guesses that they hold for
exactly one record of train. By luck one takes conditions with any values that occur in holdout.

How likely conditions single a record out depends on how many records there are, so the larger of train
and holdout is drawn from to the size of the smaller; numbers of successes are counted, never fitted, and
speak of tables of that size. (Giomi et al.; see ``attack``.)

A guess is a predicate: conditions on attributes that are to hold together for exactly one record.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.errors import ComputationError, InvalidNumberError
from gencard.measures.privacy.attacks.attack import Attack, Proportion, Tables, drawn
from gencard.measures.privacy.distances.groups import Positions
from gencard.measures.privacy.records import Column, Records, present


class Relation(StrEnum):
    """Relation of a record's value to a condition's value; only numbers have an order."""

    EQUAL = "equal"
    AT_MOST = "at most"
    AT_LEAST = "at least"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class AttributeCondition:
    """A condition on one attribute, in its own unit; ``value`` is 0 where it is to be missing."""

    axis: int
    relation: Relation
    value: float

    def holds(self, records: Records) -> NDArray[np.bool_]:
        """Return which records meet the condition, shape ``(n,)``; "missing" meets ``MISSING`` alone."""
        column = records.columns[self.axis]
        result: NDArray[np.bool_]
        match self.relation:
            case Relation.EQUAL:
                result = column == self.value
            case Relation.AT_MOST:
                result = column <= self.value
            case Relation.AT_LEAST:
                result = column >= self.value
            case Relation.MISSING:
                result = ~present(column)
        return result


Predicate = frozenset[AttributeCondition]
"""Conditions that all hold."""


def singles_out(predicate: Predicate, records: Records) -> bool:
    """Whether all conditions hold for exactly one record."""
    holds = [condition.holds(records) for condition in predicate]
    return int(np.logical_and.reduce(holds).sum()) == 1


def outliers(records: Records) -> Iterator[Predicate]:
    """Conditions on one attribute: a value that is there once, the least, the largest, a missing one."""
    for axis, column in enumerate(records.columns):
        values, counts = np.unique(column[present(column)], return_counts=True)
        for value in values[counts == 1]:
            yield frozenset([AttributeCondition(axis, Relation.EQUAL, float(value))])
        if column.dtype.kind == "f" and len(values):
            yield frozenset([AttributeCondition(axis, Relation.AT_MOST, float(values[0]))])
            yield frozenset([AttributeCondition(axis, Relation.AT_LEAST, float(values[-1]))])
        yield frozenset([AttributeCondition(axis, Relation.MISSING, 0.0)])


def middles(records: Records) -> list[float]:
    """The median of each attribute's numbers; NaN for levels and where all are missing."""
    return [
        float(np.median(column[known]))
        if column.dtype.kind == "f" and (known := present(column)).any()
        else np.nan
        for column in records.columns
    ]


def portrait(records: Records, row: int, axes: Positions, medians: list[float]) -> Predicate:
    """Return a predicate of one record: its levels, and its numbers or any farther from the median."""
    return frozenset(_trait(records.columns[axis], row, int(axis), medians[axis]) for axis in axes)


def _trait(column: Column, row: int, axis: int, median: float) -> AttributeCondition:
    value = float(column[row])
    if not present(column[row : row + 1])[0]:
        return AttributeCondition(axis, Relation.MISSING, 0.0)
    if column.dtype.kind != "f":
        return AttributeCondition(axis, Relation.EQUAL, value)
    return AttributeCondition(axis, Relation.AT_LEAST if value >= median else Relation.AT_MOST, value)


def by_luck(values: list[NDArray[Any]], axes: Positions, rng: np.random.Generator) -> Predicate:
    """Conditions with any of each attribute's ``values``, each as likely, in any relation."""
    return frozenset(_lucky(values[axis], int(axis), rng) for axis in axes)


def _lucky(values: NDArray[Any], axis: int, rng: np.random.Generator) -> AttributeCondition:
    place = int(rng.integers(len(values)))
    if not present(values[place : place + 1])[0]:
        return AttributeCondition(axis, Relation.MISSING, 0.0)
    relations = (Relation.EQUAL, Relation.AT_MOST, Relation.AT_LEAST)
    relation = relations[rng.integers(3)] if values.dtype.kind == "f" else Relation.EQUAL
    return AttributeCondition(axis, relation, float(values[place]))


_TRIES = 50
"""Records that are tried for each guess."""


def singling_out(tables: Tables, *, width: int = 1, attacks: int, rng: np.random.Generator) -> Attack:
    """Guess conditions that single out a record of train, and try the same ones on holdout.

    Args:
        width: Attributes in each guess: 1 takes outliers, more describe synthetic records.
        attacks: Different guesses; fewer are made where synthetic records yield fewer.

    Raises:
        ComputationError: No synthetic record was singled out by so many attributes.
        InvalidNumberError: No attack, or a width below 1 or above the number of attributes.
    """
    synthetic, train, holdout = tables.synthetic, tables.train, tables.holdout
    if not 1 <= width <= len(synthetic.attributes):
        raise InvalidNumberError(field="The width", expected="from 1 to the number of attributes")
    if attacks < 1:
        raise InvalidNumberError(field="The number of attacks", expected="at least 1")
    guesses = _guesses(synthetic, width, attacks, rng)
    if not guesses:
        raise ComputationError(problem="no synthetic record is singled out by this number of attributes")
    values = [np.unique(column) for column in holdout.columns]
    lucky = [by_luck(values, _axes(holdout, width, rng), rng) for _ in guesses]
    size = min(len(train), len(holdout))
    ours, theirs = (drawn(table, size, rng) for table in (train, holdout))
    pairs = ((guesses, ours), (guesses, theirs), (lucky, ours))
    return Attack(
        *(
            Proportion(sum(singles_out(one, records) for one in tried), len(tried))
            for tried, records in pairs
        )
    )


def _guesses(synthetic: Records, width: int, attacks: int, rng: np.random.Generator) -> list[Predicate]:
    """Some outliers, in random order; or different descriptions, each of one synthetic record alone."""
    if width == 1:
        candidates = list(outliers(synthetic))
        shuffled = (candidates[place] for place in rng.permutation(len(candidates)))
        return list(islice((each for each in shuffled if singles_out(each, synthetic)), attacks))
    guesses: dict[Predicate, None] = {}
    medians = middles(synthetic)
    for _ in range(_TRIES * attacks):
        row = int(rng.integers(len(synthetic)))
        guess = portrait(synthetic, row, _axes(synthetic, width, rng), medians)
        if guess not in guesses and singles_out(guess, synthetic):
            guesses[guess] = None
        if len(guesses) == attacks:
            break
    return list(guesses)


def _axes(records: Records, width: int, rng: np.random.Generator) -> Positions:
    return rng.choice(len(records.attributes), width, replace=False)
