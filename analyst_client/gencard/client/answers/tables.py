"""The numbers of an answer as tables: for a panel, for a page, as data frames."""

from collections.abc import Iterator, Sequence
from math import isnan
from typing import TYPE_CHECKING

import numpy as np

from gencard.client.display import Grid
from gencard.core.answers.answer import Answer, Coefficients, Scalar, Table

if TYPE_CHECKING:
    import pandas as pd

HEADS = ("", "coef", "std err", "{0}", "P>|{0}|", "[0.025", "0.975]")
"""As statsmodels heads them, with the statistic in the blanks."""

MOST_LINES = 60
MOST_TABLES = 4
MOST_COLUMNS = 12
"""What is shown; ``to_frame`` and ``save_json`` have all."""

NOT_DEFINED = "–"
COEFFICIENTS, NUMBERS = "Coefficients", "Numbers"


def grids(answer: Answer) -> Iterator[tuple[str, Grid]]:
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
        (name, digits(param), digits(error), _ratio(ratio), p_text(p), digits(low), digits(high))
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
    kept = [place for place in range(len(heads)) if place < 2 or any(line[place] for line in lines)]
    return Grid(
        [heads[place] for place in kept],
        _cut([tuple(line[place] for place in kept) for line in lines]),
        numbers=True,
    )


def table_grid(table: Table) -> Grid:
    shown = table.column_names[:MOST_COLUMNS]
    more = (
        [f"{len(table.column_names) - len(shown):,} more"] if table.column_names[MOST_COLUMNS:] else []
    )
    lines = [
        (name, *map(digits, values[:MOST_COLUMNS]), *("…" for _ in more))
        for name, values in zip(table.row_names, table.values, strict=True)
    ]
    return Grid(("", *shown, *more), _cut(lines), numbers=True)


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


def _ratio(value: float) -> str:
    return NOT_DEFINED if isnan(value) else f"{value:.2f}"


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


def frame_of(part: Coefficients | Table | Sequence[Scalar]) -> "pd.DataFrame":
    """Coefficients, a table, or single numbers as a data frame; without a value NaN."""
    import pandas as pd  # noqa: PLC0415 - only where frames are wanted

    if isinstance(part, Coefficients):
        heads = [head.format(part.statistic) for head in HEADS[1:]]
        return pd.DataFrame(coefficient_rows(part), index=pd.Index(part.names), columns=heads)
    if isinstance(part, Table):
        rows, columns = pd.Index(part.row_names), list(part.column_names)
        return pd.DataFrame(part.values, index=rows, columns=columns, dtype=float)
    values = {
        "value": [one.value for one in part],
        "std err": [one.standard_error for one in part],
        "P": [one.pvalue for one in part],
    }
    return pd.DataFrame(values, index=pd.Index([one.name for one in part]), dtype=float)
