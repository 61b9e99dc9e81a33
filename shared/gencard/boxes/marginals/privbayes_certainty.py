"""The score F of PrivBayes: how nearly the parents determine a binary attribute."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.types import IntArray

_AT_ONCE = 1 << 14
"""Pairs of assignments compared at a time, so that they stay in a core's cache."""

_NARROW = 1 << 28
"""With fewer records every sum has 32 bits, and goes twice as fast."""


def certainties(joints: IntArray) -> IntArray:
    r""":math:`2 n F` of each table, from :math:`-n` to 0.

    Cell after cell of the parents stands for 0 or for 1. Of all ways so far, those stay that no other
    one matches in both :math:`k_0` and :math:`k_1` [1]_: few, where ways double with each cell. Half of
    the cells and the other half are gone through apart, and then every way with every way [2]_.

    Args:
        joints: Shape ``(tables, cells of the parents, levels)``, in records; one level, or two.

    References:
        .. [1] G. Nemhauser, Z. Ullmann, "Discrete Dynamic Programming and Capital Allocation",
           Management Science 15(9), 1969.
        .. [2] E. Horowitz, S. Sahni, "Computing Partitions with Applications to the Knapsack Problem",
           Journal of the ACM 21(2), 1974.
    """
    cells = np.zeros((*joints.shape[:2], 2), dtype=np.int64)
    cells[:, :, : joints.shape[2]] = joints  # an attribute of one level has no 1
    records = cells.sum(axis=(1, 2))
    middle = cells.shape[1] // 2
    one, other = (_ways(part, records) for part in (cells[:, :middle], cells[:, middle:]))
    scores = [_least(*each) for each in zip(one, other, records, strict=True)]
    return -np.array(scores, dtype=np.int64)


def _least(one: IntArray, other: IntArray, records: int) -> int:
    """The least of :math:`(n - 2 k_0)^+ + (n - 2 k_1)^+` over two parts' ways, each with each."""
    narrow = np.int32 if records < _NARROW else np.int64
    short, added = (records - 2 * one).astype(narrow), (2 * other).astype(narrow)
    step = max(1, _AT_ONCE // added.shape[1])
    return min(
        _short(short[:, begin : begin + step, None], added[:, None])
        for begin in range(0, short.shape[1], step)
    )


def _short(short: NDArray[Any], added: NDArray[Any]) -> int:
    zeros, ones = short - added
    np.maximum(zeros, 0, out=zeros)
    zeros += np.maximum(ones, 0, out=ones)
    return int(zeros.min())


def _ways(cells: IntArray, records: IntArray) -> IntArray:
    """Sums :math:`k_0` and :math:`k_1` of the ways that count, for each table.

    Returns:
        Shape ``(tables, 2, ways)``. Where a table has fewer than another one the rest are zeros,
        which every way matches.
    """
    met = np.zeros((len(cells), 2, 1), dtype=np.int64)
    wide = np.int64(int(records.max(initial=0)).bit_length())
    for cell in cells.transpose(1, 0, 2):
        sums = np.concatenate([met, met], axis=2)
        sums[:, 0, : met.shape[2]] += cell[:, :1]
        sums[:, 1, met.shape[2] :] += cell[:, 1:]
        met = _unmatched(sums, wide)
    return met


def _unmatched(sums: IntArray, wide: np.int64) -> IntArray:
    """Ways such that no other one of the table is as large or larger in both sums; of equal ones one.

    Args:
        wide: Bits of the largest sum there may be.
    """
    ordered = np.sort(sums[:, 0] << wide | sums[:, 1], axis=1)
    ones = ordered & ((np.int64(1) << wide) - 1)
    after = np.full_like(ones, -1)
    after[:, :-1] = np.maximum.accumulate(ones[:, :0:-1], axis=1)[:, ::-1]
    tables, places = np.nonzero(ones > after)
    begins = np.searchsorted(tables, np.arange(len(sums)))
    kept = np.zeros((len(sums), 2, int(np.bincount(tables).max(initial=0))), dtype=np.int64)
    kept[tables, 0, np.arange(len(tables)) - begins[tables]] = ordered[tables, places] >> wide
    kept[tables, 1, np.arange(len(tables)) - begins[tables]] = ones[tables, places]
    return kept
