"""person: who may call: added, listed, disabled and enabled."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from gencard.controller.people.certificates import read_authority
from gencard.controller.people.enrolment import PROJECT, make_people, read_identities
from gencard.controller.settings.settings import Settings
from gencard.controller.shell.people import Fingerprint, enrol, read_request
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
    steward_uri,
    table,
)
from gencard.controller.stewards.people import reachable
from gencard.core.errors import InvalidInputError
from gencard.shell import new_typer
from gencard.wire.canonical import time_text
from gencard.wire.keys import PERSONS, Role
from gencard.wire.steward import Action, Kind

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
        _make_person(config, {name: role}, project, authority_key)
        note_rules(config, steward)
        action = Action(Kind.ENROL, f"people/{name}", {"keysHere": True}, reason or NO_REASON)
        with local_desk(config, steward) as desk:
            desk.desk.note_alone(desk.who, action)
        return
    file = request or Path(f"{name}-request.json")
    if not file.is_file():
        problem = f"there is no file {file}; {name} must run `gencard enrol {name}` and send it to you"
        raise InvalidInputError(field="request", problem=problem)
    if (requested := read_request(file).name) != name:
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


def _make_person(
    config: Path, people: Mapping[str, Role], project: str, authority_key: Path | None
) -> None:
    folder = config.absolute().parent
    authority = read_authority(folder / "authority", authority_key)
    address = reachable(Settings.load(config).server.address)
    make_people(folder, authority, people, project, address=address, now=datetime.now(UTC))
    for name, role in people.items():
        say(f"{name} is enrolled as {role} of project {project}.")
        say(f"Keys, for trials only: {folder / 'people' / name}")


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
    """URI of an enrolled steward; raises InvalidInputError."""
    for uri, person in read_identities(settings.signing.identities).items():
        if person.identity.name != name:
            continue
        if person.identity.role is not Role.STEWARD and not removing:
            raise InvalidInputError(field="name", problem=f"{name} is not a steward")
        if person.disabled and not removing:
            problem = f"{name} is disabled; run `gencard-controller person enable {name}` first"
            raise InvalidInputError(field="name", problem=problem)
        return uri
    raise InvalidInputError(
        field="name",
        problem=f"nobody is enrolled as {name!r}; `gencard-controller person list` names everybody",
    )


def _page_origin(settings: Settings) -> str:
    """Return the address of the page for browsers; raises InvalidInputError."""
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
            "certificate until": _day(person.certificate_until),
            "last in the log": time_text(person.last_seen) if person.last_seen else "",
            "state": "disabled" if person.disabled else "enabled",
        }
        for person in views
    ]
    if as_json:
        say_json(documents)
        return
    people = table("People", *(documents[0] if documents else ("name",)))
    for document in documents:
        people.add_row(*map(escape, document.values()))
    console.print(people)


def _day(time: datetime | None) -> str:
    return "" if time is None else f"{time:%Y-%m-%d}"
