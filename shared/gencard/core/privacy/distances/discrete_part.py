r"""The part of Gower's distance that levels and missing values decide.

Records of equal levels that miss the same numbers form a group, or several if they are many. For two
groups it is known, before any number is looked at, how much their levels differ and how much of the
weights counts:

.. math:: d(x, y) = \frac{N_{gh} + \sum_k w_k \min(|x_k - y_k| / R_k, 1)}{D_{gh}} \ge
   \frac{N_{gh}}{D_{gh}}

so that most pairs of records need never be compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.privacy.distances.differences import CodePair, Differences, Matrix, differences_of
from gencard.core.privacy.distances.gower import Gower
from gencard.core.privacy.distances.groups import Groups, groups_of, halved
from gencard.core.privacy.records import Records
from gencard.core.privacy.tables.combinations import combination_numbers


@dataclass(frozen=True, slots=True, eq=False)
class DiscretePart:
    """Two tables, ``left`` and ``right``, in groups, and how these differ."""

    left: Groups
    right: Groups
    _differences: Differences

    def table(self, rows: slice) -> tuple[Matrix, Matrix]:
        """N and D of some left groups, each with every right one; where D is 0, N is infinite."""
        shape = (len(range(*rows.indices(len(self.left)))), len(self.right))
        return self._differences.between((rows, None), slice(None), shape)

    @property
    def step(self) -> float:
        """How much farther one attribute makes two records, on average."""
        return 1 / self._differences.attributes


def discrete_part(left: Records, right: Records, gower: Gower) -> DiscretePart:
    """Sort two tables, which ``gower`` can measure, into groups."""
    differences = differences_of(left, right, gower)
    groups = [
        groups_of(
            halved(
                combination_numbers(len(table), [_sized(pair[side]) for pair in differences.differing]),
                _scaled(table, gower),
            )
        )
        for side, table in enumerate((left, right))
    ]
    return DiscretePart(groups[0], groups[1], differences.mapped(lambda pair: _of_groups(pair, groups)))


def _scaled(records: Records, gower: Gower) -> list[Matrix]:
    """What the numbers that differ by degrees add to N, up to a constant."""
    with np.errstate(over="ignore"):
        return [
            np.asarray(column, np.float64) / span * weight
            for weight, span, column in zip(
                gower.proportions, gower.ranges, records.columns, strict=True
            )
            if weight and span
        ]


def _sized(codes: NDArray[np.integer]) -> tuple[NDArray[np.integer], int]:
    """Codes, and a number above them all."""
    return codes, int(codes.max(initial=0)) + 1


def _of_groups(pair: CodePair, groups: Sequence[Groups]) -> CodePair:
    """Codes of each group's first record, which are those of all."""
    left, right = (codes[g.records[g.starts[:-1]]] for codes, g in zip(pair, groups, strict=True))
    return left, right
