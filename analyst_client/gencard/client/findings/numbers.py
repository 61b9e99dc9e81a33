"""Figures of numbers in words: one table for fidelity and utility, and what is not compared."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Any

from gencard.client.common.display import Grid, Part, named, number, percent
from gencard.core.coding import Coding, Edges, date_of_days, time_text
from gencard.core.domain import Clique
from gencard.core.typed_json import PLAIN
from gencard.core.types import UNDEFINED
from gencard.measures.utility.numbers import NumberFigure, NumberTable, Source, Statistic

HEADS = ("Number", "Figure", "In psi", "In the rows", "Sampling error", "From")
"""Heads of the table that compares rows with psi."""

RECORD_HEADS = ("Number", "Figure", "In the records", "In the rows", "Sampling error")
"""Heads of the table that compares rows with records."""

MOST_NAMES = 6
"""Names in a sentence."""

_MOST_DECIMALS = 6
_MOST_DIGITS = 5
_MOST_FIGURES = 60
_NO_SD = "psi has no sum of squares and no exact counts, or noise hides it"
_NO_CORRELATION = (
    "psi lacks sums, products or squares over the records that have both, or noise hides it"
)
_CONSTANT = "the records have one value only, or none"


def is_of_psi(table: NumberTable) -> bool:
    """Return whether rows are compared with psi, and not with records."""
    return all(one.source is not Source.RECORDS for one in table.figures)


@dataclass(frozen=True, slots=True)
class NumberReport:
    """Figures of numbers, with the schema that says how numbers of an attribute are written."""

    table: NumberTable
    coding: Coding

    @property
    def heads(self) -> tuple[str, ...]:
        """Heads of the table's columns."""
        return HEADS if is_of_psi(self.table) else RECORD_HEADS

    def lines(self, most: int) -> Iterator[tuple[str, ...]]:
        """One line for each figure, under ``heads``.

        Args:
            most: Lines at most; a last one says how many are not shown.
        """
        before: Clique = ()
        for one in self.table.figures[:most]:
            name = "" if one.attributes == before else named(one.attributes)
            before = one.attributes
            rows = UNDEFINED if one.rows is None else value_text(one, one.rows, self.coding)
            cells = (
                name,
                figure_name(one, self.coding),
                known_text(one, self.coding),
                rows + (" !" if one.beyond_chance else ""),
                f"± {error_text(one, one.stderr)}",
                str(one.source),
            )
            yield cells[: len(self.heads)]
        if (more := len(self.table.figures) - most) > 0:
            yield (f"and {more:,} more", *[""] * (len(self.heads) - 1))

    def grids(self) -> list[Part]:
        """The table for terminals and notebooks; none without a figure."""
        return [Grid(self.heads, self.lines(_MOST_FIGURES), numbers=True)] if self.table.figures else []

    def document(self) -> dict[str, Any]:
        """The table as an object of JSON types, under its name."""
        return {"numbers": PLAIN.write(self.table)}

    def left_out(self) -> list[tuple[str, str]]:
        """Names of the figures that the table leaves out, with the reasons."""
        table, lines = self.table, []
        if table.without_numbers:
            reason = "the rows have levels in place of numbers"
            lines.append(f"{listed(table.without_numbers)}: {reason}")
        if table.without_sd:
            reason = _NO_SD if is_of_psi(self.table) else _CONSTANT
            lines.append(f"sd of {listed(table.without_sd)}: {reason}")
        if table.without_correlation:
            pairs = listed([named(pair) for pair in table.without_correlation])
            reason = _NO_CORRELATION if is_of_psi(self.table) else _CONSTANT
            lines.append(f"correlation of {pairs}: {reason}")
        return [("Not compared", line) for line in lines]


def figure_name(one: NumberFigure, coding: Coding) -> str:
    """The name of a figure, with the unit of a deviation of dates and times."""
    own = _edges(one, coding)
    match one.statistic:
        case Statistic.QUANTILE:
            return f"q{100 * (one.at or 0.0):02.0f}"
        case Statistic.SHARE:
            return f"share of {_on_scale(own, one.at or 0.0)}"
        case Statistic.SD if own.dates or own.times:
            return "sd, days" if own.dates else "sd, minutes"
    return str(one.statistic)


def known_text(one: NumberFigure, coding: Coding) -> str:
    """Write a known figure, with its bounds if it has some, and its noise."""
    value, low, high = (value_text(one, each, coding) for each in (one.known, one.low, one.high))
    bounds = "" if low == high else f" ({low} to {high})"
    return f"{value}{bounds}" + (f" ± {error_text(one, one.noise)}" if one.noise else "")


def value_text(one: NumberFigure, value: float, coding: Coding) -> str:
    """A figure as its attribute is written; means have the digits that errors leave."""
    own = _edges(one, coding)
    match one.statistic:
        case Statistic.SHARE:
            return percent(value)
        case Statistic.CORRELATION:
            return number(value, ".3f").replace("-", "−")
        case Statistic.QUANTILE:
            return _on_scale(own, value)
        case Statistic.MEAN if own.dates or own.times:
            return _on_scale(own, floor(value + 0.5))
    error = max(one.stderr, one.noise)
    digits = 1 - floor(log10(error)) if error > 0 else own.decimals or 0
    return f"{value:,.{min(max(digits, 0), _MOST_DECIMALS)}f}".replace("-", "−")


def error_text(one: NumberFigure, error: float) -> str:
    """A standard error, in the unit of its figure."""
    two_digits = float(f"{error:.2g}")
    return percent(two_digits) if one.statistic is Statistic.SHARE else f"{two_digits:,.7g}"


def _edges(one: NumberFigure, coding: Coding) -> Edges:
    own = coding.attribute(one.attributes[0]).coding
    if not isinstance(own, Edges):
        raise ValueError
    return own


def _on_scale(own: Edges, value: float) -> str:
    """A number of an attribute as its values are written, in ``_MOST_DIGITS`` digits."""
    if own.dates:
        return date_of_days(value).isoformat()
    if own.times:
        return time_text(value)
    whole = floor(log10(abs(value))) if value else 0
    places = min(own.decimals or 0, max(_MOST_DIGITS - 1 - whole, 0))
    text = f"{value:,.{places}f}".replace("-", "−")
    return text.rstrip("0").removesuffix(".") if places else text


def numbers_sentence(table: NumberTable | None) -> str:
    """Number of figures that differ, in a sentence; empty without a table."""
    if table is None or not table.figures:
        return ""
    differing, total = len(table.unexplained), len(table.figures)
    by = "bounds, noise and sampling error" if is_of_psi(table) else "sampling error"
    if not differing:
        return f"No figure of a number differs by more than {by}."
    return f"{differing:,} of {total:,} figures of numbers differ by more than {by}."


def listed(names: Sequence[str] | Clique) -> str:
    """Names in a sentence, the first ones of many.

    >>> listed(["a", "b"])
    'a, b'
    """
    more = len(names) - MOST_NAMES
    shown = ", ".join(names[:MOST_NAMES])
    return f"{shown} and {more:,} more" if more > 0 else shown
