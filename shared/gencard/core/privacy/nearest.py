"""The nearest and the second nearest record of a table: exact, though few pairs are compared.

Of equal records one is compared, and to two of those that are equal among the others. For each group
of equal levels, the groups of the other table are looked at in the order of how near their records can
be at best, until they can no longer be nearer than what was found.
"""

from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from gencard.core.privacy.discrete_part import Matrix
from gencard.core.privacy.distances import Pairs, Positions, Row, pairs_of
from gencard.core.privacy.gower import Gower
from gencard.core.privacy.records import Records
from gencard.core.privacy.twins import first_of_each, twin_numbers

_PAIRS = 2**16
"""Pairs of records whose distances are held at once: half a MiB, which stays in the cache."""

_BOUNDS = 2**18
"""Pairs of groups whose bounds are held at once: some 10 MiB."""

_MANY = 512
"""Records, from which on it pays to sort their groups by how near they are."""

_FIRST = 512
"""Records that are looked at first, of the nearest groups; then as many again, and so on."""


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
    gower.check(records)
    gower.check(reference)
    ours = twin_numbers(records, gower)
    kept = np.sort(first_of_each(twin_numbers(reference, gower), 2))
    found = _nearest(records.take(first_of_each(ours)), reference.take(kept), gower, second)
    position = np.append(kept, -1)[found.position]
    return Nearest(found.distance[ours], found.second[ours], position[ours])


def _nearest(records: Records, reference: Records, gower: Gower, second: bool) -> Nearest:
    """The same where no record repeats, and no other is there more than twice."""
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

    def open(self, rows: Positions, bound: float) -> Positions:
        """Those of some records for which something as far as this may change something."""
        return rows[(self.distance if self.second is None else self.second)[rows] >= bound]

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


def _search(pairs: Pairs, group: int, known: Row, counted: Row, found: _Found) -> None:
    """Find what is nearest to the records of one group, given its N and D with all others."""
    rows, step = pairs.part.left.members(np.array([group])), pairs.part.step
    bounds = known / counted
    lowest = float(bounds.min())
    reached, limit = -1.0, lowest + step / 2
    while isfinite(lowest) and reached <= min(1, found.reach(rows)):
        chosen = np.flatnonzero((bounds > reached) & (bounds <= limit))
        if len(chosen):
            _look(pairs, group, chosen, (known, counted), found)
        reached, limit = limit, limit + step


def _look(pairs: Pairs, group: int, chosen: Positions, table: tuple[Row, Row], found: _Found) -> None:
    """Compare the records of one group to those of some groups; where these are many, in order."""
    rows, right = pairs.part.left.members(np.array([group])), pairs.part.right
    sizes = right.starts[chosen + 1] - right.starts[chosen]
    if not pairs.numbers or sizes.sum() <= _MANY:
        _compare(pairs, rows, right.members(chosen), table, found)
        return
    bounds = pairs.at_best(group, chosen, *(row[chosen] for row in table))
    order = np.argsort(bounds)
    ends = np.cumsum(sizes[order])
    start, wanted = 0, _FIRST
    while start < len(order) and len(rows := found.open(rows, bounds[order[start]])):
        stop = max(start, int(np.searchsorted(ends, wanted))) + 1
        near = order[start:stop]
        near = near[bounds[near] <= found.reach(rows)]
        _compare(pairs, rows, right.members(chosen[near]), table, found)
        start, wanted = stop, 2 * wanted


def _compare(
    pairs: Pairs, rows: Positions, positions: Positions, table: tuple[Row, Row], found: _Found
) -> None:
    """Compare records of one group to all at some positions."""
    known, counted = (row[pairs.part.right.of[positions]] for row in table)
    size = max(1, _PAIRS // len(positions))
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        found.add(some, positions, pairs.between(some, positions, known, counted))
