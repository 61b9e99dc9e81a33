r"""Numbers in a few groups, so that tables can be made of them for a comparison.

Groups hold about equally many of the original and all synthetic numbers together: with these in order,
:math:`x_0 \le \dots \le x_{N-1}`, edge i of g groups lies at place :math:`i (N - 1) / g`, between two
numbers in proportion (Hyndman and Fan's type 7). Edges that coincide are one; where fewer than three
groups are left, they are of equal width instead. If there are no more different numbers than groups,
each is a group. So does R's synthpop, in ``utility.tab`` and, where asked, in ``disclosure``.

The edges are made from records and tell of them. They are for comparisons beside the records; a schema
for releases is declared.

References:
    R. J. Hyndman, Y. Fan, "Sample Quantiles in Statistical Packages", American Statistician 50, 1996.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, isfinite

import numpy as np
from numpy.typing import NDArray

from gencard.core.errors import InvalidInputError, InvalidNumberError

Numbers = NDArray[np.float64]

_FEWEST = 3


@dataclass(frozen=True, slots=True)
class NumberGroups:
    """Group i holds the numbers from edge i, inclusive, to the next one; the last group both.

    Args:
        edges: In the numbers' own unit, ascending, one more than groups; the last one twice where
            each number is a group.
    """

    edges: tuple[float, ...]

    @property
    def size(self) -> int:
        """Codes: the groups, and one for missing numbers."""
        return len(self.edges)

    def codes(self, numbers: Numbers) -> NDArray[np.int64]:
        """The group of each number, the last code for NaN; shape ``(n,)``.

        What lies beyond the outer edges is in the outer groups.
        """
        numbers = np.asarray(numbers, dtype=np.float64)
        places = np.searchsorted(self.edges[1:-1], numbers, side="right")
        return np.where(np.isnan(numbers), self.size - 1, places).astype(np.int64)


def number_groups(columns: Sequence[Numbers], groups: int = 5) -> NumberGroups:
    """Groups for one attribute of several tables.

    Args:
        columns: Its numbers in the original and in each synthetic table, NaN for missing; in any unit.
        groups: How many, at most.

    Raises:
        InvalidInputError: There is no number, or their range is infinite.
        InvalidNumberError: Fewer than 2 groups.
    """
    if groups < 2:
        raise InvalidNumberError(field="The number of groups", expected="at least 2")
    joined = np.concatenate([np.zeros(0), *(np.asarray(each, np.float64) for each in columns)])
    ordered = np.sort(joined[~np.isnan(joined)])
    if not len(ordered) or not isfinite(float(ordered[-1]) - float(ordered[0])):
        raise InvalidInputError(field="columns", problem="hold no number, or their range is infinite")
    return NumberGroups(_edges(ordered, groups))


def _edges(ordered: Numbers, groups: int) -> tuple[float, ...]:
    low, high = float(ordered[0]), float(ordered[-1])
    values = np.unique(ordered)
    if len(values) <= groups:
        return low, *map(float, values[1:]), high
    edges = _distinct([_quantile(ordered, part, groups) for part in range(groups + 1)])
    if len(edges) > _FEWEST:
        return edges
    width = (high - low) / groups
    return low, *(low + part * width for part in range(1, groups)), high


def _quantile(ordered: Numbers, part: int, parts: int) -> float:
    """Rounded as in R, where a place that should be whole may be a little above."""
    place = 1 + (len(ordered) - 1) * min(part * (1 / parts), 1.0)
    low, high = (float(ordered[to_whole(place) - 1]) for to_whole in (floor, ceil))
    return _between(low, high, place - floor(place))


def _between(low: float, high: float, share: float) -> float:
    return low if low == high else (1 - share) * low + share * high


def _distinct(edges: Sequence[float]) -> tuple[float, ...]:
    return (edges[0], *(after for before, after in pairwise(edges) if after > before))
