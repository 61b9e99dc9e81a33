"""Levels that few records have, so that an attribute of many levels need not split all groups.

Where two records share no rare level, they are as far apart as if either had one of its own. So tables
are compared as if nobody shared a rare level, which makes no two records nearer than they are, and the
few pairs that do share one by themselves.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.measures.privacy.distances.gower import Gower
from gencard.measures.privacy.distances.groups import Matrix, Pairs, Positions, Row, ranges
from gencard.measures.privacy.records import Column, Records


@dataclass(frozen=True, slots=True, eq=False)
class RunningNearest:
    """Best distances of each record; infinite, with position -1, where there is none yet.

    Args:
        second: None where only the closest is looked for.
    """

    distance: Row
    second: Row | None
    position: NDArray[np.int64]

    @classmethod
    def nothing(cls, rows: int, *, second: bool) -> "RunningNearest":
        distances = np.full((2, rows), np.inf)
        return cls(distances[0], distances[1] if second else None, np.full(rows, -1))

    def reach(self, rows: Positions) -> float:
        """Return the distance beyond which nothing changes for these records."""
        return float((self.distance if self.second is None else self.second)[rows].max())

    def open(self, rows: Positions, bound: float) -> Positions:
        """Select the records for which something at this distance may change the result."""
        return rows[(self.distance if self.second is None else self.second)[rows] >= bound]

    def add(self, rows: Positions, positions: Positions, apart: Matrix) -> None:
        """Take in the distances of some records to some others, whose positions ascend."""
        lines, columns = np.arange(len(rows)), apart.argmin(axis=1)
        first, position = apart[lines, columns], positions[columns]
        if self.second is None:
            self.note(rows, first, None, position)
            return
        # The minimum of what is left is the second smallest; a sort of each row would cost more.
        apart[lines, columns] = np.inf
        self.note(rows, first, apart.min(axis=1), position)

    def note(self, rows: Positions, first: Row, others: Row | None, position: Positions) -> None:
        """Take in the closest of further records, where it is, and how near the others are.

        Args:
            others: Needed where the second is looked for.
        """
        before, place = self.distance[rows], self.position[rows]
        if self.second is not None and others is not None:
            others = np.minimum(self.second[rows], others)
            self.second[rows] = np.minimum(np.maximum(first, before), others)
        better = (first < before) | ((first == before) & (position < place))
        self.distance[rows] = np.minimum(first, before)
        self.position[rows] = np.where(better, position, place)

    def join(self, other: "RunningNearest") -> None:
        """Take in what was found among all, if that is nowhere nearer than what was found by now."""
        rows = np.arange(len(self.distance))
        if other.second is None:
            self.note(rows, other.distance, None, other.position)
            return
        known = self.position == other.position
        first = np.where(known, other.second, other.distance)
        self.note(rows, first, np.where(known, np.inf, other.second), other.position)

    def at(self, rows: Positions, kept: Positions) -> "RunningNearest":
        """The same for a table that these records are taken from, and the others of another one.

        Args:
            rows: For each record of the table, the one that it equals.
            kept: Positions of the others.
        """
        second = None if self.second is None else self.second[rows]
        return RunningNearest(self.distance[rows], second, np.append(kept, -1)[self.position[rows]])


_LEAST = 64
"""An attribute of fewer rare levels splits groups little."""

_SHARE = 64
"""A level is rare that at most one in so many records has."""

_PAIRS = 2**16
"""Pairs of records that are compared at once."""


@dataclass(frozen=True, slots=True, eq=False)
class RareLevels:
    """The rare levels of one attribute.

    Args:
        axis: The attribute's place.
        left: Of each record of the first table its level, counted from 0; -1 where that is not rare.
        right: Of the other table, likewise.
        codes: Of two of them.
    """

    axis: int
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    codes: tuple[int, int]

    def shared(self, left: Positions, right: Positions) -> NDArray[np.bool_]:
        """Whether the records of some pairs share a level."""
        levels = self.left[left]
        shared: NDArray[np.bool_] = (levels == self.right[right]) & (levels >= 0)
        return shared

    def sharing(self) -> Iterator[tuple[Positions, Positions]]:
        """All pairs that share a level, some at a time; all of a record on the left at once."""
        order = np.argsort(self.right, kind="stable")
        ordered, rows = self.right[order], np.flatnonzero(self.left >= 0)
        starts = np.searchsorted(ordered, self.left[rows])
        lengths = np.searchsorted(ordered, self.left[rows], side="right") - starts
        ends = np.cumsum(lengths)
        begin = 0
        while begin < len(rows):
            most = ends[begin] - lengths[begin] + _PAIRS
            end = max(begin + 1, int(np.searchsorted(ends, most, side="right")))
            some = slice(begin, end)
            yield np.repeat(rows[some], lengths[some]), order[ranges(starts[some], lengths[some])]
            begin = end


def rare_levels(left: Records, right: Records, gower: Gower) -> tuple[RareLevels, ...]:
    """Return the rare levels of each attribute that has many and has a weight."""
    candidates = (
        _rare(axis, *columns)
        for axis, columns in enumerate(zip(left.columns, right.columns, strict=True))
        if gower.weights[axis] and gower.ranges[axis] is None
    )
    return tuple(one for one in candidates if one is not None)


def unshared(left: Records, right: Records, rare: Sequence[RareLevels]) -> tuple[Records, Records]:
    """The tables as if no two records shared a rare level: one table has one of them, the other another.

    Twins arise in both, so that fewer records are left to compare.
    """
    ours, theirs = list(left.columns), list(right.columns)
    for one in rare:
        ours[one.axis] = np.where(one.left >= 0, one.codes[0], ours[one.axis])
        theirs[one.axis] = np.where(one.right >= 0, one.codes[1], theirs[one.axis])
    return Records(left.attributes, tuple(ours)), Records(right.attributes, tuple(theirs))


def compare_sharing(pairs: Pairs, rare: Sequence[RareLevels], running: RunningNearest) -> None:
    """Compare all records that share a rare level of one or more attributes."""
    for number, one in enumerate(rare):
        for left, right in one.sharing():
            if len(left):
                apart = pairs.distances(left, right, left.shape)
                for earlier in rare[:number]:
                    apart[earlier.shared(left, right)] = np.inf  # they were compared
                _note(left, right, apart, running)


def _note(left: Positions, right: Positions, apart: Row, running: RunningNearest) -> None:
    """Take in the distances of pairs that ascend by their first record, then by their second."""
    # One pass over all pairs: reduceat takes the minimum of each record's run without a loop over
    # records.
    starts = np.flatnonzero(np.append(True, left[1:] != left[:-1]))
    first = np.minimum.reduceat(apart, starts)
    lengths = np.diff(np.append(starts, len(left)))
    hits = np.flatnonzero(apart == np.repeat(first, lengths))
    closest = hits[np.searchsorted(hits, starts)]
    position = right[closest]
    apart[closest] = np.inf
    running.note(left[starts], first, np.minimum.reduceat(apart, starts), position)


def _rare(axis: int, left: Column, right: Column) -> RareLevels | None:
    """Return the rare levels of one attribute; None if they are few."""
    both = np.concatenate([left, right])
    if both.max(initial=0) < _LEAST:
        return None
    codes, ranks = np.unique(both, return_inverse=True)
    often = np.bincount(ranks[len(left) :], minlength=len(codes)) * _SHARE > len(right)
    rare = ~often & (codes >= 0)
    if rare.sum() < _LEAST:
        return None
    ranks[~rare[ranks]] = -1
    # Two different codes, one for each table, so that no two records share a rare level in `unshared`.
    first, second = codes[rare][:2].tolist()
    return RareLevels(axis, ranks[: len(left)], ranks[len(left) :], (first, second))
