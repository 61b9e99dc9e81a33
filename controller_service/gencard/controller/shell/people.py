"""enrol, renew, keys: people's certificates, and the controller's signing keys."""

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from gencard.controller.base.disk import write_whole
from gencard.controller.people.certificates import renew as renew_certificate
from gencard.controller.people.signing_keys import key_history
from gencard.controller.shell.terminal import (
    HERE,
    AsJson,
    AuthorityKey,
    ConfigFile,
    Emergency,
    Reason,
    StewardName,
    console,
    controller_state,
    local_desk,
    say,
    say_json,
    table,
)
from gencard.controller.stewards.people import RequestView
from gencard.files import KEY_LIMIT, read_file
from gencard.shell import new_typer
from gencard.wire import keys as wire
from gencard.wire.dsse import key_id
from gencard.wire.keys import (
    PERSONS,
    EnrolmentRequest,
    Role,
    grouped,
    request_of_document,
)
from gencard.wire.steward import Kind

Fingerprint = Annotated[
    str | None,
    typer.Option(help="Fingerprint that the person gave you. Default: you are asked to compare."),
]

_EFFECT = {
    "new": "Enrol a new person.",
    "renewed": "Renew the certificate; the keys stay the same.",
    "replaced": "Replace the keys; the old signing key can no longer sign, but what it signed stays "
    "valid. Passkeys are removed.",
}


def enrol(
    request: Annotated[Path, typer.Argument(help="Enrolment request, made by: gencard enrol NAME.")],
    role: Annotated[
        Role | None, typer.Option(help=f"Role to grant: {', '.join(PERSONS)}. Overrides the request.")
    ] = None,
    project: Annotated[
        str | None, typer.Option(help="Project, whose members share one budget. Overrides the request.")
    ] = None,
    fingerprint: Fingerprint = None,
    output: Annotated[
        Path | None, typer.Option(help="File for the answer. Default: NAME-answer.json.")
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="host:port for the person. Default: the address in the settings.")
    ] = None,
    again: Annotated[
        bool,
        typer.Option("--again", help="Replace an enrolled person's keys; old cards stay valid."),
    ] = False,
    authority_key: AuthorityKey = None,
    reason: Reason = None,
    emergency: Emergency = False,
    steward: StewardName = None,
    config: ConfigFile = HERE,
) -> None:
    """Enrol a person who sent a request, and write the answer for the person to install.

    Also renews certificates (requested by `gencard enrol --renew`) and, with --again, replaces keys.
    """
    person = read_request(request)
    options = {"role": role and str(role), "project": project, "address": address}
    arguments: dict[str, Any] = {name: value for name, value in options.items() if value}
    arguments |= {"request": request_text(request)} | ({"again": True} if again else {})
    with local_desk(config, steward, emergency=emergency, authority_key=authority_key) as desk:
        view = desk.desk.request(desk.who, arguments)
        _say_what(view)
        arguments["fingerprint"] = _compared(person, fingerprint)
        result = desk.decide(Kind.ENROL, f"people/{person.name}", reason, **arguments)
    if result is None:
        return
    file = output or Path(f"{person.name}-answer.json")
    write_whole(file, [result["answer"].encode()])
    say(f"Written: {file}. Send it to {person.name}, who runs: gencard enrol --answer {file.name}")
    say("Fingerprint of the answer; it must match the one that this command shows:")
    say(f"  {grouped(result['fingerprint'])}")


def renew(
    certificate: Annotated[
        Path, typer.Argument(help="server/certificate.pem, or a person's certificate.pem.")
    ],
    host: Annotated[
        list[str] | None,
        typer.Option(help="Name or address of the service, replacing the old ones. Repeatable."),
    ] = None,
    authority_key: AuthorityKey = None,
    config: ConfigFile = HERE,
) -> None:
    """Renew a certificate in place, for the same key. Needs no restart."""
    folder = config.absolute().parent
    ends = renew_certificate(
        folder, certificate, now=datetime.now(UTC), hosts=host or (), authority_key=authority_key
    )
    console.print(f"{escape(str(certificate))} is valid until {ends:%Y-%m-%d}.")


def read_request(file: Path) -> EnrolmentRequest:
    """Return the request in a file; raises InvalidInputError."""
    return request_of_document(request_text(file).encode())


def request_text(file: Path) -> str:
    """Return the text of a request's file; raises InvalidInputError."""
    return read_file(file, "request", KEY_LIMIT).decode(errors="replace")


def _say_what(view: RequestView) -> None:
    """Print the person to enrol, role and project, and where they differ from the request."""
    say(_EFFECT[view.kind])
    say(f"  name         {view.name}")
    for field, value, requested in (
        ("role", view.role, view.requested_role),
        ("project", view.project, view.requested_project),
    ):
        difference = f" (the request says {requested})" if requested not in ("", value) else ""
        say(f"  {field:12} {value}{difference}")
    say(f"  fingerprint  {grouped(view.fingerprint)}")


def _compared(request: EnrolmentRequest, fingerprint: str | None) -> str:
    """Return the fingerprint as received over a second channel.

    Raises:
        Abort: The steward answers that it differs.
    """
    if fingerprint is None:
        typer.confirm(f"Is this the fingerprint that {request.name} gave you?", abort=True)
        return request.fingerprint
    return fingerprint


keys_app = new_typer(
    help="List or replace the keys that sign cards and the log.", invoke_without_command=True
)


class KeyUse(StrEnum):
    """Uses of signing keys."""

    CARDS = wire.CARDS
    LOG = wire.LOG


@keys_app.callback()
def show_keys(context: typer.Context, config: ConfigFile = HERE, as_json: AsJson = False) -> None:
    """List signing keys and when each was in use."""
    if context.invoked_subcommand is not None:
        return
    with controller_state(config) as state, state.database.reading() as tx:
        periods = [
            (key.use, key_id(period.key), period.since, period.until)
            for key in state.keys.values()
            for period in key_history(tx, key).periods
        ]
    if as_json:
        say_json([dict(zip(("use", "key", "since", "until"), line, strict=True)) for line in periods])
        return
    keys = table("Signing keys", "signs", "key", "in use from", "until")
    for use, key, since, until in periods:
        keys.add_row(use, key[:16], since or "the start", until or "now")
    console.print(keys)


@keys_app.command()
def rotate(
    use: Annotated[
        KeyUse | None, typer.Argument(help="What the key signs. Default: rotate both keys.")
    ] = None,
    reason: Reason = None,
    emergency: Emergency = False,
    steward: StewardName = None,
    config: ConfigFile = HERE,
) -> None:
    """Replace a signing key. Earlier signatures stay valid. Needs no restart."""
    with local_desk(config, steward, emergency=emergency) as desk:
        for rotated_use in KeyUse if use is None else (use,):
            result = desk.decide(Kind.ROTATE, f"keys/{rotated_use}", reason)
            if result is not None:
                old, new = result["previous_key"][:16], result["key"][:16]
                console.print(f"[bold]{rotated_use}[/]: key {new} replaces {old}.")
    if result is None:
        return
    console.print(
        "[dim]Analysts' clients accept the new key automatically, since the old one signed it.[/]"
    )
    console.print("[dim]Back up the key folder and state/ together now.[/]")
