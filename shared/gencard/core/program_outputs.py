"""Outputs of an analyst's program: tables, coefficients, curves and scalars, whose shape is agreed.

The shape is everything but the numbers. It is fixed by a run on synthetic rows, so a run on the records
can tell its numbers alone, each of few digits: that bounds how much any program can carry out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import floor, isfinite, log10

from gencard.core.errors import InvalidInputError
from gencard.core.json_codecs import Json
from gencard.core.typed_json import PLAIN

START = """
import sys
from pathlib import Path
from gencard.run.session import main

main(Path(sys.argv[1]))
"""
"""Python source that runs the program at the path in its argument, on the request on standard input."""

MOST_NUMBERS = 500
MOST_OUTPUTS = 50
LONGEST_NAME = 120
"""Characters."""

DIGITS = 5
"""Significant digits of a number that is no count."""

MOST_RECORDS = 10**9
"""A count beyond it is not defined."""

LARGEST, LEAST = 1e12, 1e-12
"""A number beyond LARGEST is not defined, and one closer to zero than LEAST is zero."""

FIT = ", fit"
"""Ends the name of the output that says more of a model's fit."""

Number = float | None
"""None where the records do not define it, or where it is held back."""

ESTIMATE, ERROR = "estimate", "standard_error"
"""Columns of coefficients; the second says how many digits of the first mean something."""


class OutputKind(StrEnum):
    """Kind of an output, for its rules and its display."""

    TABLE = "table"
    COEFFICIENTS = "coefficients"
    CURVE = "curve"
    SCALAR = "scalar"


@dataclass(frozen=True, slots=True)
class Output:
    """Numbers under names, row by row.

    Args:
        counts: Columns that hold numbers of records.

    Raises:
        InvalidInputError: A name is empty, too long, not printable or repeated; the rows have not one
            number for each column; or a number is not finite.

    >>> Output(OutputKind.SCALAR, "mean age", ("value",), ("value",), ((41.25,),)).numbers
    1
    """

    kind: OutputKind
    name: str
    row_names: tuple[str, ...]
    column_names: tuple[str, ...]
    values: tuple[tuple[Number, ...], ...]
    counts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for names in ((self.name,), self.row_names, self.column_names, self.counts):
            if len(set(names)) != len(names):
                raise _refusal(self.name, "has a repeated row or column name")
            if not all(0 < len(one) <= LONGEST_NAME and one.isprintable() for one in names):
                problem = "has a name that is empty, not printable, or longer than"
                raise _refusal(self.name, f"{problem} {LONGEST_NAME} characters")
        if not self.row_names or not self.column_names:
            raise _refusal(self.name, "has no rows or no columns")
        lengths = {len(row) for row in self.values}
        if len(self.values) != len(self.row_names) or lengths != {len(self.column_names)}:
            raise _refusal(self.name, "does not have one number for each row and column")
        if not set(self.counts) <= set(self.column_names):
            raise _refusal(self.name, "names a column of counts that it does not have")
        if not all(value is None or isfinite(value) for row in self.values for value in row):
            raise _refusal(self.name, "has a number that is not finite")

    @property
    def numbers(self) -> int:
        return len(self.row_names) * len(self.column_names)

    @property
    def shape(self) -> "Output":
        """The same without a number: what must be equal in each run."""
        return replace(self, values=tuple((None,) * len(row) for row in self.values))

    def rounded(self) -> "Output":
        """Counts as whole numbers, estimates to two digits of their standard error, others to DIGITS."""
        return replace(self, values=tuple(map(self._rounded_row, self.values)))

    def _rounded_row(self, row: tuple[Number, ...]) -> tuple[Number, ...]:
        cells = dict(zip(self.column_names, row, strict=True))
        values = dict[str, Number]()
        for name, value in cells.items():
            values[name] = significant(value, DIGITS)
            if name in self.counts and value is not None:
                values[name] = float(round(value)) if 0 <= round(value) <= MOST_RECORDS else None
        estimate, error = cells.get(ESTIMATE), cells.get(ERROR)
        if self.kind is OutputKind.COEFFICIENTS and ESTIMATE in cells and error:
            if estimate is not None and LEAST <= error <= LARGEST:
                estimate = round(estimate, 1 - floor(log10(error))) + 0.0
            values |= {ESTIMATE: significant(estimate, DIGITS), ERROR: significant(error, 2)}
        return tuple(values.values())


Outputs = tuple[Output, ...]


def check_outputs(outputs: Sequence[Output], most_numbers: int = MOST_NUMBERS) -> None:
    """Raises InvalidInputError where there are none, too many, or two of one name."""
    names = [output.name for output in outputs]
    if not names:
        raise InvalidInputError(field="program", problem="produced no output; call output.table(...)")
    if len(names) > MOST_OUTPUTS or len(set(names)) != len(names):
        problem = f"must produce at most {MOST_OUTPUTS} outputs with distinct names"
        raise InvalidInputError(field="program", problem=problem)
    if (total := sum(output.numbers for output in outputs)) > most_numbers:
        problem = f"produced {total} numbers, but at most {most_numbers} are allowed"
        raise InvalidInputError(field="program", problem=problem)


def difference_in_shape(agreed: Sequence[Output], given: Sequence[Output]) -> str | None:
    """Name of the first output that has not the agreed shape; None where all have it."""
    for before, after in zip(agreed, given, strict=False):
        if before.shape != after.shape:
            return before.name
    longer = max(agreed, given, key=len)
    return None if len(agreed) == len(given) else longer[min(len(agreed), len(given))].name


def significant(value: Number, digits: int) -> Number:
    """A number to some significant digits; None where it is too large to be one.

    >>> significant(0.0123456, 3), significant(1e300, 3), significant(1e-300, 3)
    (0.0123, None, 0.0)
    """
    if value is None or abs(value) > LARGEST:
        return None
    if abs(value) < LEAST:
        return 0.0
    return round(value, digits - 1 - floor(log10(abs(value)))) + 0.0


def outputs_to_json(outputs: Sequence[Output]) -> Json:
    """The one form of dry runs, jobs and stored answers."""
    json: Json = {"outputs": PLAIN.write(tuple(outputs), Outputs)}
    return json


def outputs_of_json(json: object) -> Outputs:
    """The inverse; raises InvalidInputError where the form is another one."""
    entries = json.get("outputs") if isinstance(json, dict) and len(json) == 1 else None
    outputs: Outputs = PLAIN.codec(Outputs).read(entries, "outputs")
    return outputs


def _refusal(name: str, problem: str) -> InvalidInputError:
    return InvalidInputError(field=f"output '{name[:LONGEST_NAME]}'", problem=problem)
