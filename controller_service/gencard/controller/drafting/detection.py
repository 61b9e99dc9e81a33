"""A first look at a file for `init`: how it is written, and which of its lines cannot be read.

A running service never takes this look: it reads what the settings state.
"""

from dataclasses import asdict
from pathlib import Path

from gencard.controller.records.file_format import FileFormat
from gencard.core.errors import InvalidInputError
from gencard.files.endings import SHEETS, TEXT, ending_of
from gencard.files.layout import look_at

MOST_COLUMNS = 5_000
"""Columns for which a schema is drafted, each by several queries."""


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
    look = look_at(path, "data", most_columns=MOST_COLUMNS)
    return FileFormat(**asdict(look.layout)), look.records, look.note
