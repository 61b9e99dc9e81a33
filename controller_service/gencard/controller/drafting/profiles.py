"""A look at the columns of records, before there is a schema: here of a file, by SQL of DuckDB."""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor, inf, log10
from pathlib import Path
from typing import NamedTuple, Protocol

from gencard.controller.records.encoding import EngineColumn
from gencard.controller.records.file_format import FileFormat, enough_memory, quoted
from gencard.controller.records.vault import OpenRecords
from gencard.core.card.budget import MOST_RECORDS
from gencard.core.errors import DatasetError, EmptyDatasetError, InvalidInputError, TooLargeError
from gencard.core.scale import MOST_STEPS
from gencard.core.values import (
    AS_DAYS,
    EXACT,
    HIGH_MARKS,
    INFINITE,
    LAST_DAYS,
    MARKS,
    NO_DAYS,
    NONE_WORDS,
    NOT_ASCII,
    NUMBER_MARKS,
    STORED_AS_TEXT,
    TOO_LARGE,
    missing_marks,
    number_of,
    number_text,
    shown_rules,
)
from gencard.files.layout import DAY_OR_MONTH_FIRST

MOST_COLUMNS = 5_000
"""Columns for which a schema is drafted, each by several queries."""

MOST_LABELS = 100
_LEAST_RECORDS = 8
"""Fewer records say too little about a column."""

LEAST_HEAP = 0.02
"""Least share of the records that a number has to be worth a cell of its own."""

_LEAST_UNITS, _LEAST_REPEATED = 20, 10
"""Least number of persons or households, and of those with several records, to be recognised."""

_SAME, _COMMON = 0.95, 0.8
"""A column belongs to units if it is the same within so large a share of them. A column of which one
value has a larger share of the records than this would be by chance.
"""

_FINEST = 20
"""Most decimals of a drafted step."""

_FEW = 3
"""Decimals that are tried first."""

INTERVALS = 8
"""Parts of equal size between the quantiles of a profile."""

_EIGHTHS = tuple(step / INTERVALS for step in range(INTERVALS + 1))


@dataclass(frozen=True, slots=True)
class Profile:
    """Summary of a column's values, from which its draft is made.

    Args:
        present: Values that are neither empty nor a mark of a missing value.
        marks: Marks of missing values, and how often each occurs.
        distinct: Approximate number of different values.
        values: The different values as text, in order; empty if there are more than 100.
        rare: Number of ``values`` that occur once or twice.
        kind: "number", "date", "boolean" or "text".
        why: Why ``kind`` is not "number", though all values could be read as numbers; empty if they
            could not.
        quantiles: Quantiles of numbers or days, at 0, 1/8, ..., 1.
        positive: The 10 % quantile and the median of numbers above 0.
        heaps: Numbers that many records share, with the number of these records, most frequent first.
        decimals: Fewest decimals that hold all numbers; None if these are more than ``most_decimals``.
        undecided: Dates that could as well be read with day and month exchanged.
        nullable: Whether the column may hold empty values, even if it holds none.
        declared: Whether the table declares values or quantiles; no record was read for them.
        reason: Why the column is not to be declared, by the table's own declaration.
        instants: "offset" if the values are instants, "local" if they have a time of day and no offset
            from UTC, "" if they are neither.
        mean: Mean of numbers; None if no record was read for it.
        description: Label of the variable, as the file declares it.
        remark: Sentences on the reading of its values.
        repeats: How often values occur; None if that was not counted.
        shared: Names of columns that are constant in nearly all groups of records with equal values
            here.
        of_file: Sentence on the file as a whole.
    """

    name: str
    records: int
    present: int
    marks: dict[str, int]
    distinct: int
    values: tuple[str, ...]
    rare: int
    longest: int
    kind: str
    quantiles: tuple[float, ...] = ()
    positive: tuple[float, ...] = ()
    heaps: tuple[tuple[float, int], ...] = ()
    decimals: int | None = None
    undecided: bool = False
    nullable: bool = False
    declared: bool = False
    reason: str = ""
    instants: str = ""
    mean: float | None = None
    why: str = ""
    description: str = ""
    remark: str = ""
    repeats: "Repeats | None" = None
    shared: tuple[str, ...] = ()
    of_file: str = ""

    @property
    def source(self) -> str:
        return "what the table declares" if self.declared else "the records"

    @property
    def missing(self) -> bool:
        return self.nullable or self.present < self.records


class Repeats(NamedTuple):
    """Frequencies of the values of a column.

    Args:
        repeated: Number of values of two or more records.
        usual: Records that 95 % of the values have at most.
    """

    values: int
    repeated: int
    usual: int
    most: int


class Look(Protocol):
    """Queries on one column; ``marks`` are its marks of missing values."""

    def marks(self) -> dict[str, int]: ...

    def number_marks(self) -> dict[str, int]: ...

    def day_marks(self, marks: dict[str, int]) -> dict[str, int]: ...

    def kind(self, marks: dict[str, int]) -> tuple[str, str]: ...

    def present(self, marks: dict[str, int]) -> int: ...

    def common(self, marks: dict[str, int], kind: str) -> tuple[int, tuple[str, ...], int, int]: ...

    def quantiles(
        self, marks: dict[str, int], kind: str, points: Sequence[float], *, positive: bool = False
    ) -> tuple[float, ...]: ...

    def heaps(self, marks: dict[str, int], least: int) -> tuple[tuple[float, int], ...]: ...

    def decimals(self, marks: dict[str, int], most: int) -> int | None: ...

    def is_undecided(self) -> bool: ...

    def instants(self, marks: dict[str, int]) -> str: ...

    def mean(self, marks: dict[str, int]) -> float: ...

    def repeats(self, marks: dict[str, int]) -> Repeats | None: ...


def profiles(
    path: Path, file_format: FileFormat, progress: Callable[[str], None] = lambda _: None
) -> list[Profile]:
    """Return the profile of every column of a file."""
    with enough_memory(), OpenRecords(path, file_format, explains=True) as records:
        if len(records.columns) > MOST_COLUMNS:
            advice = "Leave out columns that no analysis needs, or split the file."
            raise TooLargeError(what="The number of columns", limit=MOST_COLUMNS, advice=advice)
        records.check_names()
        count, looks = 0, list[Profile]()
        for part in records.parts():
            if not count:
                ((count,),) = records.rows("SELECT count(*) FROM records")
                check_enough(count)
            of_part = [_profile(records, column, count, progress) for column in part]
            looks += [_with_shared(records, part, of_part, place) for place in range(len(part))]
        return [replace(look, of_file=records.note) for look in looks] if records.note else looks


def _profile(
    records: OpenRecords, column: EngineColumn, count: int, progress: Callable[[str], None]
) -> Profile:
    profile = None
    with suppress(MemoryError):
        profile = profile_of(_Look.of_values(records, column), column.name, count, progress)
    if profile is None:
        records.uncopy()
        profile = profile_of(_Look.of_records(records, column), column.name, count, progress)
    # what the file declares of a column: its labels are all that its values may be
    described = records.described.get(column.name)
    if described is None:
        return profile
    missing = f"Missing here: {', '.join(described.missing)}." if described.missing else ""
    profile = replace(
        profile,
        description=described.description,
        remark=" ".join(filter(None, (missing, described.note))),
        nullable=profile.nullable or bool(described.missing),
    )
    if profile.kind != "text" or not described.labels:
        return profile
    return replace(profile, values=described.labels, declared=True)


def _with_shared(
    records: OpenRecords, part: Sequence[EngineColumn], looks: Sequence[Profile], place: int
) -> Profile:
    profile = looks[place]
    if not may_name_units(profile):
        return profile
    others = {
        look.name: column.sql
        for column, look in zip(part, looks, strict=True)
        if look is not profile
        and look.repeats
        and look.repeats.most <= _COMMON * look.records <= 2 * _COMMON * look.present
    }
    if not others:
        return profile
    axes = range(len(others))
    tests = [f"low{axis} IS NOT DISTINCT FROM high{axis} AND n{axis} IN (0, records)" for axis in axes]
    same = [f"avg(CASE WHEN {test} THEN 1 ELSE 0 END)" for test in tests]
    parts = [
        f"min({sql}) AS low{axis}, max({sql}) AS high{axis}, count({sql}) AS n{axis}"
        for axis, sql in enumerate(others.values())
    ]
    groups = (
        f"SELECT count(*) AS records, {', '.join(parts)} FROM records "  # noqa: S608 - quoted
        f"GROUP BY {part[place].sql} HAVING count(*) > 1"
    )
    with suppress(DatasetError, MemoryError):  # of a type without an order, or too many
        (shares,) = records.rows(f"SELECT {', '.join(same)} FROM ({groups})")  # noqa: S608
        names = [name for name, share in zip(others, shares, strict=True) if share and share >= _SAME]
        return replace(profile, shared=tuple(names))
    return profile


def may_name_units(profile: Profile) -> bool:
    """Whether a column's own values repeat as identifiers of persons or households do."""
    codes = profile.kind == "text" or (profile.kind == "number" and profile.decimals == 0)
    repeats = profile.repeats
    if not codes or profile.present != profile.records or repeats is None:
        return False
    # many values, of few records each
    many = repeats.values >= _LEAST_UNITS and repeats.repeated >= _LEAST_REPEATED
    return many and repeats.most <= MOST_RECORDS


def check_enough(records: int) -> None:
    """Raise EmptyDatasetError or InvalidInputError if records are too few to draft from."""
    if not records:
        raise EmptyDatasetError()
    if records < _LEAST_RECORDS:
        problem = f"has fewer than {_LEAST_RECORDS} records: too few to draft a schema from"
        raise InvalidInputError(field="data", problem=problem)


def profile_of(
    look: Look, name: str, records: int, progress: Callable[[str], None], *, nullable: bool = False
) -> Profile:
    progress(name)
    marks = look.marks()
    kind, why = look.kind(marks)
    if kind == "number":
        marks |= look.number_marks()
    if kind == "date":
        marks |= look.day_marks(marks)
    if kind == "text":
        # words that begin a scale, such as None, Mild, Severe, are no marks
        words = [word for word in NONE_WORDS if word in marks]
        others = {mark: number for mark, number in marks.items() if mark not in words}
        if words and in_order(look.common(others, "text")[1])[1]:
            marks = others
    present = look.present(marks)
    if not kind:
        return Profile(name, records, present, marks, 0, (), 0, 0, "text", reason=why)
    common, repeats = look.common(marks, kind), look.repeats(marks)
    profile = Profile(
        name, records, present, marks, *common, kind, nullable=nullable, why=why, repeats=repeats
    )
    if kind not in ("number", "date"):
        return profile
    quantiles = look.quantiles(marks, kind, _EIGHTHS)
    if kind == "date":
        undecided, instants = look.is_undecided(), look.instants(marks)
        return replace(profile, quantiles=quantiles, decimals=0, undecided=undecided, instants=instants)
    return replace(
        profile,
        quantiles=quantiles,
        positive=look.quantiles(marks, kind, (0.1, 0.5), positive=True),
        heaps=look.heaps(marks, max(1, ceil(LEAST_HEAP * present))),
        decimals=look.decimals(marks, most_decimals(quantiles)),
        mean=look.mean(marks) if present else None,
    )


def most_decimals(quantiles: Sequence[float]) -> int:
    """Return the most decimals with fewer than ``MOST_STEPS`` steps between least and largest number.

    The number is negative for large ranges.
    """
    if not quantiles:
        return 0
    low, high = quantiles[0], quantiles[-1]
    span = max(high - low, abs(high) * 1e-9, 1e-12)
    return min(_FINEST, floor(log10(MOST_STEPS / span)))


_NESTED = ("struct", "map", "union")
NESTED = "values of its type cannot be declared"
"""Why columns of lists or records of their own are left out."""

_BY_RECORD = "looked_at"
"""Name of the view that has a row for each record."""


class _Looked(EngineColumn):
    """A column of a table that has the number of each value."""

    __slots__ = ()

    @property
    def number(self) -> str:
        return "number"


@dataclass(frozen=True, slots=True)
class _Look:
    """Queries on one column of a file: a ``Look``.

    The queries read a table of values: ``v`` is a value, ``number`` the number that it states, and
    ``n`` the number of records with this value.
    """

    records: OpenRecords
    column: EngineColumn
    table: str

    @classmethod
    def of_values(cls, records: OpenRecords, column: EngineColumn) -> "_Look":
        """Copy the different values of a column, which are often few; raises MemoryError."""
        # among floats, and in some other types, values that are equal have different texts
        text = "" if column.kind == "VARCHAR" else f", CAST({column.sql} AS VARCHAR)"
        values = f"SELECT {column.sql} AS v, count(*) AS n FROM records GROUP BY {column.sql}{text}"  # noqa: S608
        return cls._of(records, column, "TEMP TABLE looked", values)

    @classmethod
    def of_records(cls, records: OpenRecords, column: EngineColumn) -> "_Look":
        """Take the value of each record by itself, which needs no memory."""
        records.rows("DROP TABLE IF EXISTS looked")
        values = f"SELECT {column.sql} AS v, 1 AS n FROM records"  # noqa: S608
        return cls._of(records, column, f"TEMP VIEW {_BY_RECORD}", values)

    @classmethod
    def _of(cls, records: OpenRecords, column: EngineColumn, made: str, values: str) -> "_Look":
        value = replace(column, stored_name="v")
        query = f"SELECT v, n, {value.number} AS number FROM ({values})"  # noqa: S608
        records.rows(f"CREATE OR REPLACE {made} AS {query}")
        looked = _Looked(column.name, column.kind, column.format, "v")
        return cls(records, looked, made.rpartition(" ")[2])

    def count(self, condition: str) -> int:
        (number,) = self.counts(condition)
        return number

    def counts(self, *conditions: str, here: str = "true") -> list[int]:
        """Return the numbers of records for which each condition is true, in one pass over the file.

        Args:
            here: Condition of all of them. Of few distinct values, the engine takes longer to read the
                query than to answer it, so a common condition is stated once.
        """
        numbers = ", ".join(f"coalesce(sum(n) FILTER ({condition}), 0)" for condition in conditions)
        (row,) = self.records.rows(f"SELECT {numbers} FROM {self.table} WHERE {here}")  # noqa: S608
        return [int(number) for number in row]

    def absent(self, marks: Sequence[str] | dict[str, int]) -> str:
        return f"({self.column.absent(tuple(marks))} OR {self._is_nan})"

    @property
    def _is_nan(self) -> str:
        """SQL for whether the value is no number, and no label that the file declares, either."""
        labels = ", ".join(map(quoted, self._labels))
        unless = f" AND {self.column.text} NOT IN ({labels})" if labels else ""
        return f"({self.column.is_nan}{unless})"

    @property
    def _labels(self) -> tuple[str, ...]:
        described = self.records.described.get(self.column.name)
        return described.labels if described else ()

    def present(self, marks: dict[str, int]) -> int:
        return self.count(f"NOT {self.absent(marks)}")

    def heaps(self, marks: dict[str, int], least: int) -> tuple[tuple[float, int], ...]:
        query = (
            f"SELECT {self.column.number} AS number, {self._times} AS times FROM {self.table} "  # noqa: S608
            f"WHERE NOT {self.absent(marks)} GROUP BY 1 HAVING times >= {least} "
            "ORDER BY times DESC, number"
        )
        return tuple((float(number) + 0.0, int(records)) for number, records in self.records.rows(query))

    @property
    def _times(self) -> str:
        """The number of records of a group; a count takes less memory than a sum."""
        return "count(*)" if self.table == _BY_RECORD else "sum(n)"

    def marks(self) -> dict[str, int]:
        """Words for missing values, and how often each occurs: no labels that the file declares."""
        text = self.column.text
        code = f"regexp_full_match({text}, '[A-Z]{{2}}')"  # NA is Namibia among codes of countries
        codes = not self.count(f"NOT ({self.column.absent(MARKS)} OR {code})")
        labels = {*self._labels} | ({"NA"} if codes else set())
        words = ", ".join(quoted(mark) for mark in MARKS if mark not in labels) or "NULL"
        nan = "false" if self.column.is_number else self._is_nan  # however it is spelt
        test = f"{text} IN ({words}) OR {nan}"
        query = f"SELECT {text}, sum(n) FROM {self.table} WHERE {test} GROUP BY 1 ORDER BY 1"  # noqa: S608
        return {word: int(number) for word, number in self.records.rows(query)}

    def number_marks(self) -> dict[str, int]:
        """Return the numbers that mark missing values, such as -9 or 99, with their frequencies."""
        codes = ", ".join(map(repr, (*NUMBER_MARKS, *HIGH_MARKS)))
        number = self.column.number
        query = f"SELECT {number}, sum(n) FROM {self.table} WHERE {number} IN ({codes}) GROUP BY 1"  # noqa: S608
        counts = {float(code): int(count) for code, count in self.records.rows(query)}
        if not counts:
            return {}
        others = f"FILTER (isfinite({number}) AND {number} NOT IN ({codes}))"
        ((low, high),) = self.records.rows(
            f"SELECT min({number}) {others}, max({number}) {others} FROM {self.table}"  # noqa: S608
        )
        return missing_marks(counts, None if low is None else (low, high))

    def day_marks(self, marks: dict[str, int]) -> dict[str, int]:
        """Return the days that mark a missing or open date, if the column has other days."""
        days = ", ".join(f"DATE '{day}'" for day in LAST_DAYS)
        test = f"{self.column.calendar_date} IN ({days})"
        if not self.count(f"NOT {self.absent(marks)} AND NOT {test}"):
            return {}
        counts = f"SELECT {self.column.text}, sum(n) FROM {self.table}"  # noqa: S608
        query = f"{counts} WHERE {test} GROUP BY 1 ORDER BY 1"
        return {text: int(number) for text, number in self.records.rows(query)}

    def kind(self, marks: dict[str, int]) -> tuple[str, str]:
        """Return the kind of all values that are present, and the reason if digits are no numbers."""
        tests = {
            "boolean": f"lower({self.column.text}) IN ('true', 'false')",
            "number": f"isfinite({self.column.number})",
            "date": self.column.is_day,
        }
        here = f"NOT {self.absent(marks)}"
        present, *passed = self.counts("true", *tests.values(), here=here)
        kinds = (kind for kind, number in zip(tests, passed, strict=True) if present == number > 0)
        kind = next(kinds, "text")
        if kind == "number":
            if self.records.typed and not self.column.is_number:
                return "text", STORED_AS_TEXT
            days = f"{self.column.compact_date} IS NOT NULL"
            too_large = f"abs({self.column.number}) >= {EXACT!r}"
            signs = (too_large,) if self.column.is_number else self.column.text_rules
            as_days, *shown = self.counts(days, *signs, here=here)
            if as_days == present:
                return "date", AS_DAYS
            if self.column.is_number:
                why = TOO_LARGE if shown[0] and not self.column.is_float else ""
            else:
                why = next(iter(shown_rules(*shown)), "")
            return ("text", why) if why else ("number", "")
        return self._kind_of_texts(here, present) if kind == "text" and present else (kind, "")

    def _kind_of_texts(self, here: str, present: int) -> tuple[str, str]:
        """Return "text", with a reason if all look like numbers; no kind, with a reason, if unusable."""
        if self.column.kind.endswith("]") or self.column.kind.lower().startswith(_NESTED):
            return "", NESTED
        if self.column.is_number:
            return "", INFINITE
        if self.column.kind.startswith(("DATE", "TIMESTAMP")):
            return "", NO_DAYS
        digits = f"regexp_full_match({self.column.text}, '[+-]?[\\p{{Nd}}_]+')"
        alike = self.count(f"(isfinite({self.column.number}) OR {digits}) AND {here}")
        return "text", NOT_ASCII if alike == present else ""

    def common(self, marks: dict[str, int], kind: str) -> tuple[int, tuple[str, ...], int, int]:
        value = self.column.number if kind == "number" else self.column.text
        here = f"FROM {self.table} WHERE NOT {self.absent(marks)}"
        ((distinct, longest),) = self.records.rows(
            f"SELECT approx_count_distinct({value}), coalesce(max(length({self.column.text})), 0) {here}"
        )
        # the estimate is never wrong by half, and groups of many texts might not fit in memory
        few = distinct <= 2 * MOST_LABELS
        groups = f"SELECT {value} AS value, sum(n) {here} GROUP BY 1 ORDER BY 1"
        rows = self.records.rows(groups) if few else []
        if not few or len(rows) > MOST_LABELS:
            return int(distinct), (), 0, int(longest)
        texts = tuple(number_text(row[0]) if kind == "number" else str(row[0]) for row in rows)
        return len(texts), texts, sum(times < 3 for _, times in rows), int(longest)

    def quantiles(
        self, marks: dict[str, int], kind: str, points: Sequence[float], *, positive: bool = False
    ) -> tuple[float, ...]:
        value = self.column.number if kind == "number" else self.column.days
        here = f"NOT {self.absent(marks)}" + (f" AND {value} > 0" if positive else "")
        if self.table == _BY_RECORD:  # in less memory
            exact = f"quantile_disc({value}, {[*points]})"
            ((numbers,),) = self.records.rows(f"SELECT {exact} FROM {self.table} WHERE {here}")  # noqa: S608
            return tuple(float(number) + 0.0 for number in numbers or ())
        rank = f"sum(n) OVER (ORDER BY {value}) AS rank"
        reached = f"SELECT {value} AS value, {rank} FROM {self.table} WHERE {here}"  # noqa: S608
        ranked = f"SELECT *, max(rank) OVER () AS records FROM ({reached})"  # noqa: S608
        # the same numbers as of quantile_disc, which does not know how often a value occurs
        shares = [Fraction(str(point)) for point in points]
        tests = [f"rank * {share.denominator} >= records * {share.numerator}" for share in shares]
        numbers = ", ".join(f"min(value) FILTER ({test})" for test in tests)
        (row,) = self.records.rows(f"SELECT {numbers} FROM ({ranked})")  # noqa: S608
        # 0.0 in place of -0.0, which is equal
        return tuple(float(number) + 0.0 for number in row if number is not None)

    def is_undecided(self) -> bool:
        """Whether day and month of all dates may be exchanged."""
        formats = {*self.column.format.dates} & {*DAY_OR_MONTH_FIRST}
        return bool(formats) and not self.count(f"day({self.column.calendar_date}) > 12")

    def instants(self, marks: dict[str, int]) -> str:
        if self.column.has_instants:
            return "offset"
        timed = f"{self.column.plain_days} IS NULL AND NOT {self.absent(marks)}"
        local = "true" if self.column.kind != "VARCHAR" else f"NOT {self.column.is_instant}"
        times, without = self.counts(timed, f"{timed} AND {local}")
        return ("local" if without else "offset") if times else ""

    def mean(self, marks: dict[str, int]) -> float:
        total, here = f"sum({self.column.number} * n) / sum(n)", f"NOT {self.absent(marks)}"
        ((mean,),) = self.records.rows(f"SELECT {total} FROM {self.table} WHERE {here}")  # noqa: S608
        return float(mean)

    def repeats(self, marks: dict[str, int]) -> Repeats | None:
        # hashes take less memory than texts
        here = f"FROM {self.table} WHERE NOT {self.absent(marks)} GROUP BY hash({self.column.text})"
        numbers = (
            "count(*), count(*) FILTER (n > 1), coalesce(quantile_disc(n, 0.95), 0), coalesce(max(n), 0)"
        )
        with suppress(MemoryError):
            (row,) = self.records.rows(f"SELECT {numbers} FROM (SELECT {self._times} AS n {here})")  # noqa: S608
            return Repeats(*map(int, row))
        return None

    def decimals(self, marks: dict[str, int], most: int) -> int | None:
        if most < 0:
            return None
        number, here = self.column.number, f"NOT {self.absent(marks)}"
        # most numbers have few decimals
        for tried in (range(min(most, _FEW) + 1), range(_FEW + 1, most + 1)):
            tests = [f"{number} <> round({number} * 1e{places}) / 1e{places}" for places in tried]
            longer = self.counts(*tests, here=here) if tests else []
            if 0 in longer:
                return tried[longer.index(0)]
        return None


_ORDERS = (
    ("never", "almost never", "rarely", "seldom", "sometimes", "occasionally", "often", "usually",
     "very often", "almost always", "always"),
    ("very low", "low", "medium", "moderate", "high", "very high"),
    ("very bad", "bad", "poor", "fair", "average", "good", "very good", "excellent"),
    ("very unsatisfied", "very dissatisfied", "unsatisfied", "dissatisfied", "neutral", "mixed",
     "satisfied", "very satisfied"),
    ("strongly disagree", "disagree", "neither agree nor disagree", "neutral", "agree",
     "strongly agree"),
    ("none", "little", "some", "much", "very much"),
    ("none", "minimal", "mild", "moderate", "severe", "very severe"),
    ("none", "very low", "low", "medium", "moderate", "high", "very high"),
    ("small", "medium", "large"),
    ("primary", "secondary", "tertiary"),
    ("nie", "fast nie", "selten", "manchmal", "gelegentlich", "oft", "häufig", "sehr oft", "sehr häufig",
     "fast immer", "immer"),
    ("sehr niedrig", "niedrig", "gering", "mittel", "hoch", "sehr hoch"),
    ("sehr schlecht", "schlecht", "mittelmäßig", "befriedigend", "gut", "sehr gut"),
    ("sehr unzufrieden", "unzufrieden", "teils/teils", "neutral", "zufrieden", "sehr zufrieden"),
    ("stimme gar nicht zu", "stimme nicht zu", "neutral", "teils/teils", "stimme zu", "stimme voll zu"),
    ("klein", "mittel", "groß"),
    ("mon", "tue", "wed", "thu", "fri", "sat", "sun"),
    ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
    ("montag", "dienstag", "mittwoch", "donnerstag", "freitag", "samstag", "sonntag"),
    ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
     "november", "december"),
    ("januar", "februar", "märz", "april", "mai", "juni", "juli", "august", "september", "oktober",
     "november", "dezember"),
)  # fmt: skip
_LEADING = re.compile(
    r"\s*(under|unter|below|less than|bis|up to|<=?|>=?|over|über)?\s*(-?\d+(?:[.,]\d+)?)", re.IGNORECASE
)
_BELOW = ("under", "unter", "below", "less than", "bis", "up to", "<", "<=")


def in_order(labels: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """Return the labels in their natural order and True if it is known; else unchanged, and False.

    >>> in_order(["high", "low", "medium"])
    (('low', 'medium', 'high'), True)
    >>> in_order(["18-24", "25+", "under 18"])
    (('under 18', '18-24', '25+'), True)
    >>> in_order(["east", "north", "west"])
    (('east', 'north', 'west'), False)
    >>> in_order(["1", "10", "2", "N"])
    (('1', '2', '10', 'N'), False)
    >>> in_order(["001", "003", "002"])
    (('001', '002', '003'), False)
    """
    if len(labels) < 3:
        return tuple(labels), False
    plain = {label: label.strip().lower() for label in labels}
    for scale in _ORDERS:
        if set(plain.values()) <= set(scale) and len(set(plain.values())) == len(labels):
            return tuple(sorted(labels, key=lambda label: scale.index(plain[label]))), True
    if None not in map(number_of, labels):  # codes: what looked like numbers would be drafted so
        return tuple(sorted(labels, key=lambda label: (float(label), label))), False
    numbers = {label: _leading_number(label) for label in labels}
    if None not in numbers.values() and len(set(numbers.values())) == len(labels):
        return tuple(sorted(labels, key=lambda label: numbers[label] or (0.0, 0))), True
    whole = {label: float(label) if re.fullmatch(r"\d+", label) else inf for label in labels}
    return tuple(sorted(labels, key=lambda label: (whole[label], label))), False


def _leading_number(label: str) -> tuple[float, int] | None:
    """Return the number with which a class begins; "under 18" comes before "18-24"."""
    match = _LEADING.match(label)
    if match is None:
        return None
    return float(match[2].replace(",", ".")), -1 if (match[1] or "").lower() in _BELOW else 0
