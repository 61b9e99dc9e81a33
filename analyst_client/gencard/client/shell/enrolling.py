"""enrol: makes keys and a request for the steward, and installs the steward's answer."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from gencard.client.connection.enrolment import (
    PendingRequest,
    install_answer,
    new_request,
    read_answer,
    renewal_request,
)
from gencard.client.shell.terminal import HERE, Folder, console, say, say_next
from gencard.core.errors import InvalidInputError
from gencard.wire.documents.enrolment import PERSONS, answer_of_document, grouped

_WANTED_ROLE = f"Requested role: {', '.join(PERSONS)}. The steward decides."


def enrol(
    name: Annotated[
        str, typer.Argument(help="Your name at this controller: a-z, 0-9, '.', '_' and '-'.")
    ] = "",
    answer: Annotated[Path | None, typer.Option(help="Install the answer from the steward.")] = None,
    renew: Annotated[
        bool, typer.Option("--renew", help="Request a new certificate for your present keys.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Replace your keys with new ones.")] = False,
    role: Annotated[str, typer.Option(help=_WANTED_ROLE)] = "",
    project: Annotated[str, typer.Option(help="Requested project.")] = "",
    connection: Folder = HERE,
) -> None:
    """Enrol at a controller: create keys and a request, then install the steward's answer.

    Private keys stay in your connection folder (-c; default: a folder of your name).
    """
    if answer is not None:
        _install(_folder(connection, _name_in(answer)), answer)
    elif renew:
        folder = _folder(connection, name)
        _say_request(folder, renewal_request(folder))
    elif name:
        folder = _folder(connection, name)
        _say_request(folder, new_request(folder, name, role=role, project=project, again=again))
    else:
        problem = "is missing: give your name, or --answer FILE, or --renew"
        raise InvalidInputError(field="NAME", problem=problem)


def _folder(connection: Path, name: str) -> Path:
    """The connection folder; a folder of the person's name where none was given."""
    return Path(name) if connection == HERE else connection


def _name_in(answer: Path) -> str:
    return answer_of_document(read_answer(answer)).identity.name


def _say_request(folder: Path, request: PendingRequest) -> None:
    say(f"Your private keys are in {folder}. Do not send them to anybody, not even to the steward.")
    console.print()
    say("Next:")
    say(f"  1. Send {request.file} to the controller's steward.")
    say("  2. Give the steward this fingerprint over another channel, for instance by telephone:")
    say(f"     {grouped(request.fingerprint)}")
    say("  3. Install the answer that the steward sends back:")
    say(f"     gencard enrol --answer FILE -c {shlex.quote(str(folder))}")


def _install(folder: Path, answer: Path) -> None:
    installed = install_answer(folder, answer)
    identity = installed.identity
    say(f"You are {identity.name}, {identity.role} in project {identity.project}.")
    say(f"The controller is at {installed.address}.")
    if installed.first:
        console.print()
        say("From now on this folder trusts this controller. Compare this fingerprint, over another")
        say("channel, with the one that the steward sees. If they differ, delete the folder:")
    say(f"  {grouped(installed.fingerprint)}")
    say_next(f"export GENCARD_CONNECTION={shlex.quote(str(folder))}; gencard datasets")
