"""What a steward sees of a reviewed run, cell by cell, and what is left of it after the decision."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gencard.controller.answers.decisions import Outcome
from gencard.core.answers.answer import Answer, Table
from gencard.core.errors import InvalidInputError
from gencard.core.output_checks.programs import judged
from gencard.core.output_checks.rules import Colour, Verdict
from gencard.core.program_outputs import (
    Number,
    Output,
    Outputs,
    outputs_of_json,
    outputs_to_json,
    significant,
)

ON_SYNTHETIC_ROWS = "{}: difference to the synthetic rows"
"""The name of the table beside each released one."""

_NOTES = (
    "as on the coded records: intervals are their midpoints",
    "a steward saw each number of the program's, and released these",
)

WITHHELD, ROUNDED = "NUMBERS_WITHHELD", "NUMBERS_ROUNDED"


@dataclass(frozen=True, slots=True)
class Cell:
    """One number of a reviewed run.

    Args:
        dry: The number at its place on the synthetic rows.
        verdict: What the output rules say of it.
    """

    output: str
    row: str
    column: str
    value: Number
    dry: Number
    verdict: Verdict

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
    """

    program: str
    outputs: Outputs
    dry: Outputs

    @classmethod
    def of(cls, outcome: Outcome) -> "Review":
        """Raises InvalidInputError where the outcome is that of a checked run."""
        marks = outcome.marks
        if not isinstance(marks, dict) or "program" not in marks:
            raise InvalidInputError(field="answer", problem="is not that of a program")
        return cls(
            marks["program"], outputs_of_json(marks["outputs"]), outputs_of_json(marks["dry_run"])
        )

    def cells(self) -> Iterator[Cell]:
        """Every number, in its order."""
        for output, dry, verdicts in zip(self.outputs, self.dry, judged(self.outputs), strict=True):
            for row, *lines in zip(output.row_names, output.values, dry.values, verdicts, strict=True):
                for column, value, before, verdict in zip(output.column_names, *lines, strict=True):
                    yield Cell(output.name, row, column, value, before, verdict)

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
                raise InvalidInputError(field="--withhold", problem=f"names no number: '{name}'")
        numbers = [cell.value for cell in cells]
        kept = [cell.value if cell.leaves(withheld, red=red) else None for cell in cells]
        released = len(kept) - kept.count(None)
        if not released:
            raise InvalidInputError(field="answer", problem="would hold no number; refuse it instead")
        codes = ((WITHHELD,) if kept != numbers else ()) + (() if digits is None else (ROUNDED,))
        if digits is not None:
            kept = [significant(value, digits) for value in kept]
        return answer_of(digest, with_values(self.outputs, kept), self.dry), released, codes


def with_values(outputs: Outputs, values: Sequence[Number]) -> Outputs:
    """The same outputs with other numbers, given in their order."""
    left, changed = iter(values), []
    for output in outputs:
        rows = tuple(tuple(next(left) for _ in row) for row in output.values)
        changed.append(replace(output, values=rows))
    return tuple(changed)


def numbers_in(outputs: Outputs) -> int:
    """How many numbers they may hold."""
    return sum(output.numbers for output in outputs)


def marks_document(program: str, outputs: Outputs, dry: Outputs) -> dict[str, Any]:
    """What the state keeps for a steward, and ``Review.of`` reads."""
    return {
        "program": program,
        "outputs": outputs_to_json(outputs),
        "dry_run": outputs_to_json(dry),
    }


def answer_of(digest: str, outputs: Outputs, dry: Outputs) -> Any:
    """Outputs as an answer: each a table, and beside it what it differs by from the synthetic rows."""
    pairs = list(zip(outputs, dry, strict=True))
    tables = [table for output, before in pairs for table in _tables(output, before)]
    return Answer("program", digest, 0.0, tables=tuple(tables), notes=_NOTES).to_json()


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
