"""Gower distances of the records of two tables."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.privacy.distances.boxes import Edges
from gencard.core.privacy.distances.differences import (
    Differences,
    Index,
    Matrix,
    Positions,
    Row,
    differences_of,
)
from gencard.core.privacy.distances.discrete_part import DiscretePart, discrete_part
from gencard.core.privacy.distances.gower import Gower
from gencard.core.privacy.records import Records


@dataclass(frozen=True, slots=True, eq=False)
class _Number:
    """A numeric attribute of two tables; ``lacking`` is whether a value is missing somewhere."""

    weight: float
    span: float
    left: NDArray[np.float64]
    right: NDArray[np.float64]
    lacking: bool

    def apart(self, left: Index, right: Index) -> Matrix:
        """What it adds to N, 0 where a value is missing."""
        apart = self.left[left] - self.right[right]
        np.abs(apart, out=apart)
        self.weigh(apart)
        if self.lacking:
            apart[np.isnan(apart)] = 0
        return apart

    def weigh(self, apart: NDArray[np.float64]) -> None:
        """Turn differences into what they add to N."""
        apart /= self.span
        np.minimum(apart, 1, out=apart)
        if self.weight != 1:
            apart *= self.weight


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Two tables, ready to be compared record by record."""

    numbers: tuple[_Number, ...]
    differences: Differences

    def distances(self, left: Index, right: Index, shape: tuple[int, ...]) -> Matrix:
        """Distances, 0 to 1, of some records to some others; NaN where nothing can be compared.

        Args:
            shape: What the two broadcast to.
        """
        known, counted = self.differences.between(left, right, shape)
        found = _added(self.numbers, known, counted, left, right)
        found[counted == 0] = np.nan
        return found


@dataclass(frozen=True, slots=True, eq=False)
class GroupPairs:
    """Two tables, ready to be compared by groups: what levels decide, and the numbers.

    Args:
        edges: For each number, of the groups on the left and on the right.
    """

    part: DiscretePart
    numbers: tuple[_Number, ...]
    edges: tuple[tuple[Edges, Edges], ...]

    def at_best(self, group: int, groups: Positions, known: Row, counted: Row) -> Row:
        """How near records of a group on the left are at best to those of some groups on the right.

        Args:
            known: N of each of these groups.
            counted: D likewise, not 0.
        """
        total = known.copy()
        with np.errstate(over="ignore"):
            for number, (left, right) in zip(self.numbers, self.edges, strict=True):
                gap = left.gap(group, right, groups)
                number.weigh(gap)
                total += gap
        total /= counted
        return np.minimum(total, 1, out=total)

    def between(self, left: Positions, right: Positions, known: Row, counted: Row) -> Matrix:
        """Distances, 0 to 1, of the records at some positions; shape ``(len(left), len(right))``.

        Args:
            known: N of each record on the right.
            counted: D likewise; where it is 0, the result means nothing.
        """
        total = np.empty((len(left), len(right)))
        total[:] = known
        return _added(self.numbers, total, counted, left[:, None], right)


def pairs_of(left: Records, right: Records, gower: Gower) -> Pairs:
    """Prepare two tables.

    Raises:
        DomainMismatchError: The attributes are not those of the distance.
    """
    gower.check(left)
    gower.check(right)
    return Pairs(tuple(_numbers(left, right, gower)), differences_of(left, right, gower))


def group_pairs_of(left: Records, right: Records, gower: Gower) -> GroupPairs:
    """Prepare two tables that have the attributes of the distance."""
    part, numbers = discrete_part(left, right, gower), tuple(_numbers(left, right, gower))
    edges = ((Edges.of(one.left, part.left), Edges.of(one.right, part.right)) for one in numbers)
    return GroupPairs(part, numbers, tuple(edges))


def distances(left: Records, right: Records, gower: Gower) -> Matrix:
    """All distances, 0 to 1, shape ``(len(left), len(right))``; NaN where nothing can be compared.

    Raises:
        DomainMismatchError: The attributes are not those of the distance.
    """
    every = slice(None)
    return pairs_of(left, right, gower).distances((every, None), every, (len(left), len(right)))


def _added(
    numbers: Sequence[_Number], total: Matrix, counted: NDArray[np.float64], left: Index, right: Index
) -> Matrix:
    """Distances: N of the levels, in place, with what numbers add, by D."""
    with np.errstate(over="ignore"):
        for number in numbers:
            total += number.apart(left, right)
        total /= counted
    return np.minimum(total, 1, out=total)  # sums of weights are rounded


def _numbers(left: Records, right: Records, gower: Gower) -> Iterator[_Number]:
    """The attributes whose numbers differ by degrees."""
    for weight, span, ours, theirs in zip(
        gower.proportions, gower.ranges, left.columns, right.columns, strict=True
    ):
        if weight and span:
            lacking = bool(np.isnan(ours).any() or np.isnan(theirs).any())
            columns = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
            yield _Number(weight, span, *columns, lacking)
