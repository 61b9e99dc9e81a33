"""What a steward sees of a reviewed run, cell by cell, and what is left of it after the decision."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gencard.controller.answers.decisions import Outcome
from gencard.core.answers.answer import Answer, Table
from gencard.core.errors import InvalidInputError
from gencard.core.output_checks.rounding import rounded_count
from gencard.core.output_checks.rules import USUAL_RULES, Colour, Rules, Verdict
from gencard.core.output_checks.tables import judged_outputs
from gencard.core.program_outputs import (
    Number,
    Output,
    Outputs,
    outputs_of_json,
    outputs_to_json,
    significant,
)
from gencard.core.typed_json import PLAIN

ON_SYNTHETIC_ROWS = "{}: difference to the synthetic rows"
"""The name of the table beside each released one."""

_NOTES = (
    "as on the coded records: intervals are their midpoints",
    "a steward saw each number of the program's, and released these",
)
_MULTIPLES = "numbers of records are multiples of {}"

WITHHELD, ROUNDED = "NUMBERS_WITHHELD", "NUMBERS_ROUNDED"


@dataclass(frozen=True, slots=True)
class Cell:
    """One number of a reviewed run.

    Args:
        dry: The number at its place on the synthetic rows.
        verdict: What the output rules say of it.
        base: A number of records leaves as a multiple of it, as in checked runs; 1 for other numbers.
    """

    output: str
    row: str
    column: str
    value: Number
    dry: Number
    verdict: Verdict
    base: int = 1

    @property
    def leaving(self) -> Number:
        """The number as it leaves."""
        return rounded_count(self.value, self.base)

    @property
    def marks(self) -> tuple[str, ...]:
        """Codes of the rules that it breaks, and how it is rounded."""
        rounding = (f"is released as a multiple of {self.base}",) if self.base > 1 else ()
        return (*map(str, self.verdict.broken), *rounding)

    def is_named_by(self, name: str) -> bool:
        """Whether a name means this cell: its output, or output, row and column with "/" between."""
        return name in (
            self.output,
            f"{self.output}/{self.row}",
            f"{self.output}/{self.row}/{self.column}",
        )

    def leaves(self, withheld: Collection[str], *, red: bool) -> bool:
        """Whether it is among what a steward releases."""
        return (red or self.verdict.colour is not Colour.RED) and not any(
            map(self.is_named_by, withheld)
        )


@dataclass(frozen=True, slots=True)
class Review:
    """A reviewed run that waits.

    Args:
        program: Its text.
        outputs: As on the records.
        dry: As on the synthetic rows.
        rules: Those of the policy under which it ran.
        base: Numbers of records leave as multiples of it.
    """

    program: str
    outputs: Outputs
    dry: Outputs
    rules: Rules = USUAL_RULES
    base: int = 1

    @classmethod
    def of(cls, outcome: Outcome) -> "Review":
        """Raises InvalidInputError where the outcome is that of a checked run."""
        marks = outcome.marks
        if not isinstance(marks, dict) or "program" not in marks:
            raise InvalidInputError(field="answer", problem="is not that of a program")
        review = cls(
            marks["program"], outputs_of_json(marks["outputs"]), outputs_of_json(marks["dry_run"])
        )
        if "limits" not in marks:  # it ran before reviewed runs had rules of the policy
            return review
        rules = PLAIN.read(Rules, marks["limits"], field="limits")
        return replace(review, rules=rules, base=rules.checks.rounding)

    def cells(self) -> Iterator[Cell]:
        """Every number, in its order."""
        verdicts_of = judged_outputs(self.outputs, self.rules)
        for output, dry, verdicts in zip(self.outputs, self.dry, verdicts_of, strict=True):
            for row, *lines in zip(output.row_names, output.values, dry.values, verdicts, strict=True):
                for column, value, before, verdict in zip(output.column_names, *lines, strict=True):
                    base = self.base if column in output.counts else 1
                    yield Cell(output.name, row, column, value, before, verdict, base)

    def released(
        self, digest: str, withheld: Collection[str], digits: int | None, *, red: bool
    ) -> tuple[Any, int, tuple[str, ...]]:
        """The answer that leaves, how many numbers it has, and codes of what was done to it.

        Args:
            withheld: Names of cells, as ``Cell.is_named_by`` reads them.
            digits: Significant digits of the numbers that leave; None: as they are.
            red: Whether red numbers leave too.

        Raises:
            InvalidInputError: A name means no cell, or nothing is left.
        """
        cells = list(self.cells())
        for name in withheld:
            if not any(cell.is_named_by(name) for cell in cells):
                raise InvalidInputError(
                    field="--withhold", problem=f"does not name a number of this answer: '{name}'"
                )
        left = [cell.value is not None and cell.leaves(withheld, red=red) for cell in cells]
        if not any(left):
            raise InvalidInputError(field="answer", problem="would contain no number; refuse it instead")
        withholds = any(
            cell.value is not None and not leaves for cell, leaves in zip(cells, left, strict=True)
        )
        codes = ((WITHHELD,) if withholds else ()) + (() if digits is None else (ROUNDED,))
        values = [cell.leaving if leaves else None for cell, leaves in zip(cells, left, strict=True)]
        if digits is not None:
            values = [significant(value, digits) for value in values]
        outputs = with_values(self.outputs, values)
        return answer_of(digest, outputs, self.dry, self.base), sum(left), codes


def with_values(outputs: Outputs, values: Sequence[Number]) -> Outputs:
    """The same outputs with other numbers, given in their order."""
    left, outputs_with_values = iter(values), []
    for output in outputs:
        rows = tuple(tuple(next(left) for _ in row) for row in output.values)
        outputs_with_values.append(replace(output, values=rows))
    return tuple(outputs_with_values)


def numbers_in(outputs: Outputs) -> int:
    """How many numbers they may hold."""
    return sum(output.numbers for output in outputs)


def marks_document(program: str, outputs: Outputs, dry: Outputs, rules: Rules) -> dict[str, Any]:
    """What the state keeps for a steward, and ``Review.of`` reads."""
    return {
        "program": program,
        "outputs": outputs_to_json(outputs),
        "dry_run": outputs_to_json(dry),
        "limits": PLAIN.write(rules),
    }


def answer_of(digest: str, outputs: Outputs, dry: Outputs, base: int = 1) -> Any:
    """Outputs as an answer: each a table, and beside it what it differs by from the synthetic rows.

    Args:
        base: Of which numbers of records are multiples.
    """
    pairs = list(zip(outputs, dry, strict=True))
    tables = [table for output, before in pairs for table in _tables(output, before)]
    notes = (*_NOTES, _MULTIPLES.format(base)) if base > 1 else _NOTES
    return Answer("program", digest, 0.0, tables=tuple(tables), notes=notes).to_json()


def _tables(output: Output, dry: Output) -> Iterator[Table]:
    differences = tuple(
        tuple(map(_difference, row, before))
        for row, before in zip(output.values, dry.values, strict=True)
    )
    yield Table(output.name, output.row_names, output.column_names, output.values)
    name = ON_SYNTHETIC_ROWS.format(output.name)
    yield Table(name, output.row_names, output.column_names, differences)


def _difference(value: Number, before: Number) -> Number:
    return None if value is None or before is None else value - before
