"""person: who may call: added, listed, disabled and enabled."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from cryptography.x509 import load_pem_x509_certificate
from rich.markup import escape

from gencard.controller.people.certificates import LEAF_LIFE, read_authority
from gencard.controller.people.enrolment import PROJECT, disable, make_people
from gencard.controller.people.identities import read_identities
from gencard.controller.settings.settings import Settings
from gencard.controller.shell.people import Fingerprint, enrol, reachable, read_request
from gencard.controller.shell.terminal import (
    HERE,
    AsJson,
    AuthorityKey,
    ConfigFile,
    StewardName,
    console,
    controller_state,
    note_rules,
    say,
    say_json,
    table,
)
from gencard.controller.state.events import Event, event_of
from gencard.core.errors import InvalidInputError
from gencard.shell import new_typer
from gencard.wire.documents.enrolment import PERSONS
from gencard.wire.signatures.canonical import time_text
from gencard.wire.signatures.identity import Role

app = new_typer(help="Add, list, disable or enable people.")


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
            help="Trials only: make the person's keys in this controller's folder, so that its operator "
            "could sign in their name.",
        ),
    ] = False,
    authority_key: AuthorityKey = None,
    steward: StewardName = None,
    config: ConfigFile = HERE,
) -> None:
    """Enrol a person, by the request that `gencard enrol NAME` made on the person's machine."""
    if keys_here:
        _make_person(config, {name: role}, project, authority_key)
        note_rules(config, steward)
        return
    file = request or Path(f"{name}-request.json")
    if not file.is_file():
        problem = f"there is no file {file}; {name} runs `gencard enrol {name}` and sends it"
        raise InvalidInputError(field="request", problem=problem)
    if (requested := read_request(file).name) != name:
        raise InvalidInputError(field="name", problem=f"is {requested!r} in {file}")
    enrol(
        file,
        role,
        project,
        fingerprint=fingerprint,
        authority_key=authority_key,
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
    steward: StewardName = None,
    config: ConfigFile = HERE,
) -> None:
    """Refuse a person from the next call on. What they signed stays valid; the name stays taken."""
    disable(config.absolute().parent, name)
    note_rules(config, steward)
    say(f"{name} is disabled. To undo it: gencard-controller person enable {name}")


@app.command()
def enable(
    name: Annotated[str, typer.Argument(help="Name of the person.")],
    steward: StewardName = None,
    config: ConfigFile = HERE,
) -> None:
    """Let a disabled person in again, with the same keys and certificate."""
    disable(config.absolute().parent, name, disabled=False)
    note_rules(config, steward)
    say(f"{name} is enabled.")


@app.command(name="list")
def list_people(config: ConfigFile = HERE, as_json: AsJson = False) -> None:
    """List people with role, project, end of the certificate, and their last entry in the log."""
    enrolled = read_identities(Settings.load(config).signing.identities)
    with controller_state(config) as opened, opened.database.reading() as tx:
        seen, certified = _times(event_of(entry.body) for entry in opened.log.entries(tx))
    listed = [
        {
            "name": person.identity.name,
            "role": str(person.identity.role),
            "project": person.identity.project,
            "certificate until": _certificate_end(config, person.identity.name, certified),
            "last in the log": seen.get(uri, ""),
            "state": "disabled" if person.disabled else "enabled",
        }
        for uri, person in enrolled.items()
    ]
    if as_json:
        say_json(listed)
        return
    people = table("People", *(listed[0] if listed else ("name",)))
    for document in listed:
        people.add_row(*map(escape, document.values()))
    console.print(people)


def _times(events: Iterable[Event]) -> tuple[dict[str, str], dict[str, datetime]]:
    """When each URI last acted, and when each name was last given a certificate."""
    seen: dict[str, str] = {}
    certified: dict[str, datetime] = {}
    for event in events:
        seen[event.actor] = time_text(event.time)
        if event.action == "enrol":
            certified[event.resource.removeprefix("people/")] = event.time
    return seen, certified


def _certificate_end(config: Path, name: str, certified: Mapping[str, datetime]) -> str:
    """The day on which the certificate ends; empty where nothing here says it."""
    file = config.absolute().parent / "people" / name / "certificate.pem"
    if file.is_file():
        return f"{load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc:%Y-%m-%d}"
    return f"{certified[name] + LEAF_LIFE:%Y-%m-%d}" if name in certified else ""
