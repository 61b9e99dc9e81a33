"""Exact kernels of small matrices of whole numbers."""

from collections.abc import Sequence
from fractions import Fraction
from math import gcd, lcm

import numpy as np

from gencard.core.types import FloatArray, IntArray

_WIDEST = 60
"""Columns of a matrix; the numbers in its kernel grow with them."""

_LARGEST = 2**62


def only_change(matrix: IntArray, signs: FloatArray) -> IntArray | None:
    """The one vector that the matrix takes to zero, in smallest whole numbers with these signs.

    None where there is not one, or it has other signs.
    """
    if not 2 <= matrix.shape[1] <= _WIDEST:
        return None
    kernel = kernel_of([[Fraction(int(entry)) for entry in row] for row in matrix])
    if len(kernel) != 1:
        return None
    scale = lcm(*(entry.denominator for entry in kernel[0]))
    whole = [int(entry * scale) for entry in kernel[0]]
    change = [entry // gcd(*whole) * (1 if whole[0] * signs[0] > 0 else -1) for entry in whole]
    if max(map(abs, change)) > _LARGEST or not np.array_equal(np.sign(change), signs):
        return None
    return np.array(change, dtype=np.int64)


def kernel_of(matrix: Sequence[Sequence[Fraction]]) -> list[list[Fraction]]:
    """A basis of what a matrix takes to zero, by exact elimination."""
    rows, pivots = _reduced([list(row) for row in matrix])
    width = len(matrix[0])
    return [
        [
            -rows[pivots.index(column)][free] if column in pivots else Fraction(column == free)
            for column in range(width)
        ]
        for free in range(width)
        if free not in pivots
    ]


def _reduced(rows: list[list[Fraction]]) -> tuple[list[list[Fraction]], list[int]]:
    """The reduced row echelon form, and the columns of its leading ones."""
    pivots: list[int] = []
    for column in range(len(rows[0])):
        top = len(pivots)
        found = next((place for place in range(top, len(rows)) if rows[place][column]), None)
        if found is None:
            continue
        rows[top], rows[found] = rows[found], rows[top]
        lead = [entry / rows[top][column] for entry in rows[top]]
        rows = [
            lead if place == top else [a - row[column] * b for a, b in zip(row, lead, strict=True)]
            for place, row in enumerate(rows)
        ]
        pivots.append(column)
    return rows, pivots
