"""A first look at a file, for the person who drafts its public schema. A running service never looks."""

from dataclasses import dataclass
from pathlib import Path

from gencard.controller.records.encoding import Column, number_text, quoted
from gencard.controller.records.vault import Records
from gencard.core.errors import EmptyDatasetError

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
        found = [_profile(records, column) for column in records.columns]
    if not any(profile.records for profile in found):
        raise EmptyDatasetError()
    return found


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
    found = records.rows(f"SELECT DISTINCT {column.text} FROM records WHERE {mark}") if numeric else []  # noqa: S608  # quoted
    return Profile(
        name=column.name,
        records=count,
        distinct=distinct,
        missing=present < count or bool(found),
        spread=Spread(*spread) if numeric else None,
        values=texts if len(texts) <= _MOST_VALUES else (),
        absent=tuple(sorted(mark for (mark,) in found)),
    )


def _is_a_mark(column: Column) -> str:
    marks = ", ".join(quoted(mark, "'") for mark in _MARKS)
    return f"{column.text} IN ({marks})"
