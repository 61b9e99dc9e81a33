"""generate, psi: what an agreed card gives."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from gencard.client.files import folder
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
