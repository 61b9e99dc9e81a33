"""log: show, verify and sign the transparency log of all decisions."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from gencard.controller.people.signing_keys import key_history
from gencard.controller.shell.terminal import (
    HERE,
    AsJson,
    ConfigFile,
    console,
    controller_state,
    say_json,
)
from gencard.controller.state.events import Event, event_of
from gencard.controller.state.events import verify as verify_log
from gencard.shell import new_typer
from gencard.wire.documents.key_history import LOG
from gencard.wire.signatures.canonical import time_text
from gencard.wire.signatures.identity import short_name

app = new_typer(help="Show, verify or sign the append-only log.", invoke_without_command=True)


@app.callback()
def show(
    context: typer.Context,
    last: Annotated[int, typer.Option(help="Number of newest entries to show.")] = 50,
    config: ConfigFile = HERE,
    as_json: AsJson = False,
) -> None:
    """Show the newest entries, oldest first."""
    if context.invoked_subcommand is not None:
        return
    with controller_state(config) as state, state.database.reading() as tx:
        events = [event_of(entry.body) for entry in state.log.entries(tx)][-max(last, 0) :]
    if as_json:
        say_json(
            [
                {
                    "index": event.index,
                    "time": time_text(event.time),
                    "actor": event.actor,
                    "action": event.action,
                    "resource": event.resource,
                    "details": dict(event.details),
                }
                for event in events
            ]
        )
        return
    for event in events:
        _say(event)
    if not events:
        console.print("No entries.")


@app.command()
def verify(config: ConfigFile = HERE) -> None:
    """Verify every entry, the hash chain and every checkpoint. Names the first invalid entry."""
    reading = console.status("Reading the whole log")
    with controller_state(config) as state, reading, state.database.reading() as tx:
        keys = key_history(tx, state.keys[LOG])
        size = verify_log(state.log.entries(tx), state.log.checkpoints(tx), keys)
    console.print(f"[green]Verified:[/] {size} entries and every checkpoint.")
    console.print(
        "[dim]This does not prove that others see the same log: compare checkpoints with them.[/]"
    )


@app.command()
def checkpoint(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write. Default: standard output.")
    ] = None,
    config: ConfigFile = HERE,
) -> None:
    """Sign a checkpoint of the log as it is now."""
    with controller_state(config) as state, state.database.transaction() as tx:
        envelope = state.log.checkpoint(tx, state.cards.clock())
    if output is None:
        typer.echo(envelope.decode())
    else:
        output.write_bytes(envelope)


def _say(event: Event) -> None:
    details = _change(event) or ", ".join(
        f"{name}={_short(text)}" for name, text in sorted(event.details.items())
    )
    when = f"{event.index:>5}  {time_text(event.time)}"
    console.print(f"{when}  [bold]{event.action}[/]  {short_name(event.actor)}", soft_wrap=True)
    for line in filter(None, (event.resource, details)):
        console.print(f"       {escape(line)}", soft_wrap=True)


def _change(event: Event) -> str:
    """A changed rule as text; empty for other entries."""
    details = event.details
    if "field" not in details:
        return ""
    before, after = (_short(details.get(name, "")) for name in ("before", "after"))
    return f"{details['field']}: was {before}, is {after}"


def _short(text: str) -> str:
    return text[:12] + "…" if len(text) == 64 else text
