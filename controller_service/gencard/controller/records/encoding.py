"""Encoding of stored values as codes: a little SQL inside the engine, the rest in numpy.

An encoder writes one SQL expression that yields exactly one number for each record, never NULL and
never a value's text, and turns a batch of these numbers into codes.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.controller.records.file_format import USUAL, FileFormat, quoted
from gencard.core.coding import (
    PLAIN,
    Attribute,
    Coding,
    Edges,
    Labels,
    Reading,
    adjusted,
    codes_of_numbers,
    is_declared,
)
from gencard.core.dataset import code_dtype, steps_reached
from gencard.core.domain import Clique
from gencard.core.errors import InvalidCodingError, InvalidInputError, UndeclaredLevelError
from gencard.core.scale import Scale
from gencard.core.types import IntArray
from gencard.core.values import (
    DAYS,
    EMPTY,
    EXACT,
    LAST_DAYS,
    PLAIN_NUMBER,
    TEXT_RULES,
    WHOLE_NUMBER,
    number_of,
    plain_numbers,
)

_UNDECLARED = -1
_NANOSECONDS = "TIMESTAMPTZ"
_INSTANTS = ("TIMESTAMP WITH TIME ZONE", _NANOSECONDS)
"""Beginnings of the names of types, the latter that of instants in nanoseconds."""

_INSTANT = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}"
    r"(:[0-9]{2}([.][0-9]{1,9})?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)"
)
_MIDNIGHT = r"[^:]*[T ]00:00(:00([.]0+)?)?"

_NUMBERS = (
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"),
)


@dataclass(frozen=True, slots=True)
class EngineColumn:
    """A column as the file stores it: its name and the engine's type, in a file of some format."""

    name: str
    kind: str
    format: FileFormat = USUAL
    stored_name: str = ""

    @property
    def sql(self) -> str:
        return quoted(self.stored_name or self.name, '"')

    @property
    def text(self) -> str:
        text = f"CAST({self.sql} AS VARCHAR)"
        return f"trim({text})" if self.format.trim else text

    @property
    def number(self) -> str:
        """SQL for the value as a float, NULL if it is none."""
        number = self.sql if self.is_number else self.format.number(self.text)
        if self.kind == "FLOAT":  # 0.7 of half the digits is 0.7, and not 0.699999988
            number = f"CAST({self.sql} AS VARCHAR)"
        return f"TRY_CAST({number} AS DOUBLE)"

    @property
    def calendar_date(self) -> str:
        """SQL for the value as a date, NULL if it is none."""
        if self.kind == "TIMESTAMP_NS":  # a cast would round to microseconds, and to the next day
            return f"TRY_CAST(substr(CAST({self.sql} AS VARCHAR), 1, 10) AS DATE)"
        if self.kind.startswith(("DATE", "TIMESTAMP")):
            return f"CAST({self.sql} AS DATE)"
        return self.compact_date if self.is_number else self.format.date(self.text, self.compact_date)

    @property
    def text_rules(self) -> tuple[str, ...]:
        """Tests of a value of a text file: a decimal mark, then the signs of ``TEXT_RULES``."""
        whole = self.format.whole(self.text)
        signs = (f"regexp_full_match({whole}, '{rule.pattern}')" for rule in TEXT_RULES)
        return f"({self.number} IS NOT NULL AND {whole} IS NULL)", *signs

    def is_plain_label(self, labels: Sequence[str]) -> str:
        """SQL for whether a text is one of some labels, and a whole number without any of the signs.

        It is true of other texts of one character, too: none of these shows a sign.
        """
        plain = [quoted(label) for label in labels if re.fullmatch("[1-9][0-9]{1,14}", label)]
        longer = f" OR {self.text} IN ({', '.join(plain)})" if plain else ""
        return f"strlen({self.text}) < 2{longer}"

    @property
    def compact_date(self) -> str:
        """The value as a date if it is the whole number YYYYMMDD, else NULL."""
        digits = f"regexp_replace({self.text}, '[.]0+$', '')"  # as floats, where some are missing
        first, last = DAYS
        inside = f"regexp_full_match({digits}, '[0-9]{{8}}') AND {digits} BETWEEN '{first}' AND '{last}'"
        return f"CASE WHEN {inside} THEN CAST(try_strptime({digits}, '%Y%m%d') AS DATE) END"

    @property
    def days(self) -> str:
        """SQL for the value as days since 1970-01-01, NULL if it is no date."""
        return f"CAST(date_diff('day', DATE '1970-01-01', {self.calendar_date}) AS DOUBLE)"

    @property
    def has_instants(self) -> bool:
        """Whether the engine's type says that all values are instants."""
        return self.kind.startswith(_INSTANTS)

    @property
    def is_instant(self) -> str:
        """SQL for whether a text states an instant: date, time and offset in ISO 8601."""
        return f"regexp_full_match({self.text}, '{_INSTANT}')"

    @property
    def is_day(self) -> str:
        """SQL for whether the value is a date of the years 1 to 9999."""
        first, last = LAST_DAYS
        return f"{self.calendar_date} BETWEEN DATE '{first}' AND DATE '{last}'"

    @property
    def plain_days(self) -> str:
        """SQL for the value as days since 1970-01-01, NULL if it is no date or has a time of day."""
        return f"CASE WHEN {self.is_midnight} THEN {self.days} END"

    @property
    def is_midnight(self) -> str:
        """SQL for whether a date has no time of day, or that of midnight without an offset."""
        if self.kind == "DATE":
            return "true"
        if self.kind.startswith("TIMESTAMP"):
            return f"({self.text} LIKE '%00:00:00')"
        return f"(NOT contains({self.text}, ':') OR regexp_full_match({self.text}, '{_MIDNIGHT}'))"

    @property
    def timed(self) -> str:
        """SQL for whether the value is a date with a time of day or an offset, which a date has not."""
        if self.has_instants:
            return f"{self.sql} IS NOT NULL"
        return f"CASE WHEN {self.is_midnight} THEN false ELSE {self.days} IS NOT NULL END"

    @property
    def local(self) -> str:
        """SQL for whether the value is a text with a date, with or without a time, but no offset."""
        is_text = self.kind == "VARCHAR"
        return f"{self.days} IS NOT NULL AND NOT {self.is_instant}" if is_text else "false"

    def in_zone(self, zone: str, *, times: bool) -> str:
        """Return SQL for an instant's days since 1970-01-01, or minutes since midnight, in a zone.

        NULL if the value is no instant: it has no offset from UTC.
        """
        exact = (
            f"regexp_replace({self.text}, '([.][0-9]{{6}})[0-9]+', '\\1')"  # else it would be rounded
        )
        instant = f"CASE WHEN {self.is_instant} THEN TRY_CAST({exact} AS TIMESTAMPTZ) END"
        # this cast would round instants in nanoseconds, and to the next day
        if self.has_instants and not self.kind.startswith(_NANOSECONDS):
            instant = f"CAST({self.sql} AS TIMESTAMP WITH TIME ZONE)"
        local = f"timezone({quoted(zone)}, {instant})"
        if times:
            return f"CAST(hour({local}) * 60 + minute({local}) AS DOUBLE)"
        return f"CAST(date_diff('day', DATE '1970-01-01', CAST({local} AS DATE)) AS DOUBLE)"

    def age(self, day: date) -> str:
        """Return SQL for the completed years from the value to a day; NULL if the value is no date."""
        return f"CAST(date_sub('year', {self.calendar_date}, DATE '{day.isoformat()}') AS DOUBLE)"

    @property
    def is_number(self) -> bool:
        """Whether the engine's type says that all values are numbers."""
        return self.kind.startswith(_NUMBERS)

    @property
    def is_float(self) -> bool:
        """Whether values are numbers whose texts differ from engine to engine."""
        return self.kind.startswith(("FLOAT", "DOUBLE", "DECIMAL")) and not self.kind.endswith(",0)")

    @property
    def is_nan(self) -> str:
        """SQL for whether the value is the float that is no number."""
        # Workaround: on Parquet whose statistics leave NaN out, as Arrow writes them, DuckDB takes
        # isnan() for false (duckdb/duckdb#7803, #25521). A cast to text helps, unless all other values
        # are equal.
        if self.is_float:
            return f"coalesce(CAST({self.sql} AS VARCHAR) = 'nan', false)"
        return "false" if self.is_number else f"coalesce(isnan({self.number}), false)"

    def absent(
        self,
        tokens: Sequence[str],
        labels: Sequence[str] = (),
        *,
        as_text: bool = False,
        empty: bool = True,
    ) -> str:
        """Return SQL for whether the value is empty, or one of the tokens, as text or as a number.

        Args:
            labels: Texts of which none is a token as a number: beside 099, the token 99 is another code.
            as_text: Texts are compared as texts alone.
            empty: The empty text is a value that is missing.
        """
        has_texts = empty and self.kind == "VARCHAR"
        texts = [quoted(token) for token in (*tokens, *([EMPTY] if has_texts else []))]
        numbers = [repr(number) for token in tokens if (number := number_of(token)) is not None]
        numbers = [] if as_text and not self.is_number else numbers
        tests = [f"{self.sql} IS NULL"]
        tests += [f"{self.text} = ''"] if self.format.trim else []
        tests += [f"{self.text} IN ({', '.join(texts)})"] if texts else []
        if numbers:
            declared = ", ".join(quoted(label) for label in labels)
            unless = f" AND {self.text} NOT IN ({declared})" if labels else ""
            tests += [f"(coalesce({self.number} IN ({', '.join(numbers)}), false){unless})"]
        return " OR ".join(tests)

    def code_by_number(self, labels: Sequence[str]) -> str:
        """Return SQL for the place of the label with the same number, such as 1 for 1.0; else NULL.

        Programs write whole numbers as floats if some are missing. A code such as 007 is no number.
        """
        inside = f"abs({self.number}) < {EXACT!r}"
        if self.is_float:
            inside = "true"
        elif not self.is_number:
            inside = f"regexp_full_match({self.text}, '{PLAIN_NUMBER}') AND {inside}"
        places = plain_numbers(labels, exact=not self.is_float)
        if not places:
            return "NULL"
        cases = " ".join(f"WHEN {number!r} THEN {place}" for number, place in places.items())
        return f"CASE WHEN {inside} THEN CASE {self.number} {cases} END END"

    def exact_number(self, labels: Sequence[str]) -> str:
        """SQL for the value as a float; infinity for whole numbers that equal a label only as floats."""
        large = [label for label in labels if abs(float(label)) >= EXACT]
        if not large:  # then no other whole number is a label's float
            return self.number
        texts = ", ".join(quoted(label) for label in large)
        other = f"regexp_full_match({self.text}, '{WHOLE_NUMBER}') AND {self.text} NOT IN ({texts})"
        return (
            f"CASE WHEN abs({self.number}) >= {EXACT!r} AND {other} THEN 'inf'::DOUBLE "
            f"ELSE {self.number} END"
        )


@cache
def zones() -> frozenset[str]:
    """Return the names of the IANA database of zones, such as ``America/New_York``.

    The names are those of the package tzdata: ``zoneinfo`` would take the host's own database first, and
    a schema would be valid on one host only. ``Factory`` is left out, a zone that is not set.
    """
    # the engines convert by tables of their own; tests compare these with each other and with tzdata
    names = (resources.files("tzdata") / "zones").read_text(encoding="utf-8").split()
    return frozenset(names) - {"Factory"}


def without_offset(name: str) -> InvalidCodingError:
    """Return the refusal of an attribute with a zone whose values are no instants."""
    problem = (
        "it has a zone, but its values have no offset from UTC, so their instants are not known: store "
        "them with their offset, as 2013-01-01T05:15:00-05:00, or take the zone away"
    )
    return InvalidCodingError(attribute=name, problem=problem)


def without_zone(name: str) -> InvalidCodingError:
    """Return the refusal of dates without a zone whose values have a time of day."""
    problem = (
        "its values have a time of day, and it has no zone: store them with their offset from UTC, and "
        'state the zone in which they have a date, such as zone = "America/New_York"'
    )
    return InvalidCodingError(attribute=name, problem=problem)


def are_dates(coding: Labels | Edges) -> bool:
    return isinstance(coding, Edges) and coding.dates


def are_plain_days(coding: Labels | Edges) -> bool:
    """Return whether values are dates that may have no time of day: those of schemas with a step.

    Dates of earlier schemas may have one. Then the date in UTC counts, or the date as it is written.
    """
    return isinstance(coding, Edges) and coding.dates and coding.scale is not None


def of_dates(coding: Coding) -> Clique:
    return tuple(name for name in coding.stored if are_dates(coding.attribute(name).coding))


def by_value(coding: Coding) -> Clique:
    """Return the stored attributes with labels that are compared as numbers."""
    codings = {name: coding.attribute(name).coding for name in coding.stored}
    return tuple(name for name, one in codings.items() if isinstance(one, Labels) and one.by_value)


@dataclass(frozen=True, slots=True)
class TextEncoder:
    """Encoder of labels that are compared as text, inside the engine."""

    name: str
    coding: Labels
    reading: Reading = PLAIN

    def expression(self, column: EngineColumn) -> str:
        levels = ", ".join(quoted(label) for label in self.coding.labels)
        text = f"lower({column.text})" if self.coding.boolean else column.text  # True, TRUE, true
        code = f"CAST(enum_code(TRY_CAST({text} AS ENUM({levels}))) AS INTEGER)"
        as_text = self.coding.text
        by_number = column.code_by_number(self.coding.labels)
        if as_text and column.is_float:  # of which no two engines write the same text
            code = by_number
        elif column.is_number or not as_text:
            code = f"coalesce({code}, {by_number})"
        absent = len(self.coding.labels) if self.coding.missing else _UNDECLARED
        other = self.coding.labels.index(self.reading.other) if self.reading.other else _UNDECLARED
        labels = self.coding.labels
        # in schemas with ``other``, empty texts and NaN always were values of that
        no_other = self.reading.other is None
        empty = EMPTY not in labels and no_other
        test = column.absent(self.reading.absent, labels, as_text=as_text, empty=empty)
        test += f" OR {column.is_nan}" if column.is_number and no_other else ""
        return f"CASE WHEN {test} THEN {absent} ELSE coalesce({code}, {other}) END"

    def declared(self, numbers: NDArray[Any]) -> NDArray[np.bool_]:
        return np.asarray(numbers >= 0)

    def codes(self, numbers: NDArray[Any]) -> NDArray[Any]:
        # the error names the attribute, never the value: it may reach the analyst
        if not np.all(self.declared(numbers)):
            raise UndeclaredLevelError(attribute=self.name)
        return numbers.astype(code_dtype(self.coding.size))


@dataclass(frozen=True, slots=True)
class NumberEncoder:
    """Encoder of edges of numbers or dates, and of labels that are numbers: 6 and 6.0 are one value."""

    name: str
    coding: Labels | Edges
    reading: Reading = PLAIN

    def expression(self, column: EngineColumn) -> str:
        value = f"coalesce({self._value(column)}, 'inf'::DOUBLE)"
        labels = self.coding.labels if isinstance(self.coding, Labels) else ()
        absent = column.absent(self.reading.absent, labels)
        if column.is_float and (are_dates(self.coding) or self.reading.age_at is not None):
            absent += f" OR {column.is_nan}"  # whole numbers YYYYMMDD, of which some are missing
        return f"CASE WHEN {absent} THEN 'nan'::DOUBLE ELSE {value} END"

    def _value(self, column: EngineColumn) -> str:
        if self.reading.age_at is not None:
            return column.age(self.reading.age_at)
        if self.reading.zone:
            if column.kind != "VARCHAR" and not column.has_instants:
                raise without_offset(self.name)
            return column.in_zone(self.reading.zone, times=bool(self.reading.time_of))
        if are_plain_days(self.coding):
            if column.has_instants:
                raise without_zone(self.name)
            return column.plain_days
        if isinstance(self.coding, Labels):
            return column.exact_number(self.coding.labels)
        return column.days if are_dates(self.coding) else column.number

    def declared(self, numbers: NDArray[Any]) -> NDArray[np.bool_]:
        match self.coding:
            case Edges():
                return is_declared(self.coding, adjusted(self.coding, numbers))
            case Labels():
                levels, _ = _in_order(self.coding)
                absent = np.isnan(numbers)
                if self.reading.other:
                    return np.asarray(~absent | self.coding.missing)
                known = levels.take(steps_reached(numbers, levels[1:].tolist())) == numbers
                return np.asarray(known | (absent & self.coding.missing))

    def codes(self, numbers: NDArray[Any]) -> NDArray[Any]:
        match self.coding:
            case Edges():
                return codes_of_numbers(self.name, self.coding, numbers)
            case Labels():
                coding = self.coding
                levels, order = _in_order(coding)
                # the place of each number among ascending levels, if it is one of them
                nearest, absent = steps_reached(numbers, levels[1:].tolist()), np.isnan(numbers)
                if not np.all(self.declared(numbers)):
                    raise UndeclaredLevelError(attribute=self.name)
                codes = order.astype(code_dtype(coding.size)).take(nearest)
                if self.reading.other:
                    codes[levels.take(nearest) != numbers] = coding.labels.index(self.reading.other)
                codes[absent] = len(levels)
                return codes


def _in_order(coding: Labels) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    levels = np.array([float(label) for label in coding.labels])
    order = np.argsort(levels)
    return levels[order], order


Encoder = TextEncoder | NumberEncoder
"""Encoder of one attribute's values as codes.

``expression`` is SQL for one number per record. ``declared`` says which numbers of a batch have a level,
and ``codes`` returns their codes, or raises UndeclaredLevelError, which names no value.
"""


def encoder_of(attribute: Attribute, reading: Reading = PLAIN) -> Encoder:
    match attribute.coding:
        case Labels(by_value=by_value):
            kind = NumberEncoder if by_value else TextEncoder
            return kind(attribute.name, attribute.coding, reading)
        case Edges():
            return NumberEncoder(attribute.name, attribute.coding, reading)


def query_of(expressions: Sequence[str]) -> str:
    columns = [f"{expression} AS c{axis}" for axis, expression in enumerate(expressions)]
    return f"SELECT {', '.join(columns)} FROM records"  # noqa: S608  # names are quoted


def sources_of(coding: Coding, attributes: Clique) -> Clique:
    """Return the stored attributes from which these follow."""
    derivations = (coding.attribute(name).derivation for name in attributes)
    sources = {name for how in derivations if how is not None for name in how.sources}
    return tuple(name for name in coding.stored if name in sources or name in attributes)


def check_numbers(coding: Coding, attributes: Clique) -> None:
    """Raise InvalidInputError for an attribute of which no numbers are stored."""
    for one in map(coding.attribute, attributes):
        if not isinstance(one.coding, Edges) or one.derivation is not None:
            raise InvalidInputError(field="uncoded", problem=f"'{one.name}' has no declared edges")


def scales_of(coding: Coding) -> dict[str, Scale]:
    """Return the scale of each stored attribute that has one."""
    codings = {name: coding.attribute(name).coding for name in coding.stored}
    return {
        name: one.scale
        for name, one in codings.items()
        if isinstance(one, Edges) and one.scale is not None
    }


def adjusted_numbers(
    coding: Coding, attributes: Clique, columns: Sequence[NDArray[Any]]
) -> list[NDArray[Any]]:
    """Return numbers as they count: rounded and clamped. Columns, shape ``(n,)``, behind them stay."""
    codings = [coding.attribute(name).coding for name in attributes]
    counted = [
        adjusted(one, column) if isinstance(one, Edges) else column
        for one, column in zip(codings, columns, strict=False)
    ]
    return [*counted, *columns[len(counted) :]]


def with_derived(
    coding: Coding,
    attributes: Clique,
    stored: Clique,
    columns: Sequence[NDArray[Any]],
    of_person: Callable[[Attribute, IntArray], NDArray[Any]] | None = None,
) -> list[NDArray[Any]]:
    """Return codes of attributes, derived from those of stored attributes, then the other columns."""
    codes = dict(zip(stored, columns, strict=False))
    for one in map(coding.attribute, attributes):
        if (how := one.derivation) is not None:
            sizes = coding.domain.project(how.sources).sizes
            entries = how.of_records([codes[name] for name in how.sources], sizes)
            count = of_person if how.per_person else None
            codes[one.name] = entries if count is None else count(one, entries)
    return [*(codes[name] for name in attributes), *columns[len(stored) :]]


_NEW_MARKS = {"escape": None, "comment": "", "header": True, "sheet": "", "line_ends": ""}
"""Fields of formats that are left out at these values: they were not there in earlier versions."""


def how_read(
    file_format: FileFormat, readings: Mapping[str, Reading], persons: tuple[str, int] | None = None
) -> str:
    """Format, readings and rule of persons as text, the same for what a job gets as JSON."""
    # zones only if there are some, as versions of before have none
    unusual = {
        name: {
            key: value for key, value in asdict(one).items() if value or key not in ("zone", "time_of")
        }
        for name, one in readings.items()
        if one != PLAIN
    }
    stated = {
        name: value
        for name, value in asdict(file_format).items()
        if name != "file_mib"  # says how much is read, not how
        if name not in _NEW_MARKS or value != _NEW_MARKS[name]
    }
    whole: dict[str, Any] = {"format": stated, "readings": unusual}
    whole |= {} if persons is None else {"persons": list(persons)}
    whole |= {"stated dates": "first"} if file_format.dates_first else {}
    return json.dumps(whole, sort_keys=True, default=str)


def encoders_of(coding: Coding, readings: Mapping[str, Reading], names: Clique) -> list[Encoder]:
    return [encoder_of(coding.attribute(name), readings.get(name, PLAIN)) for name in names]
