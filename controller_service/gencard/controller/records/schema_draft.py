"""A first look at a file of records, and a draft of its public schema for a person to review.

A running service never takes this look. What looks like a name, an identifier or free text is left out,
and no value of it is copied.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from gencard.controller.records.detection import MARKS, detect
from gencard.controller.records.encoding import PLAIN, Column, Reading, number_text
from gencard.controller.records.file_format import FileFormat, literal
from gencard.controller.records.ordered_labels import in_order
from gencard.controller.records.schema_file import PublicSchema
from gencard.controller.records.vault import Records
from gencard.core.coding import BOOLEANS, Attribute, Coding, Edges, Labels, date_of_days, days_of_date
from gencard.core.errors import EmptyDatasetError, InvalidInputError

MOST_LABELS = 100
_MOST_NUMBER_LABELS = 20
_LONGEST_LABEL = 60
_LEAST_RECORDS = 8
"""Fewer records say too little about a column."""

_RECORDS_NOTE = "Rounded, drafted from the records. Uncomment it if everybody may know it."
_INTERVALS = 8
_ROUND = (1, 2, 5)
_AGES = (0, 18, 25, 35, 45, 55, 65, 75, 85, 120)
"""Edges of ages in use by statistical offices; they are no fact about the records."""

NUMBER_MARKS = (-1.0, -2.0, -7.0, -8.0, -9.0, -88.0, -99.0, -888.0, -999.0, -9999.0)
"""Numbers that people write where a value is missing, if all others are 0 or more."""

_NAMES_OF_TEXT = re.compile(
    r"comment|remark|note|text|descr|address|street|bemerk|kommentar|anmerk|adresse|stra(ss|ß)e",
    re.IGNORECASE,
)
_NAMES_OF_PEOPLE = re.compile(
    r"(^|[^a-z])(id|uid|uuid|ssn|iban|nr|row|key|name|surname|vorname|nachname|e?mail|phone|tel|telefon)([^a-z]|$)"
    r"|(_id|Id|ID)$|name$",
)
_NO_NAME = re.compile(r"(column\d+|Unnamed: \d+)?")
"""What programs call a column that has no name; most often it numbers the rows."""

_NAMES_OF_BIRTH = re.compile(r"birth|geburt|(^|[^a-z])dob([^a-z]|$)|naissance|nacimiento", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Profile:
    """What a column holds.

    Args:
        present: Values that are neither empty nor a mark of a missing value.
        marks: Marks of missing values, and how often each occurs.
        distinct: About how many different values there are.
        values: The different values as text, in order; empty where there are more than 100.
        rare: Different values that occur once or twice.
        longest: Characters of the longest value.
        kind: "number", "date", "boolean" or "text".
        quantiles: Of numbers or days, at 0, 1/8, ..., 1.
        zeros: Values that are 0.
        decimals: Most decimals of a number, where all have at most two.
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
    zeros: int = 0
    decimals: int | None = None

    @property
    def missing(self) -> bool:
        return self.present < self.records


@dataclass(frozen=True, slots=True)
class DraftedAttribute:
    """One column: its draft, or why it was left out.

    Args:
        note: What the steward should know of the draft; a comment in the schema file.
        marks: Marks of missing values and their counts, for the steward alone.
    """

    name: str
    coding: Labels | Edges | None
    note: str
    reading: Reading = PLAIN
    marks: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SchemaDraft:
    """A schema for review, the format of the file, and what was done with each column.

    Args:
        records: How many the file has, for the steward alone: nothing declares it.
    """

    schema: PublicSchema
    format: FileFormat
    attributes: tuple[DraftedAttribute, ...]
    records: int

    @property
    def remark(self) -> str:
        """A line for the schema file that a steward may take: how many records there are, rounded."""
        unit = 10 ** max(len(str(self.records)) - 2, 0)
        return f"records = {round(self.records / unit) * unit:_}  # {_RECORDS_NOTE}"

    @property
    def left_out(self) -> tuple[DraftedAttribute, ...]:
        return tuple(one for one in self.attributes if one.coding is None)


def draft_schema(path: Path, title: str, *, today: date) -> SchemaDraft:
    """A draft from a look at the records.

    Args:
        today: Dates of birth become ages on this day.

    Raises:
        InvalidInputError: The file has lines that cannot be read, too few records, or no column that can
            be declared.
        EmptyDatasetError, DatasetUnavailableError: There are no records to look at.
    """
    file_format = detect(path)
    looks = profiles(path, file_format)
    drafts = tuple(_drafted(profile, today) for profile in looks)
    declared = [(one.name, one.coding) for one in drafts if one.coding is not None]
    if not declared:
        raise InvalidInputError(field="data", problem="has no column that a schema could declare")
    schema = PublicSchema(
        title=title,
        description="Say what this is, where it comes from, and under which terms.",
        declared_by="nobody yet",
        reviewed=False,
        coding=Coding(tuple(Attribute(name, coding) for name, coding in declared)),
        readings={one.name: one.reading for one in drafts if one.coding and one.reading != PLAIN},
    )
    return SchemaDraft(schema, file_format, drafts, looks[0].records)


def profiles(path: Path, file_format: FileFormat) -> list[Profile]:
    """A look at every column of a file.

    Raises:
        InvalidInputError: There are too few records.
        EmptyDatasetError, DatasetUnavailableError: There is nothing to look at.
    """
    with Records(path, file_format) as records:
        ((count,),) = records.rows("SELECT count(*) FROM records")
        if not count:
            raise EmptyDatasetError()
        if count < _LEAST_RECORDS:
            problem = f"has fewer than {_LEAST_RECORDS} records: too few to draft a schema from"
            raise InvalidInputError(field="data", problem=problem)
        return [_profile(records, column, count) for column in records.columns]


def _profile(records: Records, column: Column, count: int) -> Profile:
    look = _Look(records, column)
    marks = look.marks()
    kind = look.kind(marks)
    if kind == "number":
        marks |= look.number_marks()
    present = look.count(f"NOT {look.absent(marks)}")
    common = look.common(marks, kind)
    if kind not in ("number", "date"):
        return Profile(column.name, count, present, marks, *common, kind)
    value = column.number if kind == "number" else column.days
    return Profile(
        column.name,
        count,
        present,
        marks,
        *common,
        kind,
        quantiles=look.quantiles(value, marks, "true"),
        positive=look.quantiles(value, marks, f"{value} > 0"),
        zeros=look.count(f"{value} = 0"),
        decimals=look.decimals(marks) if kind == "number" else 0,
    )


@dataclass(frozen=True, slots=True)
class _Look:
    """Questions to one column."""

    records: Records
    column: Column

    def count(self, condition: str) -> int:
        ((number,),) = self._rows(f"SELECT count(*) FILTER ({condition}) FROM records")  # noqa: S608
        return int(number)

    def absent(self, marks: Sequence[str] | dict[str, int]) -> str:
        nan = f"coalesce(isnan({self.column.number}), false)"
        return f"({self.column.absent(tuple(marks))} OR {nan})"

    def marks(self) -> dict[str, int]:
        """Words for missing values, and how often each occurs."""
        text = self.column.text
        code = f"regexp_full_match({text}, '[A-Z]{{2}}')"  # NA is Namibia among codes of countries
        codes = not self.count(f"NOT ({self.column.absent(MARKS)} OR {code})")
        words = ", ".join(literal(mark) for mark in MARKS if not (codes and mark == "NA"))
        query = f"SELECT {text}, count(*) FROM records WHERE {text} IN ({words}) GROUP BY 1 ORDER BY 1"  # noqa: S608
        return {word: int(number) for word, number in self._rows(query)}

    def number_marks(self) -> dict[str, int]:
        """Negative codes for missing values in a column of numbers from 0 on."""
        codes = ", ".join(map(repr, NUMBER_MARKS))
        number = self.column.number
        if not self.count(f"{number} < 0") or self.count(f"{number} < 0 AND {number} NOT IN ({codes})"):
            return {}
        query = f"SELECT {number}, count(*) FROM records WHERE {number} < 0 GROUP BY 1 ORDER BY 1"  # noqa: S608
        return {number_text(code): int(count) for code, count in self._rows(query)}

    def kind(self, marks: dict[str, int]) -> str:
        """What every value is that is not missing."""
        present = self.count(f"NOT {self.absent(marks)}")
        tests = {
            "boolean": f"lower({self.column.text}) IN ('true', 'false')",
            "number": f"isfinite({self.column.number})",
            "date": f"{self.column.calendar_date} IS NOT NULL",
        }
        for kind, test in tests.items():
            if present and self.count(f"{test} AND NOT {self.absent(marks)}") == present:
                return kind
        return "text"

    def common(self, marks: dict[str, int], kind: str) -> tuple[int, tuple[str, ...], int, int]:
        """Different values (their number, themselves, how many are rare), the longest one's length."""
        value = self.column.number if kind == "number" else self.column.text
        here = f"FROM records WHERE NOT {self.absent(marks)}"
        ((distinct, longest),) = self._rows(
            f"SELECT approx_count_distinct({value}), coalesce(max(length({self.column.text})), 0) {here}"
        )
        groups = f"SELECT {value} AS v, count(*) AS n {here} GROUP BY 1"
        ((rare,),) = self._rows(f"SELECT count(*) FROM ({groups}) WHERE n < 3")  # noqa: S608
        rows = self._rows(f"SELECT v FROM ({groups}) ORDER BY v LIMIT {MOST_LABELS + 1}")  # noqa: S608
        texts = tuple(number_text(row[0]) if kind == "number" else str(row[0]) for row in rows)
        if len(texts) > MOST_LABELS:
            return int(distinct), (), int(rare), int(longest)
        return len(texts), texts, int(rare), int(longest)

    def quantiles(self, value: str, marks: dict[str, int], condition: str) -> tuple[float, ...]:
        points = ", ".join(str(step / _INTERVALS) for step in range(_INTERVALS + 1))
        ((numbers,),) = self._rows(
            f"SELECT quantile_disc({value}, [{points}]) FROM records "  # noqa: S608
            f"WHERE NOT {self.absent(marks)} AND {condition}"
        )
        return tuple(map(float, numbers or ()))

    def decimals(self, marks: dict[str, int]) -> int | None:
        number = self.column.number
        for decimals in (0, 1, 2):
            test = f"{number} <> round({number}, {decimals}) AND NOT {self.absent(marks)}"
            if not self.count(f"{test} OR abs({number}) > 1e12"):
                return decimals
        return None

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.records.rows(query)


def _drafted(profile: Profile, today: date) -> DraftedAttribute:
    reason = _why_left_out(profile)
    if reason:
        return DraftedAttribute(profile.name, None, reason)
    reading = Reading(tuple(profile.marks))
    match profile.kind:
        case "boolean":
            coding: Labels | Edges = Labels(BOOLEANS, missing=profile.missing, boolean=True)
            note = ""
        case "date" if _NAMES_OF_BIRTH.search(profile.name):
            coding = Edges(tuple(map(float, _AGES)), profile.missing, 0)
            reading = Reading(tuple(profile.marks), age_at=_age_day(profile, today))
            note = "Ages in the classes of statistical offices."
        case "date":
            coding, note = _dates(profile), "Periods drafted from the records."
        case "number" if profile.values and len(profile.values) <= _MOST_NUMBER_LABELS:
            whole = profile.decimals == 0
            coding = Labels(profile.values, integer=whole, ordered=True, missing=profile.missing)
            note = "Labels drafted from the records."
        case "number":
            coding = Edges(_edges(profile), profile.missing, profile.decimals)
            note = "Edges drafted from the records."
        case _:
            labels, ordered = in_order(profile.values)
            coding = Labels(labels, ordered=ordered, missing=profile.missing)
            note = "Labels drafted from the records" + (", order recognised." if ordered else ".")
    return DraftedAttribute(profile.name, coding, note, reading, profile.marks)


def _why_left_out(profile: Profile) -> str:
    """Why a column is not declared; empty where it is."""
    if not profile.present:
        return "it is empty"
    if _NO_NAME.fullmatch(profile.name):
        return "it has no name"
    return _why_identifying(profile) or (_why_no_labels(profile) if profile.kind == "text" else "")


def _why_identifying(profile: Profile) -> str:
    if profile.kind == "number" and _looks_like_a_key(profile):
        return "it looks like a running number"
    if _NAMES_OF_PEOPLE.search(profile.name) and not (profile.kind == "number" and profile.values):
        return "its name is that of an identifier"
    return ""


def _why_no_labels(profile: Profile) -> str:
    if _NAMES_OF_TEXT.search(profile.name):
        return "its name is that of free text"
    if profile.longest > _LONGEST_LABEL:
        return "it looks like free text"
    if profile.values:
        return "most of its values are rare" if profile.rare * 2 > len(profile.values) else ""
    if profile.distinct * 2 < profile.present:
        return f"it has more than {MOST_LABELS} values: declare labels, and other for the rest"
    return "it looks like names or identifiers"


def _looks_like_a_key(profile: Profile) -> bool:
    """Whole numbers, nearly all different, about as dense as a running number."""
    low, high = profile.quantiles[0], profile.quantiles[-1]
    whole = low.is_integer() and high.is_integer()
    return whole and high - low < 2 * profile.records and profile.distinct > 0.9 * profile.records


def _age_day(profile: Profile, today: date) -> date:
    """The first of January, or today where somebody was born after it."""
    january = today.replace(month=1, day=1)
    return january if profile.quantiles[-1] <= days_of_date(january) else today


def _dates(profile: Profile) -> Edges:
    """Months, quarters, years or more: the finest with at most 24 periods."""
    first, last = (date_of_days(profile.quantiles[at]) for at in (0, -1))
    for months in (1, 3, 12, 60, 120, 600):
        starts = _starts(first, last, months)
        if len(starts) <= 25:
            break
    end = date_of_days(days_of_date(starts[-1]) - 1)
    days = tuple(float(days_of_date(day)) for day in (*starts[:-1], end))
    return Edges(days, profile.missing, 0, dates=True)


def _starts(first: date, last: date, months: int) -> list[date]:
    """Starts of periods from the one of ``first`` to the one after ``last``."""
    begin = (first.year * 12 + first.month - 1) // months
    end = (last.year * 12 + last.month - 1) // months
    counts = [period * months for period in range(begin, end + 2)]
    return [date(count // 12, count % 12 + 1, 1) for count in counts]


def _edges(profile: Profile) -> tuple[float, ...]:
    """A level for 0 where it is frequent; rounded quantiles where high values are rare, else steps."""
    low, high = profile.quantiles[0], profile.quantiles[-1]
    inflated = low >= 0 and profile.zeros * 10 > profile.present and profile.positive
    if inflated:
        return (0.0, *_increasing([_above_zero(profile), *round_quantiles(profile.positive)[1:]]))
    if _is_skewed(profile.quantiles):
        return round_quantiles(profile.quantiles)
    return round_edges(low, high, whole=profile.decimals == 0)


def _is_skewed(quantiles: Sequence[float]) -> bool:
    """Whether intervals of one width would put most values into one of them."""
    low, high = quantiles[0], quantiles[-1]
    if low >= 0:
        return high > 10 * quantiles[_INTERVALS // 2]
    return high - low > 10 * (quantiles[-2] - quantiles[1])


def _above_zero(profile: Profile) -> float:
    """The edge of the level that holds 0 and nothing else."""
    if profile.decimals is None:
        return _rung(_rung_above(profile.positive[0]) - 1)
    return float(Decimal(1).scaleb(-profile.decimals))


def _increasing(numbers: Sequence[float]) -> list[float]:
    """The numbers that are above all before them."""
    kept = [numbers[0]]
    for number in numbers[1:]:
        if number > kept[-1]:
            kept.append(number)
    return kept if len(kept) > 1 else [*kept, kept[0] + (abs(kept[0]) or 1.0)]


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
    edges = _increasing([rounded(quantiles[0], math.floor), *middle])
    last = rounded(quantiles[-1], math.ceil)
    return tuple(_increasing([*(edge for edge in edges if edge < last), last]))


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
    step = _rung_above(max(high - low, abs(high) * 1e-9, 1e-9) / _INTERVALS)
    unit = max(Decimal(repr(_rung(step))), Decimal(1 if whole else 0))
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
