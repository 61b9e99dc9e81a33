"""Form of a text file of rows: how it is written, under the attributes that a schema declares.

What a file says is concluded by the look that the controller takes for ``init``. Text that could be read
in two ways is refused.
"""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from gencard.core.coding import Coding, Edges, Labels, days_of_date
from gencard.core.domain import Domain
from gencard.core.errors import InvalidInputError, UndeclaredLevelError
from gencard.core.values import day_of
from gencard.files import MOST_COLUMNS, lines_of
from gencard.files.content import ending_of, open_text_content
from gencard.files.layout import (
    DATES,
    DAY_OR_MONTH_FIRST,
    TextLayout,
    TextLook,
    is_date,
    look_at,
    number_marks,
)

MOST_BYTES = 4_000_000_000
"""Bytes of a file, as it is unpacked: eight for each cell that is read."""

_GROUPS = re.compile(r"[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+")
"""Numbers that are whole if commas stand between thousands, and have decimals otherwise."""


@dataclass(frozen=True, slots=True)
class TextForm:
    """Form of a text file, and the dates of its attributes.

    Args:
        dates: Attribute -> the format of its dates, if that is not ISO 8601.
    """

    layout: TextLayout = field(default_factory=TextLayout)
    dates: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_marks(self) -> bool:
        """Whether numbers are not written as in programs."""
        return self.layout.decimal != "." or bool(self.layout.thousands)

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
        raise InvalidInputError(field="file", problem=_TWO_NUMBERS, advice=_SAVE_NUMBERS)
    days = [name for name, one in codings.items() if isinstance(one, Edges) and one.dates]
    dates = {name: form for name in days if (form := _dates_of(name, look))}
    layout = replace(
        look.layout, decimal=decimal, thousands=thousands, dates=(*dict.fromkeys(dates.values()),)
    )
    return TextForm(replace(layout, line_ends=""), dates)


_TWO_NUMBERS = (
    "has numbers such as 1,234, which could be 1234 or 1.234: no other number says what the comma is"
)
_SAVE_NUMBERS = "Save the file again with decimal points, and nothing between thousands."
_SAVE_DATES = "Save the file again with dates as YYYY-MM-DD."


def _dates_of(name: str, look: TextLook) -> str:
    """Return the format that all dates of an attribute have; empty for ISO 8601.

    A file has one order of day and month: if the attribute's own dates do not tell it, others do.
    """
    values = look.days.get(name, [])
    fitting = [form for form in DATES if values and all(is_date(value, form) for value in values)]
    if not fitting:
        if not values or all(map(_is_day, values)):
            return ""
        raise UndeclaredLevelError(attribute=name)
    if len(fitting) == 1:
        return fitting[0]
    orders = [_orders_of(other) for other in look.days.values()]
    others = {order[0] for order in orders if len(order) == 1}
    chosen = [form for form in fitting if form[:2] in others]
    if len(chosen) == 1:
        return chosen[0]
    problem = f"has dates of '{name}' in which day and month could be exchanged"
    raise InvalidInputError(field="file", problem=problem, advice=_SAVE_DATES)


def _orders_of(values: Sequence[str]) -> list[str]:
    """Return the first part of each order of day and month that all dates have."""
    forms = [form for form in DAY_OR_MONTH_FIRST if all(is_date(day, form) for day in values)]
    return [form[:2] for form in forms]


def _is_day(text: str) -> bool:
    try:
        day_of(text)
    except ValueError:
        return False
    return True


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
