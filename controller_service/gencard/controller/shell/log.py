"""log: show, verify, sign and correct the transparency log of all decisions."""

import getpass
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from gencard.controller.people.keys import key_history
from gencard.controller.shell.terminal import (
    HERE,
    AsJson,
    ConfigFile,
    StewardName,
    console,
    controller_state,
    say,
    say_json,
    steward_uri,
)
from gencard.controller.state.cards import ENDED, all_cards, as_of
from gencard.controller.state.log import event_of
from gencard.controller.state.log import verify as verify_log
from gencard.shell import new_typer
from gencard.wire.canonical import time_of, time_text
from gencard.wire.codec import card_of_bytes
from gencard.wire.documents import json_of
from gencard.wire.keys import LOG, short_name

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
        fields = ("index", "time", "actor", "action", "resource")
        say_json([{**json_of(one, *fields), "details": dict(one.details)} for one in events])
        return
    for event in events:
        texts = {
            name: text[:12] + "…" if len(text) == 64 else text
            for name, text in sorted(event.details.items())
        }
        details = ", ".join(f"{name}={text}" for name, text in texts.items())
        if "field" in texts:  # a changed rule
            before, after = texts.get("before", ""), texts.get("after", "")
            details = f"{event.details['field']}: was {before}, is {after}"
        when = f"{event.index:>5}  {time_text(event.time)}"
        console.print(f"{when}  [bold]{event.action}[/]  {short_name(event.actor)}", soft_wrap=True)
        for line in filter(None, (event.resource, details)):
            console.print(f"       {escape(line)}", soft_wrap=True)
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


@app.command()
def correct_clock(
    reason: Annotated[str, typer.Option(help="Reason, in one line, recorded in the log.")],
    steward: StewardName = None,
    config: ConfigFile = HERE,
) -> None:
    """Let this machine's clock count again after log entries were written with a clock that was ahead.

    Cards, links and sessions end by the later of the clock and the newest log entry. This command adds
    an entry with the clock's time, which everyone who reads the log can see. Check the clock first: with
    a clock that is behind, cards that have expired would be valid again.
    """
    with controller_state(config) as state:
        now, details = state.machine(), {"reason": reason, "account": getpass.getuser()}
        with state.database.transaction() as tx:
            actor = steward_uri(state.settings, steward)
            event = state.log.correct(tx, actor=actor, details=details, now=now)
            cards = [as_of(card_of_bytes(row.body), now) for row in all_cards(tx)]
    say(f"Log entry {event.index}: the clock counts again, {event.time:%Y-%m-%d %H:%M:%S} UTC.")
    before = time_of(event.details["before"])
    for card in cards:
        if card.state not in ENDED and card.offer is not None and card.offer.expire_time > before:
            say(f"{card.name} was offered by the clock that was ahead. It lasts until")
            end = f"{card.offer.expire_time:%Y-%m-%d}"
            say(f"  {end}; end it with `gencard-controller emergency revoke`.")
