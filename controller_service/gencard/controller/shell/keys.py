"""keys: which key signs what, since when, and a new one in its place."""

from enum import StrEnum
from typing import Annotated

import typer

from gencard.controller.people.key_rotation import key_history
from gencard.controller.shell.terminal import (
    HERE,
    AsJson,
    ConfigFile,
    StewardName,
    console,
    desk,
    say_json,
    steward_uri,
    table,
)
from gencard.wire.documents import key_history as wire
from gencard.wire.signatures.dsse import key_id

app = typer.Typer(help="Keys that sign cards and the log.", invoke_without_command=True)


class Use(StrEnum):
    """What a key signs."""

    CARDS = wire.CARDS
    LOG = wire.LOG


@app.callback()
def show(context: typer.Context, config: ConfigFile = HERE, as_json: AsJson = False) -> None:
    """Show every key that has signed, and when it was in force."""
    if context.invoked_subcommand is not None:
        return
    with desk(config) as opened, opened.database.reading() as tx:
        periods = [
            (key.use, key_id(period.key), period.since, period.until)
            for key in opened.keys.values()
            for period in key_history(tx, key).periods
        ]
    if as_json:
        say_json([dict(zip(("use", "key", "since", "until"), line, strict=True)) for line in periods])
        return
    found = table("Signing keys", "signs", "key", "in force from", "until")
    for use, key, since, until in periods:
        found.add_row(use, key[:16], since or "the beginning", until or "now")
    console.print(found)


@app.command()
def rotate(
    use: Annotated[
        Use | None, typer.Argument(help="What the key signs; where not given, both are rotated.")
    ] = None,
    steward: StewardName = None,
    config: ConfigFile = HERE,
) -> None:
    """Have a new key sign from now on. What the old one signed stays good; no restart is needed."""
    with desk(config) as opened:
        rotation = opened.rotation(steward_uri(opened.settings, steward))
        for asked in Use if use is None else (use,):
            change = rotation.rotate(asked)
            old, new = key_id(change.previous)[:16], key_id(change.key)[:16]
            console.print(f"[bold]{asked}[/]: key {new} signs now, in place of {old}.")
    console.print("[dim]Analysts follow by themselves, from whichever key they were handed.[/]")
    console.print("[dim]Back up the folder of keys and state/ together, now.[/]")
