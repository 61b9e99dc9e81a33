"""Statistics that are sums of declared functions over the records: moments, sums and means by group.

An attribute's numbers are declared with its coding: a label that is a number stands for it, an interval
for the mean of the values that it can hold. Missing values count as 0 and are counted: where an
attribute has that level, its statistics hold the number of records that are present.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import lcm

import numpy as np
from numpy.typing import NDArray

from gencard.core.card.sums import HIGHEST_ORDER, Moment, MomentKind
from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidCodingError, InvalidInputError, InvalidNumberError
from gencard.core.types import IntArray

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
        denominator: Whole number that divides all numerators.

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
        raise InvalidInputError(
            field="statistics", problem="must list marginals before linear statistics"
        )
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
    in_first_cards = (
        _statistic_of(moment, [_of_real_numbers(coding.attribute(name)) for name in moment.attributes])
        for moment in moments
    )
    return tuple(statistics) == tuple(in_first_cards)


def _of_real_numbers(attribute: Attribute) -> Attribute:
    """The attribute as if it held any number between its edges: their middle is then their mean."""
    coding = attribute.coding
    if isinstance(coding, Labels):
        return attribute
    return Attribute(attribute.name, replace(coding, decimals=None, dates=False))


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
            return group_sums(first, *rest)
        case MomentKind.GROUP_MEANS:
            return group_means(first, *rest)


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


def moment(attribute: Attribute, order: int) -> LinearStatistic:
    """Number of records (of those present), and sum of the powers of this order.

    Raises:
        InvalidNumberError: The order is not from 1 to 8, or a power is too large.
    """
    if not 1 <= order <= HIGHEST_ORDER:
        raise InvalidNumberError(field="order", expected=f"from 1 to {HIGHEST_ORDER}")
    return _moments(attribute, (order,))


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


def group_sums(group: Attribute, attribute: Attribute) -> LinearStatistic:
    """The sum of an attribute over the records of each level of a group."""
    _check_different(group, attribute)
    return _by_group(group, attribute, counts=False)


def group_means(group: Attribute, attribute: Attribute) -> LinearStatistic:
    """The number of records (of those present) of each level of a group, and the sum over them."""
    _check_different(group, attribute)
    return _by_group(group, attribute, counts=True)


def _moments(attribute: Attribute, orders: Iterable[int]) -> LinearStatistic:
    levels = numbers(attribute)
    functions = _present(attribute.name, [level is not None for level in levels])
    for order in orders:
        name = attribute.name if order == 1 else f"{attribute.name} ^ {order}"
        functions.append(
            _function(name, [(level or Fraction()) ** order for level in levels], attribute)
        )
    return _statistic((attribute.name,), len(levels), functions)


def _by_group(group: Attribute, attribute: Attribute, *, counts: bool) -> LinearStatistic:
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
        raise InvalidNumberError(
            field=name, expected="a number with fewer digits: declare coarser numbers in the schema"
        )
    return Function(name, tuple(round(value * denominator) for value in values), denominator)


def _statistic(clique: tuple[str, ...], cells: int, functions: Sequence[Function]) -> LinearStatistic:
    return LinearStatistic(clique, (Function("1", (1,) * cells), *functions))


def _check_different(one: Attribute, other: Attribute) -> None:
    if one.name == other.name:
        raise InvalidInputError(field="statistic", problem="must not repeat an attribute")
