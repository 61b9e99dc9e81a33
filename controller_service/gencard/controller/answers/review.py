"""Review of a reviewed run by a steward, cell by cell, and the answer that the decision leaves."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gencard.analysis.answers.answer import AnalysisAnswer, AnswerTable
from gencard.analysis.output_checks.tables import judged_outputs
from gencard.controller.answers.decisions import RunOutcome
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError
from gencard.core.output_rules import USUAL_RULES, Colour, Rules
from gencard.core.program_outputs import (
    Number,
    Output,
    Outputs,
    outputs_of_json,
    outputs_to_json,
    significant,
)
from gencard.core.typed_json import PLAIN
from gencard.wire.steward import ReviewedNumber

ON_SYNTHETIC_ROWS = "{}: difference to the synthetic rows"
"""Name of the table that accompanies each released table."""

_SEEN = "a steward saw each number of the program's, and released these"
_BY_LEVELS = "by levels, each as its midpoint: {}"
_OF_BEFORE = ("as on the coded records: intervals are their midpoints",)
"""Note of a run that waits since before its columns were kept with it."""

_MULTIPLES = "numbers of records are multiples of {}"

WITHHELD, ROUNDED = "NUMBERS_WITHHELD", "NUMBERS_ROUNDED"


def is_named_by(cell: ReviewedNumber, name: str) -> bool:
    """Return True if a name means this number: its output, or output/row or output/row/column."""
    return name in (
        cell.output,
        f"{cell.output}/{cell.row}",
        f"{cell.output}/{cell.row}/{cell.column}",
    )


def leaves(cell: ReviewedNumber, withheld: Collection[str], *, red: bool) -> bool:
    """Return True if a steward releases the number."""
    return (red or cell.mark is not Colour.RED) and not any(is_named_by(cell, name) for name in withheld)


@dataclass(frozen=True, slots=True)
class Review:
    """A reviewed run that waits for a steward.

    Args:
        program: Text of the program.
        outputs: Outputs on the records.
        dry: Outputs on the synthetic rows.
        rules: Output rules of the policy under which the program ran.
        base: Numbers of records are released as multiples of this base.
        notes: How the attributes were passed to the program.
    """

    program: str
    outputs: Outputs
    dry: Outputs
    rules: Rules = USUAL_RULES
    base: int = 1
    notes: tuple[str, ...] = _OF_BEFORE

    @classmethod
    def of(cls, outcome: RunOutcome) -> "Review":
        """Read the review of an outcome; raises InvalidInputError if the outcome is of a checked run."""
        marks = outcome.marks
        if not isinstance(marks, dict) or "program" not in marks:
            raise InvalidInputError(field="answer", problem="is not that of a program")
        review = cls(
            marks["program"], outputs_of_json(marks["outputs"]), outputs_of_json(marks["dry_run"])
        )
        if "limits" not in marks:  # it ran before reviewed runs had rules of the policy
            return review
        rules = PLAIN.read(Rules, marks["limits"], field="limits")
        notes = tuple(map(str, marks.get("notes", _OF_BEFORE)))
        return replace(review, rules=rules, base=rules.checks.rounding, notes=notes)

    def cells(self) -> Iterator[ReviewedNumber]:
        """Yield every number, in its order."""
        verdicts_of = judged_outputs(self.outputs, self.rules)
        for output, dry, verdicts in zip(self.outputs, self.dry, verdicts_of, strict=True):
            for row, *lines in zip(output.row_names, output.values, dry.values, verdicts, strict=True):
                for column, value, before, verdict in zip(output.column_names, *lines, strict=True):
                    base = self.base if column in output.counts else 1
                    rules = tuple(map(str, verdict.broken))
                    yield ReviewedNumber(
                        output.name, row, column, value, before, verdict.colour, rules, base
                    )

    def released(
        self, digest: str, withheld: Collection[str], digits: int | None, *, red: bool
    ) -> tuple[Any, int, tuple[str, ...]]:
        """Return the answer to release, its number of numbers, and codes of the changes made to it.

        Args:
            withheld: Names of cells, as ``is_named_by`` reads them.
            digits: Significant digits of released numbers; None leaves the numbers unrounded.
            red: Whether numbers marked red are released too.

        Raises:
            InvalidInputError: A name matches no cell, or no cell is left.
        """
        cells = list(self.cells())
        for name in withheld:
            if not any(is_named_by(cell, name) for cell in cells):
                raise InvalidInputError(
                    field="--withhold", problem=f"does not name a number of this answer: '{name}'"
                )
        # Judged on the numbers as the program gave them: rounding must not turn a red number green.
        left = [cell.value is not None and leaves(cell, withheld, red=red) for cell in cells]
        if not any(left):
            raise InvalidInputError(field="answer", problem="would contain no number; refuse it instead")
        withholds = any(
            cell.value is not None and not stays for cell, stays in zip(cells, left, strict=True)
        )
        codes = ((WITHHELD,) if withholds else ()) + (() if digits is None else (ROUNDED,))
        values = [cell.leaving if stays else None for cell, stays in zip(cells, left, strict=True)]
        if digits is not None:
            values = [significant(value, digits) for value in values]
        outputs = with_values(self.outputs, values)
        return answer_of(digest, outputs, self.dry, self.notes, self.base), sum(left), codes


def with_values(outputs: Outputs, values: Sequence[Number]) -> Outputs:
    """Return the same outputs with other numbers, given in their order."""
    left, outputs_with_values = iter(values), []
    for output in outputs:
        rows = tuple(tuple(next(left) for _ in row) for row in output.values)
        outputs_with_values.append(replace(output, values=rows))
    return tuple(outputs_with_values)


def numbers_in(outputs: Outputs) -> int:
    """Return the largest number of numbers in the outputs."""
    return sum(output.numbers for output in outputs)


def notes_on(by_levels: Clique) -> tuple[str, ...]:
    """Notes of an answer on the attributes that its program got by levels."""
    return (_BY_LEVELS.format(", ".join(by_levels)),) if by_levels else ()


def marks_document(
    program: str, outputs: Outputs, dry: Outputs, rules: Rules, notes: tuple[str, ...]
) -> dict[str, Any]:
    """Return the document that the state keeps for a steward and that ``Review.of`` reads."""
    return {
        "program": program,
        "outputs": outputs_to_json(outputs),
        "dry_run": outputs_to_json(dry),
        "limits": PLAIN.write(rules),
        "notes": list(notes),
    }


def answer_of(digest: str, outputs: Outputs, dry: Outputs, notes: tuple[str, ...], base: int = 1) -> Any:
    """Return outputs as an answer: each table, followed by its difference to the synthetic rows.

    Args:
        notes: How the attributes were passed to the program.
        base: Base of which numbers of records are multiples.
    """
    pairs = list(zip(outputs, dry, strict=True))
    tables = [table for output, before in pairs for table in _tables(output, before)]
    multiples = (_MULTIPLES.format(base),) if base > 1 else ()
    notes = (*notes, _SEEN, *multiples)
    return AnalysisAnswer("program", digest, 0.0, tables=tuple(tables), notes=notes).to_json()


def _tables(output: Output, dry: Output) -> Iterator[AnswerTable]:
    differences = tuple(
        tuple(map(_difference, row, before))
        for row, before in zip(output.values, dry.values, strict=True)
    )
    yield AnswerTable(output.name, output.row_names, output.column_names, output.values)
    name = ON_SYNTHETIC_ROWS.format(output.name)
    yield AnswerTable(name, output.row_names, output.column_names, differences)


def _difference(value: Number, before: Number) -> Number:
    return None if value is None or before is None else value - before
