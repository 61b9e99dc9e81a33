"""ledger: spending, and how a steward settles reservations left by a crash."""

from decimal import Decimal
from typing import Annotated

import typer

from gencard.controller.controller_state import ControllerState
from gencard.controller.records.catalogue import PREFIX, DatasetEntry
from gencard.controller.shell.terminal import (
    HERE,
    AsJson,
    ConfigFile,
    Emergency,
    Reason,
    StewardName,
    console,
    controller_state,
    local_desk,
    say_json,
    table,
)
from gencard.controller.state.ledger import Account, Scope
from gencard.core.card.budget import Spend
from gencard.core.statistics.noise import USUAL_DELTA, in_words, together
from gencard.shell import new_typer
from gencard.wire.documents.card_document import json_of
from gencard.wire.signatures.canonical import time_text
from gencard.wire.signatures.identity import short_name
from gencard.wire.steward import Kind

app = new_typer(help="Show spending; settle or void a reservation.", invoke_without_command=True)
Line = Annotated[int, typer.Argument(help="Number of the ledger line.")]
PAGE = 500


@app.callback()
def show(
    context: typer.Context,
    dataset: Annotated[str | None, typer.Option(help="Only this dataset.")] = None,
    config: ConfigFile = HERE,
    as_json: AsJson = False,
) -> None:
    """Show the ledger, newest line first, and each dataset's spending and cap."""
    if context.invoked_subcommand is not None:
        return
    name = None if dataset is None else PREFIX + dataset.removeprefix(PREFIX)
    with controller_state(config) as state:
        with state.database.reading() as tx:
            lines = state.ledger.lines(tx, dataset=name, limit=PAGE).rows
        if as_json:
            say_json([_document(line) for line in lines])
            return
        for line in lines:
            _say(line)
        console.print(_caps(state))


@app.command()
def settle(
    line: Line,
    reason: Reason = None,
    config: ConfigFile = HERE,
    steward: StewardName = None,
) -> None:
    """Charge a reservation for which something may have been released."""
    with local_desk(config, steward) as desk:
        if desk.decide(Kind.SETTLE, f"ledger/{line}", reason) is not None:
            console.print(f"Line {line} is settled.")


@app.command()
def void(
    line: Line,
    reason: Reason = None,
    emergency: Emergency = False,
    config: ConfigFile = HERE,
    steward: StewardName = None,
) -> None:
    """Refund a reservation for which nothing was released."""
    with local_desk(config, steward, emergency=emergency) as desk:
        if desk.decide(Kind.VOID, f"ledger/{line}", reason) is not None:
            console.print(f"Line {line} is void.")


def _say(line: Spend) -> None:
    """Print two lines, unbroken for copying."""
    spent = f"{line.kind}  {line.price}  [bold]{line.state}[/]"
    when = f"{line.line:>5}  {time_text(line.created)}"
    console.print(f"{when}  {spent}  {short_name(line.analyst)}", soft_wrap=True)
    console.print(f"       {line.resource}", soft_wrap=True)


def _caps(opened: ControllerState) -> object:
    caps = table("Caps", "dataset", "spent or reserved", "cap", "all noise together")
    with opened.database.reading() as tx:
        for dataset_entry in opened.cards.catalogue:
            account = Account(Scope.DATASET, dataset_entry.name)
            spent, cap = opened.ledger.spent(tx, account), opened.ledger.cap(account)
            epsilons = opened.ledger.epsilons(tx, dataset_entry.name)
            caps.add_row(
                dataset_entry.name, str(spent), str(cap), _together(dataset_entry, epsilons, spent.rho)
            )
    return caps


def _together(dataset_entry: DatasetEntry, epsilons: list[Decimal], rho: Decimal) -> str:
    """Total epsilon of all noisy cards of a dataset, at the delta of its policy."""
    noise = dataset_entry.policy.noise
    delta = noise.delta if noise is not None and noise.delta is not None else USUAL_DELTA
    return in_words(together(epsilons, rho, delta), delta) if epsilons or rho else "none"


def _document(line: Spend) -> dict[str, object]:
    document = json_of(line, "line", "dataset", "analyst", "kind", "resource", "price", "state")
    return {**document, "time": time_text(line.created)}
