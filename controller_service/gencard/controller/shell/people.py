"""enrol, renew, keys: people's certificates, and the controller's signing keys."""

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from gencard.controller.people.certificates import read_authority, trust_domain_of
from gencard.controller.people.certificates import renew as renew_certificate
from gencard.controller.people.enrolment import (
    Enrolment,
    Kind,
    complete,
    examined,
)
from gencard.controller.people.signing_keys import key_history
from gencard.controller.settings.disk import write_whole
from gencard.controller.settings.settings import Settings
from gencard.controller.shell.terminal import (
    HERE,
    AsJson,
    AuthorityKey,
    ConfigFile,
    StewardName,
    console,
    controller_state,
    say,
    say_json,
    steward_uri,
    table,
)
from gencard.core.errors import InvalidInputError
from gencard.shell import new_typer
from gencard.wire.documents import key_history as wire
from gencard.wire.documents.enrolment import (
    LARGEST,
    PERSONS,
    EnrolmentRequest,
    grouped,
    request_of_document,
)
from gencard.wire.signatures.dsse import key_id
from gencard.wire.signatures.identity import Role

Fingerprint = Annotated[
    str | None,
    typer.Option(help="Fingerprint that the person gave you. Default: you are asked to compare."),
]

_EFFECT = {
    Kind.NEW: "Enrol a new person.",
    Kind.RENEWED: "Renew the certificate; the keys stay as they are.",
    Kind.REPLACED: "Replace the keys; the old signing key signs no more, what it signed stays valid.",
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
    steward: StewardName = None,
    config: ConfigFile = HERE,
) -> None:
    """Enrol a person who sent a request, and write the answer for the person to install.

    Also renews certificates (requested by `gencard enrol --renew`) and, with --again, replaces keys.
    """
    folder, person = config.absolute().parent, read_request(request)
    authority = read_authority(folder / "authority", authority_key)
    domain = trust_domain_of(authority)
    enrolment = examined(folder, person, domain, role=role, project=project, again=again)
    where = reachable(address or Settings.load(config).server.address)
    _say_what(enrolment)
    _compare(person, fingerprint)
    with controller_state(config) as opened:
        rotation = opened.rotation(steward_uri(opened.settings, steward))
        rotation.note_enrolment(person.name, enrolment.facts)
    answer = complete(folder, enrolment, authority, address=where, now=datetime.now(UTC))
    file = output or Path(f"{person.name}-answer.json")
    write_whole(file, [answer.document])
    say(f"Written: {file}. Send it to {person.name}, who runs: gencard enrol --answer {file.name}")
    say("Fingerprint of the answer; it must match the one that this command shows:")
    say(f"  {grouped(answer.fingerprint)}")


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
    """The request in a file; raises InvalidInputError."""
    try:
        with file.open("rb") as opened:
            content = opened.read(LARGEST)
    except OSError:
        raise InvalidInputError(field="request", problem=f"there is no file {file}") from None
    return request_of_document(content)


def _say_what(enrolment: Enrolment) -> None:
    """Print whom this enrols, as what, and where role or project differ from the request."""
    identity, request = enrolment.identity, enrolment.request
    say(_EFFECT[enrolment.kind])
    say(f"  name         {identity.name}")
    for field, given, wanted in (
        ("role", identity.role, request.role),
        ("project", identity.project, request.project),
    ):
        say(
            f"  {field:12} {given}{f' (the request says {wanted})' if wanted not in ('', given) else ''}"
        )
    say(f"  fingerprint  {grouped(request.fingerprint)}")


def reachable(address: str) -> str:
    """The address for the person; raises InvalidInputError if it names no host to connect to."""
    if address.rpartition(":")[0] in ("", "0.0.0.0", "[::]"):  # noqa: S104 - to refuse it
        problem = f"{address} names no host to connect to; give one with --address"
        raise InvalidInputError(field="address", problem=problem)
    return address


def _compare(request: EnrolmentRequest, fingerprint: str | None) -> None:
    """Compare the fingerprint with the one received over a second channel.

    Raises:
        InvalidInputError: The given fingerprint differs.
        Abort: The steward answers that it differs.
    """
    if fingerprint is None:
        typer.confirm(f"Is this the fingerprint that {request.name} gave you?", abort=True)
    elif "".join(fingerprint.split()).lower() != request.fingerprint:
        problem = "does not match the request, which may have been changed in transit"
        raise InvalidInputError(field="fingerprint", problem=problem)


keys_app = new_typer(help="Keys that sign cards and the log.", invoke_without_command=True)


class Use(StrEnum):
    """What a key signs."""

    CARDS = wire.CARDS
    LOG = wire.LOG


@keys_app.callback()
def show_keys(context: typer.Context, config: ConfigFile = HERE, as_json: AsJson = False) -> None:
    """List signing keys and when each was in use."""
    if context.invoked_subcommand is not None:
        return
    with controller_state(config) as opened, opened.database.reading() as tx:
        periods = [
            (key.use, key_id(period.key), period.since, period.until)
            for key in opened.keys.values()
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
        Use | None, typer.Argument(help="What the key signs. Default: rotate both keys.")
    ] = None,
    steward: StewardName = None,
    config: ConfigFile = HERE,
) -> None:
    """Replace a signing key. Earlier signatures stay valid. Needs no restart."""
    with controller_state(config) as opened:
        rotation = opened.rotation(steward_uri(opened.settings, steward))
        for rotated_use in Use if use is None else (use,):
            change = rotation.rotate(rotated_use)
            old, new = key_id(change.previous)[:16], key_id(change.key)[:16]
            console.print(f"[bold]{rotated_use}[/]: key {new} replaces {old}.")
    console.print(
        "[dim]Analysts' clients accept the new key automatically, since the old one signed it.[/]"
    )
    console.print("[dim]Back up the key folder and state/ together now.[/]")
