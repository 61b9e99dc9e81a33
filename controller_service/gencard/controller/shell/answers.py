"""answers list, show, release, refuse: what of a run on the records may leave, number by number."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from gencard.controller.answers.decisions import STEWARD, AnswerDesk, Outcome, question_of
from gencard.controller.answers.review import Cell, Review
from gencard.controller.shell.terminal import (
    HERE,
    AsJson,
    ConfigFile,
    StewardName,
    console,
    controller_state,
    plain,
    say,
    say_json,
    steward_uri,
    table,
)
from gencard.controller.state.runs import RunRow, RunTier
from gencard.core.errors import InvalidInputError
from gencard.core.output_checks.rules import Colour
from gencard.core.program_outputs import DIGITS, Number
from gencard.shell import new_typer
from gencard.wire.signatures.canonical import time_text

app = new_typer(help="Show, release or refuse answers that wait for a steward.", no_args_is_help=True)

AnswerName = Annotated[str, typer.Argument(help="datasets/DATASET/cards/CARD/answers/ANSWER")]

_STYLES = {Colour.GREEN: "green", Colour.AMBER: "yellow", Colour.RED: "red"}


@app.command("list")
def list_answers(config: ConfigFile = HERE, as_json: AsJson = False) -> None:
    """List the answers that wait for a steward, oldest first."""
    with _desk(config, None) as desk:
        rows = desk.waiting()
    if as_json:
        say_json([_facts(row) for row in rows])
        return
    for row in rows:
        console.print(f"[bold]{row.name}[/]", soft_wrap=True)
        question = question_of(row)
        console.print(f"  {plain(row.submitter)}  {question.kind}  {time_text(row.created)}")
    if not rows:
        console.print("No answers waiting.")


@app.command()
def show(
    name: AnswerName,
    program: Annotated[bool, typer.Option("--program", help="Print the program's text alone.")] = False,
    config: ConfigFile = HERE,
    as_json: AsJson = False,
) -> None:
    """Show every number that waits, beside that of the dry run, with its mark and the rule."""
    with _desk(config, None) as desk:
        row, outcome = desk.show(name)
    if row.tier is RunTier.CHECKED:
        say_json({**_facts(row), "answer": outcome.answer, "marks": outcome.marks})
        return
    review = Review.of(outcome)
    if program:
        typer.echo(review.program)
    elif as_json:
        say_json({**_facts(row), "numbers": [_cell_document(cell) for cell in review.cells()]})
    else:
        _say(row, review)


@app.command()
def release(
    name: AnswerName,
    withhold: Annotated[
        list[str] | None,
        typer.Option(help="Numbers to hold back: OUTPUT, OUTPUT/ROW or OUTPUT/ROW/COLUMN. Repeatable."),
    ] = None,
    digits: Annotated[
        int | None, typer.Option(min=1, max=DIGITS, help="Round all numbers to so many digits.")
    ] = None,
    red: Annotated[
        bool, typer.Option("--red", help="Release red numbers too; by default they are held back.")
    ] = False,
    config: ConfigFile = HERE,
    steward: StewardName = None,
) -> None:
    """Release an answer: green and amber numbers, unless options say otherwise; signed and logged."""
    with _desk(config, steward) as desk:
        row, outcome = desk.show(name)
        if row.tier is RunTier.REVIEWED:
            ended = _release_part(desk, row, outcome, withhold or [], digits, red=red)
        elif withhold or digits is not None or red:
            problem = "goes with programs; our own analyses are released or refused as a whole"
            raise InvalidInputError(field="option", problem=problem)
        else:
            ended = desk.release(name)
    say(f"Released {name}: {ended.statistics} numbers charged, log entry {ended.log_index}.")


@app.command()
def refuse(
    name: AnswerName,
    reason: Annotated[str, typer.Option(help="Code of the reason, which the analyst gets.")] = STEWARD,
    config: ConfigFile = HERE,
    steward: StewardName = None,
) -> None:
    """Refuse an answer: no number leaves; the refusal is signed and costs one statistic."""
    with _desk(config, steward) as desk:
        ended = desk.refuse(name, (reason,))
    say(f"Refused {name}: {ended.statistics} statistic charged, log entry {ended.log_index}.")


@contextmanager
def _desk(config: Path, steward: str | None) -> Iterator[AnswerDesk]:
    with controller_state(config) as opened:
        yield opened.answer_desk(steward_uri(opened.settings, steward))


def _release_part(
    desk: AnswerDesk,
    row: RunRow,
    outcome: Outcome,
    withheld: list[str],
    digits: int | None,
    *,
    red: bool,
) -> RunRow:
    digest = question_of(row).formula
    answer, numbers, codes = Review.of(outcome).released(digest, withheld, digits, red=red)
    return desk.release(row.name, answer, numbers, codes)


def _say(row: RunRow, review: Review) -> None:
    console.print(f"[bold]{row.name}[/]", soft_wrap=True)
    console.print(f"  analyst   {plain(row.submitter)}")
    console.print(f"  program   {question_of(row).formula} (show --program prints it)", soft_wrap=True)
    cells = list(review.cells())
    for output in review.outputs:
        lines = table(escape(output.name), "row", "column", "records", "dry run", "mark", "rules")
        for cell in (one for one in cells if one.output == output.name):
            colour = cell.verdict.colour
            mark = f"[{_STYLES[colour]}]{colour}[/]"
            values = _text(cell.value), _text(cell.dry)
            lines.add_row(
                escape(cell.row), escape(cell.column), *values, mark, ", ".join(cell.verdict.broken)
            )
        console.print(lines)
    colours = [cell.verdict.colour for cell in cells]
    counts = ", ".join(f"{colours.count(colour)} {colour}" for colour in Colour)
    console.print(f"{len(cells)} numbers: {counts}. A mark is worth what the program's text is.")


def _text(value: Number) -> str:
    return "missing" if value is None else f"{value:.{DIGITS}g}"


def _facts(row: RunRow) -> dict[str, Any]:
    question = question_of(row)
    return {
        "name": row.name,
        "analyst": row.submitter,
        "kind": question.kind,
        "formula": question.formula,
        "created": time_text(row.created),
    }


def _cell_document(cell: Cell) -> dict[str, Any]:
    facts = {name: getattr(cell, name) for name in ("output", "row", "column", "value", "dry")}
    return facts | {"mark": cell.verdict.colour, "rules": list(cell.verdict.broken)}
