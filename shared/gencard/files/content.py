"""Content of files by their endings: text, plain or packed (``.gz``, one in a ``.zip``), and tables."""

import datetime as dt
import gzip
import io
import lzma
import unicodedata
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, TextIO

from gencard.core.errors import GencardError, InvalidInputError, TooLargeError
from gencard.core.values import number_text
from gencard.files import MOST_COLUMNS, open_file, size_of

if TYPE_CHECKING:
    import pyarrow as pa


# Kinds of files of records by ending.


TEXT = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".zip")
"""Lines of values with a delimiter; a ``.zip`` holds one such file."""

PARQUET = (".parquet",)

SHEETS = (".xlsx", ".xls", ".ods")
"""Workbooks with sheets."""

STATISTICS = (".dta", ".sav", ".zsav", ".sas7bdat", ".xpt")
"""Files of Stata, SPSS and SAS."""

ENDINGS = (*TEXT, *PARQUET, *SHEETS, *STATISTICS)

WRITTEN = (".csv", ".parquet", ".dta", ".sav", ".xlsx")
"""Files that rows are written to."""


def ending_of(path: Path) -> str:
    """The longest ending that is one of ``ENDINGS``, in lower case; empty if there is none.

    >>> [ending_of(Path(name)) for name in ("a.csv", "a.b.CSV.GZ", "a.gz", "a")]
    ['.csv', '.csv.gz', '', '']
    """
    name = path.name.lower()
    return max((ending for ending in ENDINGS if name.endswith(ending)), key=len, default="")


# Content of a text file.


_INSIDE = (".csv", ".tsv", ".txt")
_DAMAGES = (
    *(OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile),
    *(NotImplementedError, RuntimeError, ValueError),
)
_PACK_AGAIN = "Check that the archive is whole, and pack the file again."


def is_packed(path: Path) -> bool:
    """Whether a text file has to be unpacked, by its ending."""
    return ending_of(path).endswith((".gz", ".zip"))


def open_content(path: Path, field: str, most_bytes: int) -> BinaryIO:
    """Open a text file, and unpack it while it is read; no copy is written.

    Raises InvalidInputError, which names ``field``, for a file or archive that cannot be read; so
    does reading the stream, and TooLargeError beyond ``most_bytes``.
    """
    file = open_file(path, field)
    if not is_packed(path):
        return io.BufferedReader(_Bounded(file, field, most_bytes))
    try:
        inside: Any = gzip.GzipFile(fileobj=file)
        if ending_of(path) == ".zip":
            inside = _only_file(zipfile.ZipFile(file), field)
    except _DAMAGES:
        file.close()
        raise _wrong(field, "cannot be unpacked", _PACK_AGAIN) from None
    except BaseException:
        file.close()
        raise
    return io.BufferedReader(_Bounded(inside, field, most_bytes, file), buffer_size=1 << 20)


def open_text_content(path: Path, field: str, encoding: str, most_bytes: int) -> TextIO:
    """Open it as text, with its line ends as they are; raises as ``open_content``."""
    return io.TextIOWrapper(open_content(path, field, most_bytes), encoding=encoding, newline="")


def too_many_bytes(most_bytes: int) -> TooLargeError:
    """Return the error for a file of more bytes than a limit, when it is unpacked."""
    return TooLargeError(
        what="The unpacked size of the file",
        limit=f"{most_bytes >> 20:,} MiB (limits.file_mib)",
        advice="Split the file, leave out columns, or raise limits.file_mib in the settings.",
    )


def _only_file(archive: zipfile.ZipFile, field: str) -> Any:
    entries = [
        entry
        for entry in archive.infolist()
        if not entry.is_dir() and not entry.filename.startswith("__MACOSX/")
    ]
    if len(entries) != 1:
        raise _wrong(field, "must hold exactly one file", "Pack one file, or give the files unpacked.")
    (entry,) = entries
    if entry.flag_bits & 0x1:
        raise _wrong(field, "is an encrypted archive", "Pack it without a password.")
    if PurePosixPath(entry.filename).suffix.lower() not in _INSIDE:
        problem = f"must hold a file that ends in {', '.join(_INSIDE)}"
        raise _wrong(field, problem, "Give other files as they are: .xlsx, .parquet and others.")
    return archive.open(entry)


def _wrong(field: str, problem: str, advice: str) -> InvalidInputError:
    return InvalidInputError(field=field, problem=problem, advice=advice)


class _Bounded(io.RawIOBase):
    """A stream of at most so many bytes, whose errors are ours."""

    def __init__(self, stream: Any, field: str, most_bytes: int, file: BinaryIO | None = None) -> None:
        self._stream, self._field, self._most, self._file = stream, field, most_bytes, file
        self._left = most_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            block = self._stream.read(len(buffer))
        except _DAMAGES:
            raise _wrong(self._field, "cannot be unpacked", _PACK_AGAIN) from None
        self._left -= len(block)
        if self._left < 0:
            raise too_many_bytes(self._most)
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
            if self._file is not None:
                self._file.close()
        super().close()


def arrow_files(opened: Callable[[], BinaryIO]) -> Any:
    """Return a read-only file system of Arrow with one file, which ``opened`` opens for each reading."""
    import pyarrow as pa  # noqa: PLC0415 - most files need no Arrow
    from pyarrow import fs  # noqa: PLC0415

    class OneFile(fs.FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types
        def __eq__(self, other: object) -> bool:
            return self is other

        def __hash__(self) -> int:
            return id(self)

        def get_type_name(self) -> str:
            return "one file"

        def normalize_path(self, path: str) -> str:
            return path

        def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
            return [fs.FileInfo(path, fs.FileType.File) for path in paths]

        def get_file_info_selector(self, _: Any) -> list[fs.FileInfo]:
            return []

        def open_input_stream(self, _: str) -> pa.PythonFile:
            return pa.PythonFile(opened(), "r")

        open_input_file = open_input_stream

        def _refuse(self, *_: Any) -> NoReturn:
            raise PermissionError

        create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _refuse
        delete_file = move = copy_file = open_output_stream = open_append_stream = _refuse

    return fs.PyFileSystem(OneFile())


# Tables in files of spreadsheets and statistical packages, read whole as Arrow.
#
# ``read_stored`` is the door: the vault and the client read such files by it. The libraries for the
# formats are the extra ``files``.


MOST_BYTES = 16_384 << 20
"""Default of the bytes that a file may hold when it is unpacked."""


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """Description of a column, as its file declares it.

    Args:
        description: Label of the variable.
        labels: All labels of its values, in the order of their codes; empty if values are no labels.
        missing: Codes that stand for missing values, each with its label if it has one.
        note: How its values are read, if a reader could expect otherwise; a sentence.
    """

    name: str
    description: str = ""
    labels: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class StoredTable:
    """Values of a file, and the description of each column.

    Args:
        table: Columns of text (dictionaries, if they are labels), int64, float64, bool, date32 and
            timestamp[us]; missing values are null.
        note: What a reader could expect otherwise of the table as a whole; a sentence.
    """

    table: "pa.Table"
    columns: tuple[StoredColumn, ...]
    note: str = ""


def is_stored(path: Path) -> bool:
    """Whether ``read_stored`` reads files of this ending."""
    return ending_of(path) in (*SHEETS, *STATISTICS)


def read_stored(
    path: Path, field: str, *, sheet: str = "", skip: int = 0, most_bytes: int = MOST_BYTES
) -> StoredTable:
    """Read the table of a workbook, or of a file of Stata, SPSS or SAS.

    Args:
        sheet: Name of the sheet; may be empty if only one sheet holds values.
        skip: Rows of the sheet before the names of the columns.

    Raises:
        InvalidInputError: The libraries are not installed, the file cannot be read, or its sheet is no
            table; names the cell.
        TooLargeError: It unpacks to more than ``most_bytes``, or has too many columns.
    """
    size_of(path, field)  # says what is wrong with a path that is no regular file
    is_sheet = ending_of(path) in SHEETS
    try:
        reader = import_module("gencard.files.workbooks" if is_sheet else "gencard.files.statistics")
    except ModuleNotFoundError:
        problem = "files of spreadsheets and statistical packages need: pip install 'gencard[files]'"
        raise InvalidInputError(field=field, problem=problem) from None
    options = {"sheet": sheet, "skip": skip} if is_sheet else {}
    if not is_sheet and (sheet or skip):
        raise InvalidInputError(field=field, problem="is no workbook, so it has neither sheet nor skip")
    with _readable(field, ending_of(path)):
        stored: StoredTable = reader.read(path, field, most_bytes=most_bytes, **options)
    return stored


@contextmanager
def _readable(field: str, ending: str) -> Iterator[None]:
    """Turn every error of a library, whose text may quote values, into one that quotes nothing."""
    try:
        yield
    except (GencardError, MemoryError):
        raise
    except Exception:  # readers of damaged files raise what they like
        problem = f"cannot be read as {ending}"
        raise InvalidInputError(field=field, problem=problem, advice=_DAMAGED) from None


_DAMAGED = (
    "Check that the file is whole, is what its ending says, and opens without a password in the program "
    "that wrote it; or save it as CSV or Parquet."
)


def check_names(names: Sequence[str], field: str, places: Sequence[str] | str) -> None:
    """Refuse names that are the same but for case or Unicode form; ``places`` say where they are."""
    if len(names) > MOST_COLUMNS:
        raise TooLargeError(what="The number of columns", limit=MOST_COLUMNS, advice=_NARROWER)
    seen: dict[str, str] = {}
    each = [places] * len(names) if isinstance(places, str) else places
    for name, place in zip(names, each, strict=True):
        plain = unicodedata.normalize("NFC", name).casefold()
        if plain in seen:
            problem = f"has two columns of one name, '{seen[plain]}' and '{name}' {place}".rstrip()
            raise InvalidInputError(field=field, problem=problem, advice="Rename one of them.")
        seen[plain] = name


_NARROWER = "Leave out columns that no analysis needs, or split the file."


def empty_words(number: int, kind: str, first: int, meaning: str) -> str:
    """Return a sentence on empty rows of a sheet, or lines of a text.

    >>> empty_words(1, "row", 7, "is a record"), empty_words(2, "line", 7, "is no record")
    ('The empty row 7 is a record.', 'Each of 2 empty lines is no record; the first is line 7.')
    """
    if number == 1:
        return f"The empty {kind} {first} {meaning}."
    return f"Each of {number:,} empty {kind}s {meaning}; the first is {kind} {first}."


def whole_or_float(values: "pa.ChunkedArray") -> "pa.ChunkedArray":
    """Return float64 as int64, if every value is a whole number that a float holds exactly."""
    import pyarrow as pa  # noqa: PLC0415 - only a reader of such files needs it
    import pyarrow.compute as pc  # noqa: PLC0415

    is_exact = pc.less_equal(pc.abs(values), 2.0**53 - 1)
    is_whole = pc.and_(pc.equal(values, pc.floor(values)), is_exact)
    return values.cast(pa.int64()) if pc.all(is_whole).as_py() is not False else values


def distinct_labels(labels: dict[Any, str]) -> dict[Any, str]:
    """Return labels by code, of which no two are the same: equal ones get their codes.

    >>> distinct_labels({1: "yes", 8: "other", 9: "other", 10: ""})
    {1: 'yes', 8: 'other (8)', 9: 'other (9)', 10: '10'}
    """
    plain = {code: label or code_text(code) for code, label in labels.items()}
    while True:  # a label with its code may be another one's label
        forms = {code: unicodedata.normalize("NFC", label) for code, label in plain.items()}
        repeated = {form for form, times in Counter(forms.values()).items() if times > 1}
        if not repeated:
            return plain
        plain = {
            code: f"{label} ({code_text(code)})" if forms[code] in repeated else label
            for code, label in plain.items()
        }


def code_text(code: Any) -> str:
    """Return a code as text: a text as it is, a whole number without a point."""
    return code if isinstance(code, str) else number_text(float(code))


def time_texts(times: Sequence[dt.time | None]) -> list[str | None]:
    """Return times of day as texts, all to the minute if none has seconds: 09:30, or 09:30:00."""
    to_minutes = all(one is None or not (one.second or one.microsecond) for one in times)
    form = "minutes" if to_minutes else "auto"
    return [None if one is None else one.isoformat(timespec=form) for one in times]
