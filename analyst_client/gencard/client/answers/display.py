"""Display of an answer: its numbers as tables, its coefficients and their intervals as a figure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gencard.analysis.answers.answer import AnalysisAnswer, AnswerTable, Coefficients, Scalar
from gencard.client.common.arguments import checked
from gencard.client.common.display import Grid, page_module, printable
from gencard.client.common.files.folder import appearing
from gencard.core.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd

HEADS = ("", "coef", "std err", "{0}", "P>|{0}|", "[0.025", "0.975]")
"""Column heads of a table of coefficients as in statsmodels; the statistic fills the blanks."""

MOST_LINES = 60
MOST_TABLES = 4
MOST_COLUMNS = 12
"""Most tables and columns that are shown; ``to_frame`` and ``save_json`` have all."""

NOT_DEFINED = "–"
COEFFICIENTS, NUMBERS = "Coefficients", "Numbers"


def grids(answer: AnalysisAnswer) -> Iterator[tuple[str, Grid]]:
    """Titles and tables: coefficients, single numbers, tables; each cut where it is long."""
    if answer.coefficients is not None:
        yield COEFFICIENTS, coefficient_grid(answer.coefficients)
    if answer.scalars:
        yield NUMBERS, scalar_grid(answer.scalars)
    for table in answer.tables[:MOST_TABLES]:
        yield table.name, table_grid(table)
    if len(answer.tables) > MOST_TABLES:
        names = ", ".join(table.name for table in answer.tables[MOST_TABLES:])
        yield f"More tables, for to_frame(...): {names}", Grid((), ())


def coefficient_grid(coefficients: Coefficients) -> Grid:
    heads = [head.format(coefficients.statistic) for head in HEADS]
    lines = [
        (
            name,
            digits(param),
            digits(error),
            NOT_DEFINED if isnan(ratio) else f"{ratio:.2f}",
            p_text(p),
            digits(low),
            digits(high),
        )
        for name, (param, error, ratio, p, low, high) in zip(
            coefficients.names, coefficient_rows(coefficients), strict=True
        )
    ]
    return Grid(heads, _cut(lines), numbers=True)


def scalar_grid(scalars: Sequence[Scalar]) -> Grid:
    """Columns that no number fills are left out."""
    lines = [
        (
            one.name,
            digits(one.value),
            "" if one.standard_error is None else digits(one.standard_error),
            ", ".join(f"{degree:g}" for degree in one.degrees),
            "" if one.pvalue is None else p_text(one.pvalue),
        )
        for one in scalars
    ]
    heads = ("", "value", "std err", "df", "P")
    places = [place for place in range(len(heads)) if place < 2 or any(line[place] for line in lines)]
    return Grid(
        [heads[place] for place in places],
        _cut([tuple(line[place] for place in places) for line in lines]),
        numbers=True,
    )


def table_grid(table: AnswerTable) -> Grid:
    names = table.column_names[:MOST_COLUMNS]
    more = (
        [f"{len(table.column_names) - len(names):,} more"] if table.column_names[MOST_COLUMNS:] else []
    )
    lines = [
        (name, *map(digits, values[:MOST_COLUMNS]), *("…" for _ in more))
        for name, values in zip(table.row_names, table.values, strict=True)
    ]
    return Grid(("", *names, *more), _cut(lines), numbers=True)


def _cut(lines: Sequence[tuple[str, ...]]) -> Sequence[tuple[str, ...]]:
    """The first lines, and how many follow."""
    more = len(lines) - MOST_LINES
    if more <= 0:
        return lines
    last = (f"and {more:,} more", *("" for _ in lines[0][1:]))
    return [*lines[:MOST_LINES], last]


def digits(value: float | None) -> str:
    """A number to four significant digits, whole ones as they are; "–" for none.

    >>> [digits(value) for value in (0.123456, 1234567.0, -12.5, None)]
    ['0.1235', '1,234,567', '-12.5', '–']
    """
    if value is None or isnan(value):
        return NOT_DEFINED
    if abs(value) >= 1_000 and abs(value) < 1e12:
        return f"{value:,.0f}" if value == round(value) or abs(value) >= 1e5 else f"{value:,.1f}"
    return f"{value:.4g}"


def p_text(p: float) -> str:
    """A p-value.

    >>> p_text(0.04567), p_text(1e-9)
    ('0.046', '<0.001')
    """
    if isnan(p):
        return NOT_DEFINED
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def coefficient_rows(coefficients: Coefficients) -> list[list[float]]:
    """Estimate, standard error, statistic, p-value and both ends of the interval of each."""
    columns = (
        coefficients.params,
        coefficients.bse,
        coefficients.tvalues,
        coefficients.pvalues,
        coefficients.conf_int(),
    )
    rows: list[list[float]] = np.column_stack(columns).tolist()
    return rows


def frame_of(part: Coefficients | AnswerTable | Sequence[Scalar]) -> "pd.DataFrame":
    """Coefficients, a table, or single numbers as a data frame; without a value NaN."""
    import pandas as pd  # noqa: PLC0415 - only where frames are wanted

    if isinstance(part, Coefficients):
        heads = [head.format(part.statistic) for head in HEADS[1:]]
        return pd.DataFrame(coefficient_rows(part), index=pd.Index(part.names), columns=heads)
    if isinstance(part, AnswerTable):
        rows, columns = pd.Index(part.row_names), list(part.column_names)
        return pd.DataFrame(part.values, index=rows, columns=columns, dtype=float)
    values = {
        "value": [one.value for one in part],
        "std err": [one.standard_error for one in part],
        "P": [one.pvalue for one in part],
    }
    return pd.DataFrame(values, index=pd.Index([one.name for one in part]), dtype=float)


MOST = 60
"""Intervals in one figure."""

FORMATS = (".svg", ".png", ".pdf")
_WIDTH = 41
_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and its interval; NaN where an analysis has none."""

    name: str
    estimate: float
    low: float
    high: float

    @property
    def finite(self) -> bool:
        """Whether it can be drawn."""
        return all(map(math.isfinite, (self.estimate, self.low, self.high)))


@dataclass(frozen=True, slots=True, repr=False)
class CoefficientPlot:
    """Estimates and intervals of an answer, one line each, beside zero.

    A shell shows lines of text, a notebook shows a figure, ``save`` writes one.

    Args:
        title: The formula.
        level: Coverage of the intervals, such as 0.95.
    """

    title: str
    intervals: tuple[Interval, ...]
    level: float

    @property
    def shown(self) -> tuple[Interval, ...]:
        """The intervals that are drawn: the first ``MOST`` that are finite."""
        return tuple(one for one in self.intervals if one.finite)[:MOST]

    @property
    def left_out(self) -> int:
        """Number of intervals that are not drawn."""
        return len(self.intervals) - len(self.shown)

    def __repr__(self) -> str:
        return "\n".join(self.bars()) or "<no finite interval>"

    def bars(self, width: int = _WIDTH) -> list[str]:
        """Lines of text: name, interval between ``├`` and ``┤``, estimate ``●``, zero ``┊``."""
        shown = self.shown
        if not shown:
            return []
        low, high = (limit([0.0, *(value for one in shown for value in (one.low, one.high))])
                     for limit in (min, max))  # fmt: skip
        step = (high - low or 1.0) / (width - 1)
        names = [printable(one.name, _LONGEST_NAME) for one in shown]
        longest = max(map(len, names))
        lines = [
            f"{name:<{longest}}  {_bar(one, low, step, width)}"
            for name, one in zip(names, shown, strict=True)
        ]
        scale = f"{low:.3g}".ljust(width - len(f"{high:.3g}")) + f"{high:.3g}"
        return [*lines, f"{'':<{longest}}  {scale}", *([self.note] if self.left_out else [])]

    @property
    def note(self) -> str:
        """Sentence about values that are not drawn; empty if all are drawn."""
        return f"{self.left_out:,} more are not drawn; to_frame() has all." if self.left_out else ""

    @checked()
    def save(self, path: str | Path) -> Path:
        """Write the figure as .svg, .png or .pdf; the file appears when it is complete.

        Raises:
            InvalidInputError: Another ending, a place that cannot be written, or the extra ``report``
                is not installed.
        """
        path = Path(path)
        kind = path.suffix.lower()
        if kind not in FORMATS:
            problem = f"needs a name that ends in {', '.join(FORMATS)}"
            raise InvalidInputError(field="plot", problem=problem)
        drawing = page_module("report.card_page").figure_bytes(self, kind.removeprefix("."))
        with appearing(path, "plot") as part:
            part.write_bytes(drawing)
        return path

    def _repr_html_(self) -> str:
        svg: str = page_module("report.card_page").figure_svg(self)
        return svg


def _bar(one: Interval, low: float, step: float, width: int) -> str:
    """One line; what lies in one place shows the estimate before the ends, the ends before zero."""
    cells = [" "] * width
    left, middle, right = (round((value - low) / step) for value in (one.low, one.estimate, one.high))
    cells[left : right + 1] = "─" * (right + 1 - left)
    zero = round(-low / step)
    cells[zero] = "┊" if cells[zero] == " " else "┼"
    cells[left], cells[right] = "├", "┤"
    cells[middle] = "●"
    return "".join(cells)
