r"""The part of Gower's distance that levels and missing values decide.

Records of equal levels that miss the same numbers form a group, or several if they are many. For two
groups it is known, before any number is looked at, how much their levels differ and how much of the
weights counts:

.. math:: d(x, y) = \frac{N_{gh} + \sum_k w_k \min(|x_k - y_k| / R_k, 1)}{D_{gh}} \ge
   \frac{N_{gh}}{D_{gh}}

so that most pairs of records need never be compared. What differs is counted in whole numbers,
attributes of equal weight together: N is the same whichever attributes differ.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gencard.core.privacy.combinations import combination_numbers
from gencard.core.privacy.gower import Gower, Missing
from gencard.core.privacy.groups import Groups, groups_of, halved
from gencard.core.privacy.records import Column, Records

_CODES = 2**15
"""Levels with codes from here on are numbered anew."""

Matrix = NDArray[np.float64]
_Pair = tuple[NDArray[np.integer], NDArray[np.integer]]
"""Codes of an attribute in the first table and in the second; what differs is unequal."""


@dataclass(slots=True, eq=False)
class _Alike:
    """Attributes of one weight: how many, and codes of those that can differ or be absent."""

    attributes: int = 0
    differing: list[_Pair] = field(default_factory=list)
    absent: list[_Pair] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class DiscretePart:
    """Two tables, ``left`` and ``right``, in groups."""

    left: Groups
    right: Groups
    _alike: dict[float, _Alike]

    def table(self, rows: slice) -> tuple[Matrix, Matrix]:
        """N and D of some left groups, each with every right one; where D is 0, N is infinite."""
        shape = (len(range(*rows.indices(len(self.left)))), len(self.right))
        numerator, denominator = np.zeros(shape), np.zeros(shape if self._pairwise else (1, 1))
        for weight, alike in self._alike.items():
            differing = _unequal(alike.differing, rows, shape)
            absent = _unequal(alike.absent, rows, shape) if alike.absent else 0
            counted = differing - absent
            numerator += counted if weight == 1 else weight * counted
            denominator += weight * (alike.attributes - absent)
        if self._pairwise:
            numerator[denominator == 0] = np.inf
        return numerator, np.broadcast_to(denominator, shape)

    @property
    def step(self) -> float:
        """How much farther one attribute makes two records, on average."""
        return 1 / sum(alike.attributes for alike in self._alike.values())

    @property
    def _pairwise(self) -> bool:
        """Whether the weight that counts depends on the groups."""
        return any(alike.absent for alike in self._alike.values())


def discrete_part(left: Records, right: Records, gower: Gower) -> DiscretePart:
    """Sort two tables, which ``gower`` can measure, into groups."""
    alike: dict[float, _Alike] = defaultdict(_Alike)
    for weight, span, *columns in zip(
        gower.proportions, gower.ranges, left.columns, right.columns, strict=True
    ):
        if weight:
            _note(alike[weight], columns, gower.missing, continuous=bool(span))
    differing = [pair for same in alike.values() for pair in same.differing]
    groups = [
        groups_of(
            halved(
                combination_numbers(len(table), [_sized(pair[side]) for pair in differing]),
                _scaled(table, gower),
            )
        )
        for side, table in enumerate((left, right))
    ]
    for same in alike.values():
        same.differing = [_of_groups(pair, groups) for pair in same.differing]
        same.absent = [_of_groups(pair, groups) for pair in same.absent]
    return DiscretePart(groups[0], groups[1], dict(alike))


def _note(alike: _Alike, columns: Sequence[Column], rule: Missing, *, continuous: bool) -> None:
    """Note what of one attribute can differ, and what can be absent.

    Where a value is missing under the pairwise rule, the codes are unequal in both lists: counted, and
    taken off again.
    """
    alike.attributes += 1
    missing = [np.isnan(column) if column.dtype.kind == "f" else column < 0 for column in columns]
    lacking = bool(missing[0].any() or missing[1].any())
    if lacking and rule is Missing.PAIRWISE:
        alike.absent.append(_coded([np.zeros(len(m), int) for m in missing], missing, alone=True))
    if lacking or not continuous:
        values = [np.zeros(len(m), int) for m in missing] if continuous else _ranked(columns)
        alike.differing.append(_coded(values, missing, alone=rule is Missing.PAIRWISE))


def _ranked(columns: Sequence[Column]) -> list[NDArray[np.int64]]:
    """Values of two columns as codes from 0; missing ones as any."""
    joined = np.concatenate(columns)
    if joined.dtype.kind == "f" or joined.max(initial=0) >= _CODES:
        joined = np.unique(joined, return_inverse=True)[1]
    return [np.maximum(joined[: len(columns[0])], 0), np.maximum(joined[len(columns[0]) :], 0)]


def _coded(
    values: Sequence[NDArray[np.integer]], missing: Sequence[NDArray[np.bool_]], *, alone: bool
) -> _Pair:
    """Narrow codes, with one more for missing values; ``alone``: one that nothing is equal to."""
    top = 1 + max(int(column.max(initial=0)) for column in values)
    kind = np.min_scalar_type(top + 1)
    left, right = (
        np.where(absent, top + (alone and side), column).astype(kind)
        for side, (column, absent) in enumerate(zip(values, missing, strict=True))
    )
    return left, right


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


def _of_groups(pair: _Pair, groups: Sequence[Groups]) -> _Pair:
    """Codes of each group's first record, which are those of all."""
    left, right = (codes[g.records[g.starts[:-1]]] for codes, g in zip(pair, groups, strict=True))
    return left, right


def _unequal(pairs: Sequence[_Pair], rows: slice, shape: tuple[int, int]) -> NDArray[np.integer]:
    """In how many attributes each left group differs from each right one."""
    count = np.zeros(shape, dtype=np.min_scalar_type(len(pairs)))
    for left, right in pairs:
        count += left[rows, None] != right
    return count
