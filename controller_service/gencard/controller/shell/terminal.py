"""Shared by all commands: console, controller state, options and tables."""

import getpass
import json
import os
import pwd
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gencard.controller.backup import is_served
from gencard.controller.controller_state import ControllerState
from gencard.controller.people.enrolment import read_identities
from gencard.controller.settings import Settings
from gencard.controller.state.log import Event, kept_rules
from gencard.controller.state.sharing import fence_of_machine
from gencard.controller.stewards.desk import DecisionChannel, Desk
from gencard.controller.wiring.opening import (
    InForce,
    RuleLog,
    digest_of,
    open_controller_state,
    rules_of,
)
from gencard.core.errors import GencardError, InvalidInputError, StorageError
from gencard.wire.keys import Identity, Role
from gencard.wire.steward import Action, Kind

console = Console(highlight=False)

ConfigFile = Annotated[
    Path,
    typer.Option(
        "--config", "-c", envvar="GENCARD_CONTROLLER", help="The controller's settings, controller.toml."
    ),
]
SheetName = Annotated[
    str, typer.Option("--sheet", help="Sheet of a workbook; needed if several hold values.")
]
SkippedRows = Annotated[
    int,
    typer.Option(
        "--skip", min=0, help="Rows of that sheet before the names of the columns, such as a title."
    ),
]
StewardName = Annotated[
    str | None, typer.Option("--steward", help="Name of the acting steward. Default: your login name.")
]
AuthorityKey = Annotated[
    Path | None, typer.Option(help="The authority's private key, if not in the controller's folder.")
]
Reason = Annotated[str | None, typer.Option(help="Reason, in one line, recorded in the log.")]
Emergency = Annotated[
    bool,
    typer.Option(
        "--emergency", help="Decide alone where two stewards are required; recorded in the log."
    ),
]
NO_REASON = "none given"
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask again.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
HERE = Path("controller.toml")


@contextmanager
def controller_state(config: Path) -> Iterator[ControllerState]:
    """State and cards of the controller, closed at the end.

    Writes raise NotLeadingError if controllers share the state and another machine's has led last.
    """
    settings = Settings.load(config)
    fence = fence_of_machine(settings.state.database_url, settings.state.folder)
    state = open_controller_state(settings, fence=fence)
    try:
        yield state
    finally:
        state.database.close()


@dataclass(frozen=True, slots=True)
class LocalDesk:
    """The stewards' desk in a local shell, under the steward's name; the log names the account too.

    It works without a service, and so in an emergency.
    """

    opened: ControllerState
    desk: Desk
    who: Identity

    def decide(
        self, kind: Kind, resource: str, reason: str | None, shown: str = "", **arguments: Any
    ) -> Mapping[str, str] | None:
        """Decide, on what ``shown`` is the digest of; None if a second steward has to agree."""
        shown = shown or self.desk.preview(self.who, kind, resource, arguments).shown
        action = Action(kind, resource, arguments, reason or NO_REASON, shown)
        decision = self.desk.decide(self.who, action, str(uuid4()))
        if decision.done:
            return decision.result
        say(
            f"Two stewards must decide: {resource} waits for another steward until "
            f"{decision.expires:%Y-%m-%d}."
        )
        say("The other steward runs the same command with --steward, from their own account.")
        say("In an emergency, --emergency decides alone; the log says so.")
        return None


def reason_for_good(question: str, reason: str, yes: bool) -> str:
    """Return the reason for an irreversible decision, after a confirmation at a terminal, or Abort."""
    if yes or not sys.stdin.isatty():
        for option, value in (("--yes", yes), ("--reason", reason)):
            if not value:
                problem = "is required without a terminal, or with --yes: this cannot be undone"
                raise InvalidInputError(field=option, problem=problem)
        return reason
    typer.confirm(question, abort=True)
    return reason or str(typer.prompt("Reason, for the log"))


@contextmanager
def local_desk(
    config: Path, steward: str | None, *, emergency: bool = False, authority_key: Path | None = None
) -> Iterator[LocalDesk]:
    """Open the desk, for decisions under the steward's name.

    Decisions apply the rules as the files state them now; changes since then are logged first.
    """
    with controller_state(config) as state:
        _log_rules(state, steward)
        who = Identity.of(steward_uri(state.settings, steward))
        channel = DecisionChannel("local", pwd.getpwuid(os.getuid()).pw_name, emergency)
        yield LocalDesk(state, state.desk(channel, authority_key), who)


AHEAD_ADVICE = (
    "Set the clock and keep it synchronised with NTP. If the clock is right and was ahead before, run "
    "`gencard-controller log correct-clock`."
)


def ahead_text(ahead: Event, now: datetime) -> str:
    """Name a log entry that lies ahead of the clock, and how far."""
    length = ahead.time - now
    numbers = ((length // timedelta(**{unit: 1}), unit) for unit in ("days", "hours", "minutes"))
    lengths = (f"{number:,} {unit}" for number, unit in numbers if number > 1)
    return (
        f"log entry {ahead.index} ({ahead.time:%Y-%m-%d %H:%M:%S} UTC) is "
        f"{next(lengths, f'{length.total_seconds():.0f} seconds')} ahead of this machine's clock; "
        "cards, links and sessions end by the later of the two"
    )


def note_rules(config: Path, steward: str | None) -> None:
    """Log rules that a command has just changed under the steward's name, once there is a log."""
    try:
        with controller_state(config) as state:
            with state.database.reading() as tx:
                has_log = bool(kept_rules(tx))
            if has_log:
                _log_rules(state, steward)
    except GencardError as error:
        say(f"The change is made, but could not be recorded in the log yet: {error}")


PATIENCE = 10.0
"""Seconds to wait until the running service has read a change; it looks at the files each second."""


def service_statement(config: Path) -> InForce | None:
    """Statement of the running service after it has read the files as they are now; None without one.

    After ``PATIENCE`` the statement may be older: its digest then differs from that of the files.
    """
    settings = Settings.load(config)
    folder, digest, end = settings.state.folder, digest_of(config, settings), time.monotonic() + PATIENCE
    with console.status("Waiting until the running service has read the settings"):
        while is_served(folder):
            statement = InForce.read(folder)
            unwatched = statement.caps and not statement.digest
            if statement.digest == digest or unwatched or time.monotonic() > end:
                return statement
            time.sleep(0.1)
    return None


def say_in_force(config: Path, caps_of: str = "") -> InForce | None:
    """Print what the service enforces of the settings, and ``caps_of``; return its statement."""
    try:
        statement = service_statement(config)
    except StorageError:
        say("Whether a service is running is not known: this account may not read the state's folder.")
        return None
    if statement is None:
        say("No service is running on this machine; the settings take effect at its next start.")
        return None
    if caps_of:
        held = statement.caps.get(caps_of, {})
        say(f"The running service enforces for {caps_of}: {caps_text(held) or 'nothing yet'}")
    if statement.digest != digest_of(config, Settings.load(config)):
        say(
            "The running service has not read the change yet: it looks at the files each second while "
            "`serve` runs. `gencard-controller caps` shows what it enforces."
        )
    elif not statement.objections:
        say("The running service has read the change; all settings are in force.")
    for line in statement.objections:
        say(line)
    return statement


def caps_text(caps: Mapping[str, str]) -> str:
    """Caps in one line."""
    return "; ".join(f"{holder}: {amount}" for holder, amount in caps.items())


def _log_rules(opened: ControllerState, steward: str | None) -> None:
    people = read_identities(opened.settings.signing.identities)
    actor = steward_uri(opened.settings, steward)
    rule_log = RuleLog(opened.database, opened.log, opened.cards.clock, actor)
    rule_log.rules_are_read(rules_of(opened, people))


def steward_uri(settings: Settings, name: str | None) -> str:
    """Return the URI under which a steward's decisions are recorded."""
    plain = re.sub(r"[^a-z0-9._-]", "-", (name or getpass.getuser()).lower())[:63] or "steward"
    return Identity(settings.identity.trust_domain, "service", Role.STEWARD, plain).uri


def say_table(title: str, documents: Sequence[Mapping[str, str]], as_json: bool) -> None:
    """Print documents with equal names as JSON, or as the rows of a table."""
    if as_json:
        say_json(documents)
        return
    rows = table(title, *(documents[0] if documents else ("name",)))
    for document in documents:
        rows.add_row(*map(escape, document.values()))
    console.print(rows)


def table(title: str, *columns: str) -> Table:
    """Return an empty table that wraps long cells instead of cutting them."""
    empty_table = Table(title=title, title_justify="left", header_style="bold", expand=False)
    for column in columns:
        empty_table.add_column(column, overflow="fold")
    return empty_table


def say(line: str) -> None:
    """Print one line, unbroken for copying."""
    console.print(escape(line), soft_wrap=True)


def say_json(value: Any) -> None:
    """Print one JSON value on standard output."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))
