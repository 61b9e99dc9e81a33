"""backup, restore: copy the state while the service runs, and take a copy into service."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from gencard.controller.controller_state import open_controller_state
from gencard.controller.settings.settings import Settings
from gencard.controller.shell.terminal import (
    HERE,
    ConfigFile,
    StewardName,
    console,
    controller_state,
    steward_uri,
)
from gencard.controller.upkeep.backup import back_up, state_lock
from gencard.controller.upkeep.restoration import Restored, clear, place, take_over
from gencard.core.errors import InvalidInputError


def backup(
    folder: Annotated[Path, typer.Argument(help="New folder to create, readable by you only.")],
    steward: StewardName = None,
    config: ConfigFile = HERE,
) -> None:
    """Copy ledger, log, cards, psi and rows while the service runs. Keys are not included."""
    with controller_state(config) as opened, console.status("Copying"):
        made = back_up(opened, folder, steward_uri(opened.settings, steward))
    console.print(f"Made [bold]{escape(str(folder))}[/]: {made.entries} log entries.")
    console.print("[dim]The backup is not encrypted and contains no keys: see docs/controllers.md.[/]")


def restore(
    folder: Annotated[
        Path | None,
        typer.Argument(help="Backup folder. Omit it if the state is in its place already."),
    ] = None,
    checkpoint: Annotated[
        list[Path] | None,
        typer.Option(help="Saved checkpoint of the log. Repeatable."),
    ] = None,
    complete: Annotated[
        bool,
        typer.Option("--complete", help="Nothing was decided after the backup: release the budgets."),
    ] = False,
    steward: StewardName = None,
    config: ConfigFile = HERE,
) -> None:
    """Take a backup into service. Remaining budgets are blocked until you know what was lost."""
    settings = Settings.load(config)
    known = [_read(path) for path in checkpoint or ()]
    with state_lock(settings.state.folder), console.status("Reading all of it"):
        if folder is not None:
            place(folder, settings.state)
        try:
            restored = _taken_over(settings, steward, known, complete=complete)
        except BaseException:
            if folder is not None:
                clear(settings.state)
            raise
    _say(restored, complete=complete)


def _taken_over(
    settings: Settings, steward: str | None, known: list[bytes], *, complete: bool
) -> Restored:
    opened = open_controller_state(settings)
    try:
        return take_over(opened, steward_uri(settings, steward), known, complete=complete)
    finally:
        opened.database.close()


def _say(restored: Restored, *, complete: bool) -> None:
    console.print(f"[green]Verified:[/] {restored.entries} log entries, the ledger, all rows.")
    if restored.known > restored.entries:
        lost = restored.known - restored.entries
        console.print(f"[bold red]Lost:[/] at least {lost} decisions after the backup.")
    if complete:
        return
    console.print(f"Cancelled: {restored.ended} operations. Settled: {restored.settled} reservations.")
    for line in restored.held:
        held = f"line {line.line}, the remaining budget of {line.dataset}: {line.price}"
        console.print(f"[bold]Blocked:[/] {held}", soft_wrap=True)
    console.print(
        "Find out what was released since the backup, lower the caps by it, then run `ledger void LINE`."
    )
    console.print(
        "[dim]Repeat revocations and removals made since the backup: see docs/controllers.md.[/]"
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        raise InvalidInputError(field="--checkpoint", problem=f"there is no file {path}") from None
