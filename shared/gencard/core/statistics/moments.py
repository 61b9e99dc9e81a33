"""Linear statistics by name: means, variances, moments, covariances, sums and means by group.

An attribute's numbers are declared with its coding: a label that is a number stands for it, an interval
for its midpoint. Missing values count as 0 and are counted: where an attribute has that level, its
statistics hold the number of records that are present.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import pairwise, product
from math import lcm

from gencard.core.coding import Attribute, Coding, Edges
from gencard.core.errors import InvalidCodingError, InvalidInputError, InvalidNumberError
from gencard.core.moment import HIGHEST_ORDER, Moment, MomentKind
from gencard.core.statistics.linear import LARGEST_VALUE, Function, LinearStatistic

Values = Sequence[Fraction]


def statistic_of(moment: Moment, coding: Coding) -> LinearStatistic:
    """The functions that a moment sums, by the declared coding.

    Raises:
        UnknownAttributeError: An attribute is not declared.
        InvalidCodingError: A label of an attribute is not a number.
        InvalidNumberError: Its numbers have too many digits for this moment.
    """
    first, *rest = (coding.attribute(name) for name in moment.attributes)
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
    """Those of all moments of a card; raises as ``statistic_of`` does."""
    return tuple(statistic_of(moment, coding) for moment in moments)


def numbers(attribute: Attribute) -> tuple[Fraction | None, ...]:
    """The number that each level stands for, as its shortest decimal says; None for "missing".

    Raises:
        InvalidCodingError: A label is not a number.
    """
    coding = attribute.coding
    missing = (None,) if coding.missing else ()
    try:
        if isinstance(coding, Edges):
            edges = [Fraction(repr(float(edge))) for edge in coding.edges]
            return (*((low + high) / 2 for low, high in pairwise(edges)), *missing)
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
    functions = [
        *_present(f"{one.name} and {other.name}", both),
        _function(one.name, [left * here for (left, _), here in zip(present, both, strict=True)]),
        _function(other.name, [right * here for (_, right), here in zip(present, both, strict=True)]),
        _function(f"{one.name} * {other.name}", [left * right for left, right in present]),
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
        functions.append(_function(name, [(level or Fraction()) ** order for level in levels]))
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
        functions.append(_function(f"{attribute.name} {where}", sums))
    return _statistic((group.name, attribute.name), group.coding.size * len(levels), functions)


def _present(name: str, present: Sequence[bool]) -> list[Function]:
    return [] if all(present) else [_function(f"{name} present", [Fraction(here) for here in present])]


def _function(name: str, values: Values) -> Function:
    """On the coarsest grid that holds all values."""
    denominator = lcm(*(value.denominator for value in values))
    numerators = [int(value * denominator) for value in values]
    if denominator > LARGEST_VALUE or max(map(abs, numerators)) > LARGEST_VALUE:
        raise InvalidNumberError(
            field=name, expected="a number with fewer digits; declare coarser numbers"
        )
    return Function(name, tuple(numerators), denominator)


def _statistic(clique: tuple[str, ...], cells: int, functions: Sequence[Function]) -> LinearStatistic:
    return LinearStatistic(clique, (Function("1", (1,) * cells), *functions))


def _check_different(one: Attribute, other: Attribute) -> None:
    if one.name == other.name:
        raise InvalidInputError(field="statistic", problem="must not repeat an attribute")
