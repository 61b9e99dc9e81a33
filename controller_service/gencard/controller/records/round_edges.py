"""Edges at round numbers: at equal steps, or near quantiles."""

import math
from collections.abc import Sequence
from decimal import Decimal

INTERVALS = 8
"""About as many intervals are drafted."""

_ROUND = (1, 2, 5)


def increasing(numbers: Sequence[float]) -> list[float]:
    """The numbers that are above all before them."""
    edges = [numbers[0]]
    for number in numbers[1:]:
        if number > edges[-1]:
            edges.append(number)
    return edges if len(edges) > 1 else [*edges, edges[0] + (abs(edges[0]) or 1.0)]


def round_quantiles(quantiles: Sequence[float]) -> tuple[float, ...]:
    """Quantiles rounded to one digit, or to two where one makes few intervals; the ends outwards.

    >>> round_quantiles((0, 130, 410, 880, 1_900, 52_300))
    (0.0, 100.0, 400.0, 900.0, 2000.0, 60000.0)
    """
    edges = _rounded_quantiles(quantiles, digits=1)
    few = len(edges) - 1 <= (len(quantiles) - 1) / 2
    return _rounded_quantiles(quantiles, digits=2) if few else edges


def _rounded_quantiles(quantiles: Sequence[float], digits: int) -> tuple[float, ...]:
    middle = [rounded(value, round, digits) for value in quantiles[1:-1]]
    edges = increasing([rounded(quantiles[0], math.floor), *middle])
    last = rounded(quantiles[-1], math.ceil)
    return tuple(increasing([*(edge for edge in edges if edge < last), last]))


def rounded(value: float, rounding: object, digits: int = 1) -> float:
    """A number rounded to some digits by ``math.floor``, ``math.ceil`` or ``round``."""
    if value == 0:
        return 0.0
    unit = Decimal(1).scaleb(Decimal(repr(value)).adjusted() - digits + 1)
    return float(unit * rounding(Decimal(repr(value)) / unit))  # type: ignore[operator]


def round_edges(low: float, high: float, *, whole: bool = False) -> tuple[float, ...]:
    """Edges at multiples of 1, 2 or 5 times a power of ten: about eight intervals hold all values.

    >>> round_edges(17.5, 42)
    (15.0, 20.0, 25.0, 30.0, 35.0, 40.0, 45.0)
    """
    step = rung_above(max(high - low, abs(high) * 1e-9, 1e-9) / INTERVALS)
    unit = max(Decimal(repr(rung(step))), Decimal(1 if whole else 0))
    first = math.floor(Decimal(repr(low)) / unit)
    last = max(math.ceil(Decimal(repr(high)) / unit), first + 1)
    return tuple(float(unit * count) for count in range(first, last + 1))


def rung(step: int) -> float:
    """The ladder ..., 1, 2, 5, 10, 20, ... with 1 at step 0."""
    power, place = divmod(step, len(_ROUND))
    return float(Decimal(_ROUND[place]).scaleb(power))


def rung_above(number: float) -> int:
    """The lowest step of the ladder that is not below a positive number."""
    step = len(_ROUND) * math.floor(math.log10(number))
    while rung(step) < number:
        step += 1
    return step
