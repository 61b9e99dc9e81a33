"""Statistics that are sums of declared functions over the records: moments, sums and means by group.

An attribute's numbers are declared with its coding: a label that is a number stands for it, an interval
for the mean of the values that it can hold. Missing values count as 0 and are counted: where an
attribute has that level, its statistics hold the number of records that are present.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from itertools import product
from math import lcm, prod
from operator import add

import numpy as np
from numpy.typing import NDArray

from gencard.core.card.sums import Moment, MomentKind, Sum, scale_of
from gencard.core.coding import Attribute, Coding, Edges, Labels, intervals_of
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidCodingError, InvalidInputError, InvalidNumberError
from gencard.core.scale import Scale, shortest, steps_of
from gencard.core.statistics.marginals import cell_numbers
from gencard.core.types import FloatArray, IntArray

# Histograms and sums of records, in whole numbers: no float, and no integer that overflows.
#
# Records are added in batches, so that they need not fit in memory.

_LOW = np.int64(2**32 - 1)
"""Products of up to 61 bits are added in two halves: floats hold sums of 2^21 of each exactly."""

_HALF = 26
"""Bits of the lower part of a unit that is too large for products in machine words."""

_BLOCK = 2**20
"""Records that are added at once."""


@dataclass(frozen=True, slots=True)
class SummedCells:
    """A sum's cells, the last attribute of ``by`` running fastest.

    Args:
        values: Sum of products of units over the records of each cell, of any size.
        counts: Records of each cell that are in the population.
    """

    values: tuple[int, ...]
    counts: tuple[int, ...]


@dataclass(slots=True)
class UnitSums:
    """Sums and histograms of a stream of records; the order of the records does not matter.

    Args:
        sums: Each one has passed ``Sum.check``.
        histograms: Attributes with a step.

    Raises:
        UnknownAttributeError, InvalidCodingError: An attribute of a histogram has no step.
    """

    coding: Coding
    sums: Sequence[Sum]
    histograms: Sequence[str] = ()
    _values: list[list[int]] = field(init=False)
    _counts: list[IntArray] = field(init=False)
    _cells: list[IntArray] = field(init=False)

    def __post_init__(self) -> None:
        sizes = [prod(self.coding.attribute(name).coding.size for name in one.by) for one in self.sums]
        self._values = [[0] * size for size in sizes]
        self._counts = [np.zeros(size, dtype=np.int64) for size in sizes]
        lengths = [fine_cells(self.coding, name) for name in self.histograms]
        self._cells = [np.zeros(length, dtype=np.int64) for length in lengths]

    def add(self, codes: Mapping[str, NDArray[np.integer]], numbers: Mapping[str, FloatArray]) -> None:
        """Add some records.

        Args:
            codes: Codes of each attribute of ``by`` and ``present``, shape ``(n,)``.
            numbers: Numbers of each attribute of ``of`` and of the histograms, rounded and clamped as
                declared, shape ``(n,)``; NaN is "missing".
        """
        length = len(next(iter((*codes.values(), *numbers.values()))))
        for begin in range(0, length, _BLOCK):
            block = slice(begin, begin + _BLOCK)
            self._add(
                {name: column[block] for name, column in codes.items()},
                {name: column[block] for name, column in numbers.items()},
            )

    def _add(self, codes: Mapping[str, NDArray[np.integer]], numbers: Mapping[str, FloatArray]) -> None:
        summed = {name for one in self.sums for name in one.of}
        units = {name: scale_of(self.coding, name).units(numbers[name]) for name in summed}
        for place, (one, values) in enumerate(zip(self.sums, self._values, strict=True)):
            # Whether each record is in the sum's population.
            present = [~np.isnan(numbers[name]) for name in one.of]
            present += [
                codes[name] < self.coding.attribute(name).coding.size - 1 for name in one.present
            ]
            inside = np.asarray(np.logical_and.reduce(present))
            by = [codes[name][inside] for name in one.by]
            sizes = [self.coding.attribute(name).coding.size for name in one.by]
            cells = cell_numbers(by, sizes) if by else np.zeros(np.count_nonzero(inside), dtype=np.int64)
            self._counts[place] += np.bincount(cells, minlength=len(values))
            if one.of:
                totals = exact_sums([units[name][inside] for name in one.of], cells, len(values))
                values[:] = map(add, values, totals)
        for place, name in enumerate(self.histograms):
            edges = list(map(float, scale_of(self.coding, name).cells))
            fine = intervals_of(edges, numbers[name])
            self._cells[place] += np.bincount(fine, minlength=len(self._cells[place]))

    def add_totals(
        self, place: int, cells: Iterable[int], counts: Iterable[int], values: Iterable[int]
    ) -> None:
        """Add what was summed elsewhere: records of the population, and products of units, by cell.

        Args:
            cells: Numbers of cells, the last attribute of ``by`` running fastest.
        """
        for cell, count, value in zip(cells, counts, values, strict=True):
            self._counts[place][cell] += int(count)
            self._values[place][cell] += int(value)

    def add_cells(self, place: int, cells: Iterable[int], counts: Iterable[int]) -> None:
        """Add what was counted elsewhere: records by cells of the histogram at a place."""
        for cell, count in zip(cells, counts, strict=True):
            self._cells[place][cell] += int(count)

    def totals(self) -> list[SummedCells]:
        """Return the cells of each sum so far, in the order of the sums."""
        pairs = zip(self.sums, self._values, self._counts, strict=True)
        return [
            SummedCells(tuple(values if one.of else counts.tolist()), tuple(counts.tolist()))
            for one, values, counts in pairs
        ]

    def fine_counts(self) -> list[IntArray]:
        """Return the counts of each histogram so far; the last one is of "missing", if it can be."""
        return [counts.copy() for counts in self._cells]


def fine_cells(coding: Coding, name: str) -> int:
    """Return the number of cells of an attribute's histogram, with that of "missing".

    Raises:
        UnknownAttributeError, InvalidCodingError: The attribute is not declared, or has no step.
    """
    return len(scale_of(coding, name).cells) - 1 + coding.attribute(name).coding.missing


def level_of_cells(coding: Coding, name: str) -> IntArray:
    """Return the code of the level that each cell of an attribute's histogram lies in."""
    scale, own = scale_of(coding, name), coding.attribute(name).coding
    starts = own.edges[:-1] if isinstance(own, Edges) else ()
    cells = list(map(float, scale.cells[:-1]))
    levels = np.searchsorted(starts, cells, side="right") - 1
    return np.append(levels, [len(starts)] * own.missing).astype(np.int64)


def unit_bounds(scale: Scale, starts: Iterable[Decimal | float]) -> list[tuple[int, int]]:
    """Return the first and the last unit of each level or cell that begins with a number of ``starts``.

    Args:
        starts: Ascending, without the last edge.
    """
    firsts = [steps_of(shortest(float(start)), scale.step) - scale.centre for start in starts]
    lasts = [*(first - 1 for first in firsts[1:]), scale.last - scale.centre]
    return list(zip(firsts, lasts, strict=True))


def exact_sums(units: Sequence[IntArray], cells: NDArray[np.integer], size: int) -> list[int]:
    """Return the sums of products over the records of each cell, exactly.

    Args:
        units: One factor of the products, or two, each of less than 2^52 in size, shape ``(n,)``.
        cells: The cell of each record, shape ``(n,)``.
    """
    sums = [0] * size
    for begin in range(0, len(cells), _BLOCK):
        block = slice(begin, begin + _BLOCK)
        for shift, whole in _products([one[block] for one in units]):
            totals = _totals(whole, cells[block], size)
            sums = [total + (more << shift) for total, more in zip(sums, totals, strict=True)]
    return sums


def _products(units: Sequence[IntArray]) -> Iterator[tuple[int, IntArray]]:
    """Products that fit machine words, and the powers of two that they are to be multiplied by."""
    # A product of larger units may overflow 64 bits, which numpy does not report. They are split: (2^26
    # a + b)(2^26 c + d) is four products below 2^53 with their powers of two.
    small = all(one.min(initial=0) > -(2**30) and one.max(initial=0) < 2**30 for one in units)
    if len(units) < 2 or small:
        yield 0, np.asarray(np.prod(units, axis=0, dtype=np.int64))
        return
    parts = [((_HALF, one >> _HALF), (0, one & (2**_HALF - 1))) for one in units]
    for (one, left), (other, right) in product(*parts):
        yield one + other, left * right


def _totals(products: IntArray, cells: NDArray[np.integer], size: int) -> list[int]:
    """The sum of the products in each cell, exact: at most ``_BLOCK`` products of at most 61 bits."""
    # bincount adds floats, which are exact up to 2^53: 2^20 halves below 2^32 stay below 2^52. The shift
    # floors, so high * 2^32 + low is also right for negative products, with low >= 0.
    high, low = products >> 32, products & _LOW
    upper, lower = (np.bincount(cells, weights=half, minlength=size) for half in (high, low))
    return [(int(above) << 32) + int(below) for above, below in zip(upper, lower, strict=True)]


LARGEST_VALUE = 2**31
"""Bound on a function's values, and on its denominator: sums over 2**31 records fit 64 bits."""

MOST_FUNCTIONS = 1_000
"""Functions of one statistic."""

_MOST_DIGITS = 9
"""Largest exponent of a denominator that is a power of ten."""

_LEAST_NUMERATOR = 10**6
"""The largest value of a function whose values were rounded: they are right to a millionth of it."""


@dataclass(frozen=True, slots=True)
class Function:
    """A number for each cell of a clique, on a grid of rational numbers: whole numbers by one other.

    Args:
        values: Numerators, the clique's last attribute running fastest.

    Raises:
        InvalidNumberError: A number is not whole or too large, or all values are zero.
    """

    name: str
    values: tuple[int, ...]
    denominator: int = 1

    def __post_init__(self) -> None:
        if not all(type(value) is int for value in (*self.values, self.denominator)):
            raise InvalidNumberError(field=self.name, expected="whole numbers with a whole denominator")
        if not 1 <= self.denominator <= LARGEST_VALUE or not 1 <= self.largest <= LARGEST_VALUE:
            raise InvalidNumberError(field=self.name, expected=f"in size from 1 to {LARGEST_VALUE}")

    @property
    def largest(self) -> int:
        """The largest numerator, without its sign."""
        return max(map(abs, self.values), default=0)


@dataclass(frozen=True, slots=True)
class LinearStatistic:
    """The sums over all records of functions of their cell in a clique.

    The first function is the constant 1, whose sum is the number of records: sums become means by it,
    and noise falls on it as on every other sum.

    Raises:
        InvalidInputError: There is nothing but the constant, it is not first, there are too many
            functions, or they speak of different numbers of cells.
    """

    clique: Clique
    functions: tuple[Function, ...]

    def __post_init__(self) -> None:
        if not 2 <= len(self.functions) <= MOST_FUNCTIONS:
            self._refuse(f"has one function besides the constant, and at most {MOST_FUNCTIONS}")
        if len({len(function.values) for function in self.functions}) > 1:
            self._refuse("has functions of different numbers of cells")
        constant = self.functions[0]
        if constant.denominator != 1 or set(constant.values) != {1}:
            self._refuse("begins with the constant 1")

    def _refuse(self, rule: str) -> None:
        where = ", ".join(self.clique)
        raise InvalidInputError(field="statistic", problem=f"on ({where}) is not one that {rule}")

    def check_belongs(self, domain: Domain) -> None:
        """Refuse a domain in which the clique has other cells.

        Raises:
            InvalidInputError: The functions have not one value for each cell of the clique.
            UnknownAttributeError: An attribute is not in the domain.
        """
        domain.canonical(self.clique)  # refuses unknown and repeated attributes
        if domain.project(self.clique).cells != len(self.functions[0].values):
            self._refuse("has one value for each cell")

    @property
    def numerators(self) -> IntArray:
        """Shape ``(functions, cells)``."""
        return np.array([function.values for function in self.functions], dtype=np.int64)

    @property
    def denominators(self) -> IntArray:
        """Shape ``(functions,)``."""
        return np.array([function.denominator for function in self.functions], dtype=np.int64)

    @property
    def scaled(self) -> NDArray[np.float64]:
        """The functions, each divided by its largest value: shape ``(functions, cells)``, in [-1, 1]."""
        largest = np.array([[float(function.largest)] for function in self.functions])
        scaled: NDArray[np.float64] = self.numerators / largest
        return scaled

    def sums(self, counts: NDArray[np.int64]) -> IntArray:
        """The sum of each function's numerators over the records that a marginal counts; exact."""
        sums: IntArray = self.numerators @ np.asarray(counts, dtype=np.int64).ravel()
        return sums


Statistic = Clique | LinearStatistic
"""Statistic that a card may name: a marginal, given by its clique alone, or a linear statistic."""


def divided(statistics: Sequence[Statistic]) -> tuple[list[Clique], list[LinearStatistic]]:
    """Marginals and linear statistics.

    Raises:
        InvalidInputError: A marginal stands after a linear statistic: that is not a card's order.
    """
    linear = [statistic for statistic in statistics if isinstance(statistic, LinearStatistic)]
    cliques = [statistic for statistic in statistics if not isinstance(statistic, LinearStatistic)]
    if list(statistics) != [*cliques, *linear]:
        problem = "must list marginals before linear statistics"
        raise InvalidInputError(field="statistics", problem=problem)
    return cliques, linear


Values = Sequence[Fraction]


def statistic_of(moment: Moment, coding: Coding) -> LinearStatistic:
    """The functions that a moment sums, by the declared coding."""
    return _statistic_of(moment, [coding.attribute(name) for name in moment.attributes])


def are_functions_of(
    statistics: Sequence[LinearStatistic], moments: Sequence[Moment], coding: Coding
) -> bool:
    """Whether these are the functions of moments, as a psi states them.

    In the first cards, the numbers of an interval of whole numbers, dates or decimals counted as the
    middle of its edges. A psi of that time says so in its functions' values, and holds by them.

    Raises:
        UnknownAttributeError, InvalidCodingError, InvalidNumberError: See ``statistic_of``.
    """
    if tuple(statistics) == statistics_of(moments, coding):
        return True
    in_first_cards = []
    for moment in moments:
        # As if the attributes held any number between their edges: their middle is then their mean.
        attributes = []
        for one in map(coding.attribute, moment.attributes):
            own = one.coding
            real = own if isinstance(own, Labels) else replace(own, decimals=None, dates=False)
            attributes.append(Attribute(one.name, real))
        in_first_cards.append(_statistic_of(moment, attributes))
    return tuple(statistics) == tuple(in_first_cards)


def _statistic_of(moment: Moment, attributes: Sequence[Attribute]) -> LinearStatistic:
    first, *rest = attributes
    match moment.kind:
        case MomentKind.MEAN:
            return mean(first)
        case MomentKind.VARIANCE:
            return variance(first)
        case MomentKind.MOMENT:
            return _moments(first, (moment.order,))
        case MomentKind.COVARIANCE:
            return covariance(first, *rest)
        case MomentKind.GROUP_SUMS:
            return by_group(first, *rest, counts=False)
        case MomentKind.GROUP_MEANS:
            return by_group(first, *rest, counts=True)


def statistics_of(moments: Sequence[Moment], coding: Coding) -> tuple[LinearStatistic, ...]:
    """Return the linear statistics of all moments of a card; raise as ``statistic_of`` does."""
    return tuple(statistic_of(moment, coding) for moment in moments)


def numbers(attribute: Attribute) -> tuple[Fraction | None, ...]:
    """The number that each level stands for, as its shortest decimal says; None for "missing".

    An interval stands for the mean of the values that it can hold, as in ``Edges.midpoints``.

    Raises:
        InvalidCodingError: A label is not a number.
    """
    coding = attribute.coding
    missing = (None,) if coding.missing else ()
    try:
        if isinstance(coding, Edges):
            return (*((low + high) / 2 for low, high in coding.ends), *missing)
        return (*map(Fraction, coding.labels), *missing)
    except (ValueError, ZeroDivisionError):
        raise InvalidCodingError(attribute=attribute.name, problem="a label is not a number") from None


def mean(attribute: Attribute) -> LinearStatistic:
    """Number of records (of those present) and sum."""
    return _moments(attribute, (1,))


def variance(attribute: Attribute) -> LinearStatistic:
    """Number of records (of those present), sum, and sum of squares."""
    return _moments(attribute, (1, 2))


def covariance(one: Attribute, other: Attribute) -> LinearStatistic:
    """Number of records with both present, and over these the sums of each and of their product."""
    _check_different(one, other)
    cells = list(product(numbers(one), numbers(other)))
    both = [left is not None and right is not None for left, right in cells]
    present = [(left or Fraction(), right or Fraction()) for left, right in cells]
    of_one = [left * here for (left, _), here in zip(present, both, strict=True)]
    of_other = [right * here for (_, right), here in zip(present, both, strict=True)]
    functions = [
        *_present(f"{one.name} and {other.name}", both),
        _function(one.name, of_one, one),
        _function(other.name, of_other, other),
        _function(f"{one.name} * {other.name}", [left * right for left, right in present], one, other),
    ]
    return _statistic((one.name, other.name), len(cells), functions)


def _moments(attribute: Attribute, orders: Iterable[int]) -> LinearStatistic:
    levels = numbers(attribute)
    functions = _present(attribute.name, [level is not None for level in levels])
    for order in orders:
        name = attribute.name if order == 1 else f"{attribute.name} ^ {order}"
        values = [(level or Fraction()) ** order for level in levels]
        functions.append(_function(name, values, attribute))
    return _statistic((attribute.name,), len(levels), functions)


def by_group(group: Attribute, attribute: Attribute, *, counts: bool) -> LinearStatistic:
    """The sum of an attribute over the records of each level of a group.

    Args:
        counts: The number of records (of those present) of each level comes first, for means.
    """
    _check_different(group, attribute)
    levels = numbers(attribute)
    functions = []
    for code, label in enumerate(group.coding.level_names):
        where = f"where {group.name} is {label}"
        inside = [Fraction(code == other) for other in range(group.coding.size)]
        if counts:
            here = [level is not None for level in levels]
            functions.append(_function(f"1 {where}", [g * h for g, h in product(inside, here)]))
        sums = [g * (level or 0) for g, level in product(inside, levels)]
        functions.append(_function(f"{attribute.name} {where}", sums, attribute))
    return _statistic((group.name, attribute.name), group.coding.size * len(levels), functions)


def _present(name: str, present: Sequence[bool]) -> list[Function]:
    return [] if all(present) else [_function(f"{name} present", [Fraction(here) for here in present])]


def _function(name: str, values: Values, *attributes: Attribute) -> Function:
    """Return a function on the coarsest grid that holds all values.

    The step of whole numbers and decimals halves the grid of edges. Where that makes it too fine for
    these attributes, the values are rounded to the finest decimal grid that is not.
    """
    denominator = lcm(*(value.denominator for value in values))
    largest = abs(max(values, key=abs, default=Fraction()))
    if denominator > LARGEST_VALUE or largest * denominator > LARGEST_VALUE:
        has_step = any(isinstance(a.coding, Edges) and a.coding.decimals is not None for a in attributes)
        denominator = 0
        if has_step:  # the largest power of ten by which the values may be multiplied, if it is enough
            powers = (10**digits for digits in range(_MOST_DIGITS, -1, -1))
            fitting = next((power for power in powers if largest * power <= LARGEST_VALUE), 0)
            denominator = fitting if largest * fitting >= _LEAST_NUMERATOR else 0
    if not denominator:
        expected = "a number with fewer digits: declare coarser numbers in the schema"
        raise InvalidNumberError(field=name, expected=expected)
    return Function(name, tuple(round(value * denominator) for value in values), denominator)


def _statistic(clique: tuple[str, ...], cells: int, functions: Sequence[Function]) -> LinearStatistic:
    return LinearStatistic(clique, (Function("1", (1,) * cells), *functions))


def _check_different(one: Attribute, other: Attribute) -> None:
    if one.name == other.name:
        raise InvalidInputError(field="statistic", problem="must not repeat an attribute")
