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
from numpy.typing import NDArray

from gencard.core.coding import Attribute, Coding, Edges, Labels, adjusted, codes_of_numbers
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import DomainMismatchError, InvalidInputError, UndeclaredLevelError, advice_on
from gencard.core.generators.contract import rng_of
from gencard.core.program_outputs import (
    ERROR,
    ESTIMATE,
    FIT,
    LARGEST,
    Output,
    OutputKind,
    check_outputs,
    outputs_to_json,
)
from gencard.run.levels import (
    UNDECLARED,
    UNKNOWN_NUMBER,
    NumberedRows,
    Stored,
    Values,
    code_of,
    codes_of_values,
    level_numbers,
    names_of,
)
from gencard.wire.black_box import (
    NOTHING_STORED,
    BoxTask,
    StoredNumbers,
    claim_stdout,
    fit_answer,
    read_request,
)
from gencard.wire.canonical import json_bytes

# Codes <-> data frames with the declared labels and types.
#
# Text labels become categoricals, ordered where that is declared; whole numbers and truth values become
# themselves. Edges become numbers or dates inside them, whole numbers as integers if they are values
# that the attribute can have; see ``records``. As levels, all attributes are categoricals, and those
# with edges have intervals ``[low, high)``, the last of which is closed on the right too. "Missing"
# becomes NA. The way back gives the same codes.


def frame_of(dataset: Dataset, coding: Coding, values: Values | None = None) -> pd.DataFrame:
    """The records with their labels; one column for each attribute of the dataset.

    Args:
        values: What stands in place of intervals. None: all attributes as levels.
    """
    columns = {
        name: _series(coding.attribute(name), dataset.column(name), values)
        for name in dataset.domain.attributes
    }
    return pd.DataFrame(columns, copy=False)


def dataset_of_frame(frame: pd.DataFrame, coding: Coding, domain: Domain) -> Dataset:
    """The codes behind a frame over ``domain``; DomainMismatchError or UndeclaredLevelError."""
    absent = [name for name in domain.attributes if name not in frame.columns]
    if absent:
        raise DomainMismatchError(problem=f"the data have no attribute '{absent[0]}'")
    columns = [_codes(coding.attribute(name), frame[name]) for name in domain.attributes]
    return Dataset.of_columns(domain, columns)


def rows_of_frame(frame: pd.DataFrame, coding: Coding, domain: Domain) -> NumberedRows:
    """The codes and the numbers of a frame; raises as ``dataset_of_frame``."""
    dataset = dataset_of_frame(frame, coding, domain)

    def numbers(name: str) -> NDArray[np.float64] | None:
        edges = coding.attribute(name).coding
        if not isinstance(edges, Edges):
            return None
        given = _numbers_of(frame[name])
        known = level_numbers(edges)[dataset.column(name)] if given is None else adjusted(edges, given)
        return None if (known == UNKNOWN_NUMBER).any() else known

    return NumberedRows(dataset, numbers)


def categories_of(attribute: Attribute) -> "pd.CategoricalDtype":
    match attribute.coding:
        case Labels(labels, integer, ordered):
            values = [int(label) for label in labels] if integer else list(labels)
            return pd.CategoricalDtype(values, ordered=ordered)
        case Edges(edges, dates=dates, scale=scale):
            if scale is not None and edges[-2] == edges[-1]:  # a level of one number; [5, 5) holds none
                edges = (*edges[:-1], edges[-1] + float(scale.step))
            breaks = pd.to_datetime(np.asarray(edges), unit="D") if dates else pd.Index(edges)
            return pd.CategoricalDtype(pd.IntervalIndex.from_breaks(breaks, closed="left"), ordered=True)


def _series(attribute: Attribute, codes: NDArray[Any], values: Values | None) -> "pd.Series[Any]":
    match attribute.coding:
        case Edges() as edges if values is not None:
            whole = edges.decimals == 0 and values.is_value(attribute.name)
            return _numbers(edges, values.of(attribute.name, edges, codes), whole=whole)
        case Labels(integer=True) | Labels(boolean=True) if values is not None:
            return _plain(attribute, codes)
    dtype = categories_of(attribute)
    positions = codes.astype(np.int32)
    positions[positions == len(dtype.categories)] = -1  # the code after the last level is "missing"
    return pd.Series(pd.Categorical.from_codes(positions, dtype=dtype))


def _numbers(edges: Edges, numbers: NDArray[np.float64], *, whole: bool) -> "pd.Series[Any]":
    if edges.dates:
        absent = np.isnan(numbers)
        midnights = np.where(absent, 0, numbers).astype("datetime64[D]").astype("datetime64[s]")
        return pd.Series(np.where(absent, np.datetime64("NaT"), midnights))
    if not whole:
        return pd.Series(numbers)
    return pd.Series(numbers).astype("Int64" if edges.missing else "int64")


def _plain(attribute: Attribute, codes: NDArray[Any]) -> "pd.Series[Any]":
    names, missing = names_of(attribute), attribute.coding.missing
    if attribute.coding == Labels(names, boolean=True, missing=missing):
        table, dtype = np.array([False, True, False]), "boolean" if missing else "bool"
    else:
        table, dtype = np.array([*map(int, names), 0]), "Int64" if missing else "int64"
    return pd.Series(table[codes], dtype=dtype).mask(codes == len(names))


def _codes(attribute: Attribute, column: "pd.Series[Any]") -> NDArray[Any]:
    if isinstance(attribute.coding, Edges) and (numbers := _numbers_of(column)) is not None:
        return codes_of_numbers(attribute.name, attribute.coding, numbers)
    if isinstance(column.dtype, pd.CategoricalDtype):
        known, inverse = column.cat.categories, column.cat.codes.to_numpy()
    else:
        inverse, known = pd.factorize(column)
    levels = categories_of(attribute).categories
    # levels as they are written, and the code of each interval
    codes_of = {**code_of(attribute), **{level: code for code, level in enumerate(levels)}}
    code_of_known = np.array(codes_of_values(attribute, codes_of, [*known, None]))
    codes: NDArray[np.int64] = code_of_known[inverse]  # position -1, an absent value, is the last
    if (codes == UNDECLARED).any():
        raise UndeclaredLevelError(attribute=attribute.name)
    return codes


def _numbers_of(column: "pd.Series[Any]") -> NDArray[np.float64] | None:
    """A column of numbers, or of dates as days since 1970-01-01; None where it holds neither."""
    if pd.api.types.is_datetime64_dtype(column):
        days = column.to_numpy().astype("datetime64[D]")
        absent = np.isnat(days)
        return np.where(absent, np.nan, np.where(absent, 0, days.astype(np.int64)))
    if pd.api.types.is_numeric_dtype(column):
        return column.to_numpy(np.float64, na_value=np.nan)
    return None


# Outputs, and the records of the program.


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
            self._add(OutputKind.TABLE, f"{name}{FIT}", pd.DataFrame({"value": facts}), ())

    def curve(
        self, name: str, data: "pd.DataFrame | pd.Series[Any]", *, at_risk: str | None = None
    ) -> None:
        """Give a curve: numbers at places that do not depend on the records; the index holds the places.

        Args:
            at_risk: The column of the numbers of records that each place rests on.
        """
        frame = _frame(data)
        if not pd.api.types.is_numeric_dtype(frame.index) or not frame.index.is_monotonic_increasing:
            problem = "needs an index of increasing numbers, one for each place"
            raise InvalidInputError(field=f"output '{name}'", problem=problem)
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
        outputs = outputs_to_json([one.rounded() for one in output.collected])
        channel.write(fit_answer(json_bytes(outputs)))


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
