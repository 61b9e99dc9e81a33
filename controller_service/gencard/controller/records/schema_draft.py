"""A first look at a file of records, and a draft of its public schema for a person to review.

Few different values become labels, many numbers round edges; names and running numbers are left out. A
running service never takes this look.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from gencard.controller.records.catalogue import PublicSchema
from gencard.controller.records.encoding import Column, number_text, quoted
from gencard.controller.records.vault import Records
from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.errors import EmptyDatasetError, InvalidInputError

_MOST_VALUES = 100
_MARKS = ("NA", "N/A", "null", "NULL", ".", "-", "?")
"""What people write where a number is missing."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Where the numbers of a column lie."""

    low: float
    median: float
    high: float


@dataclass(frozen=True, slots=True)
class Profile:
    """What a column looks like.

    Args:
        distinct: About how many different values there are.
        spread: Where its values lie, if every one is a number.
        values: The different values as text, in order; empty where there are more than 100.
        absent: Marks such as NA, where every other value is a number.
    """

    name: str
    records: int
    distinct: int
    missing: bool
    spread: Spread | None
    values: tuple[str, ...]
    absent: tuple[str, ...] = ()


def profiles(path: Path) -> list[Profile]:
    """A look at every column of a file.

    Raises:
        EmptyDatasetError, DatasetUnavailableError: There is nothing to look at.
    """
    with Records(path) as records:
        columns = [_profile(records, column) for column in records.columns]
    if not any(profile.records for profile in columns):
        raise EmptyDatasetError()
    return columns


def _profile(records: Records, column: Column) -> Profile:
    number = f"CASE WHEN isfinite({column.number}) THEN {column.number} END"
    empty = f"({column.absent(())} OR coalesce(isnan({column.number}), false))"
    mark = _is_a_mark(column)
    ((count, present, marked, distinct, numbers, *spread),) = records.rows(
        f"SELECT count(*), count(*) FILTER (NOT {empty}), count(*) FILTER ({mark}), "  # noqa: S608  # quoted
        f"approx_count_distinct({column.sql}), "
        f"count({number}), min({number}), median({number}), max({number}) FROM records"
    )
    numeric = 0 < numbers == present - marked
    value = number if numeric else column.text
    query = f"SELECT DISTINCT {value} AS v FROM records WHERE NOT {empty} AND v IS NOT NULL "  # noqa: S608  # quoted
    values = sorted(row[0] for row in records.rows(f"{query} LIMIT {_MOST_VALUES + 1}"))
    texts = tuple(number_text(value) if numeric else value for value in values)
    marks = records.rows(f"SELECT DISTINCT {column.text} FROM records WHERE {mark}") if numeric else []  # noqa: S608  # quoted
    return Profile(
        name=column.name,
        records=count,
        distinct=distinct,
        missing=present < count or bool(marks),
        spread=Spread(*spread) if numeric else None,
        values=texts if len(texts) <= _MOST_VALUES else (),
        absent=tuple(sorted(mark for (mark,) in marks)),
    )


def _is_a_mark(column: Column) -> str:
    marks = ", ".join(quoted(mark, "'") for mark in _MARKS)
    return f"{column.text} IN ({marks})"


_MOST_NUMBER_LABELS = 20
_INTERVALS = 8
_ROUND = (1, 2, 5)


def draft_schema(path: Path, title: str) -> tuple[PublicSchema, tuple[str, ...]]:
    """A draft from a look at the records, and the columns left out because they look like names.

    Raises:
        InvalidInputError: No column can be declared.
        EmptyDatasetError, DatasetUnavailableError: There are no records to look at.
    """
    profiled = [(profile, _coding(profile)) for profile in profiles(path)]
    attributes = tuple(Attribute(profile.name, coding) for profile, coding in profiled if coding)
    if not attributes:
        raise InvalidInputError(field="data", problem="has no column that a schema could declare")
    schema = PublicSchema(
        title=title,
        description="Say what this is, where it comes from, and under which terms.",
        declared_by="nobody yet",
        reviewed=False,
        coding=Coding(attributes),
        absent={
            profile.name: profile.absent for profile, coding in profiled if coding and profile.absent
        },
    )
    return schema, tuple(profile.name for profile, coding in profiled if not coding)


def _coding(profile: Profile) -> Labels | Edges | None:
    few = 0 < len(profile.values) * 2 <= profile.records
    if profile.spread and few and len(profile.values) <= _MOST_NUMBER_LABELS:
        whole = all(value.lstrip("-").isdigit() for value in profile.values)
        return Labels(profile.values, integer=whole, ordered=True, missing=profile.missing)
    if profile.spread and not _looks_like_a_key(profile, profile.spread):
        return Edges(round_edges(profile.spread), missing=profile.missing)
    if few and not profile.spread:
        return Labels(profile.values, missing=profile.missing)
    return None


def _looks_like_a_key(profile: Profile, spread: Spread) -> bool:
    """Whole numbers, nearly all different, about as dense as a running number."""
    whole = spread.low.is_integer() and spread.high.is_integer()
    # a running number identifies people, and would be declared with one level for each
    dense = spread.high - spread.low < 2 * profile.records
    return whole and dense and profile.distinct > 0.9 * profile.records


def round_edges(spread: Spread) -> tuple[float, ...]:
    """Edges at round numbers that hold all values in about eight intervals.

    Even steps of 1, 2 or 5 times a power of ten; where high values are rare, 0 and the ladder
    1, 2, 5, 10, ... instead.

    >>> round_edges(Spread(17.5, 29, 42))
    (15.0, 20.0, 25.0, 30.0, 35.0, 40.0, 45.0)
    >>> round_edges(Spread(0, 0, 57.6))
    (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
    """
    low, high = spread.low, spread.high
    if low >= 0 and high > 10 * spread.median:
        top = _rung_above(high)
        return (0.0, *(_rung(step) for step in range(top - _INTERVALS + 2, top + 1)))
    step = _rung_above(max(high - low, abs(high) * 1e-9, 1e-9) / _INTERVALS)
    unit = Decimal(repr(_rung(step)))
    first = math.floor(Decimal(repr(low)) / unit)
    last = max(math.ceil(Decimal(repr(high)) / unit), first + 1)
    return tuple(float(unit * count) for count in range(first, last + 1))


def _rung(step: int) -> float:
    """The ladder ..., 1, 2, 5, 10, 20, ... with 1 at step 0."""
    power, place = divmod(step, len(_ROUND))
    return float(Decimal(_ROUND[place]).scaleb(power))


def _rung_above(number: float) -> int:
    """The lowest step of the ladder that is not below a positive number."""
    step = len(_ROUND) * math.floor(math.log10(number))
    while _rung(step) < number:
        step += 1
    return step
