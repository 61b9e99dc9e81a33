"""budget, log: what was spent, and the controller's log."""

from typing import Annotated

import typer

from gencard.client.accounts import Budget
from gencard.client.shell.terminal import (
    HERE,
    AsJson,
    Folder,
    connected,
    console,
    say,
    say_facts,
    say_json,
    say_table,
)
from gencard.core.card.budget import Spend
from gencard.core.noise.accounting import USUAL_DELTA
from gencard.wire.codecs.money import decimal_text, price_document
from gencard.wire.signatures.canonical import time_text


def budget(
    dataset: Annotated[str | None, typer.Argument(help="What is left on one dataset.")] = None,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Show what was spent, newest first, and what is left on a dataset."""
    with connected(connection) as analyst:
        left = None if dataset is None else analyst.budget(dataset)
        spends = analyst.spends()
    if as_json:
        caps = {} if left is None else _budget(left)
        say_json({**caps, "lines": [_document(spend) for spend in spends]})
        return
    lines = [
        (str(s.line), time_text(s.created), s.kind, str(s.price), str(s.state), s.resource)
        for s in spends
    ]
    say_table(("Line", "Time", "For", "Price", "State", "Resource"), lines)
    if left is not None:
        console.print(left)


def log(
    entry: Annotated[int | None, typer.Option(help="Prove that this entry is in the log.")] = None,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Check the log's newest checkpoint, and that the log continues what was seen before."""
    with connected(connection) as analyst:
        checkpoint = analyst.checkpoint()
        leaf = None if entry is None else analyst.log.check_entry(entry, checkpoint)
    if as_json:
        say_json(
            {"size": checkpoint.size, "root": checkpoint.root, "time": checkpoint.time, "leaf": leaf}
        )
        return
    say("The log continues what was seen before.")
    say_facts(checkpoint.lines())
    if leaf is not None:
        say(f"Entry {entry} is in it: {leaf}")


def _budget(left: Budget) -> dict[str, object]:
    epsilon, delta = decimal_text(left.together()), decimal_text(USUAL_DELTA)
    return {
        "cap": price_document(left.cap),
        "spent": price_document(left.spent),
        "together": {"delta": delta, "epsilon": epsilon},
    }


def _document(spend: Spend) -> dict[str, object]:
    return {
        "line": spend.line,
        "time": time_text(spend.created),
        "dataset": spend.dataset,
        "kind": spend.kind,
        "price": price_document(spend.price),
        "state": spend.state,
        "resource": spend.resource,
    }
