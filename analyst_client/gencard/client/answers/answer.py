"""An answer as the analyst holds it: statsmodels' names, a panel, frames, a figure, files."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console

from gencard.analysis.answers.answer import AnalysisAnswer, AnswerTable, Coefficients, Scalar
from gencard.client.common.arguments import checked, number
from gencard.client.common.display import (
    Displayable,
    Facts,
    Grid,
    Part,
    WrittenAsJson,
    named,
    page_module,
    printable,
)
from gencard.client.common.formats import ANSWER, appearing, check_free, save_documents, write_bytes
from gencard.client.common.rows import neutral
from gencard.core.errors import InvalidInputError, advice_on

if TYPE_CHECKING:
    import pandas as pd


# Display of an answer: its numbers as tables, its coefficients and their intervals as a figure.


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
    left = len(table.column_names) - len(names)
    more = [f"{left:,} more"] if left else []
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
    one = coefficients
    columns = (one.params, one.bse, one.tvalues, one.pvalues, one.conf_int())
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


@dataclass(frozen=True, slots=True, repr=False)
class CoefficientPlot:
    """Estimates and intervals of an answer, one line each, beside zero.

    A shell shows lines of text, a notebook shows a figure, ``save`` writes one.

    Args:
        level: Coverage of the intervals, such as 0.95.
    """

    title: str
    intervals: tuple[Interval, ...]
    level: float

    @property
    def shown(self) -> tuple[Interval, ...]:
        """The intervals that are drawn: the first ``MOST`` that are finite."""
        ends = ((one, (one.estimate, one.low, one.high)) for one in self.intervals)
        return tuple(one for one, values in ends if all(map(math.isfinite, values)))[:MOST]

    @property
    def left_out(self) -> int:
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
        return [*lines, f"{'':<{longest}}  {scale}", *([self.note] if self.note else [])]

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
        drawing = page_module().figure_bytes(self, kind.removeprefix("."))
        with appearing(path, "plot") as part:
            part.write_bytes(drawing)
        return path

    def _repr_html_(self) -> str:
        svg: str = page_module().figure_svg(self)
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


# The answer itself.

FORMAT = "gencard.answer.v1"
MOST_CLIQUES = 6
"""Names of marginals in a panel."""

_LONGEST = 100
"""Characters of a formula in one line."""


@dataclass(frozen=True, eq=False, repr=False)
class Answer(WrittenAsJson, Displayable):
    """Estimates, what they rest on, and who vouches for them.

    Numbers have statsmodels' names: ``params``, ``bse``, ``tvalues``, ``pvalues``, ``conf_int()``,
    ``nobs``, and as far as the analysis has them ``llf``, ``aic``, ``rsquared``, ``chi2`` and the like,
    each as an attribute and as ``answer["llf"]``.

    Args:
        estimates: The numbers.
        about: Where they come from, in names and values: card, psi or dataset version, who released.
        envelope: The signed statement of a run on the records; None for an answer from psi.
        proof: What it is checked with, by file name; None as the envelope.
    """

    estimates: AnalysisAnswer
    about: tuple[tuple[str, str], ...] = ()
    envelope: bytes | None = None
    proof: Callable[[], dict[str, bytes]] | None = None

    @property
    def kind(self) -> str:
        """The analysis, such as "logistic"."""
        return self.estimates.kind

    @property
    def formula(self) -> str:
        """The formula as it was read."""
        return self.estimates.formula

    @property
    def nobs(self) -> float:
        """Records that the answer is of."""
        return self.estimates.n

    @property
    def params(self) -> "pd.Series[float]":
        """Estimated coefficients, by name; raises InvalidInputError where there are none."""
        return self._series(self._coefficients.params)

    @property
    def bse(self) -> "pd.Series[float]":
        """Standard errors of ``params``; with the noise of psi, where it has some."""
        return self._series(self._coefficients.bse)

    @property
    def tvalues(self) -> "pd.Series[float]":
        """``params`` in units of ``bse``."""
        return self._series(self._coefficients.tvalues)

    @property
    def pvalues(self) -> "pd.Series[float]":
        """Two-sided p-values of ``params``."""
        return self._series(self._coefficients.pvalues)

    @checked(alpha=number)
    def conf_int(self, alpha: float = 0.05) -> "pd.DataFrame":
        """Intervals of ``params``, in columns 0 and 1 as in statsmodels.

        Args:
            alpha: 1 minus the coverage.

        Raises:
            InvalidInputError: ``alpha`` is not between 0 and 1, or there are no coefficients.
        """
        import pandas as pd  # noqa: PLC0415 - only where frames are wanted

        coefficients = self._coefficients
        if not 0 < float(alpha) < 1:
            problem, advice = "must be between 0 and 1", "Write, for example, alpha=0.05."
            raise InvalidInputError(field="alpha", problem=problem, advice=advice)
        return pd.DataFrame(coefficients.conf_int(float(alpha)), index=pd.Index(coefficients.names))

    def __getitem__(self, name: str) -> float | None:
        """A number such as ``answer["llf"]``; raises KeyError, which names those there are."""
        try:
            return self.estimates[name]
        except KeyError:
            raise KeyError(advice_on(str(name), self._scalars)) from None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._scalars:
            names = () if name.startswith("_") else self._scalars
            raise AttributeError(f"an answer has no '{name}'. {advice_on(name, names)}")
        return self.estimates[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._scalars]

    @checked(table=lambda _, value: value)
    def to_frame(self, table: str | None = None) -> "pd.DataFrame":
        """The answer, or one of its tables, as a data frame.

        Args:
            table: One of ``tables``. Default: the coefficients, with columns as ``summary`` heads
                them; of an answer without coefficients its first table, else its single numbers.

        Raises:
            InvalidInputError: There is no such table.
        """
        estimates = self.estimates
        if table is None and estimates.coefficients is not None:
            return frame_of(estimates.coefficients)
        if table is None:
            return frame_of(estimates.tables[0] if estimates.tables else estimates.scalars)
        try:
            chosen = estimates.table(table)
        except KeyError:
            problem = f"the answer has no table '{table}'"
            advice = advice_on(str(table), self.tables)
            raise InvalidInputError(field="table", problem=problem, advice=advice) from None
        return frame_of(chosen)

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables, for ``to_frame``."""
        return tuple(table.name for table in self.estimates.tables)

    @checked()
    def to_csv(self, path: str | Path) -> None:
        """Write ``to_frame()`` as CSV; the file appears when it is complete.

        A name gets a leading apostrophe where a spreadsheet would run it as a formula.
        """
        frame = self.to_frame().rename(index=neutral, columns=neutral)
        with appearing(Path(path), "csv") as part:
            frame.to_csv(part)

    @checked()
    def save(self, path: str | Path, *, replace: bool = False) -> Path:
        """Write the signed answer of a run, so that ``gencard verify`` can check it offline.

        Args:
            path: A folder, which gets card, schema and log entry too; or a file that ends in .json, for
                the signed answer alone, which is checked beside the folder of a release of its card.
            replace: Overwrite what is there.

        Raises:
            InvalidInputError: The answer is from psi; or the place is taken, or cannot be written.
        """
        place = Path(path)
        if self.envelope is None or self.proof is None:
            problem = "is computed from psi, so it has no signature of its own"
            advice = "Save a release of the card: `release.save(folder)` keeps psi and what signs it."
            raise InvalidInputError(field="answer", problem=problem, advice=advice)
        check_free(place, replace=replace)
        if place.suffix == ".json":
            write_bytes(place, self.envelope)
        else:
            save_documents(place, {**self.proof(), ANSWER: self.envelope})
        return place

    def plot(self) -> CoefficientPlot:
        """The coefficients with their 95 % intervals, without the intercept.

        Raises:
            InvalidInputError: The analysis has no coefficients.
        """
        ends = self._coefficients.conf_int().tolist()
        lines = zip(self._coefficients.names, self._coefficients.params, ends, strict=True)
        # an intercept has another scale than the other coefficients
        intervals = (
            Interval(name, value, *end)
            for name, value, end in lines
            if name != "Intercept" and not name.endswith(":Intercept")
        )
        return CoefficientPlot(self.formula, tuple(intervals), 0.95)

    def summary(self) -> str:
        """The panel as plain text."""
        console = Console(file=StringIO(), width=100, highlight=False)
        with console.capture() as captured:
            console.print(self.panel())
        return captured.get()

    def document(self) -> dict[str, Any]:
        """The answer as an object of JSON types."""
        return {"format": FORMAT, "answer": self.estimates.to_json(), "about": dict(self.about)}

    def lines(self) -> list[tuple[str, str]]:
        """Return the kind of analysis, its statistics, noise and notes, as names and values."""
        estimates = self.estimates
        statistics = [*map(named, estimates.rests_on), *estimates.sums]
        rests_on = statistics[:MOST_CLIQUES]
        more = len(statistics) - len(rests_on)
        return [
            ("Analysis", estimates.kind),
            *([("Records", f"{estimates.n:,.6g}")] if estimates.n else []),
            *([("Based on", "; ".join([*rests_on, *([f"and {more:,} more"] if more > 0 else [])]))]
              if rests_on else []),
            ("Noise", estimates.noise),
            *self.about,
            *(("Note", note) for note in estimates.notes),
        ]  # fmt: skip

    def __repr__(self) -> str:
        """A line for lists; a shell shows ``print(answer.summary())``."""
        formula = self.formula if len(self.formula) <= _LONGEST else f"{self.formula[:_LONGEST]}…"
        records = f"{self.nobs:,.6g} records, " if self.nobs else ""  # a program does not say
        return f"<Answer {self.kind}: {formula}; {records}{self.estimates.noise}>"

    @property
    def _coefficients(self) -> Coefficients:
        if self.estimates.coefficients is None:
            problem = f"an answer of kind {self.kind} has no coefficients"
            tables = [f'to_frame("{name}")' for name in self.tables[:2]]
            numbers = [f'answer["{scalar.name}"]' for scalar in self.estimates.scalars[:2]]
            advice = f"Use {', '.join([*tables, *numbers]) or 'to_frame()'}."
            raise InvalidInputError(field="answer", problem=problem, advice=advice)
        return self.estimates.coefficients

    @property
    def _scalars(self) -> list[str]:
        return [scalar.name for scalar in self.estimates.scalars]

    def _series(self, values: Sequence[float] | Any) -> "pd.Series[float]":
        import pandas as pd  # noqa: PLC0415 - only where frames are wanted

        return pd.Series(values, index=pd.Index(self._coefficients.names), dtype=float)

    def _panel(self) -> tuple[str, Sequence[Part]]:
        parts: list[Part] = []
        for title, grid in grids(self.estimates):
            parts += [grid] if title in (COEFFICIENTS, NUMBERS) else [title, grid]
        return self.formula, [*parts, Facts(self.lines())]
