"""Drafts of levels and cells of numbers: round edges, and values that many records share."""

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import NamedTuple

from gencard.controller.drafting.profiles import LEAST_HEAP, Profile, most_decimals
from gencard.controller.records.declared_scale import TEN_A_DECADE, DeclaredScale, Fine
from gencard.core.scale import problem_of_range, shortest

_ROUND = (1, 2, 5)
_LADDERS = ((200, ("1", "2", "5")), (0, ("1", "1.5", "2.5", "4", "6")))
"""Least ratio of last and first edge -> edges in each power of ten, the coarser ones first."""

_TAIL, _SIGNED_TAIL = 5, 20
"""Numbers have a long tail if the largest is more than so many times the median above 0: from 0 on, and
with values below 0, for which values of a normal distribution about 0 are often 6 times as large.
"""

_WIDTHS = 11
"""Intervals of one width are at most so many, and one for rounding."""

_LEAST_POINT, _LEAST_RECORDS, _MOST_FINE = 0.1, 50, 16
"""Least share of a point; least records of a cell of one value, and most such cells."""


class _Intervals(NamedTuple):
    edges: tuple[Decimal, ...]
    fine: Fine


def drafted_scale(profile: Profile) -> DeclaredScale:
    """Return a draft of step, edges, points and cells of a column of numbers.

    The step is the last decimal of the values, or the finest power of ten with fewer than ``MOST_STEPS``
    steps between the edges, to which values are rounded.
    """
    own = most_decimals(profile.quantiles) if profile.decimals is None else profile.decimals
    for decimals in range(own, own - 40, -1):
        step = Decimal(1).scaleb(-decimals)
        edges, fine = _intervals(profile, step)
        if problem_of_range(step, edges[0], edges[-1]) is None:
            break
    shared = [(shortest(number), records) for number, records in profile.heaps]
    heaps = {number: records for number, records in shared if number % step == 0}
    least = max(_LEAST_RECORDS, math.ceil(LEAST_HEAP * profile.present))
    points = [
        number
        for number, records in heaps.items()
        if records >= _LEAST_POINT * profile.present or (not number and records >= least)
    ]
    points = _wider_than_a_step(DeclaredScale(step, edges), points)
    draft = DeclaredScale(step, edges, tuple(sorted(points)), fine)
    others = [number for number, records in heaps.items() if records >= least and number not in points]
    fine_points = _wider_than_a_step(draft, others)[:_MOST_FINE]
    return DeclaredScale(step, edges, draft.points, fine, tuple(sorted(fine_points)))


def _intervals(profile: Profile, step: Decimal) -> _Intervals:
    """Return a ladder of edges if high values are rare, else edges at equal distances."""
    low, high = shortest(profile.quantiles[0]), shortest(profile.quantiles[-1])
    tail = _TAIL if low >= 0 else _SIGNED_TAIL
    if profile.positive and high > tail * shortest(profile.positive[1]):
        return _ladder(profile, step)
    begin = Decimal(0) if 0 <= low <= high / 2 else low
    width = max(_round_up((high - begin) / _WIDTHS), step)
    first = math.floor(begin / width)
    last = max(math.ceil(high / width), first + 1)
    edges = tuple(width * count for count in range(first, last + 1))
    whole = int(width / step)
    return _Intervals(edges, None if whole == 1 else width / 5 if whole % 5 == 0 else width / 2)


def _ladder(profile: Profile, step: Decimal) -> _Intervals:
    """Return 0 and edges that grow from a low quantile on; below 0 alike, if many values are."""
    low, high = shortest(profile.quantiles[0]), shortest(profile.quantiles[-1])
    first, last = max(_round_down(shortest(profile.positive[0])), step), max(_round_up(high), step)
    rungs = next(rungs for least, rungs in _LADDERS if last >= least * first)
    powers = range(first.adjusted(), last.adjusted() + 1)
    numbers = [Decimal(rung).scaleb(power) for power in powers for rung in rungs]
    inner = [number for number in numbers if first <= number < last and number % step == 0]
    below: list[Decimal] = []
    if low < 0:
        end = max(_round_up(-low), step)
        many = profile.quantiles[1] < 0
        below = [-end, *(-number for number in reversed(inner) if many and number < end)]
    return _Intervals((*below, Decimal(0), *inner, last), TEN_A_DECADE)


def _wider_than_a_step(draft: DeclaredScale, numbers: Sequence[Decimal]) -> list[Decimal]:
    """Return the numbers inside the edges that share their cell with others."""
    scale = draft.edges_of(missing=False, dates=False).scale
    cells = scale.cells if scale else ()
    single = {low for low, high in pairwise(cells[:-1]) if high - low == draft.step}
    return [number for number in numbers if cells[0] <= number <= cells[-1] and number not in single]


def _round_up(number: Decimal) -> Decimal:
    """Return the lowest 1, 2 or 5 times a power of ten that is not below a number."""
    return shortest(rung(rung_above(max(float(number), 1e-300))))


def _round_down(number: Decimal) -> Decimal:
    above = rung_above(float(number))
    return shortest(rung(above if shortest(rung(above)) <= number else above - 1))


def rounded(value: float, rounding: Callable[[Decimal], int]) -> float:
    """Return a number rounded to one digit by ``math.floor`` or ``math.ceil``."""
    if value == 0:
        return 0.0
    unit = Decimal(1).scaleb(shortest(value).adjusted())
    return float(unit * rounding(shortest(value) / unit))


def rung(step: int) -> float:
    """Return the ladder ..., 1, 2, 5, 10, 20, ... with 1 at step 0."""
    power, place = divmod(step, len(_ROUND))
    return float(Decimal(_ROUND[place]).scaleb(power))


def rung_above(number: float) -> int:
    """Return the lowest step of the ladder that is not below a positive number."""
    step = len(_ROUND) * math.floor(math.log10(number))
    while rung(step) < number:
        step += 1
    return step
