"""Formats of files of rows: what Stata, SPSS and Excel can hold, and how a text file is written."""

import csv
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryFile
from typing import NamedTuple

from gencard.core.coding import Attribute, Coding, Edges, Labels, date_of_days, days_of_date
from gencard.core.domain import Domain
from gencard.core.errors import InvalidInputError, UndeclaredLevelError, unwritable
from gencard.core.values import EXACT, day_of, number_of
from gencard.files import MOST_COLUMNS, lines_of
from gencard.files.content import ENDINGS, WRITTEN, ending_of, open_text_content
from gencard.files.layout import (
    DATES,
    DAY_OR_MONTH_FIRST,
    TextLayout,
    TextLook,
    is_date,
    look_at,
    number_marks,
)
from gencard.run.levels import is_boolean, is_integer, names_of

# A folder that holds a release and all that is needed to check it without the controller.


CARD, PSI, SCHEMA, RECEIPT = "card.json", "psi.json", "schema.json", "receipt.json"
CHECKPOINT, VERDICT, KEYS = "checkpoint.json", "verdict.json", "keys.json"
LOG_ENTRY, ANSWER = "log_entry.json", "answer.json"
README = "README.txt"
"""A text that names the attributes whose values are invented; it is not signed."""

ROWS = "rows.parquet"
"""The rows of a saved release, unless the caller names another file."""

WELL_KNOWN = {
    CARD: "card",
    PSI: "psi",
    SCHEMA: "schema",
    RECEIPT: "receipt",
    CHECKPOINT: "checkpoint",
    LOG_ENTRY: "log entry",
    VERDICT: "verdict",
    ANSWER: "answer",
    KEYS: "keys",
}
"""Names under which releases are saved -> kind of document that such a file must hold."""


def check_free(path: Path, *, replace: bool) -> None:
    """Refuse a place that cannot be written, or holds something already, before any work is done for it.

    Args:
        path: A file for rows; or a folder for a release, which may hold other files.
        replace: Whether what is there may be written over.
    """
    _part_of(path, "output")
    try:
        above = next(folder for folder in path.absolute().parents if folder.exists())
        # a file without a name, in the folder or where it would be made
        with TemporaryFile(dir=path if path.is_dir() else above):
            pass
    except OSError:
        raise unwritable("output", path) from None
    if replace:
        return
    files = [path / RECEIPT, path / CARD, path / ANSWER] if path.is_dir() else [path]
    existing = next((file for file in files if file.exists()), None)
    if existing is not None:
        problem = f"{existing} already exists; choose another place, or replace it with --replace"
        raise InvalidInputError(field="output", problem=problem)


def clear_release(folder: Path) -> None:
    """Remove documents and rows of a release that is replaced: none may lie beside those of another."""
    for name in (*WELL_KNOWN, README, *(f"rows{ending}" for ending in WRITTEN)):
        try:
            (folder / name).unlink(missing_ok=True)
        except OSError:
            raise unwritable("output", folder / name, "replace") from None


def save_documents(folder: Path, documents: dict[str, bytes]) -> None:
    """Write what goes with the rows of a release, by file name."""
    make_folder(folder)
    for name, document in documents.items():
        write_bytes(folder / name, document)


def make_folder(folder: Path) -> None:
    """Raises InvalidInputError where it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise unwritable("folder", folder, "make") from None


def write_bytes(path: Path, data: bytes) -> None:
    """The file appears only once it is whole; raises InvalidInputError where it cannot be written."""
    with appearing(path) as part:
        part.write_bytes(data)


@contextmanager
def appearing(path: Path, field: str = "file") -> Iterator[Path]:
    """Yield a place to write; its content appears at ``path`` whole, also beside other writers."""
    part = _part_of(path, field)
    try:
        yield part
        os.replace(part, path)
    except OSError:
        raise unwritable(field, path) from None
    finally:
        with suppress(OSError):  # it could not be written either
            part.unlink(missing_ok=True)


def _part_of(path: Path, field: str) -> Path:
    """Return the path of the unfinished file; raises InvalidInputError for an empty or too long name."""
    try:
        part = path.with_name(f"{path.name}.{token_hex(8)}.part")
        with suppress(FileNotFoundError):
            part.lstat()
    except (OSError, ValueError):
        raise unwritable(field, path) from None
    return part


# Limits of files of Stata, SPSS and Excel: rows, names, labels, dates. Everything is known from the
# schema and the number of rows, so that a file that cannot be written is refused before anything is
# generated or paid for. Nothing is renamed, shortened or rounded to fit, but descriptions.


class RowsToWrite(NamedTuple):
    """Rows that are to be written.

    Args:
        by_levels: Attributes with edges are intervals with names, not numbers or dates.
    """

    attributes: tuple[Attribute, ...]
    rows: int
    by_levels: bool


def ending_to_write(path: Path) -> str:
    """Return the ending of a file of rows; raises InvalidInputError for another than ``WRITTEN``."""
    ending = path.suffix.lower()
    if ending not in WRITTEN:
        raise InvalidInputError(field="file", problem=f"needs a name that ends in {_listed(WRITTEN)}")
    return ending


def ending_to_read(path: Path) -> str:
    """Return the ending of a file to read; raises InvalidInputError for another than ``ENDINGS``."""
    ending = ending_of(path)
    if not ending:
        raise InvalidInputError(field="file", problem=f"needs a name that ends in {_listed(ENDINGS)}")
    return ending


def is_folder(output: Path) -> bool:
    """Return whether a release is saved as a folder here: no ending, or one of digits, as in release.1.

    Raises InvalidInputError for an ending that no file of rows has, unless such a folder exists.
    """
    ending = output.suffix.lower()
    if output.is_dir() or not ending or ending[1:].isdecimal():
        return True
    if ending in WRITTEN:
        return False
    problem = f"'{output.name}' ends in {ending}, and files of rows end in {_listed(WRITTEN)}"
    advice = "Name such a file; or for a folder with all documents, a name without an ending."
    raise InvalidInputError(field="output", problem=problem, advice=advice)


def check_fits(ending: str, written: RowsToWrite) -> None:
    """Raise InvalidInputError if a file cannot hold rows; names the limit and the formats that can."""
    problem = _problem(ending, written)
    if problem is None:
        return
    others = [other for other in WRITTEN if _problem(other, written) is None]
    problem, advice = f"cannot be written as {ending}: {problem}", f"Write {_listed(others)} instead."
    raise InvalidInputError(field="file", problem=problem, advice=advice)


def numbers_of_levels(attribute: Attribute) -> list[int] | list[float]:
    """Return the number that stands for each level in files of Stata and SPSS.

    Labels that are all different numbers stand for themselves, false is 0 and true is 1, and all other
    levels are counted from 1.
    """
    coding = attribute.coding
    if is_boolean(attribute):
        return [0, 1]
    if isinstance(coding, Labels) and coding.by_value:
        numbers = [number for label in coding.labels if (number := number_of(label)) is not None]
        if all(abs(number) < EXACT for number in numbers):
            return [int(n) for n in numbers] if all(n.is_integer() for n in numbers) else numbers
    return list(range(1, len(names_of(attribute)) + 1))


def is_text(attribute: Attribute) -> bool:
    return isinstance(attribute.coding, Labels) and attribute.coding.text


def _problem(ending: str, written: RowsToWrite) -> str | None:
    """The first reason why a file cannot hold rows, with its attribute; None if it can."""
    match ending:
        case ".dta":
            most, problems = (2**31 - 1, 32_767), _problems_of_stata(written)
        case ".sav":
            most, problems = (2**31 - 1, 2**31 - 1), _problems_of_spss(written)
        case ".xlsx":
            most, problems = (1_048_575, 16_384), _problems_of_excel(written)
        case _:
            return None
    sizes = {"rows": written.rows, "columns": len(written.attributes)}
    for (what, number), limit in zip(sizes.items(), most, strict=True):
        if number > limit:
            return f"there are {number:,} {what}, and at most {limit:,} fit"
    for name, problem in problems:
        shown = name if len(name) <= _SHOWN else f"{name[: _SHOWN - 1]}…"
        return f"attribute '{shown}': {problem}"
    return None


_SHOWN = 64
"""Characters of a name that an error shows."""

_Problems = Iterator[tuple[str, str]]
"""Names of attributes, and what a file cannot hold of them."""


def _problems_of_stata(written: RowsToWrite) -> _Problems:
    labelled = [one.name for one in written.attributes if _has_value_labels(one, written)]
    for one in written.attributes:
        name, has_set = one.name, _has_value_labels(one, written)
        most = 32 - len(str(len(labelled) - 1)) if has_set else 32
        if len(name) > most:
            beside = " beside the number of its value labels" if has_set else ""
            yield name, f"the name has {len(name)} characters, and at most {most} fit{beside}"
        if not _is_word(name, "_") or name[0].isdecimal():
            yield name, "a name there has letters, digits and _ only, and no digit first"
        if name in _STATA_WORDS or _STATA_TYPE.fullmatch(name):
            yield name, "the name is a word of Stata"
        for problem in _bad_labels(one, written, _STATA_TEXT if is_text(one) else 32_000):
            yield name, problem
        low, high = _STATA_CODES
        codes = numbers_of_levels(one) if has_set else ()
        if not all(float(code).is_integer() and low <= code <= high for code in codes):
            yield name, f"labels belong to whole numbers from {low:,} to {high:,} there"
        yield from ((name, problem) for problem in _bad_numbers(one, written, date(100, 1, 1)))
    # Workaround: pyreadstat names a set of value labels by its column and the set's number, from 0, so
    # that the sets of two columns, such as a1 and a, may get one name.
    sets: dict[str, str] = {}
    for number, name in enumerate(labelled):
        other = sets.setdefault(f"{name}{number}", name)
        if other != name:
            yield name, f"its value labels and those of '{other}' would have the same name"


def _problems_of_spss(written: RowsToWrite) -> _Problems:
    known: dict[str, str] = {}
    for one in written.attributes:
        name, size = one.name, len(one.name.encode())
        if size > 64:
            yield name, f"the name has {size} bytes, and at most 64 fit"
        if not (_is_word(name, "._$#@") and name[0].isalpha()) or name.endswith("."):
            form = "letters, digits, . _ $ # @ only, a letter first, no point last"
            yield name, f"a name there has {form}"
        if name.upper() in _SPSS_WORDS:
            yield name, "the name is a word of SPSS"
        other = known.setdefault(name.casefold(), name)
        if other != name:
            yield name, f"'{other}' differs by case alone, and would be the same name"
        for problem in _bad_labels(one, written, 32_767 if is_text(one) else 120):
            yield name, problem
        yield from ((name, problem) for problem in _bad_numbers(one, written, date(1582, 10, 15)))


def _problems_of_excel(written: RowsToWrite) -> _Problems:
    for one in written.attributes:
        texts = [("the name", one.name), *(("a label", label) for label in _labels(one, written))]
        for what, text in texts:
            characters = len(text.encode("utf-16-le", "surrogatepass")) // 2
            if characters > 32_767:
                yield one.name, f"{what} has {characters:,} characters, and at most 32,767 fit"
            if _NO_CELL.search(text):
                yield one.name, f"{what} has a character that no cell holds, or _x0041_ for one"
            if not text.strip():
                yield one.name, f"{what} is empty, which is a missing value there"
        yield from ((one.name, problem) for problem in _bad_numbers(one, written, date(1900, 3, 1)))


_STATA_TEXT = 2_000_000_000
_STATA_CODES = (-2_147_483_647, 2_147_483_620)
_LARGEST = 8.9e307  # from here on, numbers are missing values in Stata
_STATA_TYPE = re.compile("str([1-9][0-9]{0,2}|1[0-9]{3}|20[0-3][0-9]|204[0-5])")
_STATA_WORDS = frozenset(
    (
        *("_all", "_b", "byte", "_coef", "_cons", "double", "float", "if", "in", "int", "long"),
        *("_n", "_N", "_pi", "_pred", "_rc", "_skip", "strL", "using", "with"),
    )
)
_SPSS_WORDS = frozenset(
    ("ALL", "AND", "BY", "EQ", "GE", "GT", "LE", "LT", "NE", "NOT", "OR", "TO", "WITH")
)
_NO_STRING = re.compile("[\x00\ud800-\udfff]")
_NO_CELL = re.compile("[\x00-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]|_x[0-9A-Fa-f]{4}_")


def _is_word(name: str, others: str) -> bool:
    return all(letter.isalpha() or letter.isdecimal() or letter in others for letter in name)


def _labels(attribute: Attribute, written: RowsToWrite) -> Sequence[str]:
    is_number = isinstance(attribute.coding, Edges) and not written.by_levels
    return () if is_number or is_integer(attribute) else names_of(attribute)


def _has_value_labels(attribute: Attribute, written: RowsToWrite) -> bool:
    return bool(_labels(attribute, written)) and not is_text(attribute)


def _bad_labels(attribute: Attribute, written: RowsToWrite, most: int) -> Iterator[str]:
    for label in _labels(attribute, written):
        size = len(label.encode(errors="surrogatepass"))
        if size > most:
            yield f"a label has {size:,} bytes, and at most {most:,} fit"
        if _NO_STRING.search(label):
            yield "a label has a NUL character, or half of a character"
        if not label:
            yield "a label is empty, which is a missing value there"
        if label.endswith(" "):
            yield "a label ends with a space, which would be lost"


def _bad_numbers(attribute: Attribute, written: RowsToWrite, first: date) -> Iterator[str]:
    """Yield what a file with dates from ``first`` cannot hold of the numbers of an attribute."""
    coding = attribute.coding
    if is_integer(attribute) and any(abs(int(label)) >= EXACT for label in names_of(attribute)):
        yield f"whole numbers from {int(EXACT):,} on would be rounded"
    if not isinstance(coding, Edges) or written.by_levels:
        return
    if coding.dates and (begin := date_of_days(coding.edges[0])) < first:
        yield f"there are dates from {begin}, and the first one there is {first}"
    if max(map(abs, coding.edges)) > _LARGEST:
        yield f"numbers beyond {_LARGEST} would be missing or infinite"


def _listed(endings: Sequence[str]) -> str:
    *others, last = endings
    return f"{', '.join(others)} or {last}" if others else last


# Form of a text file, under the attributes that a schema declares. What a file says is concluded by the
# look that the controller takes for ``init``. Text that could be read in two ways is refused.

MOST_BYTES = 4_000_000_000
"""Bytes of a file, as it is unpacked: eight for each cell that is read."""

_GROUPS = re.compile(r"[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+")
"""Numbers that are whole if commas stand between thousands, and have decimals otherwise."""


@dataclass(frozen=True, slots=True)
class TextForm:
    """Form of a text file, and for each attribute the format of its dates, if not ISO 8601."""

    layout: TextLayout = field(default_factory=TextLayout)
    dates: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the differences from the usual form, for people; may be empty."""
        return str(self.layout)


def usual_form(path: Path) -> TextForm:
    """Return the form that a file has by its ending: UTF-8 with commas, or tabs in .tsv."""
    return TextForm(TextLayout(delimiter="\t" if ".tsv" in ending_of(path) else ","))


def form_of(path: Path, coding: Coding, domain: Domain) -> TextForm:
    """Look at a text file of rows, and return its form.

    Marks of numbers and formats of dates are those of the attributes, and of no other column.

    Raises:
        InvalidInputError: It cannot be read, or numbers or dates could be read in two ways.
        UndeclaredLevelError: Dates of an attribute have no one format.
    """
    look = look_at(
        path,
        "file",
        most_bytes=MOST_BYTES,
        most_columns=MOST_COLUMNS,
        names=[name for name in domain.attributes if name[:1] not in "'=+-@\t\r\n"],
    )
    codings = {name: coding.attribute(name).coding for name in domain.attributes}
    numbers = [
        look.columns.get(name, [])
        for name, one in codings.items()
        if (isinstance(one, Labels) and one.by_value)
        or (isinstance(one, Edges) and not (one.dates or one.times))
    ]
    decimal, thousands = number_marks(numbers)
    commas = [value for column in numbers for value in column if "," in value]
    if commas and all(map(_GROUPS.fullmatch, commas)) and not (decimal == "." and thousands):
        problem = "has numbers such as 1,234, which could be 1234 or 1.234: "
        problem += "no other number says what the comma is"
        advice = "Save the file again with decimal points, and nothing between thousands."
        raise InvalidInputError(field="file", problem=problem, advice=advice)
    days = [name for name, one in codings.items() if isinstance(one, Edges) and one.dates]
    dates = {name: form for name in days if (form := _dates_of(name, look))}
    layout = replace(
        look.layout, decimal=decimal, thousands=thousands, dates=(*dict.fromkeys(dates.values()),)
    )
    return TextForm(replace(layout, line_ends=""), dates)


def _dates_of(name: str, look: TextLook) -> str:
    """Return the format that all dates of an attribute have; empty for ISO 8601.

    A file has one order of day and month: if the attribute's own dates do not tell it, others do.
    """
    values = look.days.get(name, [])
    fitting = [form for form in DATES if values and all(is_date(value, form) for value in values)]
    if not fitting:
        try:
            for value in values:
                day_of(value)
        except ValueError:
            raise UndeclaredLevelError(attribute=name) from None
        return ""
    if len(fitting) == 1:
        return fitting[0]
    orders = [
        [form[:2] for form in DAY_OR_MONTH_FIRST if all(is_date(day, form) for day in other)]
        for other in look.days.values()
    ]
    others = {order[0] for order in orders if len(order) == 1}
    chosen = [form for form in fitting if form[:2] in others]
    if len(chosen) == 1:
        return chosen[0]
    problem = f"has dates of '{name}' in which day and month could be exchanged"
    advice = "Save the file again with dates as YYYY-MM-DD."
    raise InvalidInputError(field="file", problem=problem, advice=advice)


def days_of_text(text: str, form: str) -> float:
    """Return the days since 1970-01-01 of a date in a format; raises ValueError if it is none."""
    if not is_date(text, form):
        return days_of_date(day_of(text))
    return days_of_date(datetime.strptime(text, form).date())


@contextmanager
def opened_text(path: Path, form: TextForm) -> Iterator[Iterator[list[str]]]:
    """Open a text file, which may be packed, and return its lines as values, first the header."""
    too_long = InvalidInputError(field="file", problem=f"has a line that is too long: {path}")
    layout = form.layout
    encoding = "utf-8-sig" if layout.encoding == "utf-8" else layout.encoding
    with open_text_content(path, "file", encoding, MOST_BYTES) as file:
        lines = lines_of(file, too_long)
        for _ in range(layout.skip):
            next(lines, None)
        yield csv.reader(lines, delimiter=layout.delimiter, strict=True)
