"""refusals: what of analysts' work failed at the records, and that a steward has looked at it."""

from typing import Annotated

import typer

from gencard.controller.operations.error_documents import error_of_document
from gencard.controller.shell.terminal import (
    HERE,
    AsJson,
    ConfigFile,
    StewardName,
    console,
    desk,
    plain,
    say_json,
    stewardship,
)
from gencard.controller.state.operations import OperationRow
from gencard.wire.signatures.canonical import time_text

app = typer.Typer(help="What failed at the records.", invoke_without_command=True)
Operation = Annotated[str, typer.Argument(help="Name of the operation.")]


@app.callback()
def show(context: typer.Context, config: ConfigFile = HERE, as_json: AsJson = False) -> None:
    """Show analysts' operations that failed at the records, oldest first.

    After limits.refusals of them on one dataset an analyst can begin no other there.
    """
    if context.invoked_subcommand is not None:
        return
    with desk(config) as opened, opened.database.reading() as tx:
        waiting = opened.refusals.waiting(tx)
    if as_json:
        say_json([_document(row) for row in waiting])
        return
    for row in waiting:
        said = _document(row)
        console.print(f"[bold]{row.name}[/]  {said['time']}  {said['reason']}", soft_wrap=True)
        console.print(f"  {plain(row.owner)}  {row.kind} at {row.resource}", soft_wrap=True)
    if not waiting:
        console.print("Nothing failed at the records that no steward has looked at.")


@app.command()
def seen(operation: Operation, config: ConfigFile = HERE, steward: StewardName = None) -> None:
    """You looked why it failed: it does not count any more. Its price stays as it is."""
    with stewardship(config, steward) as desk_of_steward:
        desk_of_steward.look_at(operation)
    console.print(f"{operation} does not count any more.")


def _document(row: OperationRow) -> dict[str, str]:
    return {
        "operation": row.name,
        "time": time_text(row.changed),
        "analyst": row.owner,
        "kind": row.kind,
        "resource": row.resource,
        "reason": error_of_document(row.error).reason,
    }
