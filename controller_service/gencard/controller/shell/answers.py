"""answers list, show, release, refuse: what of a run on the records may leave, number by number."""

from typing import Annotated, Any

import typer
from rich.markup import escape

from gencard.analysis.output_checks.rules import Colour
from gencard.controller.answers.decisions import STEWARD
from gencard.controller.cards.released import question_of
from gencard.controller.shell.terminal import (
    HERE,
    AsJson,
    ConfigFile,
    Emergency,
    Reason,
    StewardName,
    console,
    local_desk,
    say,
    say_json,
    table,
)
from gencard.controller.stewards.answers import summary_of
from gencard.core.program_outputs import DIGITS, Number
from gencard.shell import new_typer, visible
from gencard.wire.signatures.canonical import time_text
from gencard.wire.signatures.identity import short_name
from gencard.wire.steward import AnswerReview, AnswerSummary, Kind, ReviewedNumber

app = new_typer(help="Show, release or refuse answers waiting for a steward.", no_args_is_help=True)

AnswerName = Annotated[str, typer.Argument(help="datasets/DATASET/cards/CARD/answers/ANSWER")]

_STYLES = {Colour.GREEN: "green", Colour.AMBER: "yellow", Colour.RED: "red"}


@app.command("list")
def list_answers(config: ConfigFile = HERE, as_json: AsJson = False) -> None:
    """List the answers waiting for a steward, oldest first."""
    with local_desk(config, None) as desk:
        rows = desk.desk.answers(desk.who)
    if as_json:
        say_json([_facts(summary_of(row)) for row in rows])
        return
    for row in rows:
        console.print(f"[bold]{row.name}[/]", soft_wrap=True)
        question = question_of(row)
        console.print(f"  {short_name(row.submitter)}  {question.kind}  {time_text(row.created)}")
    if not rows:
        console.print("No answers waiting.")


@app.command()
def show(
    name: AnswerName,
    program: Annotated[bool, typer.Option("--program", help="Print only the program's text.")] = False,
    config: ConfigFile = HERE,
    as_json: AsJson = False,
) -> None:
    """Show every number of a waiting answer, with its mark. The dry run's number stands beside it."""
    with local_desk(config, None) as desk:
        view = desk.desk.answer(desk.who, name)
    if not view.summary.reviewed:
        say_json({**_facts(view.summary), "answer": view.document, "marks": view.marks})
    elif program:
        typer.echo(visible(view.program.expandtabs(4)))
    elif as_json:
        say_json({**_facts(view.summary), "numbers": [_cell_document(cell) for cell in view.cells]})
    else:
        _say(view)


@app.command()
def release(
    name: AnswerName,
    withhold: Annotated[
        list[str] | None,
        typer.Option(help="Numbers to hold back: OUTPUT, OUTPUT/ROW or OUTPUT/ROW/COLUMN. Repeatable."),
    ] = None,
    digits: Annotated[
        int | None, typer.Option(min=1, max=DIGITS, help="Round all numbers to this number of digits.")
    ] = None,
    red: Annotated[
        bool, typer.Option("--red", help="Release red numbers too; by default they are held back.")
    ] = False,
    reason: Reason = None,
    emergency: Emergency = False,
    config: ConfigFile = HERE,
    steward: StewardName = None,
) -> None:
    """Release an answer, signed and logged. By default, its green and amber numbers are released."""
    arguments: dict[str, Any] = {"withhold": withhold} if withhold else {}
    arguments |= ({} if digits is None else {"digits": digits}) | ({"red": True} if red else {})
    with local_desk(config, steward, emergency=emergency) as desk:
        result = desk.decide(Kind.RELEASE_ANSWER, name, reason, **arguments)
    if result is not None:
        charged, entry = result["statistics"], result["log_index"]
        say(f"Released {name}: {charged} numbers charged, log entry {entry}.")


@app.command()
def refuse(
    name: AnswerName,
    reason: Annotated[str, typer.Option(help="Code of the reason, shown to the analyst.")] = STEWARD,
    config: ConfigFile = HERE,
    steward: StewardName = None,
) -> None:
    """Refuse an answer: no number is released. The refusal is signed and costs one statistic."""
    with local_desk(config, steward) as desk:
        result = desk.decide(Kind.REFUSE_ANSWER, name, reason, code=reason)
    if result is not None:
        charged, entry = result["statistics"], result["log_index"]
        say(f"Refused {name}: {charged} statistic charged, log entry {entry}.")


def _say(view: AnswerReview) -> None:
    run = view.summary
    console.print(f"[bold]{run.name}[/]", soft_wrap=True)
    console.print(f"  analyst   {short_name(run.analyst)}")
    console.print(f"  program   {run.question.formula} (show --program prints it)", soft_wrap=True)
    cells = view.cells
    if view.reasons:
        console.print(f"  no output: {', '.join(view.reasons)} on the records; it can only be refused")
    for output in dict.fromkeys(cell.output for cell in cells):
        lines = table(escape(output), "row", "column", "records", "dry run", "mark", "rules")
        for cell in (one for one in cells if one.output == output):
            colour = cell.mark
            mark = f"[{_STYLES[colour]}]{colour}[/]"
            values = _text(cell.value), _text(cell.dry)
            lines.add_row(escape(cell.row), escape(cell.column), *values, mark, ", ".join(cell.marks))
        console.print(lines)
    colours = [cell.mark for cell in cells]
    counts = ", ".join(f"{colours.count(colour)} {colour}" for colour in Colour)
    console.print(
        f"{len(cells)} numbers: {counts}. Read the program: marks rely on the counts that it reports."
    )


def _text(value: Number) -> str:
    return "missing" if value is None else f"{value:.{DIGITS}g}"


def _facts(run: AnswerSummary) -> dict[str, Any]:
    return {
        "name": run.name,
        "analyst": run.analyst,
        "kind": run.question.kind,
        "formula": run.question.formula,
        "created": time_text(run.time),
    }


def _cell_document(cell: ReviewedNumber) -> dict[str, Any]:
    facts = {name: getattr(cell, name) for name in ("output", "row", "column", "value", "dry")}
    marks = {"mark": cell.mark, "rules": list(cell.rules)}
    return facts | marks | {"leaves": cell.leaving}
