"""Groups of records that are alike: of equal levels, and few whose numbers lie close to each other.

Large groups are halved at the median of the attribute in which their records are spread most.

References:
    J. L. Bentley, "Multidimensional Binary Search Trees Used for Associative Searching", CACM 18, 1975.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_FEW = 64
"""Records that are not halved any more."""


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Which records are in which group.

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


def groups_of(numbers: NDArray[np.int64]) -> Groups:
    """Groups of the records of equal numbers, which count from 0 without holes."""
    starts = np.concatenate([[0], np.cumsum(np.bincount(numbers))])
    return Groups(numbers, np.argsort(numbers, kind="stable"), starts)


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
    order = np.argpartition(points[records, widest], middle)
    yield from _parts(points, records[order[:middle]])
    yield from _parts(points, records[order[middle:]])
