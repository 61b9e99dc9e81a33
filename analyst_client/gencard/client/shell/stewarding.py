"""steward: what stewards look at and decide, from any machine with a steward's certificate."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from gencard.client.common.display import Facts, Listed
from gencard.client.common.formats import write_bytes
from gencard.client.connection.credentials import Credentials, read
from gencard.client.shell.terminal import (
    HERE,
    AsJson,
    CardName,
    Folder,
    console,
    is_interactive,
    names_in,
    say,
    say_json,
    say_next,
    say_table,
    with_groups,
)
from gencard.client.steward import Steward
from gencard.client.steward_views import AnswerReview, CardReview, Decision, Preview, command_of
from gencard.core.errors import InvalidInputError, PermissionDeniedError
from gencard.files import LIST_LIMIT, read_file
from gencard.shell import (
    Complete,
    Digits,
    Drop,
    Home,
    LazyGroup,
    MostRows,
    Red,
    Withhold,
    Without,
    visible,
)
from gencard.wire.canonical import time_text
from gencard.wire.documents import json_of
from gencard.wire.keys import (
    LARGEST,
    LIFE,
    LONGEST_REASON,
    RestoreApproval,
    Role,
    backup_facts,
    grouped,
    request_of_document,
)
from gencard.wire.steward import FirstDecision

Review = CardReview | AnswerReview | Preview

_SUMMARIES = {
    "queue": "List what is waiting, oldest first, and for whom.",
    "show": "Show a card: what was proposed, and what approving would offer.",
    "approve": "Offer the proposed terms, or the nearest that the policy allows.",
    "counter": "Offer fewer statistics or rows than proposed.",
    "reject": "Reject a pending proposal.",
    "revoke": "Revoke an agreed card permanently, by a signed revocation.",
    "risk": "Show what the exact counts of a card would reveal about the records.",
    "answers": "List answers waiting for a steward, or show the numbers of one.",
    "release": "Release an answer: green and amber numbers, unless options say otherwise.",
    "refuse": "Refuse an answer: no number is released.",
    "ledger": "Show budgets, and lines of the ledger, newest first.",
    "settle": "Charge a reservation for which something may have been released.",
    "void": "Refund a reservation for which nothing was released.",
    "people": "List enrolled people.",
    "enrol": "Enrol a person who sent a request, and write the answer for the person to install.",
    "disable": "Disable a person: their certificate is refused from the next call on.",
    "enable": "Enable a disabled person: their certificate is accepted again.",
    "approve-restore": (
        "Approve a restore: sign that a backup may replace the state. The service may be stopped."
    ),
    "refusals": "List failures on the records that count against their analysts.",
    "dismiss": "Stop counting a failure on the records.",
    "log": "Search the log, newest first, or prove one entry.",
}


class StewardCommands(LazyGroup):
    homes: ClassVar = {
        name: Home(__name__, name.replace("-", "_"), summary) for name, summary in _SUMMARIES.items()
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


def queue(
    mine: Annotated[bool, typer.Option("--mine", help="Only what is waiting for a steward.")] = False,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """List what is waiting, oldest first, and for whom."""
    with Steward.connect(folder=connection) as desk:
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


def show(name: CardName, connection: Folder = HERE, as_json: AsJson = False) -> None:
    """Show a card: what was proposed, and what approving would offer, its price, who decided what.

    A decision names the digest after "Shown", and applies only to what was shown.
    """
    with Steward.connect(folder=connection) as desk:
        review = desk.review(name)
    say_review(review, as_json)
    if not as_json and review.waits:
        offer = "" if "approve" not in review.next_step else "approve"
        _say_next_decision(review.name, review.shown, review.firsts, offer)


def risk(
    name: CardName,
    again: Annotated[bool, typer.Option("--again", help="Examine the records again.")] = False,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Show what the exact counts of a card would reveal about the records.

    All exact counts granted before are included. Decides nothing; the log records who looked.
    """
    with Steward.connect(folder=connection) as desk:
        report = desk.risk(name, again=again)
    say_json(report.document()) if as_json else console.print(report)


def answers(
    name: Annotated[str | None, typer.Argument(help="Answer to show; default: list all.")] = None,
    program: Annotated[bool, typer.Option("--program", help="Print only the program's text.")] = False,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """List answers waiting for a steward, or show the numbers of one."""
    with Steward.connect(folder=connection) as desk:
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
    with Steward.connect(folder=connection) as desk:
        accounts, lines = desk.accounts(dataset), desk.ledger()
    if as_json:
        say_json({"budgets": json_of(accounts), "lines": json_of(lines)})
        return
    say_list(accounts, as_json)
    say_list(lines, as_json)


def people(connection: Folder = HERE, as_json: AsJson = False) -> None:
    """List enrolled people."""
    with Steward.connect(folder=connection) as desk:
        say_list(desk.people(), as_json)


def refusals(connection: Folder = HERE, as_json: AsJson = False) -> None:
    """List failures on the records that count against their analysts, oldest first."""
    with Steward.connect(folder=connection) as desk:
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
    with Steward.connect(folder=connection) as desk:
        if entry is None:
            say_list(desk.log(query, last=last), as_json)
            return
        proved = desk.entry(entry)
    body = proved.body.decode()
    if as_json:
        path = [part.hex() for part in proved.path]
        say_json({"entry": json.loads(body), "size": proved.size, "path": path})
    else:
        facts = Facts([("Entry", body), ("Proved in", f"the log of {proved.size:,} entries")])
        console.print(facts.rich())


def say_list(listed: "Listed[Any]", as_json: bool) -> None:
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


# Decisions. Each names the digest of what was shown, and the reason for the log.

Yes = Annotated[bool, typer.Option("--yes", help="With --shown: do not ask for confirmation.")]
Remark = Annotated[str, typer.Option(help="Short remark, shown to the analyst.")]
AnswerName = Annotated[
    str, typer.Argument(help="datasets/DATASET/cards/CARD/answers/ANSWER", metavar="ANSWER")
]
PersonName = Annotated[
    str, typer.Argument(help="Name of the person, as `gencard steward people` lists it.", metavar="NAME")
]
Line = Annotated[int, typer.Argument(help="Number of the ledger line.", min=0)]


@dataclass(frozen=True, slots=True)
class DecisionOptions:
    """Options of every decision: what was reviewed, and the reason for the log."""

    shown: Annotated[
        str | None,
        typer.Option(metavar="DIGEST", help="Digest of what you reviewed, as `show` prints it."),
    ] = None
    reason: Annotated[
        str | None,
        typer.Option(help="Reason, in one line, for the log. Default: a terminal asks for it."),
    ] = None
    yes: Yes = False
    connection: Folder = HERE
    as_json: AsJson = False


_LOOK_FIRST = (
    "Review it first: its digest is printed after Shown. Then repeat with --shown DIGEST --yes."
)


@with_groups
def approve(name: CardName, choice: DecisionOptions) -> None:
    """Offer the proposed terms, or the nearest that the policy allows.

    Without --shown, a terminal shows the card and asks. If two stewards must decide, the first decision
    waits for another steward and has no effect until then.
    """
    with Steward.connect(folder=choice.connection) as desk:
        digest, why = confirmed("Approve", desk.review, name, choice)
        _say(desk.approve(name, reason=why, shown=digest), choice.as_json)


@with_groups
def counter(
    name: CardName,
    drop: Drop = None,
    without: Without = None,
    rows: MostRows = None,
    *,
    choice: DecisionOptions,
) -> None:
    """Offer fewer statistics or rows than proposed."""
    if not drop and not without and rows is None:
        raise InvalidInputError(
            field="counter",
            problem="needs --drop, --without or --rows; to offer the terms unchanged, use approve",
        )
    dropped = list(map(names_in, drop)) if drop else None
    with Steward.connect(folder=choice.connection) as desk:
        digest, why = confirmed("Counter", desk.review, name, choice)
        decision = desk.counter(name, reason=why, drop=dropped, without=without, rows=rows, shown=digest)
        _say(decision, choice.as_json)


@with_groups
def reject(name: CardName, remark: Remark = "", *, choice: DecisionOptions) -> None:
    """Reject a pending proposal."""
    with Steward.connect(folder=choice.connection) as desk:
        digest, why = confirmed("Reject", desk.review, name, choice)
        _say(desk.reject(name, reason=why, remark=remark, shown=digest), choice.as_json)


@with_groups
def revoke(name: CardName, remark: Remark = "", *, choice: DecisionOptions) -> None:
    """Revoke an agreed card permanently, by a signed revocation."""
    with Steward.connect(folder=choice.connection) as desk:
        digest, why = confirmed("Revoke", desk.review, name, choice)
        _say(desk.revoke(name, reason=why, remark=remark, shown=digest), choice.as_json)


@with_groups
def release(
    name: AnswerName,
    withhold: Withhold = None,
    digits: Digits = None,
    red: Red = False,
    *,
    choice: DecisionOptions,
) -> None:
    """Release an answer: green and amber numbers, unless options say otherwise."""
    with Steward.connect(folder=choice.connection) as desk:
        digest, why = confirmed("Release", desk.answer, name, choice)
        part = desk.release(name, reason=why, shown=digest, withhold=withhold, digits=digits, red=red)
        _say(part, choice.as_json)


@with_groups
def refuse(
    name: AnswerName,
    code: Annotated[str, typer.Option(help="Code of the reason, shown to the analyst.")] = "",
    *,
    choice: DecisionOptions,
) -> None:
    """Refuse an answer: no number is released."""
    with Steward.connect(folder=choice.connection) as desk:
        digest, why = confirmed("Refuse", desk.answer, name, choice)
        _say(desk.refuse(name, reason=why, code=code, shown=digest), choice.as_json)


@with_groups
def settle(line: Line, choice: DecisionOptions) -> None:
    """Charge a reservation for which something may have been released."""
    _other("settle", f"ledger/{line}", choice)


@with_groups
def void(line: Line, choice: DecisionOptions) -> None:
    """Refund a reservation for which nothing was released."""
    _other("void", f"ledger/{line}", choice)


@with_groups
def disable(name: PersonName, choice: DecisionOptions) -> None:
    """Disable a person: their certificate is refused from the next call on."""
    _other("disable", f"people/{name}", choice)


@with_groups
def enable(name: PersonName, choice: DecisionOptions) -> None:
    """Enable a disabled person: their certificate is accepted again."""
    _other("enable", f"people/{name}", choice)


@with_groups
def dismiss(
    operation: Annotated[str, typer.Argument(help="operations/OPERATION", metavar="OPERATION")],
    *,
    choice: DecisionOptions,
) -> None:
    """Stop counting a failure on the records against its analyst."""
    _other("dismiss-refusal", operation, choice)


@with_groups
def enrol(
    request: Annotated[Path, typer.Argument(help="Enrolment request, made by: gencard enrol NAME.")],
    role: Annotated[
        str, typer.Option(help="Role to grant. Default: the role of the enrolled person.")
    ] = "",
    project: Annotated[
        str,
        typer.Option(
            help="Project, whose members share one budget. Default: the project of the enrolled person."
        ),
    ] = "",
    fingerprint: Annotated[
        str | None,
        typer.Option(help="Fingerprint that the person gave you. Default: you are asked to compare."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="File for the answer. Default: NAME-answer.json.")
    ] = None,
    address: Annotated[
        str, typer.Option(help="host:port for the person. Default: the address in the settings.")
    ] = "",
    again: Annotated[bool, typer.Option("--again", help="Replace an enrolled person's keys.")] = False,
    *,
    choice: DecisionOptions,
) -> None:
    """Enrol a person who sent a request, and write the answer for the person to install."""
    person = request_of_document(read(request, "request")[: LARGEST + 1])
    if not fingerprint:
        if not is_interactive():
            advice = f"Ask {person.name} for it through a secure channel, such as the telephone."
            raise InvalidInputError(field="--fingerprint", problem="is required here", advice=advice)
        say(f"{person.name} must have: {grouped(person.fingerprint)}")
        typer.confirm("Is this the fingerprint that the person gave you?", abort=True)
    compared = fingerprint or person.fingerprint
    with Steward.connect(folder=choice.connection) as desk:
        preview = desk.enrolment(
            request, compared, role=role, project=project, address=address, again=again
        )
        decision = _decided(desk, "Enrol", preview, choice)
    answer = decision.result.get("answer")
    if answer is not None:
        file = output or Path(f"{person.name}-answer.json")
        write_bytes(file, answer.encode())
        if not choice.as_json:
            command = f"gencard enrol --answer {file.name}"
            say(f"Written: {file}. Send it to {person.name}, who runs: {command}")
    _say(decision, choice.as_json)


def _other(kind: str, resource: str, choice: DecisionOptions) -> None:
    with Steward.connect(folder=choice.connection) as desk:
        _say(_decided(desk, kind.capitalize(), desk.preview(kind, resource), choice), choice.as_json)


def _decided(desk: Steward, verb: str, preview: Preview, choice: DecisionOptions) -> Decision:
    digest, why = confirmed(verb, lambda _: preview, preview.resource, choice)
    return desk.decide(replace(preview, shown=digest), reason=why)


def confirmed(
    verb: str, look: Callable[[str], Review], name: str, choice: DecisionOptions
) -> tuple[str, str]:
    """Return the digest of the reviewed document, and the reason; a terminal asks for them."""
    shown = choice.shown
    if choice.yes or not is_interactive():
        for option, value, advice in (
            ("--shown", shown, _LOOK_FIRST),
            ("--yes", choice.yes, _LOOK_FIRST),
            ("--reason", choice.reason, 'Write --reason "...": it is recorded in the log.'),
        ):
            if not value:
                problem = "is required without a terminal, or with --yes"
                raise InvalidInputError(field=option, problem=problem, advice=advice)
    if shown is None:
        review = look(name)
        say_review(review)
        shown = review.shown
    why = choice.reason or str(typer.prompt("Reason, for the log"))
    if not choice.yes:
        typer.confirm(f"{verb} the version with digest {shown}?", abort=True)
    return shown, why


def _say(decision: Decision, as_json: bool) -> None:
    """Print what became of a decision, and what another steward types."""
    if as_json:
        say_json(json_of(decision))
        return
    console.print(Facts(decision.lines()).rich())
    if not decision.done:
        say("Another steward must review it and run:")
        for command in decision.commands:
            say_next(command)


# One of the two approvals that a restore needs, signed without the service.


@with_groups
def approve_restore(
    backup: Annotated[Path, typer.Argument(help="The backup's list, backup.json, or a copy of it.")],
    complete: Complete = False,
    output: Annotated[
        Path | None, typer.Option(help="File for the approval. Default: NAME-approves.json.")
    ] = None,
    *,
    choice: DecisionOptions,
) -> None:
    """Approve a restore: sign that a backup may replace the state. The service may be stopped.

    The list holds the digest of every file of the backup. Two stewards sign, and the operator of
    the controller passes both files to `gencard-controller restore --approval`.
    """
    credentials = Credentials.of_folder(choice.connection)
    who, key = credentials.identity(), credentials.private_signing_key()
    if who.role is not Role.STEWARD:
        raise PermissionDeniedError(advice="Only stewards approve a restore.")
    facts = backup_facts(read_file(backup, "backup", LIST_LIMIT))
    shown_facts = {
        "made": facts.made,
        "log_entries": facts.entries,
        "files": facts.files,
        "budgets": "released: nothing was decided since" if complete else "blocked until checked",
    }
    preview = Preview("restore", "state", {"complete": complete}, shown_facts, True, facts.digest)
    digest, why = confirmed("Approve", lambda _: preview, str(backup), choice)
    if digest != preview.shown:
        raise InvalidInputError(field="--shown", problem="is not the digest of this backup's list")
    if not why.isprintable() or not 0 < len(why.strip()) <= LONGEST_REASON:
        problem = f"must be one printable line of 1 to {LONGEST_REASON} characters"
        raise InvalidInputError(field="reason", problem=problem)
    approval = RestoreApproval(digest, complete, why, who.uri, time_text(datetime.now(UTC)))
    file = output or Path(f"{who.name}-approves.json")
    write_bytes(file, approval.signed(key))
    if choice.as_json:
        say_json({"file": str(file), "backup": digest, "complete": complete, "by": who.uri})
        return
    say(f"Written: {file}. It is valid for {LIFE.days} days. With the approval of another steward, run:")
    say(f"gencard-controller restore FOLDER --approval {file.name} --approval OTHER")
