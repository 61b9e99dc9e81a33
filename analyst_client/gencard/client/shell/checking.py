"""verify, replay: trust nothing, and need no controller for it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from gencard.client.bundle import Bundle
from gencard.client.credentials import Credentials, public_key
from gencard.client.files import read_rows
from gencard.client.key_watch import known_history
from gencard.client.replay import Replayed
from gencard.client.shell.terminal import HERE, AsJson, Folder, console, say, say_json, say_table
from gencard.client.text import plain
from gencard.client.verify import OWN, Check, Keys, Outcome, rebuild, with_fingerprint
from gencard.client.verify import verify as verify_bundle
from gencard.core.errors import InvalidInputError, VerificationError
from gencard.wire.key_history import CARDS, LOG, KeyHistory

ControllerKey = Annotated[
    Path | None, typer.Option(help="The controller's public key for cards; else the connection's.")
]
AnalystKey = Annotated[
    Path | None, typer.Option(help="The public key of the analyst on the card; else your own.")
]
AnalystFingerprint = Annotated[
    str | None,
    typer.Option(help="The fingerprint that the analyst told you; the analyst's key must have it."),
]
LogKey = Annotated[Path | None, typer.Option(help="The log's public key; else the connection's.")]
_MARK = {Outcome.PASSED: "✓", Outcome.FAILED: "✗", Outcome.NOTED: "·"}


def verify(
    paths: Annotated[list[Path], typer.Argument(help="Folders or files that were kept.")],
    controller_key: ControllerKey = None,
    analyst_key: AnalystKey = None,
    analyst_fingerprint: AnalystFingerprint = None,
    log_key: LogKey = None,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Check signatures and digests of card, schema, psi, receipts, rows, log and verdicts."""
    keys = _keys(connection, controller_key, analyst_key, log_key)
    if analyst_fingerprint is not None:
        keys = with_fingerprint(keys, analyst_fingerprint)
    checks = verify_bundle(Bundle.of(paths), keys, datetime.now(UTC))
    if as_json:
        say_json([{"what": c.what, "outcome": c.outcome, "detail": c.detail} for c in checks])
    else:
        _show(checks)
    if any(check.outcome is Outcome.FAILED for check in checks):
        raise typer.Exit(1)


def replay(
    paths: Annotated[list[Path] | None, typer.Argument(help="A folder that was kept.")] = None,
    card: Annotated[Path | None, typer.Option(help="The signed card.")] = None,
    psi: Annotated[Path | None, typer.Option(help="psi, as it was released.")] = None,
    receipt: Annotated[Path | None, typer.Option(help="The signed receipt.")] = None,
    schema: Annotated[Path | None, typer.Option(help="The schema; else beside the card.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Rows to compare, .csv or .parquet; else those in the folder.")
    ] = None,
    controller_key: ControllerKey = None,
    analyst_key: AnalystKey = None,
    connection: Folder = HERE,
) -> None:
    """Make a release again from psi, card and seed, and compare every byte with the rows kept."""
    beside = None if card is None else schema or card.parent / "schema.json"
    files = [file for file in (*(paths or ()), card, psi, receipt, beside, data) if file is not None]
    if not files:
        raise InvalidInputError(field="paths", problem="name a folder, or --card, --psi and --receipt")
    keys, bundle = _keys(connection, controller_key, analyst_key, None), Bundle.of(files)
    with console.status("Replaying"):
        found, dataset, coding = rebuild(bundle, keys)
        for file in bundle.all("rows"):
            if read_rows(file.path, coding, dataset.domain).digest() != found.rows_digest:
                raise VerificationError(
                    problem=f"the rows in {file.path.name} are not those of the receipt"
                )
    say(str(Replayed.of(found)))


def _keys(folder: Path, controller: Path | None, analyst: Path | None, log: Path | None) -> Keys:
    """Those that were named, else the connection's with all that followed them."""
    credentials = Credentials.of_folder(folder)
    return Keys(
        _named(controller, "controller_key", CARDS) or known_history(credentials, CARDS),
        (public_key(analyst, "analyst_key"),) if analyst else credentials.public_signing_keys(),
        _named(log, "log_key", LOG) or known_history(credentials, LOG),
        f"from {analyst.name}; whoever gave you that file vouches for it" if analyst else OWN,
    )


def _named(file: Path | None, field: str, use: str) -> KeyHistory | None:
    return None if file is None else KeyHistory(public_key(file, field), use)


def _show(checks: list[Check]) -> None:
    lines = [(f"{_MARK[check.outcome]} {check.outcome}", check.what, check.detail) for check in checks]
    say_table(("", "What", "Found"), lines)
    failed = [check.what for check in checks if check.outcome is Outcome.FAILED]
    if failed:
        console.print(f"[bold red]Do not use these data:[/] {plain(', '.join(failed))}.")
    else:
        console.print("[bold green]Everything agrees.[/]")
