r"""The nearest and the second nearest record of a table: exact, though few pairs are compared.

Equal records are compared once, and with at most two equal records of the other table. For each group
of equal levels, the groups of the other table are visited in ascending order of a lower bound of their
distance, until the bound exceeds the best distance so far. Rare levels are treated separately.

**Clones** are synthetic records at distance 0 from a real one. In a domain of few cells nearly every
record meets a real one. If n real records were drawn uniformly from c cells, any record would equal
some of them with probability :math:`1 - (1 - 1/c)^n`, copied or not. Real records crowd in fewer cells,
so clones without copying are as a rule more: the clones among records of a holdout show how many.

**Nearest neighbour distance ratio** is the distance to the closest record by that to the second closest.
Near 0, a record singles one real record out; near 1, it lies no nearer to one than to another.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import expm1, isfinite, log1p

import numpy as np
from numpy.typing import NDArray

from gencard.measures.privacy.distances import (
    Column,
    Gower,
    GroupPairs,
    Matrix,
    Pairs,
    Positions,
    Records,
    Row,
    combination_numbers,
    group_pairs_of,
    pairs_of,
    ranges,
)

# Levels that few records have, so that an attribute of many levels need not split all groups.
#
# Where two records share no rare level, they are as far apart as if either had one of its own. So tables
# are compared as if nobody shared a rare level, which makes no two records nearer than they are, and the
# few pairs that do share one by themselves.


@dataclass(frozen=True, slots=True, eq=False)
class RunningNearest:
    """Best distances of each record, infinite and -1 before; ``second`` is None if not looked for."""

    distance: Row
    second: Row | None
    position: NDArray[np.int64]

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
        """Take in the closest of further records, where it is, and ``others`` if second is wanted."""
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

_SHARED_PAIRS = 2**16
"""Pairs of records that are compared at once."""


@dataclass(frozen=True, slots=True, eq=False)
class RareLevels:
    """The rare levels of one attribute.

    Args:
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
            most = ends[begin] - lengths[begin] + _SHARED_PAIRS
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


def twin_numbers(records: Records, gower: Gower) -> NDArray[np.int64]:
    """A number for each record, from 0 without holes, the same for equal ones; shape ``(n,)``.

    Missing is equal to missing. Attributes that weigh nothing say nothing.
    """

    def ranked() -> Iterator[tuple[NDArray[np.int64], int]]:  # one column in memory at a time
        for column, weight in zip(records.columns, gower.proportions, strict=True):
            if weight and column.dtype.kind == "i" and column.max(initial=0) < len(column):
                codes = np.asarray(column + 1, np.int64)  # few levels need not be sorted
            elif weight:
                codes = np.unique(column, return_inverse=True)[1].reshape(-1)
            else:
                continue
            yield codes, int(codes.max(initial=0)) + 1

    return combination_numbers(len(records), ranked())


def first_of_each(numbers: NDArray[np.int64], most: int = 1) -> NDArray[np.intp]:
    """Positions of the first so many records of each number; by number, then by position."""
    order = np.argsort(numbers, kind="stable")
    counts = np.bincount(numbers)
    places = np.arange(len(numbers)) - np.repeat(np.cumsum(counts) - counts, counts)
    return order[places < most]


_PAIRS = 2**16
"""Pairs of records whose distances are held at once: half a MiB, which stays in the cache."""

_BOUNDS = 2**18
"""Pairs of groups whose bounds are held at once: some 10 MiB."""

_MANY = 512
"""Records, from which on it pays to sort their groups by how near they are."""

_FIRST = 512
"""Records that are looked at first, of the nearest groups; then as many again, and so on."""

_FEW_TWINS = 0.9
"""Share of different records from which on a table is not copied to be rid of twins."""


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
    """
    gower.check(records)
    gower.check(reference)
    running = _distinct(records, reference, gower, second)
    others = np.full(len(records), np.inf) if running.second is None else running.second
    distance, others = (np.where(np.isinf(one), np.nan, one) for one in (running.distance, others))
    return Nearest(distance, others, running.position)


def _distinct(records: Records, reference: Records, gower: Gower, second: bool) -> RunningNearest:
    """Compare each of equal records once, and two of those that are equal among the others."""
    # A third equal record can change neither the nearest nor the second nearest distance.
    distinct = np.sort(first_of_each(twin_numbers(reference, gower), 2))
    ours = twin_numbers(records, gower)
    first = first_of_each(ours)
    if len(first) > _FEW_TWINS * len(records):
        return _nearest(records, reference.take(distinct), gower, second).at(
            np.arange(len(ours)), distinct
        )
    return _nearest(records.take(first), reference.take(distinct), gower, second).at(ours, distinct)


def _nearest(records: Records, reference: Records, gower: Gower, second: bool) -> RunningNearest:
    """Return what is nearest if few records repeat, and no other record is there more than twice."""
    none = np.full((2, len(records)), np.inf)
    running = RunningNearest(none[0], none[1] if second else None, np.full(len(records), -1))
    rare = rare_levels(records, reference, gower)
    if rare:
        compare_sharing(pairs_of(records, reference, gower), rare, running)
        running.join(_distinct(*unshared(records, reference, rare), gower, second))
        return running
    if not len(reference):
        return running
    pairs = group_pairs_of(records, reference, gower)
    step = max(1, _BOUNDS // len(pairs.right))
    for start in range(0, len(pairs.left), step):
        table = pairs.table(slice(start, start + step))
        for group, (known, comparable) in enumerate(zip(*table, strict=True), start):
            _search(pairs, group, known, comparable, running)
    return running


def _search(pairs: GroupPairs, group: int, known: Row, counted: Row, running: RunningNearest) -> None:
    """Find what is nearest to the records of one group, given its N and D with all others."""
    rows = pairs.left.members(np.array([group]))
    step = 1 / pairs.differences.attributes  # mean distance that one attribute adds
    bounds = known / counted
    lowest = float(bounds.min())
    # With equal weights, bounds are multiples of one step. Shells that end half a step later do not
    # split bounds that differ by rounding.
    lower, limit = -1.0, lowest + step / 2
    # No record of a group is nearer than the group's bound, so groups beyond the second nearest record
    # found so far need not be opened. The search goes outwards in shells of one step.
    while isfinite(lowest) and lower <= min(1, running.reach(rows)):
        candidates = np.flatnonzero((bounds > lower) & (bounds <= limit))
        if len(candidates):
            _look(pairs, group, candidates, (known, counted), running)
        lower, limit = limit, limit + step


def _look(
    pairs: GroupPairs, group: int, chosen: Positions, table: tuple[Row, Row], running: RunningNearest
) -> None:
    """Compare the records of one group to those of some groups; where these are many, in order."""
    rows, right = pairs.left.members(np.array([group])), pairs.right
    sizes = right.starts[chosen + 1] - right.starts[chosen]
    # Sorting groups by their boxes costs more than it saves where few records are left.
    if not pairs.numbers or sizes.sum() <= _MANY:
        _compare(pairs, rows, right.members(chosen), table, running)
        return
    bounds = pairs.at_best(group, chosen, *(row[chosen] for row in table))
    order = np.argsort(bounds)
    ends = np.cumsum(sizes[order])
    start, most = 0, _FIRST
    while start < len(order) and len(rows := running.open(rows, bounds[order[start]])):
        stop = max(start, int(np.searchsorted(ends, most))) + 1
        near = order[start:stop]
        # <=, not <: of several records at the same distance, the first position is returned, so ties are
        # compared too.
        near = near[bounds[near] <= running.reach(rows)]
        _compare(pairs, rows, right.members(chosen[near]), table, running)
        # The first groups shrink the reach; what is then still open is compared in ever larger pieces.
        start, most = stop, 2 * most


def _compare(
    pairs: GroupPairs,
    rows: Positions,
    positions: Positions,
    table: tuple[Row, Row],
    running: RunningNearest,
) -> None:
    """Compare records of one group to all at some positions."""
    known, comparable = (row[pairs.right.of[positions]] for row in table)
    size = max(1, _PAIRS // len(positions))
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        running.add(some, positions, pairs.between(some, positions, known, comparable))


def clone_share(neighbours: Nearest) -> float | None:
    """Share of the records at distance 0 from a real one; None without a record that has a distance."""
    compared = int(np.sum(~np.isnan(neighbours.distance)))
    return int(np.sum(neighbours.distance == 0)) / compared if compared else None


def chance_of_clone(real: int, cells: int) -> float:
    """Return the probability that at least one of ``real`` uniform records falls into a given cell."""
    if cells == 1:
        return float(real > 0)
    # 1 - (1 - 1/c)**n would lose all digits where c is large.
    return -expm1(real * log1p(-1 / cells))


def nndr(neighbours: Nearest) -> NDArray[np.float64]:
    """The ratio of each record, 0 to 1, without a unit, shape ``(n,)``.

    A record that two real ones equal has ratio 1: neither is singled out. NaN where fewer than two
    real records can be compared with.
    """
    equal = neighbours.distance == neighbours.second
    return np.divide(neighbours.distance, neighbours.second, out=np.ones(len(neighbours)), where=~equal)
