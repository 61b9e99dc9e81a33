r"""Two tables in groups of similar records, with bounds on the distances between groups.

Records of equal levels that miss the same numbers form a group. Large groups are halved at the median
of the attribute in which their records are spread most.

[1]_. The numbers of a group lie in a box; records of two boxes are apart by at least

.. math:: \sum_k w_k \min(\max(l_k - h'_k, l'_k - h_k, 0) / R_k, 1)

with lower and upper edges l, h. It is summed in the same order as distances, so that rounding never
makes it larger than the distance of two records inside. For two groups the difference of the levels and
the sum of the weights are known before any number is read:

.. math:: d(x, y) = \frac{N_{gh} + \sum_k w_k \min(|x_k - y_k| / R_k, 1)}{D_{gh}} \ge
   \frac{N_{gh}}{D_{gh}}

so most pairs of records need not be compared.

References:
    .. [1] J. L. Bentley, "Multidimensional Binary Search Trees Used for Associative Searching", CACM
       18, 1975.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.types import FloatArray
from gencard.measures.privacy.distances.distances import (
    CodePair,
    Differences,
    Matrix,
    NumericColumn,
    Positions,
    Row,
    add_numbers,
    differences_of,
    numeric_columns,
)
from gencard.measures.privacy.distances.gower import Gower
from gencard.measures.privacy.records import Records, combination_numbers

_FEW = 64
"""Records that are not halved any more."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordGroups:
    """Groups of records.

    Args:
        of: Each record's group, shape ``(n,)``.
        records: Positions of the records, one group after the other, ascending in each.
        starts: Where each group starts among ``records``, and the end; shape ``(groups + 1,)``.
    """

    of: NDArray[np.int64]
    records: NDArray[np.intp]
    starts: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def members(self, groups: NDArray[np.intp]) -> NDArray[np.intp]:
        """Positions of the records of one or more groups, ascending."""
        starts = self.starts[groups]
        return np.sort(self.records[ranges(starts, self.starts[groups + 1] - starts)])


def ranges(starts: NDArray[np.intp], lengths: NDArray[np.intp]) -> NDArray[np.intp]:
    """Whole numbers from each start, as many as its length says, one range after another."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1]) + np.repeat(starts - ends + lengths, lengths)


def groups_of(numbers: NDArray[np.int64]) -> RecordGroups:
    """Groups of the records of equal numbers, which count from 0 without holes."""
    starts = np.concatenate([[0], np.cumsum(np.bincount(numbers))])
    return RecordGroups(numbers, np.argsort(numbers, kind="stable"), starts)


def halved(groups: NDArray[np.int64], columns: Sequence[NDArray[np.float64]]) -> NDArray[np.int64]:
    """Each record's group, counted from 0 without holes, with large ones halved.

    Args:
        groups: Likewise, before; shape ``(n,)``.
        columns: Numbers on one scale, shape ``(n,)`` each; a group lacks all of an attribute or none.
    """
    sizes = np.bincount(groups)
    if not columns or sizes.max(initial=0) <= _FEW:
        return groups
    points, finer, count = np.column_stack(columns), groups.copy(), len(sizes)
    order = np.argsort(groups, kind="stable")
    ends = np.cumsum(sizes)
    for group in np.flatnonzero(sizes > _FEW):
        records = order[ends[group] - sizes[group] : ends[group]]
        for part in list(_parts(points, records))[1:]:
            finer[part] = count
            count += 1
    return finer


def _parts(points: NDArray[np.float64], records: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
    """Halve positions of records until each part is small, or all its records are equal."""
    with np.errstate(invalid="ignore"):
        spread = np.ptp(points[records], axis=0)
    widest = int(np.argmax(np.where(np.isnan(spread), 0.0, spread)))
    if len(records) <= _FEW or not spread[widest] > 0:
        yield records
        return
    middle = len(records) // 2
    # Linear time; a sort is not needed, because only the halves matter.
    order = np.argpartition(points[records, widest], middle)
    yield from _parts(points, records[order[:middle]])
    yield from _parts(points, records[order[middle:]])


@dataclass(frozen=True, slots=True, eq=False)
class GroupRanges:
    """Least and largest number in each group, shape ``(groups,)``; NaN where none is known."""

    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, column: FloatArray, groups: RecordGroups) -> "GroupRanges":
        """Return the ranges of one numeric attribute."""
        ordered, starts = column[groups.records], groups.starts[:-1]
        if not len(starts):
            return cls(np.zeros(0), np.zeros(0))
        return cls(np.minimum.reduceat(ordered, starts), np.maximum.reduceat(ordered, starts))

    def gap(self, group: int, other: "GroupRanges", groups: NDArray[np.intp]) -> FloatArray:
        """Return the least distance of a group to groups of another table, in the attribute's unit."""
        above, below = other.low[groups] - self.high[group], self.low[group] - other.high[groups]
        # fmax ignores NaN: groups without a number have gap 0, which is always a lower bound.
        gap: FloatArray = np.fmax(np.fmax(above, below), 0.0)
        return gap


@dataclass(frozen=True, slots=True, eq=False)
class DiscretePart:
    """Two tables, ``left`` and ``right``, in groups, and how these differ."""

    left: RecordGroups
    right: RecordGroups
    _differences: Differences

    def table(self, rows: slice) -> tuple[Matrix, Matrix]:
        """N and D of some left groups, each with every right one; where D is 0, N is infinite."""
        shape = (len(range(*rows.indices(len(self.left)))), len(self.right))
        return self._differences.between((rows, None), slice(None), shape)

    @property
    def step(self) -> float:
        """Return the mean distance that one attribute adds between two records."""
        return 1 / self._differences.attributes


def discrete_part(left: Records, right: Records, gower: Gower) -> DiscretePart:
    """Sort two tables, which ``gower`` can measure, into groups."""
    differences = differences_of(left, right, gower)
    groups = [
        groups_of(
            halved(
                combination_numbers(len(table), [_sized(pair[side]) for pair in differences.differing]),
                _scaled(table, gower),
            )
        )
        for side, table in enumerate((left, right))
    ]
    return DiscretePart(groups[0], groups[1], differences.mapped(lambda pair: _of_groups(pair, groups)))


def _scaled(records: Records, gower: Gower) -> list[Matrix]:
    """Return the amount that each number adds to N if it differs by degrees, up to a constant."""
    with np.errstate(over="ignore"):
        return [
            np.asarray(column, np.float64) / span * weight
            for weight, span, column in zip(
                gower.proportions, gower.ranges, records.columns, strict=True
            )
            if weight and span
        ]


def _sized(codes: NDArray[np.integer]) -> tuple[NDArray[np.integer], int]:
    """Codes, and a number above them all."""
    return codes, int(codes.max(initial=0)) + 1


def _of_groups(pair: CodePair, groups: Sequence[RecordGroups]) -> CodePair:
    """Codes of each group's first record, which are those of all."""
    left, right = (codes[g.records[g.starts[:-1]]] for codes, g in zip(pair, groups, strict=True))
    return left, right


@dataclass(frozen=True, slots=True, eq=False)
class GroupPairs:
    """Two tables, ready to be compared by groups: what levels decide, and the numbers.

    Args:
        edges: For each number, of the groups on the left and on the right.
    """

    part: DiscretePart
    numbers: tuple[NumericColumn, ...]
    edges: tuple[tuple[GroupRanges, GroupRanges], ...]

    def at_best(self, group: int, groups: Positions, known: Row, counted: Row) -> Row:
        """Return the least distance of records of a group on the left to those of groups on the right.

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
        return add_numbers(self.numbers, total, counted, left[:, None], right)


def group_pairs_of(left: Records, right: Records, gower: Gower) -> GroupPairs:
    """Prepare two tables that have the attributes of the distance."""
    part, numbers = discrete_part(left, right, gower), tuple(numeric_columns(left, right, gower))
    edges = (
        (GroupRanges.of(one.left, part.left), GroupRanges.of(one.right, part.right)) for one in numbers
    )
    return GroupPairs(part, numbers, tuple(edges))
