"""An answer as the analyst holds it: statsmodels' names, a panel, frames, a figure, files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from gencard.analysis.answers.answer import AnalysisAnswer, Coefficients
from gencard.client.answers.display import (
    COEFFICIENTS,
    NUMBERS,
    CoefficientPlot,
    Interval,
    frame_of,
    grids,
)
from gencard.client.common.arguments import checked, number
from gencard.client.common.display import Displayable, Facts, Part, WrittenAsJson, named
from gencard.client.common.files.folder import ANSWER, appearing, check_free, save_documents, write_bytes
from gencard.client.common.files.rows import neutral
from gencard.core.errors import InvalidInputError, advice_on

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "gencard.answer.v1"
MOST_CLIQUES = 6
"""Names of marginals in a panel."""

_SAVE_RELEASE = "Save a release of the card: `release.save(folder)` keeps psi and what signs it."
_SUMMARY_WIDTH = 100
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
        ends = coefficients.conf_int(float(alpha))
        return pd.DataFrame(ends, index=pd.Index(coefficients.names))

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
            raise InvalidInputError(field="answer", problem=problem, advice=_SAVE_RELEASE)
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
        console = Console(file=StringIO(), width=_SUMMARY_WIDTH, highlight=False)
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
