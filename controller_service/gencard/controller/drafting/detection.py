"""A first look at a CSV file for `init`: how it is written, and which of its lines cannot be read.

A running service never takes this look: it reads what the settings state.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TextIO

from gencard.controller.records.file_format import TOO_LONG, FileFormat, delimiter_of, first_lines
from gencard.core.errors import EmptyDatasetError, InvalidInputError
from gencard.core.values import MARKS
from gencard.files import lines_of
from gencard.files.content import open_content, open_text_content
from gencard.files.endings import SHEETS, TEXT, ending_of
from gencard.files.stored import MOST_BYTES, check_names, empty_words

_ENCODINGS = ("utf-8-sig", "cp1252", "latin-1")
_SAMPLE = 5_000
"""Records from which the marks of numbers and dates are detected."""
_MOST_LINES_NAMED = 5
_MOST_DAYS = 100_000
"""Different values of a column of dates that are compared with the formats: 270 years of days."""
MOST_COLUMNS = 5_000
"""Columns for which a schema is drafted, each by several queries."""

_TRIED = 500
"""Values of which one must be a date for all of a column to be compared with the formats."""

_DATES = (
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


def detect(path: Path, sheet: str = "", skip: int = 0) -> tuple[FileFormat, int | None, str]:
    """Format of a file, number of its records, None if these are not counted here, and a sentence on it.

    Args:
        sheet: Sheet of a workbook, as stated.
        skip: Rows of the sheet before the names of the columns, as stated.

    Raises:
        EmptyDatasetError: The file is empty.
        InvalidInputError: The file cannot be decoded, has no header or repeats a name in it, or has
            lines with more or fewer values than the header; names the lines.
    """
    is_sheet = ending_of(path) in SHEETS
    if (sheet or skip) and not is_sheet:
        problem = "is no workbook, so a sheet and rows to skip cannot be stated"
        raise InvalidInputError(field="data", problem=problem)
    if skip and not sheet:
        raise InvalidInputError(field="sheet", problem="must be named beside rows to skip: --sheet NAME")
    if ending_of(path) not in TEXT or path.is_dir():
        return FileFormat(sheet=sheet, skip=skip), None, ""
    encoding = _encoding(path)
    lines = first_lines(path, encoding)
    comments = _comments(lines)
    delimiter, skip = delimiter_of(lines[comments:])
    skip += comments
    sample, records, days, ends, note = _checked_sample(path, encoding, delimiter, skip)
    columns = [_present(column) for column in zip(*sample, strict=True)]
    decimal, thousands = _number_marks(columns)
    file_format = FileFormat(
        encoding=encoding.removesuffix("-sig"),
        delimiter=delimiter,
        skip=skip,
        decimal=decimal,
        thousands=thousands,
        dates=_date_formats([_present(values) for values in days]),
        trim=any(value != value.strip() for row in sample for value in row),
        line_ends="mixed" if len(ends) > 1 else "",
    )
    return file_format, records, note


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
    """Return the values that are neither empty nor a mark of a missing value."""
    values = (value.strip() for value in column)
    return [value for value in values if value and value not in MARKS]


def _encoding(path: Path) -> str:
    """Return the encoding: by the byte order mark, else the first that decodes every byte."""
    with open_content(path, "data", MOST_BYTES) as file:
        head = file.read(4_096)
    if not head:
        raise EmptyDatasetError()
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if head[:512].count(0) * 4 > len(head[:512]):  # every second byte of most texts in UTF-16 is 0
        return "utf-16-le" if head[1:2] == b"\x00" else "utf-16-be"
    for encoding in _ENCODINGS:
        with suppress(UnicodeDecodeError), _opened(path, encoding) as text:
            while text.read(1 << 20):
                pass
            return encoding
    raise InvalidInputError(field="data", problem="cannot be decoded as text")


def _checked_sample(
    path: Path, encoding: str, delimiter: str, skip: int
) -> tuple[Rows, int, list[list[str]], set[str], str]:
    """Read every line: the first records, how many there are, all dates, the ends of lines, and a note.

    Refuses a file with lines of another width, or with control characters. In a file of one column, an
    empty line is a record; in others the note says how many there are.
    """
    with _opened(path, encoding) as file:
        noted = _Lines(lines_of(file, TOO_LONG))
        lines = iter(noted)
        for _ in range(skip):
            next(lines)
            noted.end_record()
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        with _readable(reader, skip):
            header = next(reader, [])
            noted.end_record()
            _check_header(header, skip + 1)
            sample: Rows = []
            wrong: list[int] = []
            records, empty, first_empty, last_empty = 0, 0, 0, 0
            days = _Days()
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
                    days.add(sample, row)
    if wrong:
        raise InvalidInputError(field="data", problem=_ragged(wrong, len(header)))
    if not sample:
        raise EmptyDatasetError()
    is_record = len(header) == 1
    empty -= 0 if is_record else last_empty  # lines at the end of a file are nobody's records
    meaning = "is a record" if is_record else "is no record"
    note = empty_words(empty, "line", first_empty, meaning) if empty else ""
    return sample, records, days.values(sample), noted.ends, note


def _opened(path: Path, encoding: str) -> TextIO:
    return open_text_content(path, "data", encoding, MOST_BYTES)


_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class _Lines:
    """Lines of a file, with how records end; refuses control characters.

    Args:
        ends: Ends of the lines with which records end; there may be others inside quotation marks.
    """

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines, self._last = lines, ""
        self.ends: set[str] = set()

    def __iter__(self) -> Iterator[str]:
        for number, line in enumerate(self._lines, 1):
            if match := _CONTROL.search(line):
                place = f"line {number}, character {match.start() + 1}"
                problem = f"has the control character U+{ord(match[0]):04X} in {place}"
                raise InvalidInputError(field="data", problem=problem, advice=_NO_CONTROL)
            self._last = line
            yield line

    def end_record(self) -> None:
        """Note how the last line ends; the last one of a file may have no end."""
        end = self._last[len(self._last.rstrip("\r\n")) :]
        if end:
            self.ends.add(end if end == "\r\n" else end[-1])


_NO_CONTROL = "Remove it, or export the file again. Tabs and line ends may stand in quotation marks."


class _Days:
    """Different values of the columns of dates, so that no order of the records decides their format."""

    def __init__(self) -> None:
        self._values: dict[int, dict[str, None]] | None = None

    def add(self, sample: Rows, row: Sequence[str]) -> None:
        """Add a record behind the sample."""
        if self._values is None:
            self._begin(sample)
        for place, values in (self._values or {}).items():
            if len(values) < _MOST_DAYS:
                values[row[place]] = None

    def values(self, sample: Rows) -> list[list[str]]:
        """Return the values, by column."""
        if self._values is None:
            self._begin(sample)
        return [list(values) for values in (self._values or {}).values()]

    def _begin(self, sample: Rows) -> None:
        columns = (dict.fromkeys(column) for column in zip(*sample, strict=True))
        self._values = {
            place: values for place, values in enumerate(columns) if _fitting(_present([*values]))
        }


class _readable:  # noqa: N801 - reads as a statement
    """Raises InvalidInputError with the line in which quotes are not closed, or a value is too long."""

    def __init__(self, reader: Iterator[list[str]], skip: int) -> None:
        self._reader, self._skip = reader, skip

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if kind is not None and issubclass(kind, csv.Error):
            line = getattr(self._reader, "line_num", 0) + self._skip
            problem = f"has a quotation mark that is not closed, or text after one, near line {line}"
            if "field limit" in str(error):
                problem = f"has a name or value of more than 128 KiB near line {max(line, 1)}"
            raise InvalidInputError(field="data", problem=problem) from None


def _check_header(header: Sequence[str], line: int) -> None:
    names = [name.strip() for name in header]
    if len(names) > MOST_COLUMNS:
        problem = f"has more than {MOST_COLUMNS:,} columns; a schema is drafted for at most as many"
        raise InvalidInputError(field="data", problem=problem)
    if not any(names):
        raise InvalidInputError(field="data", problem=f"has no column names in line {line}")
    repeated = [name for name, count in Counter(filter(None, names)).items() if count > 1]
    if repeated:
        names_text = ", ".join(f"'{name}'" for name in repeated)
        problem = f"repeats column names in line {line}: {names_text}; rename the columns"
        raise InvalidInputError(field="data", problem=problem)
    check_names([name for name in names if name], "data", f"in line {line}")


def _ragged(lines: Sequence[int], width: int) -> str:
    numbers_text = ", ".join(map(str, lines[:_MOST_LINES_NAMED]))
    more = " and others" if len(lines) > _MOST_LINES_NAMED else ""
    place = f"line{'s'[: len(lines) > 1]} {numbers_text}{more}"
    return (
        f"has more or fewer than the header's {width} values in {place}; "
        "values that contain the delimiter need quotation marks"
    )


def _number_marks(columns: Sequence[Sequence[str]]) -> tuple[str, str]:
    """Return the marks before decimals and between thousands."""
    commas = sum(_mostly(column, _COMMA) for column in columns)
    points = sum(_mostly(column, _POINT) for column in columns)
    decimal, group = (",", ".") if commas > points else (".", ",")
    grouped = any(
        _GROUPED[group].fullmatch(value)
        for column in columns
        if _is_numeric(column, decimal, group)
        for value in column
    )
    return decimal, group if grouped else ""


def _mostly(column: Sequence[str], pattern: re.Pattern[str]) -> bool:
    """Whether at least one in ten values is a number with this mark: the others may be whole."""
    return bool(column) and 10 * sum(map(bool, map(pattern.fullmatch, column))) >= len(column)


def _is_numeric(column: Sequence[str], decimal: str, group: str) -> bool:
    number = re.compile(rf"[+-]?(\d+|\d{{1,3}}([{group}]\d{{3}})+)([{decimal}]\d+)?")
    return bool(column) and 10 * sum(map(bool, map(number.fullmatch, column))) >= 9 * len(column)


def _date_formats(columns: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return formats that fit nearly all values of some column, in the order of the trials.

    A file has one order of day and month. Columns that show it decide; the day is first if none does.
    """
    fitting = sorted((_fitting(column) for column in columns), key=len)  # one format: it decides
    formats: list[str] = []
    for candidates in fitting:
        if candidates and not {*candidates} & {*formats} and not _contradicts(candidates[0], formats):
            formats.append(candidates[0])
    return tuple(formats)


def _fitting(column: Sequence[str]) -> list[str]:
    """Return the formats that fit most values of a column; none if these are not nearly all."""
    values = list(dict.fromkeys(column))
    if not any(_is_date(value, form) for value in values[:_TRIED] for form in _DATES):
        return []
    fits = {form: sum(_is_date(value, form) for value in values) for form in _DATES}
    most = max(fits.values())
    return [form for form in _DATES if fits[form] == most and 10 * most >= 9 * len(values) > 0]


def _contradicts(form: str, formats: Sequence[str]) -> bool:
    others = [other for other in formats if other in DAY_OR_MONTH_FIRST]
    return form in DAY_OR_MONTH_FIRST and any(form[:2] != other[:2] for other in others)


def _is_date(text: str, form: str) -> bool:
    # strptime is slow, and most values are not even of this form
    with suppress(ValueError):
        return bool(_DATE_LIKE.fullmatch(text) and datetime.strptime(text, form))
    return False
