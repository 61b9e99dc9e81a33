"""Layout of a text file: encoding, delimiter, lines before the header, marks of numbers, dates.

``look_at`` reads a whole file and concludes it: for ``init``, which drafts what it says, and for the
readers of the client, which know the names of the columns.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path

from gencard.core.errors import EmptyDatasetError, InvalidInputError
from gencard.core.values import MARKS
from gencard.files import LONGEST_LINE, lines_of
from gencard.files.content import MOST_BYTES, check_names, empty_words, open_content, open_text_content

DELIMITERS = (",", ";", "\t", "|")
_WORDS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_FIRST_LINES = 200

_ENCODINGS = ("utf-8-sig", "cp1252", "latin-1")
_SAMPLE = 5_000
"""Records from which the marks of numbers and dates are detected."""
_MOST_LINES_NAMED = 5
_MOST_DAYS = 100_000
"""Different values of a column of dates that are compared with the formats: 270 years of days."""
_TRIED = 500
"""Values of which one must be a date for all of a column to be compared with the formats."""

DATES = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y"),
    *("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%y"),
)
DAY_OR_MONTH_FIRST = ("%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y")
"""Formats between which no value decides whose day is 12 at most."""

_DATE_LIKE = re.compile(r"\d+([./-])\d+\1\d+")

_COMMA = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d+),\d+")
_POINT = re.compile(r"[+-]?(\d{1,3}(,\d{3})+|\d+)\.\d+")
_GROUPED = {
    ".": re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d+)?"),
    ",": re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?"),
}


Rows = list[list[str]]


@dataclass(frozen=True, slots=True)
class TextLayout:
    """Layout of a text file, as a look at it concludes; each field has the meaning of a stated format.

    ``dates`` are formats besides ISO 8601; ``line_ends`` is ``mixed`` if lines end in several ways.
    """

    encoding: str = "utf-8"
    delimiter: str = ","
    skip: int = 0
    decimal: str = "."
    thousands: str = ""
    dates: tuple[str, ...] = ()
    trim: bool = False
    line_ends: str = ""

    def plain_number(self, text: str) -> str | None:
        """Return the text of a number as programs write it; None if it is no number here."""
        group = re.escape(self.thousands)
        digits = rf"(\d+|\d{{1,3}}({group}\d{{3}})+)" if group else r"\d+"
        number = rf"[+-]?{digits}({re.escape(self.decimal)}\d+)?([eE][+-]?\d+)?"
        if not re.fullmatch(number, text, re.ASCII):
            return None
        return (text.replace(self.thousands, "") if group else text).replace(self.decimal, ".")

    def __str__(self) -> str:
        """Return the differences from UTF-8 with commas, for people; may be empty."""
        skipped = f"{self.skip} line{'s'[: self.skip > 1]} before the header skipped"
        marks = [f"decimal {'comma' if self.decimal == ',' else 'point'}"] * (self.decimal != ".")
        words = {",": "commas", ".": "points", "": ""}.get(self.thousands, repr(self.thousands))
        parts = [
            *([self.encoding] if self.encoding != "utf-8" else []),
            *([_WORDS.get(self.delimiter, repr(self.delimiter))] if self.delimiter != "," else []),
            *([skipped] if self.skip else []),
            *marks,
            *([f"{words} between thousands"] if self.thousands else []),
            *(f"dates as {form}" for form in self.dates),
            *(["spaces around values left out"] if self.trim else []),
        ]
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class TextLook:
    """Conclusions of a look at a text file.

    Args:
        records: Their number; in a file of one column, an empty line is a record.
        columns: Column -> values of the first records that are present.
        days: Column that holds dates -> its different values, of all records.
        note: Sentence on empty lines; may be empty.
    """

    layout: TextLayout
    records: int
    columns: dict[str, list[str]]
    days: dict[str, list[str]]
    note: str = ""


def look_at(
    path: Path, field: str, *, most_bytes: int = MOST_BYTES, most_columns: int, names: Sequence[str] = ()
) -> TextLook:
    """Read a text file, and conclude how it is written.

    Args:
        names: Names that the header has; without them, the delimiter is the one that gives all lines
            the same number of values, and control characters are refused: with them, the levels are
            known, and no other text passes.

    Raises:
        EmptyDatasetError: The file is empty.
        InvalidInputError: It cannot be decoded, has no header or one that repeats a name, has lines
            with more or fewer values than the header, or could be read in two ways; names the lines.
    """
    encoding = _encoding(path, field, most_bytes)
    lines = first_lines(path, field, encoding, most_bytes)
    comments = _comments(lines)
    delimiter, skip = _delimiter_with(lines[comments:], names, field)
    skip += comments
    with open_text_content(path, field, encoding, most_bytes) as file:
        noted = _Lines(lines_of(file, too_long(field)), field, is_strict=not names)
        read = _checked_sample(noted, field, delimiter, skip, most_columns)
    header = [name.strip() for name in read.header]
    sample = [*zip(*read.sample, strict=True)]
    columns = {name: _present(column) for name, column in zip(header, sample, strict=True)}
    days = {header[place]: _present([*values]) for place, values in read.days.items()}
    decimal, thousands = number_marks([*columns.values()])
    layout = TextLayout(
        encoding=encoding.removesuffix("-sig"),
        delimiter=delimiter,
        skip=skip,
        decimal=decimal,
        thousands=thousands,
        dates=date_formats([*days.values()]),
        trim=any(value != value.strip() for column in sample for value in {*column}),
        line_ends="mixed" if len(read.ends) > 1 else "",
    )
    return TextLook(layout, read.records, columns, days, read.note)


def too_long(field: str) -> InvalidInputError:
    """Return the error for a line without end."""
    return InvalidInputError(
        field=field,
        problem=f"has a line of more than {LONGEST_LINE >> 20} million characters",
        advice="Check that the file is CSV with line ends, and split wide tables.",
    )


def first_lines(path: Path, field: str, encoding: str, most_bytes: int = MOST_BYTES) -> list[str]:
    """The first lines of a text file; raises InvalidInputError where one is too long."""
    with open_text_content(path, field, encoding, most_bytes) as file:
        return list(islice(lines_of(file, too_long(field)), _FIRST_LINES))


def delimiter_of(lines: Sequence[str]) -> tuple[str, int]:
    """The delimiter of the first lines of a file, and the number of lines before the header."""
    sep = re.fullmatch(r"sep=(.)\s*", lines[0]) if lines else None
    if sep:
        return sep[1], 1
    return max(DELIMITERS, key=lambda delimiter: _regularity(lines, delimiter)), 0


def _regularity(lines: Sequence[str], delimiter: str) -> tuple[int, int]:
    """Number of records with as many values as the header, if these are several; number of values."""
    try:
        rows = [row for row in csv.reader(lines, delimiter=delimiter) if row]
    except csv.Error:  # such as a line that is one value of more than 128 KiB by this delimiter
        return 0, 0
    width = len(rows[0]) if rows else 0
    return (sum(len(row) == width for row in rows) if width > 1 else 0, width)


def _delimiter_with(lines: Sequence[str], names: Sequence[str], field: str) -> tuple[str, int]:
    """The delimiter with which the header has some names, else that of the first lines."""
    likely, skip = delimiter_of(lines)
    if skip or not names:
        return likely, skip
    fitting = []
    for one in DELIMITERS:
        with suppress(csv.Error):
            header = next(csv.reader(lines, delimiter=one), [])
            fitting += [one] if {*names} <= {name.strip() for name in header} else []
    if len(fitting) > 1 and likely not in fitting:
        words = " or ".join(_WORDS[one] for one in fitting)
        problem = f"could have {words} between its values: the header has the names in each case"
        raise InvalidInputError(field=field, problem=problem, advice=_SAVE_AGAIN)
    return likely if likely in fitting or not fitting else fitting[0], 0


_SAVE_AGAIN = "Save the file again as CSV in UTF-8, with commas between values."


def _comments(lines: Sequence[str]) -> int:
    """Number of lines before the header that begin with ``#``, as comments do.

    A single such line may also be the header, if the next line has as many values.
    """
    others = (number for number, line in enumerate(lines) if not line.startswith("#"))
    comments = next(others, 0)
    if comments == 1 and len(lines) > 1:
        delimiter, _ = delimiter_of(lines[1:])
        first, second = (next(csv.reader([line], delimiter=delimiter), []) for line in lines[:2])
        return 0 if len(first) == len(second) > 1 else 1
    return comments


def _present(column: Sequence[str]) -> list[str]:
    stripped = {value: value.strip() for value in {*column}}  # different values are often few
    present = {value: text for value, text in stripped.items() if text and text not in MARKS}
    return [present[value] for value in column if value in present]


def _encoding(path: Path, field: str, most_bytes: int) -> str:
    """By the byte order mark, else the first encoding that decodes every byte."""
    with open_content(path, field, most_bytes) as file:
        head = file.read(4_096)
    if not head:
        raise EmptyDatasetError()
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if head[:512].count(0) * 4 > len(head[:512]):  # every second byte of most texts in UTF-16 is 0
        return "utf-16-le" if head[1:2] == b"\x00" else "utf-16-be"
    for encoding in _ENCODINGS:
        with suppress(UnicodeDecodeError), open_text_content(path, field, encoding, most_bytes) as text:
            while text.read(1 << 20):
                pass
            return encoding
    raise InvalidInputError(field=field, problem="cannot be decoded as text", advice=_SAVE_AGAIN)


@dataclass(frozen=True, slots=True)
class _Checked:
    """First records, number of records, values of dates by place, ends of lines, note on empty lines."""

    header: list[str]
    sample: Rows
    records: int
    days: dict[int, dict[str, None]]
    ends: set[str]
    note: str


def _checked_sample(
    noted: "_Lines", field: str, delimiter: str, skip: int, most_columns: int
) -> _Checked:
    """Read every line: the first records, how many there are, all dates, and the ends of lines.

    Refuses a file with lines of another width, or with control characters. In a file of one column, an
    empty line is a record; in others the note says how many there are.
    """
    lines = iter(noted)
    for _ in range(skip):
        next(lines)
        noted.end_record()
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    with _readable(reader, skip, field):
        header = next(reader, [])
        noted.end_record()
        _check_header(header, skip + 1, field, most_columns)
        sample: Rows = []
        wrong: list[int] = []
        records, empty, first_empty, last_empty = 0, 0, 0, 0
        days: dict[int, dict[str, None]] | None = None  # looked for once the sample is complete
        for row in reader:
            noted.end_record()
            records += bool(row) or len(header) == 1
            if not row:
                first_empty = first_empty or reader.line_num + skip
                empty += 1
            last_empty = 0 if row else last_empty + 1
            if row and len(row) != len(header):
                wrong.append(reader.line_num + skip)
            elif row and len(sample) < _SAMPLE:
                sample.append(row)
            elif row:
                days = _days_in(sample) if days is None else days
                _add_days(days, row)
    if wrong:
        raise InvalidInputError(field=field, problem=_ragged(wrong, len(header)))
    if not sample:
        raise EmptyDatasetError()
    is_record = len(header) == 1
    empty -= 0 if is_record else last_empty  # lines at the end of a file are no records in any case
    meaning = "is a record" if is_record else "is no record"
    note = empty_words(empty, "line", first_empty, meaning) if empty else ""
    days = _days_in(sample) if days is None else days
    return _Checked(header, sample, records, days, noted.ends, note)


_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class _Lines:
    """Lines of a file, and the ends of its records; if it is strict, refuses control characters."""

    def __init__(self, lines: Iterator[str], field: str, *, is_strict: bool) -> None:
        self._lines, self._field, self._is_strict, self._last = lines, field, is_strict, ""
        self.ends: set[str] = set()

    def __iter__(self) -> Iterator[str]:
        for number, line in enumerate(self._lines, 1):
            if self._is_strict and (match := _CONTROL.search(line)):
                place = f"line {number}, character {match.start() + 1}"
                problem = f"has the control character U+{ord(match[0]):04X} in {place}"
                raise InvalidInputError(field=self._field, problem=problem, advice=_NO_CONTROL)
            self._last = line
            yield line

    def end_record(self) -> None:
        """Note how the last line ends; the last one of a file may have no end."""
        end = self._last[len(self._last.rstrip("\r\n")) :]
        if end:
            self.ends.add(end if end == "\r\n" else end[-1])


_NO_CONTROL = "Remove it, or export the file again. Tabs and line ends may stand in quotation marks."


def _days_in(sample: Rows) -> dict[int, dict[str, None]]:
    """Return the different values of the columns of dates, by place."""
    columns = (dict.fromkeys(column) for column in zip(*sample, strict=True))
    return {place: values for place, values in enumerate(columns) if _fitting(_present([*values]))}


def _add_days(days: dict[int, dict[str, None]], row: Sequence[str]) -> None:
    for place, values in days.items():
        if len(values) < _MOST_DAYS:
            values[row[place]] = None


@contextmanager
def _readable(reader: Iterator[list[str]], skip: int, field: str) -> Iterator[None]:
    """Raises InvalidInputError with the line where quotes are not closed, or a value is too long."""
    try:
        yield
    except csv.Error as error:
        line = getattr(reader, "line_num", 0) + skip
        problem = f"has a quotation mark that is not closed, or text after one, near line {line}"
        if "field limit" in str(error):
            problem = f"has a name or value of more than 128 KiB near line {max(line, 1)}"
        raise InvalidInputError(field=field, problem=problem) from None


def _check_header(header: Sequence[str], line: int, field: str, most_columns: int) -> None:
    names = [name.strip() for name in header]
    if len(names) > most_columns:
        problem = f"has more than {most_columns:,} columns; a schema is drafted for at most as many"
        raise InvalidInputError(field=field, problem=problem)
    if not any(names):
        raise InvalidInputError(field=field, problem=f"has no column names in line {line}")
    repeated = [name for name, count in Counter(filter(None, names)).items() if count > 1]
    if repeated:
        names_text = ", ".join(f"'{name}'" for name in repeated)
        problem = f"repeats column names in line {line}: {names_text}; rename the columns"
        raise InvalidInputError(field=field, problem=problem)
    check_names([name for name in names if name], field, f"in line {line}")


def _ragged(lines: Sequence[int], width: int) -> str:
    numbers_text = ", ".join(map(str, lines[:_MOST_LINES_NAMED]))
    more = " and others" if len(lines) > _MOST_LINES_NAMED else ""
    place = f"line{'s'[: len(lines) > 1]} {numbers_text}{more}"
    return (
        f"has more or fewer than the header's {width} values in {place}; "
        "values that contain the delimiter need quotation marks"
    )


def number_marks(columns: Sequence[Sequence[str]]) -> tuple[str, str]:
    """The marks before decimals and between thousands."""
    counted = [Counter(column) for column in columns]  # each different value is compared once
    commas = sum(_mostly(counts, _COMMA) for counts in counted)
    points = sum(_mostly(counts, _POINT) for counts in counted)
    decimal, group = (",", ".") if commas > points else (".", ",")
    number = re.compile(rf"[+-]?(\d+|\d{{1,3}}([{group}]\d{{3}})+)([{decimal}]\d+)?")
    grouped = any(
        any(map(_GROUPED[group].fullmatch, counts))
        and 10 * _matching(counts, number) >= 9 * counts.total()
        for counts in counted
    )
    return decimal, group if grouped else ""


def _mostly(counts: Counter[str], pattern: re.Pattern[str]) -> bool:
    """Whether at least one in ten values is a number with this mark: the others may be whole."""
    return bool(counts) and 10 * _matching(counts, pattern) >= counts.total()


def _matching(counts: Counter[str], pattern: re.Pattern[str]) -> int:
    return sum(times for value, times in counts.items() if pattern.fullmatch(value))


def date_formats(columns: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The formats that fit nearly all values of some column, in the order in which they are tried.

    A file has one order of day and month. Columns that tell it decide; the day is first where none does.
    """
    fitting = sorted((_fitting(column) for column in columns), key=len)  # one format: it decides
    formats: list[str] = []
    for candidates in fitting:
        if not candidates or {*candidates} & {*formats}:
            continue
        first = candidates[0]
        others = [other for other in formats if other in DAY_OR_MONTH_FIRST]
        if first not in DAY_OR_MONTH_FIRST or all(first[:2] == other[:2] for other in others):
            formats.append(first)
    return tuple(formats)


def _fitting(column: Sequence[str]) -> list[str]:
    """The formats that fit most values of a column; none where they are not nearly all."""
    values = list(dict.fromkeys(column))
    tried = filter(_DATE_LIKE.fullmatch, values[:_TRIED])  # most columns have no such value
    if not any(is_date(value, form) for value in tried for form in DATES):
        return []
    fits = {form: sum(is_date(value, form) for value in values) for form in DATES}
    most = max(fits.values())
    return [form for form in DATES if fits[form] == most and 10 * most >= 9 * len(values) > 0]


def is_date(text: str, form: str) -> bool:
    # strptime is slow, and most values are not even of this form
    with suppress(ValueError):
        return bool(_DATE_LIKE.fullmatch(text) and datetime.strptime(text, form))
    return False
