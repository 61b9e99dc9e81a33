r"""Records of numbers and levels, Gower's distance, and groups of records with bounds on distances.

Records of equal levels that miss the same numbers form a group. Large groups are halved at the median
of the attribute in which their records are spread most.

[1]_. The numbers of a group lie in a box; records of two boxes are apart by at least

.. math:: \sum_k w_k \min(\max(l_k - h'_k, l'_k - h_k, 0) / R_k, 1)

with lower and upper edges l, h. It is summed in the same order as distances, so that rounding never
makes it larger than the distance of two records inside. For two groups the difference of the levels and
the sum of the weights are known before any number is read:

.. math:: d(x, y) = \frac{N_{gh} + \sum_k w_k \min(|x_k - y_k| / R_k, 1)}{D_{gh}} \ge
   \frac{N_{gh}}{D_{gh}}

so most pairs of records need not be compared.

References:
    .. [1] J. L. Bentley, "Multidimensional Binary Search Trees Used for Associative Searching", CACM
       18, 1975.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from gencard.core.coding import Coding, Edges, Labels
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.errors import (
    DomainMismatchError,
    InvalidDatasetError,
    InvalidInputError,
    InvalidNumberError,
    UnknownAttributeError,
)
from gencard.core.types import FloatArray

Column = NDArray[np.float64] | NDArray[np.int64]
"""Numbers, or codes of levels."""

Kinds = tuple[tuple[str, bool], ...]
"""Each attribute's name, and whether it holds numbers."""

_LARGEST = 2.0**1022
"""Two numbers up to here have a finite difference."""


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Attributes and a column for each, of shape ``(n,)``.

    A column of floats holds numbers, NaN being missing. A column of integers holds codes of levels,
    -1 being missing; a code means the same level in all records that are compared.

    Raises:
        InvalidDatasetError: No attribute, repeated attributes, columns of different lengths, neither
            floats nor integers, codes below -1, or numbers that are infinite or above 2**1022.
    """

    attributes: tuple[str, ...]
    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        problem = _problem(self.attributes, self.columns)
        if problem:
            raise InvalidDatasetError(problem=problem)
        columns = [_frozen(column) for column in self.columns]
        object.__setattr__(self, "columns", tuple(columns))

    def __len__(self) -> int:
        return len(self.columns[0])

    @property
    def kinds(self) -> Kinds:
        return tuple(
            (name, column.dtype.kind == "f")
            for name, column in zip(self.attributes, self.columns, strict=True)
        )

    def column(self, attribute: str) -> Column:
        """The values of one of the attributes."""
        return self.columns[self.attributes.index(attribute)]

    def take(self, rows: NDArray[np.intp]) -> "Records":
        """The records at the given positions, in that order."""
        return Records(self.attributes, tuple(column[rows] for column in self.columns))

    def project(self, clique: Clique) -> "Records":
        """The records' values of some of their attributes, in the clique's order."""
        return Records(clique, tuple(map(self.column, clique)))


def records_of(dataset: Dataset, coding: Coding) -> Records:
    """Coded records: intervals become their midpoints, ordered whole numbers themselves."""
    if dataset.domain != coding.domain:
        raise DomainMismatchError(problem="the records have another schema")
    columns = [
        _levels_of(attribute.coding)[dataset.codes[:, axis]]
        for axis, attribute in enumerate(coding.attributes)
    ]
    return Records(dataset.domain.attributes, tuple(columns))


def present(column: Column) -> NDArray[np.bool_]:
    """Mark the values that are not missing."""
    return ~np.isnan(column) if column.dtype.kind == "f" else column >= 0


def check_same_kinds(one: Kinds, other: Kinds) -> None:
    """Refuse to compare what differs in attributes, their order or what they hold."""
    if [name for name, _ in one] != [name for name, _ in other]:
        raise DomainMismatchError(problem="the attributes differ")
    if one != other:
        raise DomainMismatchError(problem="an attribute holds numbers here and levels there")


def _levels_of(coding: Labels | Edges) -> Column:
    """Return the value that each code stands for."""
    if isinstance(coding, Edges):
        return np.append(coding.midpoints, [np.nan] * coding.missing)
    if coding.integer and coding.ordered:
        return np.array([*map(float, coding.labels), *[np.nan] * coding.missing])
    return np.append(np.arange(len(coding.labels)), [-1] * coding.missing).astype(np.int64)


def _problem(attributes: tuple[str, ...], columns: tuple[Column, ...]) -> str | None:
    if not attributes or len(set(attributes)) != len(attributes):
        return "attributes are missing or repeated"
    arrays = [np.asarray(column) for column in columns]
    if len(arrays) != len(attributes) or {array.shape for array in arrays} != {(len(arrays[0]),)}:
        return "attributes differ in length or are missing"
    if not all(array.dtype.kind in "iuf" for array in arrays):
        return "a column holds neither floats nor integers"
    if not all(np.all((array >= -1) | (array.dtype.kind == "f")) for array in arrays):
        return "a code is below -1"
    if any(np.any(np.abs(array) > _LARGEST) for array in arrays if array.dtype.kind == "f"):
        return "a number is infinite or above 2**1022"
    return None


def _frozen(column: Column) -> Column:
    """Read-only, 64 bits a value: a copy, unless it is such a column of other records."""
    array = np.asarray(column)
    if not array.flags.writeable and array.base is None and array.dtype in (np.float64, np.int64):
        return column
    is_number = array.dtype.kind == "f"
    frozen: Column = (
        np.array(column, dtype=np.float64) if is_number else np.array(column, dtype=np.int64)
    )
    frozen.flags.writeable = False
    return frozen


_MOST_NUMBERS = 2**62
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
        if levels * size > _MOST_NUMBERS:
            numbers, levels = _without_gaps(numbers, levels)
        numbers, levels = numbers * size + codes, levels * size
    return _without_gaps(numbers, levels)[0]


def _without_gaps(numbers: NDArray[np.int64], levels: int) -> tuple[NDArray[np.int64], int]:
    """The same numbers without holes between them, and how many there are.

    A table of all levels is many times as fast as to sort, as long as it is not much longer.
    """
    if levels > 8 * len(numbers):
        values, ranks = np.unique(numbers, return_inverse=True)
        return ranks, max(len(values), 1)
    is_used = np.zeros(levels, dtype=bool)
    is_used[numbers] = True
    places = np.cumsum(is_used) - 1
    return places[numbers], int(places[-1]) + 1


# Gower's distance between records of numbers and levels, with ranges that are fixed once.
#
# .. math:: d(x, y) = \frac{\sum_k w_k \delta_k d_k}{\sum_k w_k \delta_k}, \quad
#    d_k = \min\Big(\frac{|x_k - y_k|}{R_k}, 1\Big) \text{ for numbers}, \quad
#    d_k = [x_k \ne y_k] \text{ for levels}
#
# Where the range R of an attribute is 0, equal numbers are 0 apart and different ones 1.
#
# Ranges taken anew from each pair of tables make distances to train and to holdout two different
# measures; here one ``Gower`` serves all tables that are compared.
#
# References:
#     J. C. Gower, "A General Coefficient of Similarity and Some of Its Properties", Biometrics 27, 1971.


class Missing(StrEnum):
    """Treatment of missing values."""

    PAIRWISE = "pairwise"
    """Gower's rule: an attribute that either record misses does not count, delta is 0."""
    CATEGORY = "category"
    """A value of its own: missing and missing are 0 apart, missing and a value 1."""


@dataclass(frozen=True, slots=True)
class Gower:
    """The distance: 0 between equal records, at most 1, without a unit.

    Args:
        ranges: In each attribute's own unit; None for an attribute of levels.
        weights: One for each attribute; only their proportions matter.
    """

    attributes: tuple[str, ...]
    ranges: tuple[float | None, ...]
    weights: tuple[float, ...]
    missing: Missing = Missing.CATEGORY

    def __post_init__(self) -> None:
        if not len(self.attributes) == len(self.ranges) == len(self.weights):
            raise InvalidInputError(
                field="gower", problem="each attribute needs one range and one weight"
            )
        ranges = [value for value in self.ranges if value is not None]
        if not all(isfinite(value) and value >= 0 for value in ranges):
            raise InvalidNumberError(field="A range", expected="finite and at least 0")
        if not all(isfinite(weight) and weight >= 0 for weight in self.weights):
            raise InvalidNumberError(field="A weight", expected="finite and at least 0")
        if not any(self.weights):
            raise InvalidNumberError(field="At least one weight", expected="above 0")

    def check(self, records: Records) -> None:
        """Refuse records of other attributes."""
        kinds = zip(self.attributes, (value is not None for value in self.ranges), strict=True)
        check_same_kinds(records.kinds, tuple(kinds))

    def project(self, clique: Clique) -> "Gower":
        """The distance by some of the attributes, in the clique's order."""
        axes = [self.attributes.index(name) for name in clique]
        ranges = tuple(self.ranges[axis] for axis in axes)
        weights = tuple(self.weights[axis] for axis in axes)
        return Gower(clique, ranges, weights, self.missing)

    @property
    def proportions(self) -> tuple[float, ...]:
        """The weights, the largest being 1."""
        return tuple(weight / max(self.weights) for weight in self.weights)


def gower_of(
    *tables: Records, weights: Mapping[str, float] | None = None, missing: Missing = Missing.CATEGORY
) -> Gower:
    """The distance with the ranges of some tables together; attributes without a weight weigh 1."""
    if not tables:
        raise InvalidInputError(
            field="tables", problem="at least one table is needed to take ranges from"
        )
    first = tables[0]
    for table in tables[1:]:
        check_same_kinds(first.kinds, table.kinds)
    own_weights = dict(weights or {})
    for name in own_weights:
        if name not in first.attributes:
            raise UnknownAttributeError(attribute=name)
    spans: list[float | None] = []
    for columns in zip(*(table.columns for table in tables), strict=True):
        known = np.concatenate(columns)
        is_number = known.dtype.kind == "f"
        known = known[~np.isnan(known)] if is_number else known
        span = float(known.max() - known.min()) if is_number and len(known) else 0.0
        spans.append(span if is_number else None)
    weight_of = tuple(float(own_weights.get(name, 1.0)) for name in first.attributes)
    return Gower(first.attributes, tuple(spans), weight_of, missing)


# Gower distances of the records of two tables.
#
# Levels and missing values that differ are counted in whole numbers, attributes of equal weight
# together, so that the numerator N does not depend on the order of the attributes. Numbers are added
# afterwards.


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

    def of_groups(self, groups: Sequence["RecordGroups"]) -> "Differences":
        """Codes of each group's first record, which are those of all its records."""
        firsts = [one.records[one.starts[:-1]] for one in groups]

        def first(pair: CodePair) -> CodePair:
            return pair[0][firsts[0]], pair[1][firsts[1]]

        return Differences(
            {
                weight: _Alike(
                    alike.attributes, list(map(first, alike.differing)), list(map(first, alike.absent))
                )
                for weight, alike in self._alike.items()
            }
        )

    def between(self, left: Index, right: Index, shape: tuple[int, ...]) -> tuple[Matrix, Matrix]:
        """N and D, without numbers that differ by degrees; where D is 0, N is infinite."""
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
        if not weight:
            continue
        same = alike[weight]
        same.attributes += 1
        missing = [np.isnan(column) if column.dtype.kind == "f" else column < 0 for column in columns]
        has_gaps = bool(missing[0].any() or missing[1].any())
        alone = gower.missing is Missing.PAIRWISE
        # Where a value is missing under the pairwise rule, the codes are unequal in both lists: counted,
        # and taken off again.
        if has_gaps and alone:
            same.absent.append(_coded([np.zeros(len(m), int) for m in missing], missing, alone=True))
        if has_gaps or not span:
            values = [np.zeros(len(m), int) for m in missing] if span else _ranked(columns)
            same.differing.append(_coded(values, missing, alone=alone))
    return Differences(dict(alike))


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
        """Distances, 0 to 1, of some records to some others; NaN where nothing can be compared."""
        known, comparable = self.differences.between(left, right, shape)
        result = add_numbers(self.numbers, known, comparable, left, right)
        result[comparable == 0] = np.nan
        return result


def pairs_of(left: Records, right: Records, gower: Gower) -> Pairs:
    """Prepare two tables."""
    gower.check(left)
    gower.check(right)
    return Pairs(tuple(numeric_columns(left, right, gower)), differences_of(left, right, gower))


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


_FEW = 64
"""Records that are not halved any more."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordGroups:
    """Groups of records.

    Args:
        of: Each record's group, shape ``(n,)``.
        records: Positions of the records, one group after the other, ascending in each.
        starts: Where each group starts among ``records``, and the end; shape ``(groups + 1,)``.
    """

    of: NDArray[np.int64]
    records: NDArray[np.intp]
    starts: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def members(self, groups: NDArray[np.intp]) -> NDArray[np.intp]:
        """Positions of the records of one or more groups, ascending."""
        starts = self.starts[groups]
        return np.sort(self.records[ranges(starts, self.starts[groups + 1] - starts)])


def ranges(starts: NDArray[np.intp], lengths: NDArray[np.intp]) -> NDArray[np.intp]:
    """Whole numbers from each start, as many as its length says, one range after another."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1]) + np.repeat(starts - ends + lengths, lengths)


def halved(groups: NDArray[np.int64], columns: Sequence[NDArray[np.float64]]) -> NDArray[np.int64]:
    """Each record's group, counted from 0 without holes, with large ones halved.

    Args:
        groups: Likewise, before; shape ``(n,)``.
        columns: Numbers on one scale, shape ``(n,)`` each; a group lacks all of an attribute or none.
    """
    sizes = np.bincount(groups)
    if not columns or sizes.max(initial=0) <= _FEW:
        return groups
    points, finer, count = np.column_stack(columns), groups.copy(), len(sizes)
    order = np.argsort(groups, kind="stable")
    ends = np.cumsum(sizes)
    for group in np.flatnonzero(sizes > _FEW):
        records = order[ends[group] - sizes[group] : ends[group]]
        for part in list(_parts(points, records))[1:]:
            finer[part] = count
            count += 1
    return finer


def _parts(points: NDArray[np.float64], records: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
    """Halve positions of records until each part is small, or all its records are equal."""
    with np.errstate(invalid="ignore"):
        spread = np.ptp(points[records], axis=0)
    widest = int(np.argmax(np.where(np.isnan(spread), 0.0, spread)))
    if len(records) <= _FEW or not spread[widest] > 0:
        yield records
        return
    middle = len(records) // 2
    # Linear time; a sort is not needed, because only the halves matter.
    order = np.argpartition(points[records, widest], middle)
    yield from _parts(points, records[order[:middle]])
    yield from _parts(points, records[order[middle:]])


@dataclass(frozen=True, slots=True, eq=False)
class GroupRanges:
    """Least and largest number in each group, shape ``(groups,)``; NaN where none is known."""

    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, column: FloatArray, groups: RecordGroups) -> "GroupRanges":
        """Return the ranges of one numeric attribute."""
        ordered, starts = column[groups.records], groups.starts[:-1]
        if not len(starts):
            return cls(np.zeros(0), np.zeros(0))
        return cls(np.minimum.reduceat(ordered, starts), np.maximum.reduceat(ordered, starts))

    def gap(self, group: int, other: "GroupRanges", groups: NDArray[np.intp]) -> FloatArray:
        """Return the least distance of a group to groups of another table, in the attribute's unit."""
        above, below = other.low[groups] - self.high[group], self.low[group] - other.high[groups]
        # fmax ignores NaN: groups without a number have gap 0, which is always a lower bound.
        gap: FloatArray = np.fmax(np.fmax(above, below), 0.0)
        return gap


@dataclass(frozen=True, slots=True, eq=False)
class GroupPairs:
    """Two tables, ready to be compared by groups: what levels decide, and the numbers.

    Args:
        edges: For each number, of the groups on the left and on the right.
    """

    left: RecordGroups
    right: RecordGroups
    differences: Differences
    numbers: tuple[NumericColumn, ...]
    edges: tuple[tuple[GroupRanges, GroupRanges], ...]

    def table(self, rows: slice) -> tuple[Matrix, Matrix]:
        """N and D of some left groups, each with every right one; where D is 0, N is infinite."""
        shape = (len(range(*rows.indices(len(self.left)))), len(self.right))
        return self.differences.between((rows, None), slice(None), shape)

    def at_best(self, group: int, groups: Positions, known: Row, counted: Row) -> Row:
        """Return the least distance of records of a group on the left to those of groups on the right.

        Args:
            known: N of each of these groups.
            counted: D likewise, not 0.
        """
        total = known.copy()
        with np.errstate(over="ignore"):
            for number, (left, right) in zip(self.numbers, self.edges, strict=True):
                gap = left.gap(group, right, groups)
                number.weigh(gap)
                total += gap
        total /= counted
        return np.minimum(total, 1, out=total)

    def between(self, left: Positions, right: Positions, known: Row, counted: Row) -> Matrix:
        """Distances, 0 to 1, of the records at some positions; shape ``(len(left), len(right))``.

        Args:
            known: N of each record on the right.
            counted: D likewise; where it is 0, the result means nothing.
        """
        total = np.empty((len(left), len(right)))
        total[:] = known
        return add_numbers(self.numbers, total, counted, left[:, None], right)


def group_pairs_of(left: Records, right: Records, gower: Gower) -> GroupPairs:
    """Sort two tables, which ``gower`` can measure, into groups, and prepare them."""
    differences, groups = differences_of(left, right, gower), []
    columns = tuple(numeric_columns(left, right, gower))
    for side, table in enumerate((left, right)):
        codes = (pair[side] for pair in differences.differing)
        keyed = [(each, int(each.max(initial=0)) + 1) for each in codes]
        numbers = combination_numbers(len(table), keyed)
        with np.errstate(over="ignore"):  # what each number adds to N, up to a constant
            scaled = [(one.left, one.right)[side] / one.span * one.weight for one in columns]
        numbers = halved(numbers, scaled)
        starts = np.concatenate([[0], np.cumsum(np.bincount(numbers))])
        groups.append(RecordGroups(numbers, np.argsort(numbers, kind="stable"), starts))
    edges = (
        (GroupRanges.of(one.left, groups[0]), GroupRanges.of(one.right, groups[1])) for one in columns
    )
    return GroupPairs(groups[0], groups[1], differences.of_groups(groups), columns, tuple(edges))
