"""Finding the share in which each of many keys falls."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gencard.core.errors import InvalidNumberError
from gencard.core.statistics.table import total

Words = NDArray[np.uint64]
"""Raw 64-bit words of a bit generator, or numbers on their scale."""

_RUNGS_PER_SHARE = 2

_STEPS = 4
"""Shares that are tried one after another before the search takes over."""


_ROUNDING = 1e-9
"""A sum that is this near to 1 is left alone, so that a saved model comes back bit for bit."""


def scale_to_one(probabilities: NDArray[np.float64], field_name: str) -> None:
    """Scale probabilities, in place, to sum to 1.

    Raises:
        InvalidNumberError: One is negative or not finite, or all are zero.
    """
    whole = total(probabilities) if probabilities.size else 0.0
    if not (np.isfinite(whole) and whole > 0 and probabilities.min() >= 0):
        raise InvalidNumberError(field=field_name, expected="zero or more, with a finite sum")
    if abs(whole - 1) > _ROUNDING:
        probabilities /= whole


def bits(rows: int) -> int:
    """Bits of a word that are left to a share in one of ``rows`` rows: all ends stay below 2**64."""
    return 64 - rows.bit_length()


@dataclass(frozen=True, slots=True, eq=False)
class Ladder:
    """Shares of the 64-bit words, in ascending order, with a guide to where each part of them begins.

    A word's leading bits say which share to try first; it is the right one, or one of the next, nearly
    always (Chen, Asau 1974). That is 4 to 50 times as fast as a binary search.

    Args:
        ends: Where each share ends, ascending; an empty share ends where the one before it does.
    """

    ends: Words
    _guide: NDArray[np.int32] = field(init=False, repr=False)
    _shift: np.uint64 = field(init=False, repr=False)

    def __post_init__(self) -> None:
        rungs = (_RUNGS_PER_SHARE * len(self.ends)).bit_length()
        shift = np.uint64(64 - rungs)
        first = np.where(self.ends > 0, ((self.ends - np.uint64(1)) >> shift) + np.uint64(1), 0)
        ended = np.bincount(first.view(np.int64), minlength=2**rungs)
        object.__setattr__(self, "_guide", np.cumsum(ended, dtype=np.int32))
        object.__setattr__(self, "_shift", shift)

    @classmethod
    def of(cls, table: NDArray[np.float64]) -> "Ladder":
        """The shares of each row of a table in the words below ``rows << bits(rows)``, row after row.

        Args:
            table: Shape ``(rows, cells)``, zero or more. A row of zeros gives all to its first cell.
        """
        cumulative = np.cumsum(table, axis=1)
        whole = cumulative[:, -1:]
        parts = np.divide(cumulative, whole, out=np.ones_like(cumulative), where=whole > 0)
        first = np.arange(len(table), dtype=np.uint64)[:, None] << np.uint64(bits(len(table)))
        return cls(((parts * 2.0 ** bits(len(table))).astype(np.uint64) + first).ravel())

    def shares(self, words: Words) -> NDArray[np.int32]:
        """For each word the number of ends at or below it: the number of its share."""
        found: NDArray[np.int32] = self._guide.take((words >> self._shift).view(np.int64))
        late = np.flatnonzero(self.ends.take(found) <= words)
        for _ in range(_STEPS):
            found[late] += 1
            late = late[self.ends[found[late]] <= words[late]]
        if len(late):
            found[late] = np.searchsorted(self.ends, words[late], side="right")
        return found
