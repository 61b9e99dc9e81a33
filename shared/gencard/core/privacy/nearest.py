"""The nearest and the second nearest record of a table: exact, though few pairs are compared.

For each group of equal levels, the groups of the other table are looked at in the order of how near
their records can be at best, until they can no longer be nearer than what was found.
"""

from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from gencard.core.privacy.discrete_part import Matrix
from gencard.core.privacy.distances import Pairs, Positions, pairs_of
from gencard.core.privacy.gower import Gower
from gencard.core.privacy.records import Records

_PAIRS = 2**16
"""Pairs of records whose distances are held at once: half a MiB, which stays in the cache."""

_BOUNDS = 2**18
"""Pairs of groups whose bounds are held at once: some 10 MiB."""

_Row = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """For each record of one table, what is nearest to it in another. Arrays have shape ``(n,)``.

    Args:
        distance: To the closest record, 0 to 1; NaN where there is none to compare with.
        second: To the closest of the others, 0 to 1; NaN where there is none.
        position: Of the closest record, the first of several; -1 where there is none.
    """

    distance: NDArray[np.float64]
    second: NDArray[np.float64]
    position: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.distance)


def nearest(records: Records, reference: Records, gower: Gower, *, second: bool = True) -> Nearest:
    """Find for each of ``records`` the closest of ``reference``, and the second closest.

    Args:
        second: Without it, fewer pairs are compared, and all second distances are NaN.

    Raises:
        DomainMismatchError: The attributes are not those of the distance.
    """
    pairs = pairs_of(records, reference, gower)
    part, rows = pairs.part, len(records)
    nothing = np.full(rows, np.inf)
    found = _Found(nothing, nothing.copy() if second else None, np.full(rows, -1))
    step = max(1, _BOUNDS // max(1, len(part.right)))
    for start in range(0, len(part.left) if len(reference) else 0, step):
        for group, (known, counted) in enumerate(
            zip(*part.table(slice(start, start + step)), strict=True), start
        ):
            _search(pairs, group, known, counted, found)
    return found.result()


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """What was found until now; infinite where nothing was. Without ``second``, only the closest."""

    distance: NDArray[np.float64]
    second: NDArray[np.float64] | None
    position: NDArray[np.int64]

    def reach(self, rows: Positions) -> float:
        """What is farther than this changes nothing for these records."""
        return float((self.distance if self.second is None else self.second)[rows].max())

    def add(self, rows: Positions, positions: Positions, apart: Matrix) -> None:
        """Take in the distances of some records to some others, whose positions ascend."""
        lines, columns = np.arange(len(rows)), apart.argmin(axis=1)
        first, position = apart[lines, columns], positions[columns]
        before, place = self.distance[rows], self.position[rows]
        if self.second is not None:
            apart[lines, columns] = np.inf
            others = np.minimum(self.second[rows], apart.min(axis=1))
            self.second[rows] = np.minimum(np.maximum(first, before), others)
        better = (first < before) | ((first == before) & (position < place))
        self.distance[rows] = np.minimum(first, before)
        self.position[rows] = np.where(better, position, place)

    def result(self) -> Nearest:
        second = np.full(len(self.distance), np.inf) if self.second is None else self.second
        return Nearest(_defined(self.distance), _defined(second), self.position)


def _defined(found: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.isinf(found), np.nan, found)


def _search(pairs: Pairs, group: int, known: _Row, counted: _Row, found: _Found) -> None:
    """Find what is nearest to the records of one group, given its N and D with all others."""
    rows, step = pairs.part.left.members(np.array([group])), pairs.part.step
    bounds = known / counted
    lowest = float(bounds.min())
    reached, limit = -1.0, lowest + step / 2
    while isfinite(lowest) and reached <= min(1, found.reach(rows)):
        chosen = np.flatnonzero((bounds > reached) & (bounds <= limit))
        if len(chosen):
            _compare(pairs, rows, pairs.part.right.members(chosen), (known, counted), found)
        reached, limit = limit, limit + step


def _compare(
    pairs: Pairs, rows: Positions, positions: Positions, table: tuple[_Row, _Row], found: _Found
) -> None:
    """Compare records of one group to all at some positions."""
    known, counted = (row[pairs.part.right.of[positions]] for row in table)
    size = max(1, _PAIRS // len(positions))
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        found.add(some, positions, pairs.between(some, positions, known, counted))
