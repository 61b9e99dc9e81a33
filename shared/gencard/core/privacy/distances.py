"""Gower distances of the records of two tables."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.privacy.discrete_part import DiscretePart, Matrix, discrete_part
from gencard.core.privacy.gower import Gower
from gencard.core.privacy.records import Records

Positions = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class _Number:
    """A numeric attribute of two tables; ``lacking`` is whether a value is missing somewhere."""

    weight: float
    span: float
    left: NDArray[np.float64]
    right: NDArray[np.float64]
    lacking: bool

    def apart(self, left: Positions, right: Positions) -> Matrix:
        """What it adds to N, 0 where a value is missing; shape ``(len(left), len(right))``."""
        apart = np.abs(self.left[left, None] - self.right[right])
        with np.errstate(over="ignore"):
            apart /= self.span
        np.minimum(apart, 1, out=apart)
        if self.lacking:
            apart[np.isnan(apart)] = 0
        if self.weight != 1:
            apart *= self.weight
        return apart


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Two tables, ready to be compared: what levels decide, and the numbers."""

    part: DiscretePart
    numbers: tuple[_Number, ...]

    def between(self, left: Positions, right: Positions, known: Matrix, counted: Matrix) -> Matrix:
        """Distances, 0 to 1, of the records at some positions; shape ``(len(left), len(right))``.

        Args:
            known: N of each pair, or of each record on the right.
            counted: D likewise; where it is 0, the result means nothing.
        """
        total = np.empty((len(left), len(right)))
        total[:] = known
        for number in self.numbers:
            total += number.apart(left, right)
        total /= counted
        return np.minimum(total, 1, out=total)  # sums of weights are rounded


def pairs_of(left: Records, right: Records, gower: Gower) -> Pairs:
    """Prepare two tables.

    Raises:
        DomainMismatchError: The attributes are not those of the distance.
    """
    gower.check(left)
    gower.check(right)
    return Pairs(discrete_part(left, right, gower), tuple(_numbers(left, right, gower)))


def distances(left: Records, right: Records, gower: Gower) -> Matrix:
    """All distances, 0 to 1, shape ``(len(left), len(right))``; NaN where nothing can be compared.

    Raises:
        DomainMismatchError: The attributes are not those of the distance.
    """
    pairs = pairs_of(left, right, gower)
    groups = np.ix_(pairs.part.left.of, pairs.part.right.of)
    known, counted = (table[groups] for table in pairs.part.table(slice(None)))
    found = pairs.between(np.arange(len(left)), np.arange(len(right)), known, counted)
    found[counted == 0] = np.nan
    return found


def _numbers(left: Records, right: Records, gower: Gower) -> Iterator[_Number]:
    """The attributes whose numbers differ by degrees."""
    for weight, span, ours, theirs in zip(
        gower.proportions, gower.ranges, left.columns, right.columns, strict=True
    ):
        if weight and span:
            lacking = bool(np.isnan(ours).any() or np.isnan(theirs).any())
            columns = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
            yield _Number(weight, span, *columns, lacking)
