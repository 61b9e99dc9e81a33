"""Gower distances of the records of two tables.

Levels and missing values that differ are counted in whole numbers, attributes of equal weight together,
so that the numerator N does not depend on the order of the attributes. Numbers are added afterwards.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gencard.measures.privacy.distances.gower import Gower, Missing
from gencard.measures.privacy.records import Column, Records

_CODES = 2**15
"""Levels with codes from here on are numbered anew."""

Positions = NDArray[np.intp]
Matrix = NDArray[np.float64]
Row = NDArray[np.float64]
CodePair = tuple[NDArray[np.integer], NDArray[np.integer]]
"""Codes of an attribute in the first table and in the second; what differs is unequal."""

Index = Positions | slice | tuple[slice, None]
"""Records of a table, or its groups; those of the first table stand upright for all pairs."""


@dataclass(slots=True, eq=False)
class _Alike:
    """Attributes of one weight: how many, and codes of those that can differ or be absent."""

    attributes: int = 0
    differing: list[CodePair] = field(default_factory=list)
    absent: list[CodePair] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class Differences:
    """Codes of two tables, by weight."""

    _alike: Mapping[float, _Alike]

    @property
    def attributes(self) -> int:
        """Number of attributes that have a weight."""
        return sum(alike.attributes for alike in self._alike.values())

    @property
    def differing(self) -> list[CodePair]:
        """Pairs of codes of each attribute in which records can differ."""
        return [pair for alike in self._alike.values() for pair in alike.differing]

    def mapped(self, change: Callable[[CodePair], CodePair]) -> "Differences":
        """The same with other codes."""
        return Differences(
            {
                weight: _Alike(
                    alike.attributes, list(map(change, alike.differing)), list(map(change, alike.absent))
                )
                for weight, alike in self._alike.items()
            }
        )

    def between(self, left: Index, right: Index, shape: tuple[int, ...]) -> tuple[Matrix, Matrix]:
        """N and D, without numbers that differ by degrees; where D is 0, N is infinite.

        Args:
            shape: What the two broadcast to.
        """
        pairwise = any(alike.absent for alike in self._alike.values())
        numerator, denominator = np.zeros(shape), np.zeros(shape if pairwise else (1,) * len(shape))
        for weight, alike in self._alike.items():
            differing = _unequal(alike.differing, left, right, shape)
            absent = _unequal(alike.absent, left, right, shape) if alike.absent else 0
            comparable = differing - absent
            numerator += comparable if weight == 1 else weight * comparable
            denominator += weight * (alike.attributes - absent)
        if pairwise:
            numerator[denominator == 0] = np.inf
        return numerator, np.broadcast_to(denominator, shape)


def differences_of(left: Records, right: Records, gower: Gower) -> Differences:
    """Prepare the differences of two tables, which ``gower`` can measure, record by record."""
    alike: dict[float, _Alike] = defaultdict(_Alike)
    for weight, span, *columns in zip(
        gower.proportions, gower.ranges, left.columns, right.columns, strict=True
    ):
        if weight:
            _note(alike[weight], columns, gower.missing, continuous=bool(span))
    return Differences(dict(alike))


def _note(alike: _Alike, columns: Sequence[Column], rule: Missing, *, continuous: bool) -> None:
    """Note what of one attribute can differ, and what can be absent.

    Where a value is missing under the pairwise rule, the codes are unequal in both lists: counted, and
    taken off again.
    """
    alike.attributes += 1
    missing = [np.isnan(column) if column.dtype.kind == "f" else column < 0 for column in columns]
    has_gaps = bool(missing[0].any() or missing[1].any())
    if has_gaps and rule is Missing.PAIRWISE:
        alike.absent.append(_coded([np.zeros(len(m), int) for m in missing], missing, alone=True))
    if has_gaps or not continuous:
        values = [np.zeros(len(m), int) for m in missing] if continuous else _ranked(columns)
        alike.differing.append(_coded(values, missing, alone=rule is Missing.PAIRWISE))


def _ranked(columns: Sequence[Column]) -> list[NDArray[np.int64]]:
    """Values of two columns as codes from 0; missing ones as any."""
    both = np.concatenate(columns)
    if both.dtype.kind == "f" or both.max(initial=0) >= _CODES:
        both = np.unique(both, return_inverse=True)[1]
    return [np.maximum(both[: len(columns[0])], 0), np.maximum(both[len(columns[0]) :], 0)]


def _coded(
    values: Sequence[NDArray[np.integer]], missing: Sequence[NDArray[np.bool_]], *, alone: bool
) -> CodePair:
    """Narrow codes, with one more for missing values; ``alone``: one that nothing is equal to."""
    top = 1 + max(int(column.max(initial=0)) for column in values)
    kind = np.min_scalar_type(top + 1)
    left, right = (
        np.where(absent, top + (alone and side), column).astype(kind)
        for side, (column, absent) in enumerate(zip(values, missing, strict=True))
    )
    return left, right


def _unequal(
    pairs: Sequence[CodePair], left: Index, right: Index, shape: tuple[int, ...]
) -> NDArray[np.integer]:
    """In how many attributes each of some differs from each of some others."""
    count = np.zeros(shape, dtype=np.min_scalar_type(len(pairs)))
    for ours, theirs in pairs:
        count += ours[left] != theirs[right]
    return count


@dataclass(frozen=True, slots=True, eq=False)
class NumericColumn:
    """A numeric attribute of two tables; ``lacking`` is whether a value is missing somewhere."""

    weight: float
    span: float
    left: NDArray[np.float64]
    right: NDArray[np.float64]
    lacking: bool

    def apart(self, left: Index, right: Index) -> Matrix:
        """Return the amount that this column adds to N, 0 where a value is missing."""
        apart = self.left[left] - self.right[right]
        np.abs(apart, out=apart)
        self.weigh(apart)
        if self.lacking:
            apart[np.isnan(apart)] = 0
        return apart

    def weigh(self, apart: NDArray[np.float64]) -> None:
        """Turn differences into what they add to N."""
        apart /= self.span
        np.minimum(apart, 1, out=apart)
        if self.weight != 1:
            apart *= self.weight


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Two tables, ready to be compared record by record."""

    numbers: tuple[NumericColumn, ...]
    differences: Differences

    def distances(self, left: Index, right: Index, shape: tuple[int, ...]) -> Matrix:
        """Distances, 0 to 1, of some records to some others; NaN where nothing can be compared.

        Args:
            shape: What the two broadcast to.
        """
        known, comparable = self.differences.between(left, right, shape)
        result = add_numbers(self.numbers, known, comparable, left, right)
        result[comparable == 0] = np.nan
        return result


def pairs_of(left: Records, right: Records, gower: Gower) -> Pairs:
    """Prepare two tables.

    Raises:
        DomainMismatchError: The attributes are not those of the distance.
    """
    gower.check(left)
    gower.check(right)
    return Pairs(tuple(numeric_columns(left, right, gower)), differences_of(left, right, gower))


def distances(left: Records, right: Records, gower: Gower) -> Matrix:
    """All distances, 0 to 1, shape ``(len(left), len(right))``; NaN where nothing can be compared.

    Raises:
        DomainMismatchError: The attributes are not those of the distance.
    """
    every = slice(None)
    return pairs_of(left, right, gower).distances((every, None), every, (len(left), len(right)))


def add_numbers(
    numbers: Sequence[NumericColumn],
    total: Matrix,
    counted: NDArray[np.float64],
    left: Index,
    right: Index,
) -> Matrix:
    """Distances: N of the levels, in place, with what numbers add, by D."""
    with np.errstate(over="ignore"):
        for number in numbers:
            total += number.apart(left, right)
        total /= counted
    return np.minimum(total, 1, out=total)  # sums of weights are rounded


def numeric_columns(left: Records, right: Records, gower: Gower) -> Iterator[NumericColumn]:
    """The attributes whose numbers differ by degrees."""
    for weight, span, ours, theirs in zip(
        gower.proportions, gower.ranges, left.columns, right.columns, strict=True
    ):
        if weight and span:
            has_gaps = bool(np.isnan(ours).any() or np.isnan(theirs).any())
            columns = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
            yield NumericColumn(weight, span, *columns, has_gaps)
