"""A first look at a file, for the person who drafts its public schema. A running service never looks."""

from dataclasses import dataclass
from pathlib import Path

from gencard.controller.encoding import Column, number_text
from gencard.controller.vault import Records
from gencard.core.errors import EmptyDatasetError

_MOST_VALUES = 100


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
    """

    name: str
    records: int
    distinct: int
    missing: bool
    spread: Spread | None
    values: tuple[str, ...]


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
    ((count, present, distinct, numbers, *spread),) = records.rows(
        f"SELECT count(*), count(*) FILTER (NOT {empty}), approx_count_distinct({column.sql}), "  # noqa: S608  # quoted
        f"count({number}), min({number}), median({number}), max({number}) FROM records"
    )
    numeric = 0 < numbers == present
    value = number if numeric else column.text
    query = f"SELECT DISTINCT {value} FROM records WHERE NOT {empty} LIMIT {_MOST_VALUES + 1}"  # noqa: S608  # quoted
    values = sorted(row[0] for row in records.rows(query))
    texts = tuple(number_text(value) if numeric else value for value in values)
    return Profile(
        name=column.name,
        records=count,
        distinct=distinct,
        missing=present < count,
        spread=Spread(*spread) if numeric else None,
        values=texts if len(texts) <= _MOST_VALUES else (),
    )
