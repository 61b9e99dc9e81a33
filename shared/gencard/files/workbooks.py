"""Workbooks of Excel and LibreOffice, by python-calamine: one sheet with one row of names.

calamine reads an error such as #DIV/0!, and a formula that was never computed, as an empty cell. So both
are looked for in the file itself, and refused.
"""

import datetime as dt
import os
import re
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import python_calamine as calamine

from gencard.core.errors import InvalidInputError
from gencard.core.values import number_text
from gencard.files import ParquetSize
from gencard.files.apart import answered, read_apart
from gencard.files.content import (
    StoredColumn,
    StoredTable,
    check_names,
    empty_words,
    ending_of,
    time_texts,
    too_many_bytes,
    whole_or_float,
)

_ROWS_AT_ONCE = 20_000
_BLOCK = 8 << 20
_LONGEST_CELL = 256 << 10
"""Bytes of the beginning of a cell in the file, within which its error stands."""

_EMPTY = ""


def read(path: Path, field: str, *, sheet: str, skip: int, most_bytes: int) -> StoredTable:
    """Read a sheet in a process of its own; see ``content.read_stored``."""
    return read_apart("gencard.files.workbooks", path, field, sheet, skip, most_bytes)


def _read(path: Path, field: str, *, sheet: str, skip: int, most_bytes: int) -> StoredTable:
    if ending_of(path) != ".xls":  # too many bytes are refused before anything is unpacked
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > most_bytes:
                raise too_many_bytes(most_bytes)
    errors = _checked_parts(path, field) if ending_of(path) == ".xlsx" else {}
    try:
        book = calamine.CalamineWorkbook.from_path(str(path))
    except calamine.PasswordError:
        problem, advice = "is protected by a password", "Save it without a password."
        raise InvalidInputError(field=field, problem=problem, advice=advice) from None
    name = _chosen(book, sheet, field)
    _check_errors(path, name, field, errors)
    return _Sheet(book.get_sheet_by_name(name), field, skip, ending_of(path)).table()


def _chosen(book: Any, sheet: str, field: str) -> str:
    """Return the sheet that is named, or the only visible one that holds a value."""
    sheets = [
        one
        for one in book.sheets_metadata
        if one.typ == calamine.SheetTypeEnum.WorkSheet
        and (one.name == sheet or one.visible == calamine.SheetVisibleEnum.Visible)
    ]
    if sheet:
        if any(one.name == sheet for one in sheets):
            return sheet
    else:
        filled = [one for one in sheets if book.get_sheet_by_name(one.name).height]
        if len(filled) == 1:
            return str(filled[0].name)
        if not filled:
            raise InvalidInputError(field=field, problem="has no sheet with values")
    names = ", ".join(f"'{one.name}'" for one in sheets)
    problem = f"is not one of the sheets: {names}" if sheet else f"must be stated: there are {names}"
    raise InvalidInputError(field="format.sheet", problem=problem, advice="State one: --sheet NAME.")


@dataclass
class _SheetColumn:
    """Values of one column, batch by batch; ``kinds`` are the types of those that are present."""

    batches: list[Any] = field(default_factory=list)
    kinds: set[type] = field(default_factory=set)

    def add(self, values: Sequence[Any]) -> None:
        kinds = {type(value) for value in values}
        if "" in values and str in kinds and all(value == "" for value in values if type(value) is str):
            kinds.discard(str)
        kinds = {float if kind is int else kind for kind in kinds}
        self.kinds |= kinds
        if kinds <= {float}:
            numbers = [None if value == _EMPTY else float(value) for value in values]
            self.batches.append(pa.array(numbers, pa.float64()))
        elif kinds == {str}:
            self.batches.append(pa.array([value or None for value in values], pa.string()))
        else:
            self.batches.append([None if value == _EMPTY else value for value in values])

    def array(self) -> tuple[pa.ChunkedArray, str]:
        if self.kinds <= {float}:
            return whole_or_float(pa.chunked_array(self.batches, pa.float64())), ""
        if self.kinds == {bool}:
            kind = pa.bool_()
            return pa.chunked_array([pa.array(_values(batch), kind) for batch in self.batches], kind), ""
        if self.kinds <= {dt.date, dt.datetime}:
            return self._dates(), ""
        if dt.timedelta in self.kinds:
            # A time of day is a duration, too: only its format tells it apart.
            values = chain(*map(_values, self.batches))
            hours = [None if one is None else _hours_of(one) for one in values]
            array = pa.chunked_array([pa.array(hours, pa.float64())])
            return whole_or_float(array), "Its values are durations, read as hours."
        if self.kinds == {dt.time}:
            return pa.chunked_array([time_texts([*chain(*map(_values, self.batches))])], pa.string()), ""
        texts = [
            batch if isinstance(batch, pa.Array) and batch.type == pa.string() else _texts(batch)
            for batch in self.batches
        ]
        mixed = self.kinds != {str}
        note = "Its cells are of several types, such as numbers and texts, so all are texts." * mixed
        return pa.chunked_array(texts, pa.string()), note

    def _dates(self) -> pa.ChunkedArray:
        instants = [[_instant(value) for value in _values(batch)] for batch in self.batches]
        midnight = dt.time()
        if all(one is None or one.time() == midnight for batch in instants for one in batch):
            days = [[one and one.date() for one in batch] for batch in instants]
            return pa.chunked_array([pa.array(one, pa.date32()) for one in days], pa.date32())
        kind = pa.timestamp("us")
        return pa.chunked_array([pa.array(one, kind) for one in instants], kind)

    def beside_duration(self) -> int | None:
        """Return the place of the first duration among other values, or of the first other value."""
        if dt.timedelta not in self.kinds or self.kinds <= {dt.timedelta, dt.time}:
            return None
        values = [*chain(*map(_values, self.batches))]
        is_duration = [isinstance(one, dt.timedelta | dt.time) for one in values]
        first = next(place for place, one in enumerate(values) if one is not None)
        return next(
            place
            for place, one in enumerate(values)
            if one is not None and is_duration[place] != is_duration[first]
        )


def _values(batch: Any) -> list[Any]:
    """Return a batch as a list; only empty cells are kept as an array here, or all are texts."""
    return list(batch.to_pylist() if isinstance(batch, pa.Array) else batch)


def _hours_of(value: dt.timedelta | dt.time) -> float:
    if isinstance(value, dt.time):
        value = dt.datetime.combine(dt.date.min, value) - dt.datetime.min
    return value / dt.timedelta(hours=1)


_DURATION = re.compile(r"(-?)PT([0-9]+)H([0-9]+)M([0-9]+(?:\.[0-9]+)?)S")
"""Text that calamine makes of a time in an .ods file that is no time of day."""


def _duration(text: str) -> dt.timedelta | str:
    match = _DURATION.fullmatch(text)
    if match is None:
        return text
    sign, hours, minutes, seconds = match.groups()
    length = dt.timedelta(hours=int(hours), minutes=int(minutes), seconds=float(seconds))
    return -length if sign else length


def _instant(value: Any) -> dt.datetime | None:
    if value is None or isinstance(value, dt.datetime):
        return value
    return dt.datetime.combine(value, dt.time())


def _texts(batch: Any) -> pa.Array:
    return pa.array([None if value is None else _text(value) for value in _values(batch)], pa.string())


def _text(value: Any) -> str:
    """Return a value as text: whole numbers without a point, dates as ISO 8601 writes them."""
    match value:
        case bool():
            return str(value).upper()
        case int() | float():
            return number_text(float(value))
        case dt.datetime():
            return value.isoformat(sep=" ")
        case dt.date() | dt.time():
            return value.isoformat()
    return str(value)


class _Sheet:
    """A sheet that is read as a table: a row of names, then records."""

    def __init__(self, sheet: Any, field: str, skip: int, ending: str) -> None:
        self._sheet, self._field, self._skip, self._ending = sheet, field, skip, ending
        self._rows, self._empty, self._first_empty = 0, 0, 0

    def table(self) -> StoredTable:
        """Read it, or refuse it with the cell that makes it no table."""
        rows = enumerate(self._sheet.iter_rows())
        head, names, first = self._head(rows)
        columns = [_SheetColumn() for _ in names]
        for (top, left), (bottom, _) in self._sheet.merged_cell_ranges or ():
            if bottom >= max(head, self._skip):
                raise self._wrong(f"has merged cells from cell {_cell(top, left)} on", _UNMERGE)
        batch: list[list[Any]] = []
        second: list[Any] | None = None
        for number, row in rows:
            cells = row[first : first + len(names)]
            if self._ending == ".ods":
                cells = [_duration(one) if isinstance(one, str) else one for one in cells]
            second = cells if second is None else second
            for place, cell in enumerate(row):
                if cell != _EMPTY and not first <= place < first + len(names):
                    raise self._wrong(
                        f"has a value without a name above it in cell {_cell(number, place)}", _HEADER
                    )
            batch.append(cells)
            if len(batch) >= _ROWS_AT_ONCE:
                self._add(columns, batch, last=False)
        self._add(columns, batch, last=True)
        self._check_columns(second, columns, head, first)
        read = [column.array() for column in columns]
        described = [StoredColumn(name, note=note) for name, (_, note) in zip(names, read, strict=True)]
        arrays = dict(zip(names, (array for array, _ in read), strict=True))
        note = ""
        if self._empty:
            note = empty_words(self._empty, "row", head + 2 + self._first_empty, "is a record")
        return StoredTable(pa.table(arrays), tuple(described), note)

    def _add(self, columns: list[_SheetColumn], batch: list[list[Any]], *, last: bool) -> None:
        """Add rows to the columns; empty rows at the end wait, and are dropped if they are the last."""
        end = len(batch)
        while end and all(value == _EMPTY for value in batch[end - 1]):
            end -= 1
        for row, cells in enumerate(batch[:end], self._rows):
            if all(value == _EMPTY for value in cells):
                self._first_empty = self._first_empty if self._empty else row
                self._empty += 1
        self._rows += end
        for place, column in enumerate(columns):
            column.add([row[place] for row in batch[:end]])
        del batch[: len(batch) if last else end]

    def _head(self, rows: Iterator[tuple[int, list[Any]]]) -> tuple[int, list[str], int]:
        for number, row in rows:
            if number < self._skip or all(cell == _EMPTY for cell in row):
                continue
            filled = [place for place, cell in enumerate(row) if cell != _EMPTY]
            first, last = filled[0], filled[-1]
            cells = row[first : last + 1]
            for place, cell in enumerate(cells, first):
                if not isinstance(cell, str) or not cell.strip():
                    problem = f"has no text as the name of a column in cell {_cell(number, place)}"
                    raise self._wrong(problem, _HEADER)
            places = [f"in cell {_cell(number, place)}" for place in range(first, last + 1)]
            check_names(cells, self._field, places)
            return number, cells, first
        raise self._wrong("has no row with names of columns", _HEADER)

    def _check_columns(
        self, second: list[Any] | None, columns: Sequence[_SheetColumn], head: int, first: int
    ) -> None:
        """Refuse a second row of names above columns without texts, and durations beside others."""
        second = second or []
        texts = [isinstance(cell, str) and cell != _EMPTY for cell in second]
        alone = [place for place, text in enumerate(texts) if text and _is_alone(columns[place])]
        if alone and all(text or cell == _EMPTY for text, cell in zip(texts, second, strict=True)):
            cell = _cell(head + 1, first + alone[0])
            raise self._wrong(f"seems to have a second row of names: the text in cell {cell}", _HEADER)
        for place, column in enumerate(columns, first):
            if (row := column.beside_duration()) is not None:
                cell = _cell(head + 1 + row, place)
                problem = f"has durations, such as [h]:mm, beside values of another type in cell {cell}"
                raise self._wrong(problem, "Give all cells of the column one format.")

    def _wrong(self, problem: str, advice: str) -> InvalidInputError:
        return InvalidInputError(field=self._field, problem=problem, advice=advice)


def _is_alone(column: _SheetColumn) -> bool:
    """Whether the first value of a column is its only text, beside at least two others."""
    values = [value for batch in column.batches for value in _values(batch) if value is not None]
    return len(values) > 2 and not any(isinstance(value, str) for value in values[1:])


_HEADER = (
    "Keep one row of names directly above the records, and nothing else in the sheet. Rows before the "
    "names may be skipped: format.skip, by --skip."
)
_UNMERGE = "Unmerge the cells, and give each column its own name."


def _cell(row: int, column: int) -> str:
    """Return the name of a cell; row and column count from 0.

    >>> _cell(0, 0), _cell(9, 26), _cell(0, 16_383)
    ('A1', 'AA10', 'XFD1')
    """
    letters = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(65 + rest) + letters
    return f"{letters}{row + 1}"


_REFERENCE = re.compile(rb"\br=[\"']([A-Z]+[0-9]+)[\"']")
_ERROR = re.compile(rb"<(?:\w+:)?c\s[^>]*\bt=[\"']e[\"'][^>]*>")
_NOT_COMPUTED = re.compile(  # the result of t="str" may be the empty text
    rb"<(?:\w+:)?c\s(?![^>]*\bt=[\"']str[\"'])[^>]*>"
    rb"\s*<(?:\w+:)?f(?:\s[^>]*)?(?:/>|>[^<]*</(?:\w+:)?f>)\s*"
    rb"(?:<(?:\w+:)?v\s*/>|<(?:\w+:)?v>\s*</(?:\w+:)?v>|(?=</(?:\w+:)?c>))"
)
_NOT_COMPUTED_ODS = re.compile(
    rb"<table:table-cell\s(?=[^>]*\btable:formula=)(?![^>]*\boffice:value-type=)[^>]*>"
)
_COLUMNS = re.compile(rb"<(?:\w+:)?c\s[^>]*?\br=[\"']([A-Z]+)")
_ROWS = re.compile(rb"<(?:\w+:)?(?:row|c)\s[^>]*?\br=[\"'][A-Z]*([0-9]+)[\"']")
_CELL_BYTES = 32
"""Bytes of a cell in memory: calamine has one for each cell of the rectangle up to the farthest one."""


def _checked_parts(path: Path, field: str) -> dict[str, str]:
    """Read each sheet once, before calamine does, and refuse one that is too large for its cells.

    A sheet may have few cells, one of them so far away that memory for all between is lacking.

    Returns:
        By sheet, what is wrong with the first cell that has an error, or a formula without a value.
    """
    errors = dict[str, str]()
    with zipfile.ZipFile(path) as archive:
        for sheet, name in _parts_of(archive).items():
            letters, rows = set[bytes](), 0
            with archive.open(name) as part:
                for block in _blocks(part):
                    letters.update(_COLUMNS.findall(block))
                    rows = max(rows, max(map(int, _ROWS.findall(block)), default=0))
                    errors[sheet] = errors.get(sheet) or _error_in(block)
            columns = max(map(_column_number, letters), default=0)
            # Workaround: calamine allocates every cell up to the farthest one before anything can be
            # refused (tafia/calamine#428), so the farthest one is looked for in the XML first.
            size = ParquetSize(path.stat().st_size, rows * columns * _CELL_BYTES, rows, columns)
            size.check(field)
    return errors


# Workaround: python-calamine gives an error as an empty text (dimastbk/python-calamine#105), and a
# formula without a stored value as an empty cell. Read so, both would count as missing.
def _error_in(block: bytes) -> str:
    for pattern, words in ((_ERROR, "an error"), (_NOT_COMPUTED, "a formula without a value")):
        if match := pattern.search(block):
            reference = _REFERENCE.search(match[0])
            return f"has {words} in cell {reference[1].decode() if reference else 'of the sheet'}"
    return ""


def _check_errors(path: Path, sheet: str, field: str, errors: dict[str, str]) -> None:
    """Refuse cells with an error and formulas without a value, which ``_checked_parts`` names."""
    if ending_of(path) == ".xlsx":
        if problem := errors[sheet]:
            raise InvalidInputError(field=field, problem=problem, advice=_ERRORS)
    elif ending_of(path) == ".ods":
        with zipfile.ZipFile(path) as archive, archive.open("content.xml") as part:
            if any(
                b'value-type="error"' in block or _NOT_COMPUTED_ODS.search(block)
                for block in _blocks(part)
            ):
                problem = "has a cell with an error, such as #DIV/0!, or a formula without a value"
                raise InvalidInputError(field=field, problem=problem, advice=_ERRORS)
    else:
        _check_old(path, sheet, field)


def _check_old(path: Path, sheet: str, field: str) -> None:
    """Refuse errors in a workbook of Excel 97, which only xlrd tells from empty cells."""
    import xlrd  # noqa: PLC0415 - only for these files

    with (
        open(os.devnull, "w", encoding="utf-8", errors="replace") as nowhere,
        xlrd.open_workbook(path, on_demand=True, logfile=nowhere) as book,
    ):
        table = book.sheet_by_name(sheet)
        for row in range(table.nrows):
            for column, kind in enumerate(table.row_types(row)):
                if kind == xlrd.XL_CELL_ERROR:
                    problem = f"has an error in cell {_cell(row, column)}"
                    raise InvalidInputError(field=field, problem=problem, advice=_ERRORS)


_ERRORS = "Correct the formula, or clear the cell; open and save the workbook, so that all are computed."


def _column_number(letters: bytes) -> int:
    """Return the number of a column, from 1.

    >>> _column_number(b"A"), _column_number(b"AA"), _column_number(b"XFD")
    (1, 27, 16384)
    """
    number = 0
    for letter in letters:
        number = 26 * number + letter - 64
    return number


def _blocks(part: Any) -> Iterator[bytes]:
    """Yield a stream in blocks that overlap by the longest beginning of a cell."""
    rest = b""
    while block := part.read(_BLOCK):
        yield rest + block
        rest = (rest + block)[-_LONGEST_CELL:]


def _parts_of(archive: zipfile.ZipFile) -> dict[str, str]:
    """Return the file inside a workbook that holds each sheet."""
    workbook = ElementTree.fromstring(archive.read("xl/workbook.xml"))  # noqa: S314 - bounded, no entities
    relations = ElementTree.fromstring(archive.read("xl/_rels/workbook.xml.rels"))  # noqa: S314
    targets = {one.get("Id"): str(one.get("Target")) for one in relations}
    keys = {
        str(one.get("name")): value
        for one in workbook.iter()
        if one.tag.endswith("}sheet")
        for name, value in one.attrib.items()
        if name.endswith("}id")
    }
    return {
        sheet: targets[key].removeprefix("/") if targets[key].startswith("/") else f"xl/{targets[key]}"
        for sheet, key in keys.items()
        if key in targets
    }


if __name__ == "__main__":
    sys.exit(
        answered(
            lambda path, field, sheet, skip, most: _read(
                path, field, sheet=sheet, skip=int(skip), most_bytes=int(most)
            )
        )
    )
