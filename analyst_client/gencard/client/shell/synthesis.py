"""generate, psi, audit, canaries: what an agreed card gives, and whether its generator keeps to it."""

import tempfile
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gencard.client.files import folder
from gencard.client.files.folder import make_folder, write_bytes
from gencard.client.files.rows import has_formulas
from gencard.client.release import Release
from gencard.client.shell.terminal import (
    HERE,
    AsJson,
    CardName,
    Folder,
    connected,
    console,
    say,
    say_json,
)
from gencard.core.card.budget import Neighbouring
from gencard.wire.documents.psi_document import psi_document

Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        help="A .csv or .parquet for the rows; any other name is a folder that gencard verify checks.",
    ),
]


def generate(
    name: CardName,
    rows: Annotated[int, typer.Option(help="How many; at most the card's.")],
    output: Output,
    seed: Annotated[int, typer.Option(help="With psi and the card it fixes every byte.")] = 0,
    intervals: Annotated[
        bool, typer.Option("--intervals", help="Intervals by name, and no numbers drawn inside them.")
    ] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Write over what is there.")] = False,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Have rows made and fetch them; they appear only once digest and receipt were checked."""
    folder.check_free(output, replace=replace)
    folder.make_folder(output.parent)
    with (
        tempfile.TemporaryDirectory(dir=output.parent) as scratch,
        connected(connection) as analyst,
    ):
        release = analyst.card(name).release(rows, seed=seed, scratch=Path(scratch))
        _keep(release, output, intervals=intervals, replace=replace)
    if as_json:
        say_json({**dict(release.lines()), "Output": str(output)})
        return
    console.print(release)
    say(f"Written: {output}")
    if output.suffix.lower() == ".csv" and has_formulas(release.coding, release.dataset.domain):
        say("Labels that a spreadsheet would run as formulas begin with an apostrophe in the file.")


def psi(
    name: CardName,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file; the screen where not given.")
    ] = None,
    connection: Folder = HERE,
) -> None:
    """Fetch psi, the statistics that the card released, as JSON."""
    with connected(connection) as analyst:
        document = psi_document(analyst.card(name).psi)
    if output is None:
        typer.echo(document)
        return
    folder.write_bytes(output, document)
    say(f"psi is in {output}")


def _keep(release: Release, output: Path, *, intervals: bool, replace: bool) -> None:
    if output.suffix.lower() in (".csv", ".parquet"):
        release.write(output, intervals=intervals)
    else:
        release.save(output, intervals=intervals, replace=replace)


class Where(StrEnum):
    """Around which records."""

    MADE_UP = "made-up"
    CARD = "card"


def audit(
    name: CardName,
    black_box: Annotated[str | None, typer.Option(help="Else the card's own generator.")] = None,
    where: Annotated[Where, typer.Option(help="Around made-up records, or those at the card.")] = (
        Where.MADE_UP
    ),
    seed: Annotated[int, typer.Option(help="Of everything that is drawn.")] = 0,
    runs: Annotated[int | None, typer.Option(help="On each side of each step; else the card's.")] = None,
    resume: Annotated[
        str, typer.Option(help="At the card: a cancelled audit's operation, to be carried on.")
    ] = "",
    page: Annotated[Path | None, typer.Option("--html", help="Write the report as a page.")] = None,
    report: Annotated[Path | None, typer.Option("--report", help="Write the report as JSON.")] = None,
    attestation: Annotated[
        Path | None, typer.Option(help="Write the controller's signed verdict.")
    ] = None,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Audit a black box, or the card's own generator. Exit code 0 whatever the verdict is."""
    written = [path for path in (page, report, attestation) if path is not None]
    for path in written:
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
    if written and not as_json:
        say(f"Written: {', '.join(map(str, written))}")


def canaries(
    name: CardName,
    neighbouring: Annotated[Neighbouring, typer.Option(help="What the claims mean by neighbouring.")],
    black_box: Annotated[str, typer.Option(help="Else the card's own generator.")] = "",
    number: Annotated[int, typer.Option(help="Canaries; half of them are put in.")] = 400,
    records: Annotated[int, typer.Option(help="Other records, made up.")] = 400,
    rows: Annotated[int | None, typer.Option(help="Asked for; else as many as the dataset has.")] = None,
    delta: Annotated[float, typer.Option(help="Of claims (epsilon, delta).")] = 1e-6,
    radius: Annotated[int, typer.Option(help="In how many attributes a row found may differ.")] = 0,
    beta: Annotated[float, typer.Option(help="Probability that any bound is too high.")] = 0.05,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Plant canaries in made-up records, run a black box, look for them. Exit code 0 whatever comes."""
    from gencard.client.canary_audit import CanaryTerms, canary_audit  # noqa: PLC0415 - scipy.stats

    terms = CanaryTerms(neighbouring, number, records, rows, delta, radius, beta=beta)
    with connected(connection) as analyst:
        outcome = canary_audit(analyst.card(name).agreement, black_box, terms)
    say_json(outcome.document()) if as_json else console.print(outcome)
