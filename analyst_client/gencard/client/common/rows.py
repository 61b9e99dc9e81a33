"""Rows in files: CSV, and Parquet where pyarrow is installed; written in batches, read whole."""

import csv
import io
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from itertools import islice, zip_longest
from math import isnan
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gencard.client.common.formats import (
    MOST_BYTES,
    RowsToWrite,
    TextForm,
    appearing,
    check_fits,
    days_of_text,
    ending_to_read,
    ending_to_write,
    form_of,
    opened_text,
    usual_form,
)
from gencard.core.coding import (
    Attribute,
    Coding,
    Edges,
    Labels,
    adjusted,
    codes_of_numbers,
    date_of_days,
    days_of_date,
    minutes_of_time,
    time_text,
)
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.errors import (
    DomainMismatchError,
    EmptyDatasetError,
    GencardError,
    InvalidInputError,
    UndeclaredLevelError,
)
from gencard.core.types import FloatArray
from gencard.core.values import day_of, float_of
from gencard.files import size_of
from gencard.files.content import PARQUET, is_stored, read_stored
from gencard.run.levels import (
    UNDECLARED,
    UNKNOWN_NUMBER,
    Midpoints,
    NumberedRows,
    ValueForm,
    Values,
    code_of,
    codes_of_values,
    level_numbers,
    names_of,
)

_UNREADABLE = (OSError, ValueError, LookupError, NotImplementedError, OverflowError, MemoryError)
"""Exceptions that readers raise at damaged files."""


@dataclass(frozen=True, slots=True, eq=False)
class ReadRows(NumberedRows):
    """Rows of a file, with the form of a text file."""

    form: TextForm = field(default_factory=TextForm)


def write_rows(dataset: Dataset, coding: Coding, path: Path, values: Values | None = None) -> None:
    """Write records with their labels; the file appears only once it is whole.

    "Missing" is an empty cell in CSV and Excel, null in Parquet, and the system's missing value in files
    of Stata and SPSS. In CSV, an empty label beside it becomes an apostrophe.

    Args:
        path: Its name has one of the endings ``WRITTEN``.
        values: What stands in place of intervals, which go by their names where it is not given.
    """
    names = dataset.domain.attributes
    check_rows_fit(path, coding, names, len(dataset), "levels" if values is None else "numbers")
    with appearing(path) as part:
        match ending_to_write(path):
            case ".csv":
                write_csv(dataset, coding, part, values)
            case ".parquet":
                _part(".parquet").write_parquet(dataset, coding, part, values)
            case ".xlsx":
                _part(".xlsx").write_workbook(dataset, coding, part, values)
            case ending:
                _part(ending).write_statistics(dataset, coding, part, values, ending)


def check_rows_fit(path: Path, coding: Coding, names: Clique, rows: int, form: ValueForm) -> None:
    """Check that a file can hold rows, before they are generated; raises InvalidInputError."""
    ending = ending_to_write(path)
    if ending in _PARTS:
        _part(ending)
    check_fits(ending, RowsToWrite(tuple(map(coding.attribute, names)), rows, form == "levels"))


def read_rows(path: Path, coding: Coding, domain: Domain) -> Dataset:
    """The codes behind a file that ``write_rows`` wrote, or any with the same labels or numbers.

    Raises:
        InvalidInputError: The file cannot be read, or has another ending than ``WRITTEN``.
        DomainMismatchError, UndeclaredLevelError: It does not hold what the schema declares.
    """
    return _read(path, coding, domain, ()).dataset


def read_numbered(path: Path, coding: Coding, domain: Domain) -> ReadRows:
    """The codes and the numbers of such a file; raises as ``read_rows``.

    Numbers are rounded and clamped as declared. A file of levels has none.
    """
    names = tuple(name for name in domain.attributes if isinstance(coding.attribute(name).coding, Edges))
    return _read(path, coding, domain, names)


def _read(path: Path, coding: Coding, domain: Domain, numbered: Clique) -> ReadRows:
    ending = ending_to_read(path)
    size_of(path, "file")  # says what is wrong with a path that is no regular file
    if is_stored(path):
        return _read_stored(path, coding, domain)
    try:
        if ending in PARQUET:
            columns: list[ReadColumn] = _part(".parquet").read_parquet(path, coding, domain, numbered)
            return _numbered_rows(columns, domain, numbered, TextForm())
        return _read_text(path, coding, domain, numbered)
    except (*_UNREADABLE, csv.Error):
        advice = "Check that it is a file of the format that its name says, and not damaged."
        problem = f"cannot read {path}"
        raise InvalidInputError(field="file", problem=problem, advice=advice) from None


def _read_text(path: Path, coding: Coding, domain: Domain, numbered: Clique) -> ReadRows:
    """Read a text file in the form that ``write_rows`` writes, else in the one that a look concludes.

    Files that have been read always are so read as before.
    """
    form = usual_form(path)
    try:
        return _numbered_rows(read_csv(path, coding, domain, numbered, form), domain, numbered, form)
    except (GencardError, *_UNREADABLE, csv.Error) as error:
        first: Exception = error
    if isinstance(first, MemoryError) or type(first) is InvalidInputError:
        raise first
    try:
        form = form_of(path, coding, domain)
    except EmptyDatasetError:
        raise first from None
    if form == usual_form(path):
        raise first
    return _numbered_rows(read_csv(path, coding, domain, numbered, form), domain, numbered, form)


def _numbered_rows(
    columns: list["ReadColumn"], domain: Domain, numbered: Clique, form: TextForm
) -> ReadRows:
    dataset = Dataset.of_columns(domain, [column.all_codes() for column in columns])
    numbers = {name: columns[domain.axis(name)].all_numbers() for name in numbered}
    return ReadRows(dataset, numbers.get, form=form)


def unread_columns(path: Path, rows: "ReadRows") -> tuple[str, ...]:
    """Return the columns of a file that are no attributes, so that nothing reads them."""
    names = rows.dataset.domain.attributes
    known = {*names, *map(neutral, names)}
    try:
        if rows.columns is not None:
            heads = [*rows.columns]
        elif ending_to_read(path) in PARQUET:
            heads = _part(".parquet").names_of_columns(path)
        else:
            with opened_text(path, rows.form) as reader:
                heads = next(reader, [])
    except (*_UNREADABLE, csv.Error, GencardError):
        return ()  # the reader of the rows says why
    return tuple(head for head in heads if not {head, head.strip(" ")} & known)


def _read_stored(path: Path, coding: Coding, domain: Domain) -> ReadRows:
    import pandas as pd  # noqa: PLC0415 - slow to load

    from gencard.run.session import rows_of_frame  # noqa: PLC0415 - loads pandas

    problem = advice = ""
    try:
        table = read_stored(path, "file", most_bytes=MOST_BYTES).table
    except InvalidInputError as error:
        if error.fields.get("field") == "format.sheet":
            problem = "has several sheets with values"
            advice = "Leave one sheet visible, or save the sheet as CSV."
        elif "--skip" in error.advice:
            problem = str(error.fields["problem"])
            advice = "Keep one row of names directly above the records, and nothing else in the sheet."
        else:
            raise
    if problem:
        raise InvalidInputError(field="file", problem=problem, advice=advice)
    check_cells(path, table.num_rows * table.num_columns)
    # labels, texts and numbers; dates are days since 1970-01-01, times of day minutes
    here = [one for one in coding.attributes if one.name in table.column_names]
    columns = {one.name: _series_of(table.column(one.name), one.coding) for one in here}
    rows = rows_of_frame(pd.DataFrame(columns), coding, domain)
    return ReadRows(rows.dataset, rows.numbers, tuple(table.column_names))


def check_cells(path: Path, cells: int) -> None:
    """Check that the cells of a file may be held in memory; raises InvalidInputError."""
    if cells > MOST_CELLS:
        raise InvalidInputError(field="file", problem=f"has more than {MOST_CELLS:,} cells: {path}")


def _series_of(column: Any, coding: Labels | Edges) -> Any:
    kind = str(column.type)
    if not isinstance(coding, Edges):
        return column.to_pandas(integer_object_nulls=True)
    if kind.startswith(("string", "dictionary")):
        texts = column.cast("string").to_pandas()
        return texts.map(_minutes_or_text, na_action="ignore") if coding.times else texts
    if kind.startswith("timestamp") and coding.times:
        moments = column.to_pandas()
        return (moments - moments.dt.normalize()).dt.total_seconds() / 60
    if kind.startswith(("date", "timestamp")):
        column = column.cast("date32", safe=False).cast("int32")
    return column.cast("float64").to_pandas()


def _minutes_or_text(text: str) -> float | str:
    with suppress(ValueError):
        return _minutes_of_text(text)
    return text


BY_VALUES = "compared by values"
"""Comparison of files that hold the time at which they were written."""


def is_by_values(path: Path) -> bool:
    """Return whether a file of rows is compared by values, and not by bytes."""
    return path.suffix.lower() in (".dta", ".sav", ".xlsx")


def difference(path: Path, again: Path) -> str | None:
    """The first difference of a file from one with the same ending by ``write_rows``; None if none."""
    try:
        match ending_to_write(path):
            case ".csv":
                with path.open("rb") as left, again.open("rb") as right:
                    lines = enumerate(zip_longest(left, right), start=1)
                    number = next((number for number, (one, other) in lines if one != other), 1)
                return line_problem(number)
            case ".parquet" | ".xlsx" as ending:
                problem: str | None = _part(ending).difference(path, again)
            case ending:
                problem = _part(ending).difference(path, again, MOST_CELLS)
    except _UNREADABLE:
        return "it cannot be read"
    return problem


def same_bytes(one: IO[bytes], other: IO[bytes]) -> bool:
    while block := one.read(1 << 20):
        if block != other.read(1 << 20):
            return False
    return not other.read(1)


def line_problem(number: int) -> str:
    """Return what differs, by the number of the first line that does."""
    return "the columns or their order" if number == 1 else f"the values in line {number}"


_PARTS = {
    ".parquet": ("parquet", "Parquet needs: pip install 'gencard[parquet]'"),
    ".xlsx": ("workbook", "Excel needs: pip install 'gencard[files]'"),
    ".dta": ("statistics", "Stata and SPSS need: pip install 'gencard[files]'"),
    ".sav": ("statistics", "Stata and SPSS need: pip install 'gencard[files]'"),
}
"""By ending, the module that needs a library of its own, and how to install the library."""


def _part(ending: str) -> Any:
    """The module for files of an ending; raises InvalidInputError if its library is not installed."""
    module, problem = _PARTS[ending]
    try:
        return import_module(f"gencard.client.common.{module}")
    except ModuleNotFoundError:
        raise InvalidInputError(field="file", problem=problem) from None


BATCH_ROWS = 100_000

MOST_CELLS = 500_000_000
"""Cells of rows that are read into memory: 2 GB of codes."""

_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")
"""Openings of a text that a spreadsheet may run, or that was neutralised already."""

_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def neutral(text: str) -> str:
    """A text that no spreadsheet runs: with an apostrophe in front where it could; numbers stay.

    Different texts stay different.

    >>> [neutral(text) for text in ("=1+1", "-5", "'=1", "fair")]
    ["'=1+1", '-5', "''=1", 'fair']
    """
    runs = _FORMULA.match(text) and not _NUMBER.fullmatch(text)
    return f"'{text}" if runs else text


def has_apostrophes(coding: Coding, domain: Domain) -> bool:
    """Whether any name or label of some attributes gets a leading apostrophe in CSV."""
    attributes = [coding.attribute(name) for name in domain.attributes]
    return any(
        neutral(one.name) != one.name or _labels(one) != list(names_of(one)) for one in attributes
    )


def _labels(attribute: Attribute) -> list[str]:
    """The levels as CSV holds them.

    An empty cell is "missing". So where that is declared too, the empty label becomes an apostrophe,
    and a label of apostrophes alone gets one more.
    """
    names = names_of(attribute)
    unclear = attribute.coding.missing and "" in names
    return [f"'{name}" if unclear and not name.strip("'") else neutral(name) for name in names]


Texts = Callable[[NDArray[Any]], NDArray[np.object_] | list[str]]
"""Function from codes of one attribute to the text of each cell and of the separator after the cell."""


def write_csv(dataset: Dataset, coding: Coding, path: Path, values: Values | None) -> None:
    """Write CSV as RFC 4180 defines it. Every level is quoted once; rows are joined from these texts."""
    names = dataset.domain.attributes
    ends = [","] * (len(names) - 1) + ["\r\n"]
    attributes = map(coding.attribute, names)
    columns = [_texts(one, end, values) for one, end in zip(attributes, ends, strict=True)]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerow(map(neutral, names))
        for batch in batches(dataset):
            table = np.empty(batch.shape, dtype=object)
            for axis, texts in enumerate(columns):
                table[:, axis] = texts(batch[:, axis])
            file.write("".join(table.ravel().tolist()))


def cells_of(dataset: Dataset, coding: Coding, values: Values | None) -> list[tuple[str, ...]]:
    """The rows as texts for people: labels as they are, numbers as in CSV, "NA" for missing."""
    columns = []
    for name in dataset.domain.attributes:
        attribute, codes = coding.attribute(name), dataset.column(name)
        if values is None or not isinstance(attribute.coding, Edges):
            names = (*names_of(attribute), "NA")
            columns.append([names[code] for code in codes])
        else:
            text = _number_text(attribute.coding, values)
            numbers = values.of(name, attribute.coding, codes).tolist()
            columns.append(["NA" if isnan(number) else text(number) for number in numbers])
    return list(zip(*columns, strict=True))


def read_csv(
    path: Path, coding: Coding, domain: Domain, numbered: Clique, form: TextForm
) -> list["ReadColumn"]:
    """Raises DomainMismatchError, UndeclaredLevelError, or ValueError, IndexError, csv.Error."""
    with opened_text(path, form) as reader:
        heads = next(reader, [])
        columns = [
            _Column(coding.attribute(name), name in numbered, heads, form) for name in domain.attributes
        ]
        rows = 0
        while lines := list(islice(reader, BATCH_ROWS)):
            # an empty line is a record in a file of one column only
            lines = [line or [""] for line in lines if line or len(heads) == 1]
            if any(len(line) != len(heads) for line in lines):
                raise ValueError
            rows += len(lines)
            check_cells(path, rows * len(columns))
            for column in columns:
                column.append(lines)
    return list(columns)


_NO_NUMBER = "no number"
"""Stands for a text that is no number among labels that all are."""


class ReadColumn:
    """The codes of one attribute, and its numbers if they are wanted, batch by batch."""

    def __init__(self, attribute: Attribute, numbered: bool) -> None:
        self.attribute = attribute
        self._codes: list[NDArray[Any]] = [np.empty(0, dtype=np.int32)]
        self._numbers: list[FloatArray] | None = [np.empty(0)] if numbered else None

    def add(self, codes: NDArray[Any], numbers: FloatArray | None = None) -> None:
        """Add a batch; ``numbers`` stand in place of codes where finite, or NaN where "missing"."""
        self._codes.append(codes)
        if self._numbers is not None and isinstance(self.attribute.coding, Edges):
            known = level_numbers(self.attribute.coding)[codes]
            if numbers is not None:
                given = adjusted(self.attribute.coding, numbers)
                known = np.where(known == UNKNOWN_NUMBER, given, known)
            self._numbers.append(known)

    def all_codes(self) -> NDArray[Any]:
        return np.concatenate(self._codes)

    def all_numbers(self) -> FloatArray | None:
        """None if only the level of some value is known."""
        numbers = np.concatenate(self._numbers or [np.empty(0)])
        return None if (numbers == UNKNOWN_NUMBER).any() else numbers


class _Column(ReadColumn):
    def __init__(self, attribute: Attribute, numbered: bool, heads: list[str], form: TextForm) -> None:
        super().__init__(attribute, numbered)
        self._form = form
        names = (neutral(attribute.name), attribute.name)
        if not {*names} & {*heads}:
            heads = [head.strip(" ") for head in heads]
        head = next((one for one in names if one in heads), None)
        if head is None:
            raise DomainMismatchError(problem=f"the data have no attribute '{attribute.name}'")
        self.position, codes = heads.index(head), code_of(attribute)
        # labels as files of ours hold them, else as they are
        names_of_levels = names_of(attribute)
        values = (codes[name] for name in names_of_levels)
        labels = dict(zip(_labels(attribute), values, strict=True))
        empty = {"": codes[None]} if attribute.coding.missing and "" in names_of_levels else {}
        self.code_of = {**codes, **labels, **empty}

    def append(self, lines: list[list[str]]) -> None:
        cells = [line[self.position] for line in lines]
        if self._form.layout.trim:
            cells = [cell.strip(" ") for cell in cells]
        if isinstance(self.attribute.coding, Labels) and self.attribute.coding.by_value:
            cells = [cell and (self._plain(cell) or _NO_NUMBER) for cell in cells]
        codes_of_cells = (self.code_of.get(cell, UNDECLARED) for cell in cells)
        codes = np.fromiter(codes_of_cells, dtype=np.int32, count=len(lines))
        others = np.flatnonzero(codes == UNDECLARED)
        if not len(others):
            return self.add(codes)
        if isinstance(self.attribute.coding, Labels):
            texts = [cells[place] for place in others]
            codes[others] = codes_of_values(self.attribute, self.code_of, texts)
            if (codes == UNDECLARED).any():
                raise UndeclaredLevelError(attribute=self.attribute.name)
            return self.add(codes)
        numbers = np.full(len(codes), UNKNOWN_NUMBER)
        codes[others], numbers[others] = self._of_numbers([cells[place] for place in others])
        return self.add(codes, numbers)

    def _plain(self, text: str) -> str:
        """Return a number as programs write it; empty for a text that is none."""
        layout = self._form.layout
        is_plain = layout.decimal == "." and not layout.thousands
        return text if is_plain else layout.plain_number(text.strip()) or ""

    def _days(self, text: str) -> float:
        form = self._form.dates.get(self.attribute.name)
        return days_of_date(day_of(text)) if form is None else days_of_text(text, form)

    def _of_numbers(self, cells: list[str]) -> tuple[NDArray[Any], FloatArray]:
        """Codes and numbers; raises UndeclaredLevelError where these are no numbers inside the edges."""
        coding, name = self.attribute.coding, self.attribute.name
        with suppress(ValueError):
            if isinstance(coding, Edges):
                number = self._days if coding.dates else _minutes_of_text if coding.times else float_of
                texts = cells if coding.dates or coding.times else list(map(self._plain, cells))
                numbers = np.array(list(map(number, texts)), dtype=np.float64)
                return codes_of_numbers(name, coding, numbers), numbers
        raise UndeclaredLevelError(attribute=name)


def _texts(attribute: Attribute, end: str, values: Values | None) -> Texts:
    name, coding = attribute.name, attribute.coding
    if values is None or not isinstance(coding, Edges):
        # the text of each code, with the separator after it
        cells = [_quoted(text) + end for text in (*_labels(attribute), "")]
        return np.array(cells, dtype=object).__getitem__
    text = _number_text(coding, values)
    return lambda codes: [
        ('""' if isnan(number) else text(number)) + end
        for number in values.of(name, coding, codes).tolist()
    ]


def _number_text(coding: Edges, values: Values) -> Callable[[float], str]:
    if coding.dates:
        return lambda days: date_of_days(days).isoformat()
    if coding.times:
        return time_text
    if coding.decimals is None or isinstance(values, Midpoints):
        return repr
    return f"{{:.{coding.decimals}f}}".format


def _quoted(text: str) -> str:
    """One cell; an empty one is quoted, or a row of nothing else would be an empty line."""
    cell = io.StringIO()
    csv.writer(cell).writerow([text])
    return cell.getvalue().removesuffix("\r\n")


def _minutes_of_text(text: str) -> float:
    """Return the minutes of a time of day, which may stand as HH:MM or as their number."""
    return minutes_of_time(text) if ":" in text else float_of(text)


def batches(dataset: Dataset) -> Iterator[NDArray[Any]]:
    for start in range(0, len(dataset), BATCH_ROWS):
        yield dataset.codes[start : start + BATCH_ROWS]
