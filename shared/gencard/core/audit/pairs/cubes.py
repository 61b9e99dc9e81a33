"""Cubes that stand ready in a table: all corners of one parity occupied."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.audit.pairs.cells import Cells, key_of
from gencard.core.domain import Clique
from gencard.core.types import IntArray

MOST_CUBES = 500_000
"""Cubes held at once; where more could be built, a random part of them is."""


@dataclass(frozen=True, slots=True, eq=False)
class Cubes:
    """Corners of one parity, found occupied, of ``n`` cubes on the same attributes.

    Args:
        corners: Positions in ``Cells``, shape ``(n, 2 ** (axes - 1))``.
        odd: Whether the corner that is high on the first axis and low on all others is among them.
        low: The lower level on each axis, shape ``(n, axes)``.
        high: The higher level on each axis, shape ``(n, axes)``.
    """

    corners: NDArray[np.intp]
    odd: NDArray[np.bool_]
    low: NDArray[np.int64]
    high: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.odd)


def cubes(cells: Cells, axes: Clique, context: Clique, *, rng: np.random.Generator) -> Cubes:
    """All cubes on ``axes`` with corners of one parity occupied and equal on ``context``.

    Built axis by axis: the odd corners of a cube are the odd corners of its lower face with the even
    corners of its upper face. Where that makes more than ``MOST_CUBES``, a random part of them.
    """
    found = _edges(cells, axes[0], rng=rng)
    for known in range(1, len(axes)):
        if not len(found):
            break
        found = _doubled(found, cells, axes[known], (*axes[known + 1 :], *context), rng=rng)
    return found


def _edges(cells: Cells, axis: str, *, rng: np.random.Generator) -> Cubes:
    """One-dimensional cubes: a cell, and another level to which it could go."""
    levels = cells.column(axis).astype(np.int64)
    size = cells.domain.size(axis)
    pairs = _some(len(levels) * (size - 1), rng=rng)
    cell, step = pairs // (size - 1), pairs % (size - 1) + 1
    here, there = levels[cell], (levels[cell] + step) % size
    low, high = np.minimum(here, there), np.maximum(here, there)
    return Cubes(cell[:, None], here > there, low[:, None], high[:, None])


def _doubled(
    faces: Cubes, cells: Cells, axis: str, shared: Clique, *, rng: np.random.Generator
) -> Cubes:
    """Cubes with one more axis: pairs of opposite faces that agree on all that is ``shared``."""
    representative = faces.corners[:, 0]
    level = cells.column(axis).astype(np.int64)[representative]
    left, right = _partners(_face_key(faces, cells, shared), faces.odd, rng=rng)
    apart = level[left] != level[right]
    left, right = left[apart], right[apart]
    low, high = np.minimum(level[left], level[right]), np.maximum(level[left], level[right])
    return Cubes(
        np.hstack([faces.corners[left], faces.corners[right]]),
        level[right] < level[left],  # the right face is the odd one
        np.column_stack([faces.low[left], low]),
        np.column_stack([faces.high[left], high]),
    )


def _face_key(faces: Cubes, cells: Cells, shared: Clique) -> IntArray:
    """Equal where two faces span the same levels and stand in the same context."""
    representative = faces.corners[:, 0]
    columns = [cells.column(name)[representative] for name in shared]
    sizes = [cells.domain.size(name) for name in shared]
    spans = [*faces.low.T, *faces.high.T]
    return key_of([*spans, *columns], [*(int(span.max()) + 1 for span in spans), *sizes])


def _partners(
    key: IntArray, odd: NDArray[np.bool_], *, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Pairs of an even and an odd face with equal key."""
    order = np.argsort(key, kind="stable")
    even, odds = order[~odd[order]], order[odd[order]]
    begin = np.searchsorted(key[odds], key[even], side="left")
    number = np.searchsorted(key[odds], key[even], side="right") - begin
    ends = np.cumsum(number)
    pairs = _some(int(ends[-1]) if len(ends) else 0, rng=rng)
    row = np.searchsorted(ends, pairs, side="right")
    return even[row], odds[begin[row] + pairs - (ends[row] - number[row])]


def _some(number: int, *, rng: np.random.Generator) -> IntArray:
    """All of ``0 .. number - 1``, or a random part where that is too many."""
    if number <= MOST_CUBES:
        return np.arange(number)
    return np.unique(rng.integers(number, size=MOST_CUBES))
