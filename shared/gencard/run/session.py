"""The program's side: one frame of records, and outputs collected until the program ends.

The request stands on standard input, the outputs go to standard output. What the program prints goes
where errors go: to the terminal at the analyst's machine, to nowhere in the sandbox.
"""

import runpy
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from gencard.core.coding import Coding
from gencard.core.dataset import Dataset
from gencard.core.errors import InvalidInputError, advice_on
from gencard.core.generators.contract import rng_of
from gencard.core.program_outputs import (
    ERROR,
    ESTIMATE,
    FIT,
    LARGEST,
    Output,
    OutputKind,
    check_outputs,
)
from gencard.run.frames import frame_of
from gencard.run.levels import Stored
from gencard.wire.black_box import (
    NOTHING_STORED,
    BoxTask,
    StoredNumbers,
    claim_stdout,
    outputs_answer,
    read_request,
)

_COLUMNS = {"params": ESTIMATE, "bse": ERROR, "tvalues": "statistic", "pvalues": "pvalue"}
"""Attributes of a fitted model of statsmodels, and what they are called in an output."""

_LIFELINES = {"coef": ESTIMATE, "se(coef)": ERROR, "z": "statistic", "p": "pvalue"}
"""The same of the summary of a model of lifelines."""

_OF_FIT = ("nobs", "df_resid", "llf", "rsquared", "prsquared", "aic")
"""Numbers given for a fitted model besides its coefficients, if the model has them."""


@dataclass
class Outputs:
    """Collects what the program gives; see each method."""

    collected: list[Output] = field(default_factory=list)

    def table(
        self, name: str, data: "pd.DataFrame | pd.Series[Any]", *, counts: Sequence[str] | None = None
    ) -> None:
        """Give a table: a frame or a series of numbers, such as ``frame.groupby("sex").size()``.

        All declared levels of a categorical axis are in it, those without records as 0 or missing.

        Args:
            counts: Columns that hold numbers of records, which leave as multiples of 5 or more. Default:
                those of whole numbers; ``counts=[]`` for their sums or extremes.

        Raises:
            InvalidInputError: It is no table of numbers.
        """
        frame = _frame(data)
        whole = [column for column in frame if pd.api.types.is_integer_dtype(frame[column])]
        fill = 0 if len(whole) == len(frame.columns) else np.nan
        # Every declared level in its order, so that the shape says nothing about the records.
        rows, columns = _levels(frame.index), _levels(frame.columns)
        frame = frame.reindex(index=rows, columns=columns, fill_value=fill)
        self._add(OutputKind.TABLE, name, frame, counts)

    def coefficients(self, name: str, fit: Any) -> None:
        """Give a model: results of statsmodels or lifelines, or a frame with a row for each term.

        What its fit says besides (number of records, residual degrees of freedom, log-likelihood) comes
        as an output of its own.
        """
        self._add(OutputKind.COEFFICIENTS, name, _coefficients_of(fit), ())
        facts: dict[str, float] = {}
        for fact in _OF_FIT:
            with suppress(Exception):  # libraries raise what they like where a model has no such number
                facts[fact] = float(getattr(fit, fact))
        if facts:
            frame = pd.DataFrame({"value": facts})
            self._add(OutputKind.TABLE, f"{name}{FIT}", frame, ())

    def curve(
        self, name: str, data: "pd.DataFrame | pd.Series[Any]", *, at_risk: str | None = None
    ) -> None:
        """Give a curve: numbers at places that do not depend on the records; the index holds the places.

        Args:
            at_risk: The column of the numbers of records that each place rests on.
        """
        frame = _frame(data)
        if not pd.api.types.is_numeric_dtype(frame.index) or not frame.index.is_monotonic_increasing:
            raise InvalidInputError(
                field=f"output '{name}'",
                problem="needs an index of increasing numbers, one for each place",
            )
        self._add(OutputKind.CURVE, name, frame, () if at_risk is None else (at_risk,))

    def scalar(self, name: str, value: float, *, count: bool = False) -> None:
        """Give one number.

        Args:
            count: It is a number of records.
        """
        frame = pd.DataFrame({"value": [value]}, index=["value"])
        self._add(OutputKind.SCALAR, name, frame, ("value",) if count else ())

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"output has no '{name}'. {advice_on(name, [*map(str, OutputKind)])}")

    def _add(
        self, kind: OutputKind, name: str, frame: pd.DataFrame, counts: Sequence[str] | None
    ) -> None:
        labelled = frame.set_axis(_names(frame.columns), axis="columns")
        if counts is None:
            whole = map(pd.api.types.is_integer_dtype, labelled.dtypes)
            counts = [label for label, is_whole in zip(labelled.columns, whole, strict=True) if is_whole]
        rows, columns = _names(labelled.index), tuple(labelled.columns)
        try:
            table = labelled.to_numpy(np.float64, na_value=np.nan)
        except (TypeError, ValueError):
            problem = "contains a value that is not a number"
            raise InvalidInputError(field=f"output '{name}'", problem=problem) from None
        # None for what is not defined, and for what is too large to be told.
        values = tuple(
            tuple(value if abs(value) <= LARGEST else None for value in row) for row in table.tolist()
        )
        self.collected.append(Output(kind, str(name), rows, columns, values, tuple(counts)))


@dataclass
class _Session:
    dataset: Dataset | None = None
    coding: Coding | None = None
    stored: StoredNumbers = field(default_factory=dict)
    seed: int = 0


_SESSION = _Session()
output = Outputs()
"""Outputs of the running program, which the program adds to."""


def begin(dataset: Dataset, coding: Coding, seed: int, stored: StoredNumbers = NOTHING_STORED) -> None:
    """Make these the records of the program that runs in this process."""
    _SESSION.dataset, _SESSION.coding, _SESSION.seed = dataset, coding, seed
    _SESSION.stored = stored
    output.collected.clear()


def records() -> pd.DataFrame:
    """Return the records, one column for each attribute of the card.

    Types follow from the schema and the card alone, so they are the same on synthetic rows and on the
    records:

    - labels: categoricals of text with all declared levels, so 007 stays 007; whole numbers and truth
      values that are declared as such are themselves;
    - numbers, dates and times that the card grants (``analyses.columns``): the values of the records,
      rounded to their step and clamped as the schema declares. Whole numbers are int64, others float64,
      dates datetime64; times of day are minutes since midnight, as int64;
    - other attributes with edges: the midpoint of each level, as float64 or datetime64.

    Missing values are NA, NaN or NaT; whole numbers that may be missing are Int64. In R, labels are
    factors, whole numbers integers (beyond 2^31 doubles), dates ``Date``, and missing values NA.

    Names of outputs must not depend on the records: group numbers by cells of your own (``pd.cut``).

    Raises:
        InvalidInputError: The program was not started by ``gencard run``.
    """
    if _SESSION.dataset is None or _SESSION.coding is None:
        problem = "has no records outside `gencard run`; use: gencard run CARD --program FILE --dry"
        raise InvalidInputError(field="program", problem=problem)
    return frame_of(_SESSION.dataset, _SESSION.coding, Stored(_SESSION.stored))


def rng() -> np.random.Generator:
    """A generator of random numbers, the same at each call: take all randomness from it."""
    return rng_of(_SESSION.seed)


def main(program: Path) -> None:
    """Run the program as Python runs a script, and answer its outputs.

    Raises:
        InvalidInputError: The request is none for an analysis, or the program gave no output or too
            many; and whatever the program raises.
    """
    channel = claim_stdout()
    request = read_request(sys.stdin.buffer)
    if request.task is not BoxTask.ANALYSE or request.coding is None:
        raise InvalidInputError(field="request", problem="is not for an analysis")
    begin(request.dataset, request.coding, request.seed, request.stored)
    sys.argv[:] = [str(program)]
    runpy.run_path(str(program), run_name="__main__")
    check_outputs(output.collected)
    with channel:
        channel.write(outputs_answer([one.rounded() for one in output.collected]))


def _frame(data: Any) -> pd.DataFrame:
    if isinstance(data, pd.Series):
        return data.to_frame(str(data.name) if data.name is not None else "value")
    return data if isinstance(data, pd.DataFrame) else pd.DataFrame(data)


def _levels(labels: "pd.Index[Any]") -> "pd.Index[Any]":
    if isinstance(labels, pd.CategoricalIndex):
        return pd.Index(labels.categories, name=labels.name)
    if not isinstance(labels, pd.MultiIndex):
        return labels
    levels = [
        level.dtype.categories if isinstance(level.dtype, pd.CategoricalDtype) else level
        for level in labels.levels
    ]
    if all(isinstance(dtype, pd.CategoricalDtype) for dtype in labels.dtypes):
        return pd.MultiIndex.from_product(levels, names=labels.names)
    return labels


def _names(labels: "pd.Index[Any]") -> tuple[str, ...]:
    return tuple(" / ".join(map(str, one)) if isinstance(one, tuple) else str(one) for one in labels)


def _coefficients_of(fit: Any) -> pd.DataFrame:
    if isinstance(fit, pd.DataFrame):
        return fit
    if isinstance(getattr(fit, "summary", None), pd.DataFrame):
        summary: pd.DataFrame = fit.summary[list(_LIFELINES)].rename(columns=_LIFELINES)
        return summary
    names = [name for name in _COLUMNS if getattr(fit, name, None) is not None]
    if "params" not in names:
        problem = "is neither a data frame nor a fitted model of statsmodels or lifelines"
        raise InvalidInputError(field="output.coefficients", problem=problem)
    columns = {_COLUMNS[name]: np.ravel(getattr(fit, name)) for name in names}
    if isinstance(fit.params, pd.DataFrame):  # of several equations: term and equation
        terms = fit.params.index, map(str, fit.params.columns)
        index: pd.Index[Any] = pd.MultiIndex.from_product(terms)
    elif isinstance(fit.params, pd.Series):
        index = fit.params.index
    else:
        index = pd.Index(fit.model.exog_names)
    return pd.DataFrame(columns, index=index)
