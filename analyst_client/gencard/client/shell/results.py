"""answer, run, generate, synthesize, psi, audit, canaries: what a card gives, and audits of it."""

import shlex
import tempfile
from contextlib import suppress
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any

import typer

from gencard.client.agreement import Release
from gencard.client.analyst import Analyst
from gencard.client.answers.answer import FORMATS, Answer
from gencard.client.answers.answering import LIST_HEADS, list_line
from gencard.client.answers.answering import answer as answer_of_saved
from gencard.client.catalogue import AUTO
from gencard.client.common.arguments import KINDS, Where
from gencard.client.common.formats import ROWS, check_free, is_folder, make_folder, write_bytes
from gencard.client.common.rows import check_rows_fit, has_apostrophes
from gencard.client.planning import Plan
from gencard.client.shell.negotiation import plan_next
from gencard.client.shell.terminal import (
    HERE,
    AimKind,
    AsJson,
    CardName,
    DatasetName,
    Folder,
    Generator,
    HtmlFile,
    JsonFile,
    Missing,
    ModelFormula,
    NoiseOptions,
    PlannedFormula,
    console,
    needs,
    say,
    say_json,
    say_table,
    with_groups,
)
from gencard.core.card.budget import Neighbouring
from gencard.core.errors import InvalidInputError, LackingMarginalsError
from gencard.core.program_outputs import outputs_to_json
from gencard.core.statistics.formula import Analysis
from gencard.run.levels import ValueForm
from gencard.wire.psi import psi_document

# answer, run, answers: an analysis of psi, from a card or a saved release, or of the records.

Source = Annotated[str, typer.Argument(help="A card, or a saved release folder.", metavar="CARD|FOLDER")]
WhereFormula = Annotated[
    str, typer.Option(help="Only these records, such as \"region == 'North' and age < 40\".")
]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", help="Option of the analysis, such as test=welch. Repeatable."),
]


def answer(
    source: Source,
    formula: ModelFormula,
    kind: Annotated[
        Analysis, typer.Option(help="Type of analysis, see above.", metavar="KIND")
    ] = Analysis.LOGISTIC,
    values: Annotated[
        list[str] | None,
        typer.Option(
            help="Numbers that the levels of an attribute stand for, such as age=20,40,70. "
            "Default: midpoints of edges. Repeatable."
        ),
    ] = None,
    where: WhereFormula = "",
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
    for field, path, kinds in (("csv", csv, (".csv",)), ("plot", plot, FORMATS)):
        if path is not None and path.suffix.lower() not in kinds:
            problem = f"needs a name that ends in {' or '.join(kinds)}"
            raise InvalidInputError(field=field, problem=problem)
    options = dict(map(_option, option or ()))
    options |= {"values": _values(values or []), "where": where or None, "missing": missing}
    if Path(source).is_dir():
        known = connection if (connection / "certificate.pem").is_file() else None
        result = answer_of_saved(source, formula, kind, connection=known, **options)
    elif source.startswith("datasets/"):
        with Analyst.connect(folder=connection) as analyst:
            try:
                result = analyst.card(source).answer(formula, kind, **options)
            except LackingMarginalsError as error:
                if isinstance(error.plan, Plan):
                    error.advice = f"For {error.plan.price}: {plan_next(error.plan)}"
                raise
    else:
        given = shlex.quote(source[:80])
        problem = f"{given} is neither a folder nor a card (datasets/DATASET/cards/CARD)"
        raise InvalidInputError(field="source", problem=problem)
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
        Path | None, typer.Option(help="Write the signed answer into this folder, for `gencard verify`.")
    ] = None,
    # refused by controllers, but for a question that was answered before they did
    values: Annotated[list[str] | None, typer.Option(hidden=True)] = None,
    where: WhereFormula = "",
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
    options: dict[str, Any]
    if program is not None and formula is None:
        options = {"program": program, "seed": seed, "libraries": library or []}
    elif program is not None or dry or library or formula is None:
        raise InvalidInputError(field="formula", problem="is required unless --program FILE is given")
    else:
        options = dict(map(_option, option or ()))
        options |= {"values": _values(values or []), "where": where or None, "missing": missing}
    with Analyst.connect(folder=connection) as analyst:
        if program is None or not dry:
            answered = analyst.card(card).run(formula, kind, **options)
            if save is not None:
                answered.save(save)
            _say(answered, as_json)
            return
        rehearsed = analyst.card(card).dry_run(program, seed=seed)
    if as_json:
        say_json({**dict(rehearsed.lines()), **outputs_to_json(rehearsed.outputs)})
    else:
        console.print(rehearsed)


def answers(card: CardName, connection: Folder = HERE, as_json: AsJson = False) -> None:
    """List the runs on the records under a card, newest first."""
    with Analyst.connect(folder=connection) as analyst:
        runs = list(analyst.card(card).answers())
    if as_json:
        names = [head.lower() for head in LIST_HEADS]
        say_json([dict(zip(names, list_line(one), strict=True)) for one in runs])
        return
    say_table(LIST_HEADS, map(list_line, runs))


answer.__doc__ = "\n".join(
    [
        f"{cleandoc(answer.__doc__ or '')}\n\n\b\nKinds:",
        *(f"  {kind:<15} {KINDS[kind]}" for kind in KINDS),
    ]
)


def _option(text: str) -> tuple[str, Any]:
    """A name and its number or word; raises InvalidInputError where there is none."""
    name, _, value = text.partition("=")
    if not (name and value):
        raise InvalidInputError(field="option", problem="must look like test=welch")
    with suppress(ValueError):
        numbers = [
            int(part) if part.strip().lstrip("+-").isdecimal() else float(part)
            for part in value.split(",")
        ]
        return name, numbers[0] if len(numbers) == 1 else numbers
    return name, value


def _values(texts: list[str]) -> dict[str, list[float]] | None:
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


# generate, synthesize, psi, audit, canaries.

Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        help="A .csv, .parquet, .dta, .sav or .xlsx file for the rows; or a name without an ending: a "
        "folder with all documents.",
    ),
]

Seed = Annotated[int, typer.Option(help="Random seed. Card, psi and seed determine every byte.")]
Form = Annotated[
    ValueForm,
    typer.Option(help="Form of attributes with edges: numbers, intervals as levels, or midpoints."),
]

_PREVIEW_ROWS, _PREVIEW_COLUMNS = 5, 8


def generate(
    name: CardName,
    rows: Annotated[int, typer.Option(help="Number of rows, up to the card's limit.")],
    output: Output,
    seed: Seed = 0,
    values: Form = "numbers",
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite existing files.")] = False,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Generate rows and download them. They are written after their digest and receipt are verified."""
    file = output / ROWS if is_folder(output) else output
    check_free(output, replace=replace)
    with Analyst.connect(folder=connection) as analyst:
        card = analyst.card(name)
        agreed = card.agreement
        check_rows_fit(file, agreed.coding, agreed.domain.attributes, rows, values)
        make_folder(output.parent)
        with tempfile.TemporaryDirectory(dir=output.parent) as scratch:
            release = card.release(rows, seed=seed, scratch=Path(scratch))
        _keep(release, output, values, replace=replace, as_json=as_json)


@with_groups
def synthesize(
    dataset: DatasetName,
    rows: Annotated[int, typer.Option(help="Number of rows.")],
    output: Output,
    formula: PlannedFormula = None,
    *,
    kind: AimKind = None,
    purpose: Annotated[
        str | None, typer.Option(help="What the data will be used for. Default: the plan in words.")
    ] = None,
    generator: Generator = AUTO,
    seed: Seed = 0,
    noise: NoiseOptions,
    values: Form = "numbers",
    yes: Annotated[bool, typer.Option("--yes", help="Sign the offer without confirmation.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite existing files.")] = False,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Generate rows for an analysis, or of all columns: plan, show the offer, confirm, sign, generate.

    A card in force with the same terms is used again. Without a terminal, --yes is required.
    """
    file = output / ROWS if is_folder(output) else output
    check_free(output, replace=replace)
    make_folder(output.parent)
    needs("--kind", kind, "a formula", formula)
    how = noise.measured()
    with Analyst.connect(folder=connection) as analyst:
        release = analyst.synthesize(
            dataset,
            formula,
            rows=rows,
            kind=kind or Analysis.LOGISTIC,
            purpose=purpose,
            generator=generator,
            seed=seed,
            accept=yes,
            file=file,
            values=values,
            **how,
        )
        _keep(release, output, values, replace=replace, as_json=as_json)


def _keep(release: Release, output: Path, values: ValueForm, *, replace: bool, as_json: bool) -> None:
    """Write rows, and in a folder all documents; show what they are and the first rows."""
    if is_folder(output):
        release.save(output, values=values, replace=replace)
    else:
        release.write(output, values=values)
    if as_json:
        say_json({**dict(release.lines()), "Output": str(output)})
        return
    console.print(release)
    names = release.dataset.domain.attributes
    first, more = release.head(_PREVIEW_ROWS, values=values), len(names) - _PREVIEW_COLUMNS
    columns = f", {_PREVIEW_COLUMNS} of {len(names)} columns" if more > 0 else ""
    say(f"The first {len(first)} of {release.receipt.rows:,} rows{columns}:")
    say_table(names[:_PREVIEW_COLUMNS], [row[:_PREVIEW_COLUMNS] for row in first])
    say(f"Written: {output}")
    if output.suffix.lower() == ".csv" and has_apostrophes(release.coding, release.dataset.domain):
        say(
            "Empty labels, and those that a spreadsheet would run as formulas, begin with an apostrophe."
        )


def psi(
    name: CardName,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write. Default: standard output.")
    ] = None,
    connection: Folder = HERE,
) -> None:
    """Download psi, the measured statistics of the card, as JSON."""
    with Analyst.connect(folder=connection) as analyst:
        document = psi_document(analyst.card(name).psi)
    if output is None:
        typer.echo(document)
        return
    write_bytes(output, document)
    say(f"Written: {output}")


def audit(
    name: CardName,
    black_box: Annotated[
        str | None, typer.Option(help="Black box. Default: the card's generator.")
    ] = None,
    where: Annotated[
        Where, typer.Option(help="Audit on made-up records, or on the card's real records.")
    ] = Where.MADE_UP,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    runs: Annotated[
        int | None, typer.Option(help="Runs on each side of each step. Default: as on the card.")
    ] = None,
    resume: Annotated[
        str, typer.Option(help="With --where card: operation of a cancelled audit to continue.")
    ] = "",
    page: HtmlFile = None,
    report: JsonFile = None,
    attestation: Annotated[
        Path | None, typer.Option(help="Write the controller's signed verdict.")
    ] = None,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Audit a black box, or the card's generator. Always exits 0; the verdict is in the output."""
    paths = [path for path in (page, report, attestation) if path is not None]
    for path in paths:
        make_folder(path.parent)
    with Analyst.connect(folder=connection) as analyst:
        outcome = analyst.card(name).audit(black_box, where=where, seed=seed, runs=runs, resume=resume)
    say_json(dict(outcome.lines())) if as_json else console.print(outcome)
    if page is not None:
        outcome.report.save_html(page)
    if report is not None:
        outcome.report.save_json(report)
    if attestation is not None:
        write_bytes(attestation, outcome.attestation)
    if paths and not as_json:
        say(f"Written: {', '.join(map(str, paths))}")


def canaries(
    name: CardName,
    neighbouring: Annotated[Neighbouring, typer.Option(help="Neighbouring relation of the claims.")],
    black_box: Annotated[str, typer.Option(help="Black box. Default: the card's generator.")] = "",
    number: Annotated[int, typer.Option(help="Number of canaries; half of them are inserted.")] = 400,
    records: Annotated[int, typer.Option(help="Number of made-up records besides the canaries.")] = 400,
    rows: Annotated[
        int | None, typer.Option(help="Rows to generate. Default: as many as records.")
    ] = None,
    delta: Annotated[float, typer.Option(help="Delta of (epsilon, delta) claims.")] = 1e-6,
    radius: Annotated[
        int, typer.Option(help="Number of attributes in which a matching row may differ.")
    ] = 0,
    beta: Annotated[float, typer.Option(help="Probability that a bound is too high.")] = 0.05,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Compute a lower bound of epsilon: insert canaries, run a black box, search for them.

    Always exits 0.
    """
    from gencard.client.audit import CanaryTerms, canary_audit  # noqa: PLC0415 - scipy.stats

    terms = CanaryTerms(neighbouring, number, records, rows, delta, radius, beta=beta)
    with Analyst.connect(folder=connection) as analyst:
        outcome = canary_audit(analyst.card(name).agreement, black_box, terms)
    say_json(outcome.document()) if as_json else console.print(outcome)
