"""Geometry of the page's figures, which templates draw as SVG; no text passes through here unescaped.

The browser stretches a figure to the width of its place: x goes from 0 to ``WIDTH`` and y from 0, at the
top, to ``HEIGHT``. Lines therefore have a stroke that does not scale, and labels are outside the SVG.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from math import ceil

from gencard.controller.stewards.archive import Amount, Course

WIDTH, HEIGHT = 1000.0, 200.0

_FLAT = Decimal("0.2")
"""Below this part of its cap, spending would be a flat line under the cap: the cap is left out then."""

_ROOM = 1.08
"""Upper end of the scale as a multiple of the largest value, so that no line lies on the upper edge."""


@dataclass(frozen=True, slots=True)
class Gauge:
    """A bar of the spent share of a cap.

    Args:
        label: Text for readers who do not see the bar.
        settled, reserved: Lengths; together at most ``WIDTH``.
        percent: Spent share of the cap, rounded up to a whole per cent; None without a cap.
        over: Whether more is spent than the cap allows, because the cap was lowered.
    """

    label: str
    settled: float
    reserved: float
    percent: int | None
    over: bool


def gauge(amount: Amount, whose: str) -> Gauge:
    """Return the bar of one currency of an account.

    >>> gauge(Amount("epsilon", Decimal(3), Decimal(1), Decimal(8)), "all").label
    'all: epsilon 3 of 8 spent, 1 of it reserved'
    """
    whole = max(amount.spent, amount.cap or amount.spent)
    settled_width, reserved = (
        float(part / whole) * WIDTH if whole else 0.0
        for part in (amount.spent - amount.reserved, amount.reserved)
    )
    of_cap = "" if amount.cap is None else f" of {number(amount.cap)}"
    reserved_text = f", {number(amount.reserved)} of it reserved" if amount.reserved else ""
    label = f"{whose}: {amount.currency} {number(amount.spent)}{of_cap} spent{reserved_text}"
    over = amount.cap is not None and amount.spent > amount.cap
    percent = ceil(100 * amount.spent / amount.cap) if amount.cap else None
    return Gauge(label, round(settled_width, 2), round(reserved, 2), percent, over)


@dataclass(frozen=True, slots=True)
class SpendingCurve:
    """Spending over time, as a line of steps.

    Args:
        label: Text for readers who do not see the line.
        spent, forecast: Points in the notation of SVG; ``forecast`` is empty if there is none.
        cap: y of the cap's line; None if the cap is far above.
        today: x of today.
        first, last, top: Labels of the axes; ``top`` is the value at the upper edge.
    """

    label: str
    spent: str
    forecast: str
    cap: float | None
    today: float
    first: str
    last: str
    top: str


def curve(course: Course, now: datetime) -> SpendingCurve | None:
    """Return the line of one currency of an account; None if nothing was ever spent."""
    if not course.days:
        return None
    today = now.astimezone(UTC)
    start = datetime.combine(course.days[0][0], time(), UTC)
    passed = max(today - start, timedelta(days=1))
    end = today + max(passed / 3, timedelta(days=7))
    ahead = _ahead(course, today, end)
    largest = max(value for _, value in (*course.days, *ahead))
    cap = course.amount.cap
    shown_cap = None if cap is None or largest < _FLAT * cap else cap
    top = float(largest if shown_cap is None else max(largest, shown_cap)) * _ROOM

    def across(when: datetime) -> float:
        return round((when - start) / (end - start) * WIDTH, 2)

    def up(value: Decimal) -> float:
        return round(HEIGHT - float(value) / top * HEIGHT, 2)

    steps = [(0.0, up(Decimal(0)))]
    for day, value in course.days:
        place = across(min(datetime.combine(day, time(12), UTC), today))
        steps += [(place, steps[-1][1]), (place, up(value))]
    steps.append((across(today), steps[-1][1]))
    first, total = course.days[0][0], course.days[-1][1]
    total_text = f"{course.amount.currency}: {number(total)} spent since {first:%Y-%m-%d}"
    return SpendingCurve(
        label=f"{total_text}; {in_words(course)}",
        spent=_points(steps),
        forecast=_points([(across(when), up(value)) for when, value in ahead]),
        cap=None if shown_cap is None else up(shown_cap),
        today=across(today),
        first=f"{start:%Y-%m-%d}",
        last=f"{end:%Y-%m-%d}",
        top=number(_rounded(largest)) if shown_cap is None else f"the cap, {number(shown_cap)}",
    )


def _ahead(course: Course, today: datetime, end: datetime) -> list[tuple[datetime, Decimal]]:
    """Return the points of the forecast until the end of the figure, at most up to the cap."""
    plan = course.forecast
    if plan is None:
        return []
    until = end if plan.ends is None else min(end, plan.ends)
    days = Decimal((until - today) / timedelta(days=1))
    spent = course.amount.spent
    return [(today, spent), (until, spent + max(days, Decimal(0)) * plan.daily)]


def in_words(course: Course) -> str:
    plan, cap = course.forecast, course.amount.cap
    if plan is None and course.young:
        end = "; the cap is reached" if cap is not None and course.amount.spent >= cap else ""
        return f"no rate yet: spending began on {course.days[0][0]:%Y-%m-%d}{end}"
    if plan is None:
        return "nothing spent in the last four weeks"
    rate = f"about {number(_rounded(plan.daily))} a day"
    if cap is None:
        return rate
    if course.amount.spent >= cap:
        return f"{rate}; the cap is reached"
    if plan.ends is None:
        return f"{rate}; the cap is more than ten years away"
    return f"{rate}; the cap is reached on {plan.ends:%Y-%m-%d}"


@dataclass(frozen=True, slots=True)
class Lane:
    """Runs of one group on a common scale: x of each run, and of their mean."""

    name: str
    label: str
    marks: tuple[float, ...]
    mean: float


def lanes(groups: Sequence[tuple[str, Sequence[float]]]) -> tuple[Lane, ...]:
    """Return a lane for each group that has runs, all on the same scale."""
    filled = [(name, values) for name, values in groups if values]
    low = min((min(values) for _, values in filled), default=0.0)
    high = max((max(values) for _, values in filled), default=0.0)
    room = 0.04 * (high - low) or 1.0

    def place(value: float) -> float:
        return round((value - low + room) / (high - low + 2 * room) * WIDTH, 2)

    drawn = []
    for name, values in filled:
        mean = sum(values) / len(values)
        span = f"from {min(values):.4g} to {max(values):.4g}"
        label = f"{name}: {len(values)} runs, mean {mean:.4g}, {span}"
        drawn.append(Lane(name, label, tuple(map(place, values)), place(mean)))
    return tuple(drawn)


def bar(value: float, largest: float) -> float:
    """Length of a bar among others, of which the longest fills the figure."""
    return round(min(max(value / largest, 0.0), 1.0) * WIDTH, 2) if largest > 0 else 0.0


def number(amount: Decimal) -> str:
    """Digits in groups, no exponent, no trailing zeros.

    >>> number(Decimal("12345.50"))
    '12,345.5'
    """
    text = f"{amount:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _rounded(amount: Decimal) -> Decimal:
    return amount.quantize(Decimal(1).scaleb(min(amount.adjusted() - 2, 0)))


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)
