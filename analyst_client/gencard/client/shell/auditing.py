"""audit: does a generator use more than the card says."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gencard.client.files.folder import make_folder, write_bytes
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
