"""steward: what stewards look at, from any machine with a steward's certificate."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from gencard.client.common.display import Listed
from gencard.client.shell.terminal import (
    HERE,
    AsJson,
    Folder,
    console,
    say,
    say_facts,
    say_json,
    say_next,
    say_table,
)
from gencard.client.steward import Steward
from gencard.client.steward_views import AnswerReview, CardReview, Preview, command_of
from gencard.shell import Home, LazyGroup, visible
from gencard.wire.documents import json_of
from gencard.wire.steward import FirstDecision

_HERE, _DECIDING = "gencard.client.shell.stewarding", "gencard.client.shell.deciding"

CardToReview = Annotated[str, typer.Argument(help="datasets/DATASET/cards/CARD", metavar="CARD")]


Review = CardReview | AnswerReview | Preview


class StewardCommands(LazyGroup):
    """Commands of stewards."""

    homes: ClassVar = {
        "queue": Home(_HERE, "queue", "List what is waiting, oldest first, and for whom."),
        "show": Home(_HERE, "show", "Show a card: what was proposed, and what approving would offer."),
        "approve": Home(
            _DECIDING, "approve", "Offer the proposed terms, or the nearest that the policy allows."
        ),
        "counter": Home(_DECIDING, "counter", "Offer fewer statistics or rows than proposed."),
        "reject": Home(_DECIDING, "reject", "Reject a pending proposal."),
        "revoke": Home(
            _DECIDING, "revoke", "Revoke an agreed card permanently, by a signed revocation."
        ),
        "risk": Home(
            _HERE, "risk", "Show what the exact counts of a card would reveal about the records."
        ),
        "answers": Home(
            _HERE, "answers", "List answers waiting for a steward, or show the numbers of one."
        ),
        "release": Home(
            _DECIDING,
            "release",
            "Release an answer: green and amber numbers, unless options say otherwise.",
        ),
        "refuse": Home(_DECIDING, "refuse", "Refuse an answer: no number is released."),
        "ledger": Home(_HERE, "ledger", "Show budgets, and lines of the ledger, newest first."),
        "settle": Home(
            _DECIDING,
            "settle",
            "Charge a reservation for which something may have been released.",
        ),
        "void": Home(_DECIDING, "void", "Refund a reservation for which nothing was released."),
        "people": Home(_HERE, "people", "List enrolled people."),
        "enrol": Home(
            _DECIDING,
            "enrol",
            "Enrol a person who sent a request, and write the answer for the person to install.",
        ),
        "disable": Home(
            _DECIDING, "disable", "Disable a person: their certificate is refused from the next call on."
        ),
        "enable": Home(
            _DECIDING, "enable", "Enable a disabled person: their certificate is accepted again."
        ),
        "approve-restore": Home(
            "gencard.client.shell.deciding",
            "approve_restore",
            "Approve a restore: sign that a backup may replace the state. The service may be stopped.",
        ),
        "refusals": Home(
            _HERE, "refusals", "List failures on the records that count against their analysts."
        ),
        "dismiss": Home(_DECIDING, "dismiss", "Stop counting a failure on the records."),
        "log": Home(_HERE, "log", "Search the log, newest first, or prove one entry."),
    }


app = typer.Typer(
    cls=StewardCommands,
    help="For stewards: list, review and decide what is waiting. In emergencies, use "
    "`gencard-controller emergency` on the controller's machine.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback()
def _stewards() -> None:
    """Needed by typer, whose help is that of ``app``."""


def at_desk(folder: Path) -> Steward:
    """A connection as the steward who owns the folder, for a ``with`` block."""
    return Steward.connect(folder=folder)


def queue(
    mine: Annotated[bool, typer.Option("--mine", help="Only what is waiting for a steward.")] = False,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """List what is waiting, oldest first, and for whom."""
    with at_desk(connection) as desk:
        waiting = desk.queue()
    shown = [one for one in waiting if not mine or one.waits_for != "the analyst"]
    if as_json:
        say_json(json_of(shown))
    elif shown:
        say_table(waiting.heads, [one.line() for one in shown])
        cards = (one.resource for one in shown if one.kind == "proposal")
        say_next(f"gencard steward show {next(cards, 'CARD')}")
    else:
        say("Nothing is waiting.")


def show(name: CardToReview, connection: Folder = HERE, as_json: AsJson = False) -> None:
    """Show a card: what was proposed, and what approving would offer, its price, who decided what.

    A decision names the digest after "Shown", and applies only to what was shown.
    """
    with at_desk(connection) as desk:
        review = desk.review(name)
    say_review(review, as_json)
    if not as_json and review.waits:
        offer = "" if "approve" not in review.next_step else "approve"
        _say_next_decision(review.name, review.shown, review.firsts, offer)


def risk(
    name: CardToReview,
    again: Annotated[bool, typer.Option("--again", help="Examine the records again.")] = False,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Show what the exact counts of a card would reveal about the records.

    All exact counts granted before are included. Decides nothing; the log records who looked.
    """
    with at_desk(connection) as desk:
        report = desk.risk(name, again=again)
    if as_json:
        say_json(report.document())
    else:
        console.print(report)


def answers(
    name: Annotated[str | None, typer.Argument(help="Answer to show; default: list all.")] = None,
    program: Annotated[bool, typer.Option("--program", help="Print only the program's text.")] = False,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """List answers waiting for a steward, or show the numbers of one."""
    with at_desk(connection) as desk:
        if name is None:
            say_list(desk.answers(), as_json)
            return
        review = desk.answer(name)
    if program:
        typer.echo(visible(review.program.expandtabs(4)))
        return
    say_review(review, as_json)
    if not as_json:
        offer = "refuse-answer" if review.reasons else "release-answer"
        _say_next_decision(review.name, review.shown, review.firsts, offer)


def _say_next_decision(name: str, shown: str, firsts: Sequence[FirstDecision], usual: str) -> None:
    """Suggest the first decision that waits for another steward, else the usual one."""
    waiting = [first for first in firsts if first.shown == shown]
    for first in waiting:
        say_next(command_of(first.kind, name, first.arguments, shown))
    if usual and not waiting:
        say_next(command_of(usual, name, {}, shown))


def ledger(
    dataset: Annotated[str, typer.Option(help="Budgets of this dataset only.")] = "",
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Show budgets, and lines of the ledger, newest first."""
    with at_desk(connection) as desk:
        accounts, lines = desk.accounts(dataset), desk.ledger()
    if as_json:
        say_json({"budgets": json_of(accounts), "lines": json_of(lines)})
        return
    say_list(accounts, as_json)
    say_list(lines, as_json)


def people(connection: Folder = HERE, as_json: AsJson = False) -> None:
    """List enrolled people."""
    with at_desk(connection) as desk:
        say_list(desk.people(), as_json)


def refusals(connection: Folder = HERE, as_json: AsJson = False) -> None:
    """List failures on the records that count against their analysts, oldest first."""
    with at_desk(connection) as desk:
        say_list(desk.refusals(), as_json)


def log(
    query: Annotated[
        str, typer.Argument(help="Words that entries must contain. Default: all entries.")
    ] = "",
    entry: Annotated[
        int | None, typer.Option(help="Prove that this entry is in the log, and show it in full.")
    ] = None,
    last: Annotated[
        int, typer.Option(min=1, max=10_000, help="Largest number of entries to show.")
    ] = 50,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Search the log, newest first, or prove one entry."""
    with at_desk(connection) as desk:
        if entry is None:
            say_list(desk.log(query, last=last), as_json)
            return
        proved = desk.entry(entry)
    body = proved.body.decode()
    if as_json:
        path = [part.hex() for part in proved.path]
        say_json({"entry": json.loads(body), "size": proved.size, "path": path})
    else:
        say_facts([("Entry", body), ("Proved in", f"the log of {proved.size:,} entries")])


def say_list(listed: "Listed[Any]", as_json: bool) -> None:
    """Print a list as a table or as JSON."""
    if as_json:
        say_json(json_of(listed))
    elif listed:
        say_table(listed.heads, listed.lines())
    else:
        say(repr(listed).strip("<>"))


def say_review(review: Review, as_json: bool = False) -> None:
    """Print what is to be decided on; the digest stands alone, unbroken for copying."""
    if as_json:
        say_json(json_of(review))
        return
    console.print(review.panel(without="Shown"))
    say(f"Shown: {review.shown}")
