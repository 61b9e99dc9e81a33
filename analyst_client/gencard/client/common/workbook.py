"""Files of Excel, the part that needs openpyxl.

One sheet with a header and a row for each record. Labels are texts, also those that look like formulas;
whole numbers, numbers, truth values, dates and times of day are themselves, and "missing" is no cell.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import time
from itertools import zip_longest
from math import isnan
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from numpy.typing import NDArray
from openpyxl import Workbook, load_workbook
from openpyxl.cell import WriteOnlyCell
from openpyxl.cell.cell import Cell
from openpyxl.styles import Font

from gencard.client.common.rows import batches, line_problem, same_bytes
from gencard.core.coding import Attribute, Coding, Edges, date_of_days
from gencard.core.dataset import Dataset
from gencard.core.errors import InvalidInputError
from gencard.run.levels import Values, is_boolean, is_integer, names_of

_SHEET = "rows"

_Cells = Callable[[NDArray[Any]], Iterator[Cell | int | None]]
"""Returns the cells of one attribute for some codes, each for the moment in which its row is written."""

_AS_TEXT = "@"
"""Format of texts: what is typed over them stays text. openpyxl also changes the type of a cell that has
no format once it writes the next one, and cells of labels are written again and again.
"""


def write_workbook(dataset: Dataset, coding: Coding, path: Path, values: Values | None) -> None:
    """Write rows that ``check_fits`` accepts, one by one.

    Raises:
        InvalidInputError: The last row has missing values only.
    """
    names = dataset.domain.attributes
    if len(dataset) and all(
        code == len(names_of(coding.attribute(name)))
        for name, code in zip(names, dataset.codes[-1], strict=True)
    ):
        problem = (
            "cannot be written as .xlsx: the last row has missing values only, and would be none there"
        )
        advice = "Write another format, or with another seed."
        raise InvalidInputError(field="file", problem=problem, advice=advice)
    path.touch()  # a place that cannot be written is refused before the rows are made
    book = Workbook(write_only=True)
    sheet = book.create_sheet(_SHEET)
    sheet.freeze_panes = "A2"
    heads = [_text(sheet, name) for name in names]
    for head in heads:
        head.font = Font(bold=True)
    try:
        sheet.append(heads)
        columns = [_cells(sheet, coding.attribute(name), values) for name in names]
        for batch in batches(dataset):
            cells = [column(batch[:, axis]) for axis, column in enumerate(columns)]
            for row in zip(*cells, strict=True):
                sheet.append(row)
        book.save(path)
    except Exception as error:
        # Workaround: lxml raises its own error at a full disk, which is no OSError.
        if type(error).__module__.startswith("lxml"):
            raise OSError from None
        raise


def _cells(sheet: Any, attribute: Attribute, values: Values | None) -> _Cells:
    coding, names = attribute.coding, names_of(attribute)
    if isinstance(coding, Edges) and values is not None:
        return _numbers(sheet, attribute.name, coding, values)
    levels: list[Cell | int | None] = [_text(sheet, name) for name in names]
    if is_integer(attribute):
        levels = list(map(int, names))
    elif is_boolean(attribute) and values is not None:
        levels = [False, True]
    levels.append(None)
    return lambda codes: (levels[code] for code in codes.tolist())


def _numbers(sheet: Any, name: str, coding: Edges, values: Values) -> _Cells:
    """Numbers, dates or times of day, in a cell that is filled again for each row."""
    cell = WriteOnlyCell(sheet)
    cell.number_format = "yyyy-mm-dd" if coding.dates else "hh:mm" if coding.times else "General"

    def filled(number: float) -> Cell | None:
        if isnan(number):
            return None
        if coding.dates:
            cell.value = date_of_days(number)
        elif coding.times:
            cell.value = time(*divmod(int(number), 60))
        else:  # workaround: openpyxl writes 16 digits, and a float may need 17 to be read back
            cell.value = repr(number).removesuffix(".0")
            cell.data_type = "n"
        return cell

    return lambda codes: map(filled, values.of(name, coding, codes).tolist())


def _text(sheet: Any, text: str) -> Cell:
    """A cell with a text, which is neither a formula nor an error."""
    cell = WriteOnlyCell(sheet, text)
    cell.data_type, cell.number_format = "s", _AS_TEXT
    return cell


def difference(path: Path, again: Path) -> str | None:
    """Return what a file holds otherwise than the same rows written again: names, values, formulas."""
    try:
        if _same_members(path, again):
            return None
        with (
            closing(load_workbook(path, read_only=True)) as book,
            closing(load_workbook(again, read_only=True)) as expected,
        ):
            if book.sheetnames != expected.sheetnames:
                return "the sheets"
            sheets = (map(_known, one[_SHEET].iter_rows()) for one in (book, expected))
            lines = enumerate(zip_longest(*sheets, fillvalue=[]), start=1)
            number = next((number for number, (one, other) in lines if one != other), None)
    except Exception:  # openpyxl passes on what XML, ZIP and its own types raise at damaged files
        raise OSError from None
    return None if number is None else line_problem(number)


_TIMES = "docProps/core.xml"
"""Member of the archive with the time at which it was written."""


def _same_members(path: Path, again: Path) -> bool:
    """Return whether two workbooks have the same bytes but for their times: much faster than values."""
    with ZipFile(path) as one, ZipFile(again) as other:
        names = one.namelist()
        if names != other.namelist():
            return False
        for name in (name for name in names if name != _TIMES):
            with one.open(name) as left, other.open(name) as right:
                if not same_bytes(left, right):
                    return False
    return True


def _known(row: Iterable[Any]) -> list[tuple[str, Any]]:
    """Type and value of each cell of a row, without empty ones at its end."""
    cells = [(cell.data_type, cell.value) for cell in row]
    while cells and cells[-1][1] is None:
        cells.pop()
    return cells
