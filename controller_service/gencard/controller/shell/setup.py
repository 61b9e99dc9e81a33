"""init, check, enrol, renew: from a file of records to a controller that can be served."""

import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from gencard.controller.drafting import draft
from gencard.controller.enrolment import enrol as enrol_person
from gencard.controller.identities import read_identities
from gencard.controller.readiness import check_cells, check_measures, check_policies
from gencard.controller.records import check_records
from gencard.controller.renewal import renew as renew_certificate
from gencard.controller.settings import Settings
from gencard.controller.shell.terminal import (
    HERE,
    ConfigFile,
    StewardName,
    console,
    desk,
    steward_uri,
    table,
)
from gencard.controller.wiring import tls_files
from gencard.core.errors import InvalidInputError
from gencard.wire.identity import Role


def init(
    folder: Annotated[Path, typer.Argument(help="A new folder for the controller.")],
    data: Annotated[Path, typer.Option("--data", help="The records: FILE.csv or FILE.parquet.")],
) -> None:
    """Draft settings, schema, certificates and keys. Nothing is ever overwritten."""
    _check_file(data, "--data")
    with console.status("Reading the file and making keys"):
        made = draft(folder, data, now=datetime.now(UTC))
    console.print(f"Made [bold]{escape(str(made.folder))}[/]")
    for name in made.left_out:
        console.print(f"  left out: {escape(name)} (a name, a date, a running number, or empty)")
    settings = shlex.quote(str(made.settings))
    _say("\nNext:")
    _say(f"  1. Read {made.schema} line by line: everybody will see it.")
    _say("     Labels and edges were drafted from the records. Then set reviewed = true.")
    _say(f"  2. Read policy and caps in {made.settings}.")
    _say(f"  3. gencard-controller check --config {settings}")
    _say(f"  4. gencard-controller serve --config {settings}")
    _say("  5. Hand over one folder to each person, on a safe way:")
    for person in made.people:
        _say(f"     {person}")


def check(config: ConfigFile = HERE) -> None:
    """Read settings, schemas, keys and every record once; say whether all is in order."""
    settings = Settings.load(config)
    for entry in settings.datasets:
        _check_file(entry.data, f"datasets/{entry.name}: data")
        if entry.holdout is not None:
            _check_file(entry.holdout, f"datasets/{entry.name}: holdout")
    tls_files(settings)
    read_identities(settings.signing.identities)
    with desk(config) as opened:
        check_policies(opened.cards.holdings, opened.boxes.names, opened.boxes.facts)
        check_measures(opened.cards.holdings)
        check_cells(settings)
    found = table("Datasets", "dataset", "attributes", "schema", "records")
    for entry in settings.datasets:
        with console.status(f"Reading {entry.name}"):
            schema = check_records(entry)
        reviewed = "reviewed" if schema.reviewed else "[yellow]not reviewed: serve will refuse[/]"
        found.add_row(entry.name, str(len(schema.coding.attributes)), reviewed, "all declared")
    console.print(found)


def enrol(
    name: Annotated[str, typer.Argument(help="Of a-z, 0-9, '.', '_' and '-'.")],
    role: Annotated[Role, typer.Option(help="What the certificate lets its holder do.")],
    project: Annotated[str, typer.Option(help="Its people share one budget.")],
    again: Annotated[
        bool, typer.Option("--again", help="New keys for somebody enrolled; old cards stay good.")
    ] = False,
    steward: StewardName = None,
    config: ConfigFile = HERE,
) -> None:
    """Make certificate and signing key for one more person."""
    address = Settings.load(config).server.address
    folder = config.absolute().parent
    if again:
        with desk(config) as opened:
            opened.rotation(steward_uri(opened.settings, steward)).note(f"people/{name}")
    person = enrol_person(
        folder, name, role, project, address=address, now=datetime.now(UTC), again=again
    )
    console.print(f"Hand over, on a safe way: [bold]{escape(str(person))}[/]")


def renew(
    certificate: Annotated[
        Path, typer.Argument(help="server/certificate.pem, or the certificate.pem that a person sent.")
    ],
    host: Annotated[
        list[str] | None,
        typer.Option(help="A name or address of the service, in place of the old; may be repeated."),
    ] = None,
    config: ConfigFile = HERE,
) -> None:
    """Put a new certificate in the place of an old one; its key stays. No restart is needed."""
    folder = config.absolute().parent
    ends = renew_certificate(folder, certificate, now=datetime.now(UTC), hosts=host or ())
    console.print(f"{escape(str(certificate))} is good until {ends:%Y-%m-%d}.")


def _check_file(path: Path, field: str) -> None:
    """Raises InvalidInputError where it is not there: to the steward more than "unavailable"."""
    if not path.is_file():
        raise InvalidInputError(field=field, problem=f"there is no file {path}")


def _say(line: str) -> None:
    """One line, never broken: it is to be copied."""
    console.print(escape(line), soft_wrap=True)
