"""Instants in a declared zone: their offsets from UTC, the same in every engine.

The offsets come from ``zoneinfo`` and are written into each query, so that no engine's own list of
zones, and no host's zone, decides about a code.
"""

from bisect import bisect_right
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TypeVar
from zoneinfo import ZoneInfo, available_timezones

DAY = 86_400
"""Seconds of a day."""

_FIRST, _LAST = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (1900, 2101))
_Expression = TypeVar("_Expression")


def is_zone(name: str) -> bool:
    """Whether a name is one of the IANA database, such as ``America/New_York``; ``localtime`` is none."""
    return name in available_timezones() and name != "localtime"


@cache
def offsets_of(zone: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the seconds since 1970 at which the offset changes, and the offsets around them.

    Changes before 1900 and after 2100 are left out.

    Returns:
        Shape ``(n,)`` and ``(n + 1,)``, both in seconds.
    """
    info = ZoneInfo(zone)

    def offset(second: int) -> int:
        instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
        return int((instant.astimezone(info).utcoffset() or timedelta()).total_seconds())

    changes, offsets = list[int](), [offset(_FIRST)]
    for begin in range(_FIRST, _LAST, DAY):
        after = offset(begin + DAY)
        if after != offsets[-1]:
            days = range(begin + 1, begin + DAY + 1)
            place = bisect_right(days, False, key=lambda second: offset(second) == after)
            changes.append(days[place])
            offsets.append(after)
    return tuple(changes), tuple(offsets)


def by_offset(
    zone: str,
    leaf: Callable[[int], _Expression],
    choose: Callable[[int, _Expression, _Expression], _Expression],
) -> _Expression:
    """Return an expression of the offset of an instant: a tree of comparisons.

    Args:
        leaf: Makes an expression of an offset in seconds.
        choose: Makes an expression of a change, and of what holds before and from it on.
    """
    changes, offsets = offsets_of(zone)

    def tree(first: int, last: int) -> _Expression:
        if first == last:
            return leaf(offsets[first])
        middle = (first + last) // 2
        return choose(changes[middle], tree(first, middle), tree(middle + 1, last))

    return tree(0, len(changes))


def without_offset(name: str) -> str:
    """Return why a column with a zone is refused whose values are no instants."""
    return (
        f"'{name}' has a zone in the schema, but its values have no offset from UTC, so their instants "
        "are not known; store them with their offset (2013-01-01T05:15:00-05:00), or take the zone away"
    )


def without_zone(name: str) -> str:
    """Return why a column of instants is refused whose zone is not declared."""
    return (
        f"'{name}' holds instants, and the schema has no zone for it; state one, such as "
        'zone = "America/New_York", in which they have a date'
    )
