"""Format of a file of records (encoding, delimiter, decimal mark, dates), and its bytes.

Stewards state it in the settings; `init` drafts it. CSV in UTF-8 is read by DuckDB, in other encodings
by pyarrow, which decodes them all.
"""

import csv
import hmac
import os
import re
from codecs import lookup
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, TypeVar

import duckdb

from gencard.core.errors import (
    DatasetUnavailableError,
    EmptyDatasetError,
    GencardError,
    InvalidInputError,
    TooLargeError,
)
from gencard.core.values import MOST_DIGITS, NUMBER
from gencard.files import lines_of, open_file, open_text
from gencard.files.content import (
    ENDINGS,
    MOST_BYTES,
    PARQUET,
    arrow_files,
    ending_of,
    is_packed,
    open_content,
)
from gencard.files.layout import delimiter_of, first_lines, too_long

_Result = TypeVar("_Result")
_UTF8 = ("utf-8", "utf-8-sig")

MARKS_OF_PATTERNS = "*?["
"""Characters for which the engine would look for other files than the one named."""

CLOSED_ENGINE: dict[str, str | int | float | list[str]] = {
    "threads": 2,
    "temp_directory": "",  # nothing may spill to disk
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
"""Settings of every DuckDB that sees records; each adds a ``memory_limit``."""


@dataclass(frozen=True, slots=True)
class FileFormat:
    """Format of a file of records, if it is not the default; ``init`` drafts it.

    In Parquet files, ``trim``, ``decimal``, ``thousands`` and ``dates`` apply to texts.

    Args:
        encoding: Encoding of a CSV file, by its name in Python, such as ``cp1252``.
        delimiter: Character between the values of a CSV file. By default it is
            detected in the first lines in UTF-8, and a comma in other encodings.
        quote: Quotation mark of a CSV file, one character; empty if there is none. In UTF-8, other
            marks than the default ones require ``delimiter``.
        escape: Character before a quotation mark inside a value. By default the quotation mark is
            doubled.
        comment: First character of comment lines, in UTF-8; empty if there are none.
        header: ``false`` if the first record does not hold the names of the columns. The names are then
            ``column0``, ``column1`` and so on, with as many digits as the last one.
        skip: Lines before the header of a CSV file, or rows of a sheet before the names of the columns.
            In UTF-8, lines to skip require ``delimiter``; rows require ``sheet``.
        decimal: Decimal separator of numbers: a point or a comma.
        thousands: Thousands separator of numbers, one character; it must differ from ``decimal``.
        dates: Formats of dates besides ISO 8601, such as ``%d.%m.%Y``; the first that fits is used.
        trim: ``true`` ignores spaces before and after values.
        sheet: Name of the sheet of a workbook; may be empty if only one sheet holds values.
        line_ends: ``mixed`` if a CSV file has several kinds of line ends; by default all must be alike.
        file_mib: Largest size of the unpacked file, in MiB; by default ``limits.file_mib``.

    Raises:
        InvalidInputError: A mark is not one character, two marks are the same, the encoding is unknown,
            a file in UTF-8 has other marks or lines to skip and no delimiter, or one in another encoding
            has comments.
    """

    encoding: str = "utf-8"
    delimiter: str = ""
    quote: str = '"'
    escape: str | None = None
    comment: str = ""
    header: bool = True
    skip: int = 0
    decimal: str = "."
    thousands: str = ""
    dates: tuple[str, ...] = ()
    trim: bool = False
    sheet: str = ""
    line_ends: str = ""
    file_mib: int = MOST_BYTES >> 20

    def __post_init__(self) -> None:
        if self.escape == self.quote:  # one form for one meaning
            object.__setattr__(self, "escape", None)
        try:
            lookup(self.encoding)
        except LookupError:
            raise InvalidInputError(field="format.encoding", problem="is not known") from None
        one_mark = ("delimiter", "quote", "escape", "comment", "thousands")
        long = [name for name in one_mark if len(getattr(self, name) or "") > 1]
        separate = "must be a point or a comma, and differ from the thousands separator"
        separators = self.decimal not in (".", ",") or self.thousands == self.decimal
        marks = [mark for mark in (self.delimiter, self.quote, self.comment) if mark]
        for name, is_wrong, problem in (
            *((name, True, "must be one character or empty") for name in long),
            ("decimal", separators, separate),
            ("skip", self.skip < 0, "must be 0 or more"),
            ("file_mib", self.file_mib < 1, "must be 1 or more"),
            ("line_ends", self.line_ends not in ("", "mixed"), "must be mixed or empty"),
            ("quote", len(set(marks)) < len(marks), "must differ from the other marks"),
        ):
            if is_wrong:
                raise InvalidInputError(field=f"format.{name}", problem=problem)
        if self.comment and (self.line_ends or not self.is_utf8):
            problem = "is possible in UTF-8 only, and if all lines end alike"
            raise InvalidInputError(field="format.comment", problem=problem)
        skips = self.skip and not self.sheet
        unusual = skips or self.quote != '"' or self.escape_mark != '"' or self.comment
        if self.is_utf8 and not self.delimiter and (unusual or not self.header):
            problem = "is required where skip, quote, escape, comment or header is set"
            raise InvalidInputError(field="format.delimiter", problem=problem)

    @property
    def escape_mark(self) -> str:
        """The mark before a quotation mark inside a value; empty if there are no quotation marks."""
        return self.quote if self.escape is None else self.escape

    @property
    def most_bytes(self) -> int:
        return self.file_mib << 20

    @property
    def is_utf8(self) -> bool:
        """Whether the engine reads the file as it is."""
        return lookup(self.encoding).name in _UTF8

    def number(self, text: str) -> str:
        """SQL for the text of a number as programs write it; NULL where the text is none."""
        if self.decimal == "." and not self.thousands:
            # as numbers, the engine would read 1_000 and +-5 too
            marked = f"contains({text}, '_') OR contains({text}, '+-')"
            # Shorter ones are no numbers for the engine either, and to look into a text takes time.
            in_range = _in_range(text, text)
            return f"CASE WHEN strlen({text}) < 3 THEN {text} WHEN NOT ({marked}) THEN {in_range} END"
        decimal, thousands = f"[{self.decimal}]", f"[{self.thousands}]" if self.thousands else ""
        digits = rf"(\d+|\d{{1,3}}({thousands}\d{{3}})+)" if thousands else r"\d+"
        pattern = rf"[+-]?{digits}({decimal}\d+)?([eE][+-]?\d+)?".replace("'", "''")
        plain = f"replace({text}, {quoted(self.thousands)}, '')" if thousands else text
        plain = f"replace({plain}, {quoted(self.decimal)}, '.')"
        return f"CASE WHEN regexp_full_match({text}, '{pattern}') THEN {_in_range(text, plain)} END"

    def date(self, text: str, compact: str) -> str:
        """SQL for the date of a text, NULL for none; ``compact`` is SQL for that of a text YYYYMMDD."""
        iso = f"TRY_CAST({text} AS DATE)"
        if not self.dates:
            return f"coalesce({iso}, {compact})"
        formats = ", ".join(map(quoted, self.dates))
        stated = f"CAST(try_strptime({text}, [{formats}]) AS DATE)"
        ways = (stated, iso) if self.dates_first else (iso, stated)
        return f"coalesce({', '.join(ways)}, {compact})"

    @property
    def dates_first(self) -> bool:
        """Whether a stated format of dates is one of texts that the engine by itself reads otherwise.

        By itself it reads 12-11-10 as a day of the year 12, and 2020-05-06 as a day of May.
        """
        return any(
            ("%y" in form and not form.startswith("%d.")) or re.match("%Y.*%d.*%m", form)
            for form in self.dates
        )

    def whole(self, text: str) -> str:
        """SQL for a text without thousands separators; NULL where it has a decimal mark."""
        plain = f"replace({text}, {quoted(self.thousands)}, '')" if self.thousands else text
        return f"CASE WHEN NOT contains({text}, {quoted(self.decimal)}) THEN trim({plain}) END"


USUAL = FileFormat()
"""CSV and Parquet as programs write them."""


def check_path(path: Path) -> None:
    """Raise InvalidInputError if the engine would read something else than one file or folder."""
    if not ending_of(path) and not path.is_dir():
        problem = f"is neither a folder of .parquet files nor a file that ends in {', '.join(ENDINGS)}"
        raise InvalidInputError(field="data", problem=problem)
    if not silently(lambda: path.is_file() or path.is_dir() or not path.exists()):
        raise DatasetUnavailableError  # a device or a pipe, on which the engine would wait
    if any(mark in str(path) for mark in MARKS_OF_PATTERNS):
        raise InvalidInputError(field="data", problem="must not have *, ? or [ in its path")


def open_table(engine: duckdb.DuckDBPyConnection, path: Path, file_format: FileFormat) -> str:
    """SQL for the table that a file holds, every value of CSV as text; may register it first."""
    if ending_of(path) in PARQUET:
        return f"read_parquet({quoted(str(path))}, binary_as_string = true)"
    if file_format.is_utf8 and not (is_packed(path) or file_format.line_ends):
        with suppress(InvalidInputError):  # it names the path, which callers must not learn
            form = stated(path, file_format)
            names, skip = _columns(path, form)
            # nothing of what the file counts is left to be detected
            texts = ", ".join(f"{quoted(name)}: 'VARCHAR'" for name in names)
            marks = map(quoted, (form.delimiter, form.quote, form.escape_mark, form.comment))
            named = zip(("delim", "quote", "escape", "comment"), marks, strict=True)
            options = ", ".join(f"{option} = {mark}" for option, mark in named)
            options += f", header = {str(form.header).lower()}, skip = {skip}, columns = {{{texts}}}"
            return f"read_csv({quoted(str(path))}, auto_detect = false, {options})"
        raise DatasetUnavailableError
    engine.register("decoded", _decoded(path, file_format))
    return "decoded"


def stated(path: Path, file_format: FileFormat) -> FileFormat:
    """Return the format with the delimiter of the file's first lines, if none is stated."""
    if file_format.delimiter:
        return file_format
    delimiter, skip = delimiter_of(first_lines(path, "data", "utf-8-sig", file_format.most_bytes))
    return replace(file_format, delimiter=delimiter, skip=skip)


def _columns(path: Path, file_format: FileFormat) -> tuple[list[str], int]:
    """Names of the columns, and the lines to skip, among which the engine counts no comment."""
    skip, comments = 0, 0
    with open_text(path, "data", "utf-8-sig") as file:
        lines = lines_of(file, too_long("data"))
        for line in lines:
            is_comment = bool(file_format.comment) and line.startswith(file_format.comment)
            if skip >= file_format.skip and line.strip("\r\n") and not is_comment:
                break
            skip += 1
            comments += is_comment
        else:
            raise EmptyDatasetError
        escape = file_format.escape_mark
        doubled = escape == file_format.quote
        reader = csv.reader(
            chain([line], lines),
            delimiter=file_format.delimiter,
            quotechar=file_format.quote or None,
            escapechar=None if doubled else escape or None,
            doublequote=doubled,
            quoting=csv.QUOTE_MINIMAL if file_format.quote else csv.QUOTE_NONE,
        )
        first = next(reader)
    unnamed = _unnamed(len(first))
    if not file_format.header:
        return unnamed, skip - comments
    names = [name.strip(" ") or other for name, other in zip(first, unnamed, strict=True)]
    # as the engine has them: a name that is there, in whatever case, gets a number
    times, different = dict[str, int](), list[str]()
    for name in names:
        candidate = name
        while candidate.lower() in times:
            candidate = f"{name}_{times[name.lower()]}"
            times[name.lower()] += 1
        times[candidate.lower()] = 1
        different.append(candidate)
    return different, skip - comments


def _unnamed(columns: int) -> list[str]:
    digits = len(str(columns - 1))
    return [f"column{place:0{digits}}" for place in range(columns)]


def _decoded(path: Path, file_format: FileFormat) -> Any:
    """Return every value as text, as a dataset of Arrow; empty values are null."""
    # pyarrow imports pandas, and files in UTF-8 need neither
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import csv as arrow_csv  # noqa: PLC0415
    from pyarrow import dataset as arrow_dataset  # noqa: PLC0415

    if file_format.comment:
        problem = "is possible only in files that are not packed"
        raise InvalidInputError(field="format.comment", problem=problem)
    doubled = file_format.escape_mark == file_format.quote
    parse = arrow_csv.ParseOptions(
        delimiter=file_format.delimiter or ",",
        quote_char=file_format.quote or False,
        double_quote=doubled,
        escape_char=False if doubled else file_format.escape_mark or False,
        newlines_in_values=True,
    )
    opened = partial(open_content, path, "data", file_format.most_bytes)
    options = arrow_csv.ReadOptions(
        encoding=file_format.encoding,
        skip_rows=file_format.skip,
        autogenerate_column_names=not file_format.header,
    )
    with opened() as file, arrow_csv.open_csv(file, options, parse) as reader:
        names = reader.schema.names
    parse.ignore_empty_lines = len(names) > 1  # in a file of one column, an empty line is a record
    if file_format.header:
        names = [name or f"column{position}" for position, name in enumerate(names)]
    else:
        names = _unnamed(len(names))
    options.autogenerate_column_names, options.column_names = False, names
    options.skip_rows_after_names = int(file_format.header)  # a record: it may have several lines
    convert = arrow_csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True
    )
    csv = arrow_dataset.CsvFileFormat(parse_options=parse, read_options=options, convert_options=convert)
    return arrow_dataset.dataset("content", filesystem=arrow_files(opened), format=csv)


def _in_range(text: str, plain: str) -> str:
    """SQL for the plain form of a text; NULL if it has more digits than every engine reads."""
    is_number = f"regexp_full_match({plain}, {quoted(NUMBER)})"
    return f"CASE WHEN strlen({text}) <= {MOST_DIGITS} OR {is_number} THEN {plain} END"


def quoted(text: str, mark: str = "'") -> str:
    """Return a literal in SQL, or with double quotes a name."""
    # labels come from files: doubled marks keep a label from ending the literal (SQL injection)
    return mark + text.replace(mark, mark * 2) + mark


def silently(action: Callable[[], _Result]) -> _Result:
    """Run the action, and let out no text of its errors, neither as message nor as cause.

    Raises DatasetUnavailableError for any error but ours and a lack of memory.
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
    """Turn a lack of memory into TooLargeError for a steward; a job ends in another one by itself."""
    with suppress(MemoryError):
        yield
        return
    advice = "Look for very long values, or rows of very many, and leave them out of the file."
    raise TooLargeError(what="The memory for reading the records", limit="512 MiB", advice=advice)


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


# Folders of Parquet: which of their files hold records, their digest, and their table.
#
# A folder is what Spark, DuckDB and pandas write: many files with the same columns, in any subfolders,
# of which some may be hive partitions (``region=north/part-0.parquet``). Messages name no file: the name
# of a partition is a value of records.


MOST_FILES = 10_000
"""Files of records in one folder. Each is opened before the first record is read."""

_UNSETTLED = {
    "_temporary": "is being written, or was left unfinished: remove its folder _temporary",
    "_delta_log": "is a Delta table, whose files may hold deleted records: export it as Parquet",
    "_spark_metadata": "is the output of a stream, which may hold records twice: export it as Parquet",
    ".hoodie": "is a Hudi table, whose files may hold deleted records: export it as Parquet",
}
"""Folders whose presence says that the files are not simply the records."""


@dataclass(frozen=True, slots=True)
class ParquetFolder:
    """A folder and its files of records, as they are at one moment.

    Args:
        names: Paths below the folder, sorted, with ``/``.
        keys: Attributes that the names of hive partitions state, the outermost first.
    """

    path: Path
    names: tuple[str, ...]
    keys: tuple[str, ...]

    @classmethod
    def at(cls, path: Path) -> "ParquetFolder":
        """Return the folder with all its files of records.

        Names that begin with ``_`` or ``.`` do not count, as in Spark.

        Raises:
            InvalidInputError: Something in it is neither a folder nor a regular .parquet file, is a
                symbolic link, or has a name that cannot be read; or its partitions differ in their
                keys.
            EmptyDatasetError: There is no file of records.
            TooLargeError: There are more than ``MOST_FILES``.
        """
        if "=" in str(path.absolute()):
            raise _refusal("must not have = in its path: the names of partitions begin below it")
        names: list[str] = []
        for name in _names_below(path):
            names.append(name)
            if len(names) > MOST_FILES:
                raise TooLargeError(
                    what="The number of files in the folder",
                    limit=MOST_FILES,
                    advice="Write the records to fewer files, or offer a table of a database.",
                )
        if not names:
            raise EmptyDatasetError()
        keys = {
            tuple(part.partition("=")[0] for part in PurePosixPath(name).parts[:-1] if "=" in part)
            for name in names
        }
        if len(keys) > 1 or any(len(set(one)) < len(one) for one in keys):
            raise _refusal("must have the same keys in all its partitions, each once")
        return cls(path, tuple(sorted(names)), keys.pop())

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(self.path / name for name in self.names)

    def digest(self, salt: bytes, of_file: Callable[[Path, bytes], str]) -> str:
        """HMAC-SHA256 over the names of all files and each one's HMAC by ``of_file``, in hex."""
        whole = hmac.new(salt, b"gencard.folder.v1\n", sha256)
        for name, file in zip(self.names, self.files, strict=True):
            whole.update(f"{of_file(file, salt)} {len(os.fsencode(name))} ".encode())
            whole.update(os.fsencode(name) + b"\n")
        return whole.hexdigest()

    @property
    def listed(self) -> str:
        """The files as a list in SQL."""
        return f"[{', '.join(quoted(str(file)) for file in self.files)}]"

    @property
    def table(self) -> str:
        """SQL for the records; a column has the narrowest type that holds the values of all files."""
        hive = "true, hive_types_autocast = false" if self.keys else "false"
        options = f"binary_as_string = true, union_by_name = true, hive_partitioning = {hive}"
        return f"read_parquet({self.listed}, {options})"

    def check_columns(self, rows: Callable[[str], list[tuple[Any, ...]]]) -> None:
        """Raise InvalidInputError if the columns of the files differ, or one names a partition's key.

        A column that one file lacks would be read as missing values.
        """
        columns = f"FROM parquet_schema({self.listed}) WHERE coalesce(num_children, 0) = 0"
        names_by_file = f"SELECT list_sort(list(name)) AS names {columns} GROUP BY file_name"
        lists = rows(f"SELECT DISTINCT names FROM ({names_by_file}) LIMIT 2")  # noqa: S608  # our text
        if len(lists) > 1:
            raise _refusal("must have the same columns in all its files")
        if {key.lower() for key in self.keys} & {name.lower() for (names,) in lists for name in names}:
            raise _refusal("has a column inside its files that is a key of its partitions too")


def _names_below(path: Path) -> Iterator[str]:
    for folder, subfolders, _ in os.walk(path, onerror=_give_up):
        names = []
        with os.scandir(folder) as entries:
            for entry in entries:
                _check_entry(entry)
                if entry.name.startswith(("_", ".")):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    names.append(entry.name)
                else:
                    yield Path(entry.path).relative_to(path).as_posix()
        subfolders[:] = names


def _give_up(error: OSError) -> None:
    raise error


def _check_entry(entry: os.DirEntry[str]) -> None:
    if problem := _UNSETTLED.get(entry.name):
        raise _refusal(problem)
    if entry.is_symlink():
        # a link could lead out of the folder, or count the same records twice
        raise _refusal("has a symbolic link in it; `find FOLDER -type l` lists them")
    if entry.name.startswith(("_", ".")):
        return
    if any(mark in entry.name for mark in MARKS_OF_PATTERNS):
        raise _refusal("has a file or folder in it with *, ? or [ in its name")
    is_folder = entry.is_dir(follow_symlinks=False)
    if not is_folder and not (entry.name.endswith(".parquet") and entry.is_file(follow_symlinks=False)):
        problem = "contains something that is not a Parquet file; `find FOLDER -type f -not -name "
        raise _refusal(
            problem + "'*.parquet'` lists such files; names that begin with _ or . are ignored"
        )


def _refusal(problem: str) -> InvalidInputError:
    return InvalidInputError(field="data", problem=problem)
