"""enrol, renew, keys, person: certificates, the controller's signing keys, and who may call."""

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from gencard.controller.base.disk import write_whole
from gencard.controller.people.enrolment import PROJECT, make_people, read_identities
from gencard.controller.people.keys import key_history, read_authority
from gencard.controller.people.keys import renew as renew_certificate
from gencard.controller.settings import Settings
from gencard.controller.shell.terminal import (
    HERE,
    NO_REASON,
    AsJson,
    AuthorityKey,
    ConfigFile,
    Emergency,
    Reason,
    StewardName,
    console,
    controller_state,
    local_desk,
    note_rules,
    say,
    say_json,
    say_table,
    steward_uri,
    table,
)
from gencard.controller.stewards.effects import reachable
from gencard.core.errors import InvalidInputError
from gencard.files import KEY_LIMIT, read_file
from gencard.shell import new_typer
from gencard.wire import keys as wire
from gencard.wire.canonical import time_text
from gencard.wire.dsse import key_id
from gencard.wire.keys import PERSONS, Role, grouped, request_of_document
from gencard.wire.steward import Action, Kind

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
        bool, typer.Option("--again", help="Replace an enrolled person's keys; old cards stay valid.")
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
    text = request_text(request)
    person = request_of_document(text.encode())
    options = {"role": role and str(role), "project": project, "address": address}
    arguments: dict[str, Any] = {name: value for name, value in options.items() if value}
    arguments |= {"request": text} | ({"again": True} if again else {})
    with local_desk(config, steward, emergency=emergency, authority_key=authority_key) as desk:
        view = desk.desk.request(desk.who, arguments)
        say(_EFFECT[view.kind])
        say(f"  name         {view.name}")
        for field, value, requested in (
            ("role", view.role, view.requested_role),
            ("project", view.project, view.requested_project),
        ):
            difference = f" (the request says {requested})" if requested not in ("", value) else ""
            say(f"  {field:12} {value}{difference}")
        say(f"  fingerprint  {grouped(view.fingerprint)}")
        if fingerprint is None:  # as received over a second channel
            typer.confirm(f"Is this the fingerprint that {person.name} gave you?", abort=True)
        arguments["fingerprint"] = person.fingerprint if fingerprint is None else fingerprint
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


def request_text(file: Path) -> str:
    """Return the text of a request's file; raises InvalidInputError."""
    return read_file(file, "request", KEY_LIMIT).decode(errors="replace")


keys_app = new_typer(
    help="List or replace the keys that sign cards and the log.", invoke_without_command=True
)


class KeyUse(StrEnum):
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


# person: people are added, listed, disabled and enabled.


app = new_typer(help="Add, list, disable or enable people; give stewards passkeys.")


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="Name of the person.")],
    role: Annotated[Role, typer.Option(help=f"Role to grant: {', '.join(PERSONS)}.")],
    project: Annotated[str, typer.Option(help="Project, whose members share one budget.")] = PROJECT,
    request: Annotated[
        Path | None, typer.Option(help="The person's request. Default: NAME-request.json.")
    ] = None,
    fingerprint: Fingerprint = None,
    keys_here: Annotated[
        bool,
        typer.Option(
            "--keys-here",
            help="Trials only: create the person's keys in this controller's folder, so that its "
            "operator could sign in their name.",
        ),
    ] = False,
    authority_key: AuthorityKey = None,
    reason: Reason = None,
    emergency: Emergency = False,
    steward: StewardName = None,
    config: ConfigFile = HERE,
) -> None:
    """Enrol a person from a request made by `gencard enrol NAME`."""
    if keys_here:
        folder, now = config.absolute().parent, datetime.now(UTC)
        authority = read_authority(folder / "authority", authority_key)
        address = reachable(Settings.load(config).server.address)
        make_people(folder, authority, {name: role}, project, address=address, now=now)
        say(f"{name} is enrolled as {role} of project {project}.")
        say(f"Keys, for trials only: {folder / 'people' / name}")
        note_rules(config, steward)
        action = Action(Kind.ENROL, f"people/{name}", {"keysHere": True}, reason or NO_REASON)
        with local_desk(config, steward) as desk:
            desk.desk.note_alone(desk.who, action)
        return
    file = request or Path(f"{name}-request.json")
    if not file.is_file():
        problem = f"there is no file {file}; {name} must run `gencard enrol {name}` and send it to you"
        raise InvalidInputError(field="request", problem=problem)
    if (requested := request_of_document(request_text(file).encode()).name) != name:
        raise InvalidInputError(field="name", problem=f"is {requested!r} in {file}")
    enrol(
        file,
        role,
        project,
        fingerprint=fingerprint,
        authority_key=authority_key,
        reason=reason,
        emergency=emergency,
        steward=steward,
        config=config,
    )


@app.command(name="disable")
def disable_person(
    name: Annotated[str, typer.Argument(help="Name of the person.")],
    reason: Reason = None,
    emergency: Emergency = False,
    steward: StewardName = None,
    config: ConfigFile = HERE,
) -> None:
    """Disable a person from the next call on. What they signed stays valid; the name stays taken."""
    with local_desk(config, steward, emergency=emergency) as desk:
        result = desk.decide(Kind.DISABLE, f"people/{name}", reason)
    if result is not None:
        note_rules(config, steward)
        say(f"{name} is disabled. To undo it: gencard-controller person enable {name}")


@app.command()
def enable(
    name: Annotated[str, typer.Argument(help="Name of the person.")],
    reason: Reason = None,
    emergency: Emergency = False,
    steward: StewardName = None,
    config: ConfigFile = HERE,
) -> None:
    """Enable a disabled person, with the same keys and certificate."""
    with local_desk(config, steward, emergency=emergency) as desk:
        result = desk.decide(Kind.ENABLE, f"people/{name}", reason)
    if result is not None:
        note_rules(config, steward)
        say(f"{name} is enabled.")


@app.command()
def passkey(
    name: Annotated[str, typer.Argument(help="Name of the steward.")],
    remove: Annotated[
        str | None,
        typer.Option(help="Remove the passkeys whose fingerprints begin with this, or `all`."),
    ] = None,
    steward: StewardName = None,
    config: ConfigFile = HERE,
) -> None:
    """Print a link for a steward to make a passkey. It works once, for 15 minutes."""
    settings = Settings.load(config)
    holder = _steward(settings, name, removing=remove is not None)
    with controller_state(config) as state:
        actor = steward_uri(settings, steward)
        if remove is not None:
            removed = state.passkeys.remove(holder, actor, "" if remove == "all" else remove)
            say(
                f"Removed: {removed} passkey{'' if removed == 1 else 's'} of {name}. Their "
                "sessions end too."
            )
            return
        token = state.passkeys.new_link(holder, actor)
        passkeys = state.passkeys.of(holder)
    say(f"{name} must open this link within 15 minutes. It works once; nobody else may get it:")
    say(f"  {_page_origin(settings)}/passkey#{token}")
    for one in passkeys:
        say(f"{name} has a passkey already: {one.key[:16]}, made {one.created:%Y-%m-%d}")


def _steward(settings: Settings, name: str, *, removing: bool) -> str:
    for uri, person in read_identities(settings.signing.identities).items():
        if person.identity.name != name:
            continue
        if person.identity.role is not Role.STEWARD and not removing:
            raise InvalidInputError(field="name", problem=f"{name} is not a steward")
        if person.disabled and not removing:
            problem = f"{name} is disabled; run `gencard-controller person enable {name}` first"
            raise InvalidInputError(field="name", problem=problem)
        return uri
    problem = f"nobody is enrolled as {name!r}; `gencard-controller person list` names everybody"
    raise InvalidInputError(field="name", problem=problem)


def _page_origin(settings: Settings) -> str:
    if settings.page is None:
        problem = "is not in the settings; add [page], and restart the service"
        raise InvalidInputError(field="page", problem=problem)
    if settings.page.origin:
        return settings.page.origin
    port = settings.page.address.rpartition(":")[2]
    if port == "0":
        problem = "must name the port, or page.origin must, for links to lead to the page"
        raise InvalidInputError(field="page.address", problem=problem)
    return f"https://localhost:{port}"


@app.command(name="list")
def list_people(config: ConfigFile = HERE, as_json: AsJson = False) -> None:
    """List people, their certificates and last log entries."""
    with local_desk(config, None) as desk:
        views = desk.desk.people(desk.who)
    documents = [
        {
            "name": person.identity.name,
            "role": person.identity.role,
            "project": person.identity.project,
            "certificate until": f"{end:%Y-%m-%d}" if (end := person.certificate_until) else "",
            "last in the log": time_text(person.last_seen) if person.last_seen else "",
            "state": "disabled" if person.disabled else "enabled",
        }
        for person in views
    ]
    say_table("People", documents, as_json)
