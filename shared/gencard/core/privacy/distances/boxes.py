r"""How near the records of two groups are at best, by numbers.

The numbers of a group lie in a box; the records of two boxes are apart by at least

.. math:: \sum_k w_k \min(\max(l_k - h'_k, l'_k - h_k, 0) / R_k, 1)

with lower and upper edges l, h. It is summed as distances are, so that rounding never makes it larger
than the distance of two records inside.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.privacy.distances.groups import Groups
from gencard.core.types import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """Least and largest number in each group, shape ``(groups,)``; NaN where none is known."""

    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, column: FloatArray, groups: Groups) -> "Edges":
        """Of one numeric attribute."""
        ordered, starts = column[groups.records], groups.starts[:-1]
        if not len(starts):
            return cls(np.zeros(0), np.zeros(0))
        return cls(np.minimum.reduceat(ordered, starts), np.maximum.reduceat(ordered, starts))

    def gap(self, group: int, other: "Edges", groups: NDArray[np.intp]) -> FloatArray:
        """How far a group is at least from some groups of another table, in the attribute's unit."""
        above, below = other.low[groups] - self.high[group], self.low[group] - other.high[groups]
        gap: FloatArray = np.fmax(np.fmax(above, below), 0.0)
        return gap
