"""Numbers for combinations of codes, so that equal records have equal numbers."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

_LARGEST = 2**62
"""Numbers of combinations below fit into 64 bits together with one more attribute."""


def combination_numbers(
    rows: int, columns: Iterable[tuple[NDArray[np.integer], int]]
) -> NDArray[np.int64]:
    """The number of each record's combination, counted from 0 without holes, shape ``(rows,)``.

    Args:
        columns: Codes of one attribute, shape ``(rows,)``, and how many codes there can be.
    """
    numbers = np.zeros(rows, dtype=np.int64)
    levels = 1
    for codes, size in columns:
        if levels * size > _LARGEST:
            numbers, levels = _ranks(numbers, levels)
        numbers, levels = numbers * size + codes, levels * size
    return _ranks(numbers, levels)[0]


def _ranks(numbers: NDArray[np.int64], levels: int) -> tuple[NDArray[np.int64], int]:
    """The same numbers without holes between them, and how many there are.

    A table of all levels is many times as fast as to sort, as long as it is not much longer.
    """
    if levels > 8 * len(numbers):
        found, ranks = np.unique(numbers, return_inverse=True)
        return ranks, max(len(found), 1)
    held = np.zeros(levels, dtype=bool)
    held[numbers] = True
    places = np.cumsum(held) - 1
    return places[numbers], int(places[-1]) + 1
