"""Tables in files of spreadsheets and statistical packages, read whole as Arrow.

``read_stored`` is the door: the vault and the client read such files by it. The libraries for the
formats are the extra ``files``.
"""

import datetime as dt
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gencard.core.errors import GencardError, InvalidInputError, TooLargeError
from gencard.core.values import number_text
from gencard.files import MOST_COLUMNS, size_of
from gencard.files.content import SHEETS, STATISTICS, ending_of

if TYPE_CHECKING:
    import pyarrow as pa

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
        field: Name of the argument that named the file, for errors.
        sheet: Name of the sheet; may be empty if only one sheet holds values.
        skip: Rows of the sheet before the names of the columns.
        most_bytes: Most bytes of the unpacked file.

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
    while repeated := _repeated(plain.values()):  # a label with its code may be another one's label
        plain = {
            code: f"{label} ({code_text(code)})" if _form(label) in repeated else label
            for code, label in plain.items()
        }
    return plain


def _repeated(labels: Iterable[str]) -> set[str]:
    return {form for form, times in Counter(map(_form, labels)).items() if times > 1}


def _form(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def code_text(code: Any) -> str:
    """Return a code as text: a text as it is, a whole number without a point."""
    return code if isinstance(code, str) else number_text(float(code))


def time_texts(times: Sequence[dt.time | None]) -> list[str | None]:
    """Return times of day as texts, all to the minute if none has seconds: 09:30, or 09:30:00."""
    to_minutes = all(one is None or not (one.second or one.microsecond) for one in times)
    form = "minutes" if to_minutes else "auto"
    return [None if one is None else one.isoformat(timespec=form) for one in times]
