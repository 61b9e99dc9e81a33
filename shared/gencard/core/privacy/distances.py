"""Gower distances of the records of two tables."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.privacy.boxes import Edges
from gencard.core.privacy.discrete_part import DiscretePart, Matrix, discrete_part
from gencard.core.privacy.gower import Gower
from gencard.core.privacy.records import Records

Positions = NDArray[np.intp]
Row = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class _Number:
    """A numeric attribute of two tables; ``lacking`` is whether a value is missing somewhere."""

    weight: float
    span: float
    left: NDArray[np.float64]
    right: NDArray[np.float64]
    lacking: bool
    boxes: tuple[Edges, Edges]

    def apart(self, left: Positions, right: Positions) -> Matrix:
        """What it adds to N, 0 where a value is missing; shape ``(len(left), len(right))``."""
        apart = self.left[left, None] - self.right[right]
        np.abs(apart, out=apart)
        self._weigh(apart)
        if self.lacking:
            apart[np.isnan(apart)] = 0
        return apart

    def gap(self, group: int, groups: Positions) -> NDArray[np.float64]:
        """What it adds to N at least, for records of a group on the left and some on the right."""
        gap = self.boxes[0].gap(group, self.boxes[1], groups)
        self._weigh(gap)
        return gap

    def _weigh(self, apart: NDArray[np.float64]) -> None:
        """Turn differences into what they add to N."""
        apart /= self.span
        np.minimum(apart, 1, out=apart)
        if self.weight != 1:
            apart *= self.weight


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Two tables, ready to be compared: what levels decide, and the numbers."""

    part: DiscretePart
    numbers: tuple[_Number, ...]

    def at_best(self, group: int, groups: Positions, known: Row, counted: Row) -> Row:
        """How near records of a group on the left are at best to those of some groups on the right.

        Args:
            known: N of each of these groups.
            counted: D likewise, not 0.
        """
        total = known.copy()
        with np.errstate(over="ignore"):
            for number in self.numbers:
                total += number.gap(group, groups)
        total /= counted
        return np.minimum(total, 1, out=total)

    def between(self, left: Positions, right: Positions, known: Matrix, counted: Matrix) -> Matrix:
        """Distances, 0 to 1, of the records at some positions; shape ``(len(left), len(right))``.

        Args:
            known: N of each pair, or of each record on the right.
            counted: D likewise; where it is 0, the result means nothing.
        """
        total = np.empty((len(left), len(right)))
        total[:] = known
        with np.errstate(over="ignore"):
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
    part = discrete_part(left, right, gower)
    return Pairs(part, tuple(_numbers(left, right, gower, part)))


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


def _numbers(left: Records, right: Records, gower: Gower, part: DiscretePart) -> Iterator[_Number]:
    """The attributes whose numbers differ by degrees."""
    for weight, span, ours, theirs in zip(
        gower.proportions, gower.ranges, left.columns, right.columns, strict=True
    ):
        if weight and span:
            lacking = bool(np.isnan(ours).any() or np.isnan(theirs).any())
            columns = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
            boxes = Edges.of(columns[0], part.left), Edges.of(columns[1], part.right)
            yield _Number(weight, span, *columns, lacking, boxes)
