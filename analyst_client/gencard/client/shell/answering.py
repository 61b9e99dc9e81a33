"""answer: an analysis of psi, from a card or from a saved release."""

import shlex
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any

import typer

from gencard.client.answers.answer import Answer
from gencard.client.answers.answering import answer as answer_of_saved
from gencard.client.answers.display import FORMATS
from gencard.client.answers.runs import LIST_HEADS, list_line
from gencard.client.common.files.folder import check_free
from gencard.client.planning import Plan
from gencard.client.question import KINDS
from gencard.client.shell.negotiation import plan_next
from gencard.client.shell.terminal import (
    HERE,
    AsJson,
    CardName,
    Folder,
    Missing,
    ModelFormula,
    connected,
    console,
    say,
    say_json,
    say_table,
)
from gencard.core.errors import InvalidInputError, LackingMarginalsError
from gencard.core.program_outputs import outputs_to_json
from gencard.core.statistics.formula import Analysis

Source = Annotated[str, typer.Argument(help="A card, or a saved release folder.", metavar="CARD|FOLDER")]
LevelValues = Annotated[
    list[str] | None,
    typer.Option(
        "--values",
        help="Numbers that the levels of an attribute stand for, such as age=20,40,70. "
        "Default: midpoints of edges. Repeatable.",
    ),
]
WithdrawnValues = Annotated[list[str] | None, typer.Option("--values", hidden=True)]
"""Refused by controllers, but for a question that was answered before they did."""

Where = Annotated[
    str, typer.Option(help="Only these records, such as \"region == 'North' and age < 40\".")
]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", help="Option of the analysis, such as test=welch. Repeatable."),
]


PsiKind = Annotated[Analysis, typer.Option(help="Type of analysis, see above.", metavar="KIND")]


def answer(
    source: Source,
    formula: ModelFormula,
    kind: PsiKind = Analysis.LOGISTIC,
    values: LevelValues = None,
    where: Where = "",
    missing: Missing = "level",
    option: Options = None,
    csv: Annotated[Path | None, typer.Option("--csv", help="Write the estimates as CSV.")] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Write the coefficients as .svg, .png or .pdf.")
    ] = None,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Answer an analysis from psi: free, any number of times, and offline for a saved release.

    The answer is exactly that of the records where psi is exact; its notes name the numbers that count
    by levels. Where psi has noise, the intervals include it.
    """
    _check_names(csv, plot)
    options = dict(map(_option, option or ()))
    options |= {"values": _values(values or []), "where": where or None, "missing": missing}
    if Path(source).is_dir():
        known = connection if (connection / "certificate.pem").is_file() else None
        result = answer_of_saved(source, formula, kind, connection=known, **options)
    else:
        result = _of_card(source, formula, kind, options, connection)
    _say(result, as_json)
    if csv is not None:
        result.to_csv(csv)
    if plot is not None:
        result.plot().save(plot)
    paths = [str(path) for path in (csv, plot) if path is not None]
    if paths and not as_json:
        say(f"Written: {', '.join(paths)}")


def run(
    card: CardName,
    formula: Annotated[
        str | None, typer.Argument(help="Model formula as in R. Required unless --program is given.")
    ] = None,
    kind: Annotated[str, typer.Option(help="Type of analysis, which the card must grant.")] = "logistic",
    program: Annotated[
        Path | None,
        typer.Option(help="Program in Python or R to run instead; the card must name it by its digest."),
    ] = None,
    dry: Annotated[
        bool, typer.Option("--dry", help="Only run the program here, on the newest synthetic rows.")
    ] = False,
    library: Annotated[
        list[str] | None,
        typer.Option(
            help="A library that the program needs, such as statsmodels or R-survival. Repeatable."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed of the program.")] = 0,
    save: Annotated[
        Path | None,
        typer.Option(help="Write the signed answer into this folder, for `gencard verify`."),
    ] = None,
    values: WithdrawnValues = None,
    where: Where = "",
    missing: Missing = "level",
    option: Options = None,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Run an analysis on the records, once, through output rules. Each released number is charged.

    Repeating a question costs nothing. The answer is signed and in the controller's log. A program
    imports gencard.run, or begins with #!/usr/bin/env Rscript; it runs here on synthetic rows first, and
    a steward releases its numbers.
    """
    if save is not None:
        check_free(save, replace=False)
    if program is not None and formula is None:
        given = {"program": program, "seed": seed}
        given |= {} if dry else {"libraries": library or []}
        _run_program(card, given, connection, save, dry=dry, as_json=as_json)
        return
    if program is not None or dry or library or formula is None:
        problem = "is required unless --program FILE is given"
        raise InvalidInputError(field="formula", problem=problem)
    options = dict(map(_option, option or ()))
    options |= {"values": _values(values or []), "where": where or None, "missing": missing}
    with connected(connection) as analyst:
        _say(_saved(analyst.card(card).run(formula, kind, **options), save), as_json)


def _run_program(
    card: str,
    given: dict[str, Any],
    connection: Path,
    save: Path | None,
    *,
    dry: bool,
    as_json: bool,
) -> None:
    with connected(connection) as analyst:
        if not dry:
            _say(_saved(analyst.card(card).run(**given), save), as_json)
            return
        rehearsed = analyst.card(card).dry_run(**given)
    if as_json:
        say_json({**dict(rehearsed.lines()), **outputs_to_json(rehearsed.outputs)})
    else:
        console.print(rehearsed)


def _saved(answered: Answer, folder: Path | None) -> Answer:
    """The answer, which is in the folder too, where one is named."""
    if folder is not None:
        answered.save(folder)
    return answered


def answers(card: CardName, connection: Folder = HERE, as_json: AsJson = False) -> None:
    """List the runs on the records under a card, newest first."""
    with connected(connection) as analyst:
        runs = list(analyst.card(card).answers())
    if as_json:
        say_json([dict(zip(_RUN_NAMES, list_line(one), strict=True)) for one in runs])
        return
    say_table(LIST_HEADS, map(list_line, runs))


_RUN_NAMES = [head.lower() for head in LIST_HEADS]

answer.__doc__ = "\n".join(
    [
        cleandoc(answer.__doc__ or ""),
        "",
        "\b",
        "Kinds:",
        *(f"  {kind:<15} {what}" for kind, what in KINDS.items()),
    ]
)


def _check_names(csv: Path | None, plot: Path | None) -> None:
    """Refuse a file of another kind before any work."""
    for field, path, kinds in (("csv", csv, (".csv",)), ("plot", plot, FORMATS)):
        if path is not None and path.suffix.lower() not in kinds:
            problem = f"needs a name that ends in {' or '.join(kinds)}"
            raise InvalidInputError(field=field, problem=problem)


def _of_card(name: str, formula: str, kind: str, options: dict[str, Any], connection: Path) -> Answer:
    """Raises LackingMarginalsError with the command that proposes the card that would do."""
    if not name.startswith("datasets/"):
        problem = (
            f"{shlex.quote(name[:80])} is neither a folder nor a card (datasets/DATASET/cards/CARD)"
        )
        raise InvalidInputError(field="source", problem=problem)
    with connected(connection) as analyst:
        try:
            return analyst.card(name).answer(formula, kind, **options)
        except LackingMarginalsError as error:
            if isinstance(error.plan, Plan):
                error.advice = f"For {error.plan.price}: {plan_next(error.plan)}"
            raise


def _option(text: str) -> tuple[str, Any]:
    """A name and its number or word; raises InvalidInputError where there is none."""
    name, _, value = text.partition("=")
    if not (name and value):
        raise InvalidInputError(field="option", problem="must look like test=welch")
    numbers = [_number(part) for part in value.split(",")]
    if None in numbers:
        return name, value
    return name, numbers[0] if len(numbers) == 1 else numbers


def _number(text: str) -> float | int | None:
    """A whole number, another one, or None for a word."""
    try:
        return int(text) if text.strip().lstrip("+-").isdecimal() else float(text)
    except ValueError:
        return None


def _values(texts: list[str]) -> dict[str, list[float]] | None:
    """Raises InvalidInputError where one is not an attribute and numbers."""
    values = {}
    for text in texts:
        name, _, numbers = text.rpartition("=")
        try:
            values[name] = [float(number) for number in numbers.split(",")]
        except ValueError:
            name = ""
        if not name:
            problem = f"{shlex.quote(text[:80])} must look like age=20,40,70"
            raise InvalidInputError(field="values", problem=problem)
    return values or None


def _say(answered: Answer, as_json: bool) -> None:
    if as_json:
        say_json(answered.document())
        return
    console.print(answered)
    if answered.estimates.coefficients is not None:
        for line in answered.plot().bars():
            say(line)
