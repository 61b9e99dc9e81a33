"""How a file of records is written (encoding, delimiter, decimal mark, dates), and its bytes.

Stewards state it in the settings; `init` drafts it. CSV in UTF-8 is read by DuckDB, in other encodings
by pyarrow, which decodes them all.
"""

import hmac
from codecs import lookup
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import duckdb

from gencard.core.errors import (
    DatasetUnavailableError,
    GencardError,
    InvalidInputError,
    TooLargeError,
)
from gencard.files import open_file

_KINDS = (".csv", ".parquet")
_Result = TypeVar("_Result")
_UTF8 = ("utf-8", "utf-8-sig")

MARKS_OF_PATTERNS = "*?["
"""Characters for which the engine would look for other files than the one named."""


@dataclass(frozen=True, slots=True)
class FileFormat:
    """The format of a CSV file; of a Parquet file, ``trim`` and the marks of numbers and dates in texts.

    Args:
        encoding: As Python names it.
        delimiter: One character; empty: the engine detects it.
        quote: One character, or empty for none.
        skip: Lines before the header.
        decimal: The mark before decimals.
        thousands: The mark between thousands; empty: none.
        dates: Formats of dates as in strftime, besides ISO 8601, the first that fits.
        trim: Spaces around values do not count.

    Raises:
        InvalidInputError: A mark is not one character, two marks are the same, the encoding is unknown,
            or a file in UTF-8 has lines to skip or another quotation mark, and no delimiter.
    """

    encoding: str = "utf-8"
    delimiter: str = ""
    quote: str = '"'
    skip: int = 0
    decimal: str = "."
    thousands: str = ""
    dates: tuple[str, ...] = ()
    trim: bool = False

    def __post_init__(self) -> None:
        try:
            lookup(self.encoding)
        except LookupError:
            raise InvalidInputError(field="format.encoding", problem="is not known") from None
        for name in ("delimiter", "quote", "thousands"):
            if len(getattr(self, name)) > 1:
                problem = "must be one character or empty"
                raise InvalidInputError(field=f"format.{name}", problem=problem)
        if self.decimal not in (".", ",") or self.thousands == self.decimal:
            problem = "must be a point or a comma, and differ from the thousands separator"
            raise InvalidInputError(field="format.decimal", problem=problem)
        if self.skip < 0:
            raise InvalidInputError(field="format.skip", problem="must be 0 or more")
        # the engine detects all marks together, or none
        if self.is_utf8 and not self.delimiter and (self.skip or self.quote != '"'):
            problem = "is required where skip or quote is set"
            raise InvalidInputError(field="format.delimiter", problem=problem)

    @property
    def is_utf8(self) -> bool:
        """Whether the engine reads the file as it is."""
        return lookup(self.encoding).name in _UTF8

    @property
    def is_plain(self) -> bool:
        """Whether numbers are written as in programs: 1234.5."""
        return self.decimal == "." and not self.thousands

    def number(self, text: str) -> str:
        """SQL for the text of a number as programs write it; NULL where the text is none."""
        if self.is_plain:  # as numbers, the engine would read 1_000 and +-5 too
            return f"CASE WHEN NOT (contains({text}, '_') OR contains({text}, '+-')) THEN {text} END"
        decimal, thousands = f"[{self.decimal}]", f"[{self.thousands}]" if self.thousands else ""
        digits = rf"(\d+|\d{{1,3}}({thousands}\d{{3}})+)" if thousands else r"\d+"
        pattern = rf"[+-]?{digits}({decimal}\d+)?([eE][+-]?\d+)?".replace("'", "''")
        plain = f"replace({text}, {literal(self.thousands)}, '')" if thousands else text
        plain = f"replace({plain}, {literal(self.decimal)}, '.')"
        return f"CASE WHEN regexp_full_match({text}, '{pattern}') THEN {plain} END"

    def date(self, text: str) -> str:
        """SQL for the date that a text states; NULL where it states none."""
        iso = f"TRY_CAST({text} AS DATE)"
        if not self.dates:
            return iso
        formats = ", ".join(map(literal, self.dates))
        return f"coalesce({iso}, CAST(try_strptime({text}, [{formats}]) AS DATE))"


USUAL = FileFormat()
"""CSV and Parquet as programs write them."""


def check_path(path: Path) -> None:
    """Raises InvalidInputError where the engine would read something else than one file or folder."""
    if path.suffix not in _KINDS and not path.is_dir():
        problem = "is neither a .csv nor a .parquet file, nor a folder of .parquet files"
        raise InvalidInputError(field="data", problem=problem)
    if not silently(lambda: path.is_file() or path.is_dir() or not path.exists()):
        raise DatasetUnavailableError  # a device or a pipe, on which the engine would wait
    if any(mark in str(path) for mark in MARKS_OF_PATTERNS):
        raise InvalidInputError(field="data", problem="must not have *, ? or [ in its path")


def open_table(engine: duckdb.DuckDBPyConnection, path: Path, file_format: FileFormat) -> str:
    """SQL for the table that a file holds, every value of CSV as text; may register it first."""
    if path.suffix == ".parquet":
        return f"read_parquet({literal(str(path))}, binary_as_string = true)"
    if file_format.is_utf8:
        return _csv_table(engine, literal(str(path)), _options(file_format))
    engine.register("decoded", _decoded(path, file_format))
    return "decoded"


_MARKS = {
    "delim": "Delimiter",
    "quote": "Quote",
    "escape": "Escape",
    "comment": "Comment",
    "new_line": "NewLineDelimiter",
}
"""Options of the engine's reader, and the columns in which it says what it has detected."""
_NO_MARK = "(empty)"


def _csv_table(engine: duckdb.DuckDBPyConnection, file: str, options: str) -> str:
    """SQL that reads a CSV file, with what the engine detects in it: else each query detects it anew."""
    names = ", ".join(("SkipRows", "Columns", *_MARKS.values()))
    query = f"SELECT {names} FROM sniff_csv({file}, {options})"  # noqa: S608  # quoted
    try:
        ((skip, columns, *detected),) = engine.execute(query).fetchall()
    except duckdb.InvalidInputException:  # the file has no header, or is no CSV: its reader says so
        return f"read_csv({file}, {options})"
    texts = ", ".join(f"{literal(column['name'])}: 'VARCHAR'" for column in columns)
    marks = ", ".join(
        f"{option} = {literal('' if mark == _NO_MARK else mark)}"
        for option, mark in zip(_MARKS, detected, strict=True)
    )
    stated = f"auto_detect = false, header = true, skip = {skip}, columns = {{{texts}}}, {marks}"
    return f"read_csv({file}, {stated})"


def _options(file_format: FileFormat) -> str:
    options = "all_varchar = true, header = true, comment = ''"  # else a value may begin with one
    if file_format.delimiter:
        quote = literal(file_format.quote)
        options += f", delim = {literal(file_format.delimiter)}, quote = {quote}, escape = {quote}"
        options += f", skip = {file_format.skip}"
    return options


def _decoded(path: Path, file_format: FileFormat) -> Any:
    """Every value as text, as a dataset of Arrow; empty values are null."""
    # pyarrow imports pandas, and files in UTF-8 need neither
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import csv as arrow_csv  # noqa: PLC0415
    from pyarrow import dataset as arrow_dataset  # noqa: PLC0415

    parse = arrow_csv.ParseOptions(
        delimiter=file_format.delimiter or ",",
        quote_char=file_format.quote or False,
        newlines_in_values=True,
    )
    options = arrow_csv.ReadOptions(encoding=file_format.encoding, skip_rows=file_format.skip)
    with arrow_csv.open_csv(path, read_options=options, parse_options=parse) as reader:
        names = [name or f"column{position}" for position, name in enumerate(reader.schema.names)]
    options.skip_rows, options.column_names = file_format.skip + 1, names
    convert = arrow_csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True
    )
    csv = arrow_dataset.CsvFileFormat(parse_options=parse, read_options=options, convert_options=convert)
    return arrow_dataset.dataset(path, format=csv)


def literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def silently(action: Callable[[], _Result]) -> _Result:
    """Run the action; let no word of its errors out, neither as text nor as cause.

    Raises:
        DatasetUnavailableError: Any error, but
        GencardError: one of ours, and
        MemoryError: the engine's lack of memory.
    """
    refusal: Exception
    try:
        return action()
    except GencardError:  # its text is ours
        raise
    except (duckdb.OutOfMemoryException, MemoryError):
        refusal = MemoryError()
    except Exception:  # whatever it is, its text may quote a record
        refusal = DatasetUnavailableError()
    try:
        raise refusal
    finally:
        del refusal  # or this frame and its error would hold each other, and what was read


@contextmanager
def enough_memory() -> Iterator[None]:
    """Turn a lack of memory into an error for a steward; a job ends in another one by itself.

    Raises:
        TooLargeError: Reading the records took more memory than the engine may use.
    """
    try:
        yield
        return
    except MemoryError:
        pass
    raise TooLargeError(what="The memory for reading the records", limit="512 MiB", advice=_MEMORY)


_MEMORY = "Look for very long values, or rows of very many, and leave them out of the file."


def hmac_of(path: Path, salt: bytes) -> str:
    """HMAC-SHA256 of a file's bytes, in hex."""
    digest = hmac.new(salt, digestmod=sha256)
    with open_records(path) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def open_records(path: Path) -> BinaryIO:
    """Open a regular file of records; raises DatasetUnavailableError if it cannot be read."""
    with suppress(InvalidInputError):  # it names the path, which callers of the service must not learn
        return open_file(path, "data")
    raise DatasetUnavailableError
