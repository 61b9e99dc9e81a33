"""backup, restore, notify: copy the state, take a copy into service, try word to stewards."""

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from gencard.controller.backup.backup import back_up, state_lock
from gencard.controller.backup.restoration import Restored, agreed_on, alone, clear, place, take_over
from gencard.controller.controller_state import utc_now
from gencard.controller.notify.channels import Channel, Fate, channels_of
from gencard.controller.notify.messages import TEST, Message
from gencard.controller.notify.notifier import link_of
from gencard.controller.settings.settings import Settings
from gencard.controller.shell.terminal import (
    HERE,
    AsJson,
    ConfigFile,
    Emergency,
    StewardName,
    console,
    controller_state,
    say,
    say_json,
    steward_uri,
)
from gencard.controller.wiring.opening import open_controller_state
from gencard.core.errors import VerificationError
from gencard.files import DOCUMENT_LIMIT, read_file
from gencard.shell import new_typer
from gencard.shell.options import Complete
from gencard.wire.canonical import sha256


def backup(
    folder: Annotated[Path, typer.Argument(help="New folder to create, readable by you only.")],
    steward: StewardName = None,
    config: ConfigFile = HERE,
) -> None:
    """Copy ledger, log, cards, psi and rows while the service runs. Keys are not included."""
    with controller_state(config) as state, console.status("Copying"):
        backup_list = back_up(state, folder, steward_uri(state.settings, steward))
    console.print(f"Made [bold]{escape(str(folder))}[/]; log entries: {backup_list.entries:,}.")
    console.print("[dim]The backup is not encrypted and contains no keys: see docs/controllers.md.[/]")


def restore(
    folder: Annotated[
        Path | None,
        typer.Argument(help="Backup folder. Omit it if the state is already in place."),
    ] = None,
    checkpoint: Annotated[
        list[Path] | None,
        typer.Option(help="Saved checkpoint of the log. Repeatable."),
    ] = None,
    complete: Complete = False,
    approval: Annotated[
        list[Path] | None,
        typer.Option(help="Approval made by `gencard steward approve-restore`. Repeatable."),
    ] = None,
    emergency: Emergency = False,
    steward: StewardName = None,
    config: ConfigFile = HERE,
) -> None:
    """Restore a backup. Remaining budgets are blocked until you know what was lost.

    If the settings require two stewards ([stewards] two = ["restore"]), both approve the backup
    first, with `gencard steward approve-restore`.
    """
    settings = Settings.load(config)
    known = [_read(path, "--checkpoint") for path in checkpoint or ()]
    approvals = [_read(path, "--approval") for path in approval or ()]
    agreement = agreed_on(settings, folder, approvals, complete=complete, emergency=emergency)
    with state_lock(settings.state.folder), console.status("Reading the whole backup"):
        placed = None if folder is None else place(folder, settings.state)
        try:
            if placed is not None and sha256(placed.encoded()) != agreement["digest"]:
                raise VerificationError(problem="the backup was changed in the meantime")
            restored = _taken_over(settings, steward, known, agreement, complete=complete)
        except BaseException:
            if folder is not None:
                clear(settings.state)
            raise
    _say(restored, complete=complete)


def _taken_over(
    settings: Settings,
    steward: str | None,
    known: list[bytes],
    agreed: Mapping[str, str],
    *,
    complete: bool,
) -> Restored:
    with alone(settings.state) as leadership:
        state = open_controller_state(settings, fence=leadership.fence if leadership else None)
        try:
            state.files.begin()
            uri = steward_uri(settings, steward)
            restored = take_over(state, uri, known, complete=complete, agreed=agreed)
        finally:
            state.database.close()
        if leadership is not None:
            leadership.restored()
        return restored


def _say(restored: Restored, *, complete: bool) -> None:
    console.print(f"[green]Verified:[/] {restored.entries} log entries, the ledger, all rows.")
    if restored.known > restored.entries:
        lost = restored.known - restored.entries
        console.print(f"[bold red]Lost:[/] at least {lost} decisions after the backup.")
    if complete:
        return
    console.print(f"Cancelled: {restored.ended} operations. Settled: {restored.settled} reservations.")
    for line in restored.held:
        line_text = f"line {line.line}, the remaining budget of {line.dataset}: {line.price}"
        console.print(f"[bold]Blocked:[/] {line_text}", soft_wrap=True)
    console.print(
        "Find out what was released since the backup, lower the caps by it, then run "
        "`gencard-controller emergency ledger void LINE`."
    )
    console.print(
        "[dim]Repeat revocations and removals made since the backup: see docs/controllers.md.[/]"
    )


def _read(path: Path, option: str) -> bytes:
    return read_file(path, option, DOCUMENT_LIMIT)


notify_app = new_typer(help="Test notifications to stewards by webhook and mail.")

_ADVICE = {
    "webhook": "Check url, secret_file and authority of [notify.webhook].",
    "mail": "Check host, port, security, user and password_file of [notify.mail].",
}


@notify_app.callback()
def commands() -> None:
    """Test notifications to stewards by webhook and mail."""


@notify_app.command("test")
def try_out(config: ConfigFile = HERE, as_json: AsJson = False) -> None:
    """Send a test message by each configured channel. Shows whether it was accepted.

    The message contains fixed text and the trust domain. Nothing is retried. Exits 1 if a receiver
    did not accept it, or no channel is configured.
    """
    settings = Settings.load(config)
    channels = channels_of(settings.notify)
    if not channels:
        say("No notifications are configured: add [notify.webhook] or [notify.mail] to the settings.")
        raise typer.Exit(1)
    outcomes = {channel.name: _problem(channel, settings) for channel in channels}
    if as_json:
        say_json(
            {name: {"taken": not problem, "problem": problem} for name, problem in outcomes.items()}
        )
    else:
        for name, problem in outcomes.items():
            say(f"{name}: not accepted ({problem}). {_ADVICE[name]}" if problem else f"{name}: accepted")
    raise typer.Exit(int(any(outcomes.values())))


def _problem(channel: Channel, settings: Settings) -> str:
    """Return why a channel did not accept the test; empty if it did."""
    now = utc_now()
    name, domain = f"word_{secrets.token_hex(12)}", settings.identity.trust_domain
    message = Message(name, (TEST,), domain, link_of(settings), now)
    with console.status(f"Sending by {channel.name}"):
        attempt = channel.send(message, now)
    return "" if attempt.fate is Fate.TAKEN else attempt.problem
