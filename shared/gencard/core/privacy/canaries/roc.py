"""Canaries by how much each looks as if it was in: the receiver operating characteristic's hull.

A threshold guesses "in" of all canaries that look like it at least so much. The hull leaves out
thresholds that a random choice between two others is no worse than.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.errors import InvalidDatasetError

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ScoredCanaries:
    """An attack's score of each canary, higher where it looks more as if it was in. Without NaN.

    Args:
        put_in: Of canaries that were in, shape ``(p,)``.
        left_out: Of canaries that were not, shape ``(q,)``.

    Raises:
        InvalidDatasetError: None of one kind, not a sequence of numbers, or NaN.
    """

    put_in: NDArray[np.float64]
    left_out: NDArray[np.float64]

    def __post_init__(self) -> None:
        for name in ("put_in", "left_out"):
            scores = np.array(getattr(self, name), dtype=np.float64)
            if scores.ndim != 1 or not len(scores) or np.isnan(scores).any():
                raise InvalidDatasetError(problem="scores are none, no sequence, or not all numbers")
            scores.sort()
            scores.flags.writeable = False
            object.__setattr__(self, name, scores)

    @property
    def corners(self) -> tuple[Counts, Counts]:
        """Canaries guessed "in" at the thresholds of the hull, from all to none: in, and left out."""
        thresholds = np.append(np.union1d(self.put_in, self.left_out), np.inf)
        right, wrong = (
            (len(side) - np.searchsorted(side, thresholds)).astype(np.int64)
            for side in (self.put_in, self.left_out)
        )
        kept = _hull(list(zip((-wrong).tolist(), right.tolist(), strict=True)))
        return right[kept], wrong[kept]

    @property
    def area(self) -> float:
        """Under the hull, 1/2 to 1: at least the probability that one in looks more so than one out."""
        right, wrong = self.corners
        heights = (right[1:] + right[:-1]) / (2 * len(self.put_in))
        return float(np.dot(heights, wrong[:-1] - wrong[1:])) / len(self.left_out)


def _hull(points: list[tuple[int, int]]) -> list[int]:
    """Positions of the corners of the least concave line above points that ascend in x, fall in y."""
    kept: list[int] = []
    for place, (x, y) in enumerate(points):
        while len(kept) > 1:
            (x0, y0), (x1, y1) = points[kept[-2]], points[kept[-1]]
            if (y1 - y0) * (x - x1) > (y - y1) * (x1 - x0):
                break
            kept.pop()
        kept.append(place)
    return kept
