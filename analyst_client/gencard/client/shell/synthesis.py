"""generate, synthesize, psi, audit, canaries: what a card gives, and whether its box keeps to it."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from gencard.client.agreement import Release
from gencard.client.catalogue import AUTO
from gencard.client.common.arguments import Where
from gencard.client.common.files import folder
from gencard.client.common.files.folder import ROWS, make_folder, write_bytes
from gencard.client.common.files.limits import is_folder
from gencard.client.common.files.rows import check_rows_fit, has_apostrophes
from gencard.client.shell.terminal import (
    HERE,
    AimKind,
    AsJson,
    CardName,
    DatasetName,
    Delta,
    Epsilon,
    Folder,
    Generator,
    PlannedFormula,
    Relation,
    Rho,
    Weight,
    connected,
    console,
    measured,
    needs,
    say,
    say_json,
    say_table,
)
from gencard.core.card.budget import Neighbouring
from gencard.core.statistics.formula import Analysis
from gencard.run.levels import ValueForm
from gencard.wire.psi import psi_document

Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        help="A .csv, .parquet, .dta, .sav or .xlsx file for the rows; or a name without an ending: a "
        "folder with all documents.",
    ),
]

_PREVIEW_ROWS, _PREVIEW_COLUMNS = 5, 8


def generate(
    name: CardName,
    rows: Annotated[int, typer.Option(help="Number of rows, up to the card's limit.")],
    output: Output,
    seed: Annotated[int, typer.Option(help="Random seed. Card, psi and seed determine every byte.")] = 0,
    values: Annotated[
        ValueForm,
        typer.Option(help="Form of attributes with edges: numbers, intervals as levels, or midpoints."),
    ] = "numbers",
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite existing files.")] = False,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Generate rows and download them. They are written after their digest and receipt are verified."""
    file = _file_of(output, replace=replace)
    with connected(connection) as analyst:
        card = analyst.card(name)
        agreed = card.agreement
        check_rows_fit(file, agreed.coding, agreed.domain.attributes, rows, values)
        folder.make_folder(output.parent)
        with tempfile.TemporaryDirectory(dir=output.parent) as scratch:
            release = card.release(rows, seed=seed, scratch=Path(scratch))
        _keep(release, output, values=values, replace=replace)
    _say_written(release, output, values, as_json)


def synthesize(
    dataset: DatasetName,
    rows: Annotated[int, typer.Option(help="Number of rows.")],
    output: Output,
    formula: PlannedFormula = None,
    kind: AimKind = None,
    purpose: Annotated[
        str | None, typer.Option(help="What the data will be used for. Default: the plan in words.")
    ] = None,
    generator: Generator = AUTO,
    seed: Annotated[int, typer.Option(help="Random seed. Card, psi and seed determine every byte.")] = 0,
    epsilon: Epsilon = None,
    rho: Rho = None,
    delta: Delta = None,
    neighbouring: Relation = None,
    weight: Weight = None,
    values: Annotated[
        ValueForm,
        typer.Option(help="Form of attributes with edges: numbers, intervals as levels, or midpoints."),
    ] = "numbers",
    yes: Annotated[bool, typer.Option("--yes", help="Sign the offer without confirmation.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite existing files.")] = False,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Generate rows for an analysis, or of all columns: plan, show the offer, confirm, sign, generate.

    A card in force with the same terms is used again. Without a terminal, --yes is required.
    """
    file = _file_of(output, replace=replace)
    folder.make_folder(output.parent)
    needs("--kind", kind, "a formula", formula)
    how = measured(epsilon, rho, delta, neighbouring, weight)
    with connected(connection) as analyst:
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
        _keep(release, output, values=values, replace=replace)
    _say_written(release, output, values, as_json)


def _say_written(release: Release, output: Path, values: ValueForm, as_json: bool) -> None:
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
    with connected(connection) as analyst:
        document = psi_document(analyst.card(name).psi)
    if output is None:
        typer.echo(document)
        return
    folder.write_bytes(output, document)
    say(f"Written: {output}")


def _file_of(output: Path, *, replace: bool) -> Path:
    """The file for the rows; raises InvalidInputError for a place or name that cannot be used."""
    file = output / ROWS if is_folder(output) else output
    folder.check_free(output, replace=replace)
    return file


def _keep(release: Release, output: Path, *, values: ValueForm, replace: bool) -> None:
    if is_folder(output):
        release.save(output, values=values, replace=replace)
    else:
        release.write(output, values=values)


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
    page: Annotated[
        Path | None, typer.Option("--html", help="Write the report as an HTML page.")
    ] = None,
    report: Annotated[Path | None, typer.Option("--report", help="Write the report as JSON.")] = None,
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
    with connected(connection) as analyst:
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
    from gencard.client.canary_audit import CanaryTerms, canary_audit  # noqa: PLC0415 - scipy.stats

    terms = CanaryTerms(neighbouring, number, records, rows, delta, radius, beta=beta)
    with connected(connection) as analyst:
        outcome = canary_audit(analyst.card(name).agreement, black_box, terms)
    say_json(outcome.document()) if as_json else console.print(outcome)
