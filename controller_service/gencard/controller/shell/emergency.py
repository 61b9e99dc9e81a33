"""emergency: decisions of stewards on the controller's machine, and plain lists of what they decide on.

Page and ``gencard steward`` are the stewards' interfaces. These commands need neither the service nor a
certificate: they use the state's files as the account that runs them, which the log names.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import typer

from gencard.controller.answers.decisions import STEWARD
from gencard.controller.controller_state import ControllerState
from gencard.controller.jobs import tasks
from gencard.controller.jobs.descriptions import Descriptions
from gencard.controller.records.catalogue import PREFIX, dataset_of
from gencard.controller.shell import terminal
from gencard.controller.shell.terminal import (
    HERE,
    AsJson,
    ConfigFile,
    Emergency,
    LocalDesk,
    Reason,
    StewardName,
    Yes,
    controller_state,
    local_desk,
    say_json,
)
from gencard.controller.state import results
from gencard.controller.state.cards import all_cards
from gencard.controller.state.database import LARGEST_PAGE, rows_of_pages
from gencard.controller.state.ledger import Account, Scope
from gencard.controller.stewards.archive import evidence
from gencard.controller.stewards.cards import worst_of
from gencard.controller.stewards.effects import summary_of
from gencard.core.card.budget import FREE
from gencard.core.card.card import CardRecord, CardState
from gencard.core.program_outputs import DIGITS
from gencard.core.statistics.noise import USUAL_DELTA, in_words, together
from gencard.shell import Digits, Drop, MostRows, Red, Withhold, Without, new_typer, visible
from gencard.wire.canonical import Document, time_text
from gencard.wire.codec import card_of_bytes
from gencard.wire.documents import json_of
from gencard.wire.steward import AnswerSummary, Kind, ReviewedNumber

app = new_typer(
    help="Decide on this machine, without the service. Otherwise use the stewards' page or "
    "`gencard steward`, which show more. The log names the account of the operating system.",
    no_args_is_help=True,
)
CardName = Annotated[str, typer.Argument(help="datasets/DATASET/cards/CARD")]
AnswerName = Annotated[str, typer.Argument(help="datasets/DATASET/cards/CARD/answers/ANSWER")]
Line = Annotated[int, typer.Argument(help="Number of the ledger line.")]
Remark = Annotated[str, typer.Option(help="Short remark, shown to the analyst.")]


def _group(name: str, text: str, **settings: bool) -> typer.Typer:
    group = new_typer(help=text, **settings)
    app.add_typer(group, name=name)
    return group


def say(text: str) -> None:
    """Print one line; analysts write purposes and programs, which no terminal must obey."""
    terminal.say(visible(text.replace("\n", " ")))


def _text(value: Any, between: str = ", ") -> str:
    if isinstance(value, Mapping):
        parts = [f"{name} {_text(part)}" for name, part in value.items() if part or part == 0]
        return between.join(parts)
    return ", ".join(map(_text, value)) if isinstance(value, list | tuple) else str(value)


def _plain(document: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Yield the lines of a document: one for each value, and for each part of a list of several."""
    for name, value in document.items():
        if isinstance(value, Mapping):
            yield f"{indent}{name}:"
            yield from _plain(value, f"{indent}  ")
        elif isinstance(value, list) and any(isinstance(part, list | Mapping) for part in value):
            yield from (f"{indent}{name}: {_text(part, '; ')}" for part in value)
        elif value or value == 0:
            yield f"{indent}{name}: {_text(value)}"


def _say_list(documents: Sequence[Document], as_json: bool, none: str) -> None:
    """Print documents as JSON or as lines; the first value of each is what a command names."""
    if as_json:
        say_json(documents)
        return
    for document in documents:
        (name, first), *others = document.items()
        say(first if isinstance(first, str) else f"{name} {first}")
        say(f"  {'; '.join(f'{name}: {_text(value)}' for name, value in others)}")
    if not documents:
        say(none)


@app.command("cards")
def show_cards(
    name: Annotated[str | None, typer.Argument(help="Card to show in full; default: list all.")] = None,
    waiting: Annotated[
        bool, typer.Option("--waiting", help="Only cards waiting for a steward.")
    ] = False,
    config: ConfigFile = HERE,
    as_json: AsJson = False,
) -> None:
    """Show cards, newest first."""
    with controller_state(config) as state, state.database.reading() as tx:
        if name is not None:
            card = state.cards.card(tx, name)
            say_json(_card_document(card)) if as_json else _say_card(card)
            return
        cards = [state.cards.as_of_now(card_of_bytes(row.body)) for row in all_cards(tx)]
    cards = [card for card in cards if not waiting or card.state is CardState.REQUESTED]
    shown = map(_card_document if as_json else _card_in_short, cards)
    _say_list([*shown], as_json, "No cards waiting." if waiting else "No cards.")


@app.command()
def approve(
    name: CardName,
    reason: Reason = None,
    emergency: Emergency = False,
    config: ConfigFile = HERE,
    steward: StewardName = None,
) -> None:
    """Offer the proposed terms, or the nearest that the policy allows."""
    with local_desk(config, steward, emergency=emergency) as desk:
        _decide_on_card(desk, Kind.APPROVE, name, reason)


@app.command()
def counter(
    name: CardName,
    drop: Drop = None,
    without: Without = None,
    rows: MostRows = None,
    reason: Reason = None,
    emergency: Emergency = False,
    config: ConfigFile = HERE,
    steward: StewardName = None,
) -> None:
    """Offer fewer statistics or rows than proposed."""
    arguments: dict[str, Any] = {
        "drop": [[part.strip() for part in marginal.split(",")] for marginal in drop or ()]
    }
    arguments |= {"without": without} if without else {}
    arguments |= {} if rows is None else {"rows": rows}
    with local_desk(config, steward, emergency=emergency) as desk:
        _decide_on_card(desk, Kind.COUNTER, name, reason, **arguments)


@app.command()
def reject(
    name: CardName,
    remark: Remark = "",
    reason: Reason = None,
    config: ConfigFile = HERE,
    steward: StewardName = None,
) -> None:
    """Reject a pending proposal."""
    with local_desk(config, steward) as desk:
        _decide_on_card(desk, Kind.REJECT, name, reason or remark, remark=remark)


@app.command()
def revoke(
    name: CardName,
    remark: Remark = "",
    reason: Reason = None,
    emergency: Emergency = False,
    yes: Yes = False,
    config: ConfigFile = HERE,
    steward: StewardName = None,
) -> None:
    """Revoke an agreed card permanently, by a signed revocation."""
    with local_desk(config, steward, emergency=emergency) as desk:
        # before the card is shown: what another steward decides from here on is not revoked unseen
        shown = desk.desk.preview(desk.who, Kind.REVOKE, name, {"remark": remark}).shown
        if not yes:
            with desk.opened.database.reading() as tx:
                _say_list([_card_in_short(desk.opened.cards.card(tx, name))], False, "")
        why = terminal.reason_for_good("Revoke this card permanently?", reason or remark, yes)
        _decide_on_card(desk, Kind.REVOKE, name, why, shown, remark=remark)


def _decide_on_card(
    desk: LocalDesk, kind: Kind, name: str, reason: str | None, shown: str = "", **arguments: Any
) -> None:
    """Decide on a card, and print it; numbers whose answers will wait come first."""
    report = desk.desk.risks.examined(desk.who, name) if kind in (Kind.APPROVE, Kind.COUNTER) else None
    for line in () if report is None else report.tail_lines:
        say(line)
    if desk.decide(kind, name, reason, shown, **arguments) is not None:
        with desk.opened.database.reading() as tx:
            _say_card(desk.opened.cards.card(tx, name))


def _say_card(card: CardRecord) -> None:
    others: dict[str, Any] = {"history": json_of(card.history)}
    if card.offer is not None:
        if card.offer.analyses_price != FREE:
            others["runs at most, in addition"] = str(card.offer.analyses_price)
        others["changes"] = json_of(card.offer.changes)
    for line in _plain(_card_document(card) | others):
        say(line)


def _card_in_short(card: CardRecord) -> Document:
    terms = card.proposed if card.offer is None else card.offer.terms
    price = {} if card.offer is None else {"price": str(card.offer.price)}
    counts = {
        "marginals": len(terms.marginals),
        "moments": len(terms.moments),
        "histograms and sums": len(terms.numbers),
    }
    about = json_of(card, "name", "state", "turn", "analyst")
    return {**about, **counts, **price, "purpose": terms.purpose}


def _card_document(card: CardRecord) -> Document:
    offer = card.offer
    return {
        **json_of(card, "name", "state", "turn", "analyst"),
        "terms": json_of(offer.terms if offer else card.proposed),
        "price": json_of(offer and offer.price),
        "expires": json_of(offer and offer.expire_time),
    }


@app.command()
def risk(
    name: CardName, config: ConfigFile = HERE, steward: StewardName = None, as_json: AsJson = False
) -> None:
    """Show what the exact counts of a card would reveal about records.

    All exact counts granted before are included. Reads the records and prints numbers about them, for
    the steward only. Decides nothing; the log records who looked. Statistics with noise are not
    examined: their budget bounds what they reveal.
    """
    with controller_state(config) as state:
        entry, limits = state.cards.catalogue.named(dataset_of(name)), state.settings.limits
        with state.database.transaction() as tx:
            tables = state.desk().risks.tables(tx, state.cards.card(tx, name))
            state.desk().risks.log(tx, terminal.steward_uri(state.settings, steward), name)
        jobs = Descriptions(state.salt, limits.model_cells, limits.records)
        with terminal.console.status("Reading the records") as status:
            report = tasks.LOOK(
                tables.job(jobs, entry),
                progress=lambda step, share: status.update(f"Examining {step}: {share:.0%}"),
            ).risk
    document = {"card": name, "together_with": list(tables.cards), **report.json()}
    if as_json:
        say_json(document)
        return
    say(f"{name} (for the steward only; --json has all)")
    for line in (*report.failing_lines, *report.tail_lines, *report.histogram_lines):
        say(line)
    for key in worst_of(report, entry.schema.coding):
        say(f"Certain: {key.known} determines {key.certain}, {key.records:,} records")
    counts = ("together_with", "records", "threshold", "small", "worst_tables", "facts", "guesses")
    for line in (*_plain({one: document[one] for one in counts}), *report.not_covered):
        say(line)


answers = _group("answers", "Show, release or refuse answers waiting for a steward.")


@answers.command("list")
def list_answers(config: ConfigFile = HERE, as_json: AsJson = False) -> None:
    """List the answers waiting for a steward, oldest first."""
    with local_desk(config, None) as desk:
        rows = desk.desk.answers(desk.who)
    _say_list([_run_document(summary_of(row)) for row in rows], as_json, "No answers waiting.")


@answers.command("show")
def show_answer(
    name: AnswerName,
    program: Annotated[bool, typer.Option("--program", help="Print only the program's text.")] = False,
    config: ConfigFile = HERE,
    as_json: AsJson = False,
) -> None:
    """Show every number of a waiting answer, with its mark. The dry run's number stands beside it."""
    with local_desk(config, None) as desk:
        view = desk.desk.answer(desk.who, name)
    run = _run_document(view.summary)
    if not view.summary.reviewed:
        say_json({**run, "answer": view.document, "marks": view.marks})
    elif program:
        typer.echo(visible(view.program.expandtabs(4)))
    elif as_json:
        say_json({**run, "numbers": [_number_document(cell, cell.rules) for cell in view.cells]})
    else:
        numbers = [
            _number_document(cell, cell.marks) | {"value": _number(cell.value), "dry": _number(cell.dry)}
            for cell in view.cells
        ]
        for line in _plain({**run, "number": numbers}):
            say(line)
        if view.reasons:
            say(f"no output: {', '.join(view.reasons)} on the records; it can only be refused")
        say("Read the program (--program): marks rely on the counts that it reports.")


@answers.command()
def release(
    name: AnswerName,
    withhold: Withhold = None,
    digits: Digits = None,
    red: Red = False,
    reason: Reason = None,
    emergency: Emergency = False,
    config: ConfigFile = HERE,
    steward: StewardName = None,
) -> None:
    """Release an answer, signed and logged. By default, its green and amber numbers are released."""
    arguments: dict[str, Any] = {"withhold": withhold} if withhold else {}
    arguments |= ({} if digits is None else {"digits": digits}) | ({"red": True} if red else {})
    with local_desk(config, steward, emergency=emergency) as desk:
        result = desk.decide(Kind.RELEASE_ANSWER, name, reason, **arguments)
    if result is not None:
        numbers = f"{result['statistics']} numbers charged"
        say(f"Released {name}: {numbers}, log entry {result['log_index']}.")


@answers.command()
def refuse(
    name: AnswerName,
    reason: Annotated[str, typer.Option(help="Code of the reason, shown to the analyst.")] = STEWARD,
    config: ConfigFile = HERE,
    steward: StewardName = None,
) -> None:
    """Refuse an answer: no number is released. The refusal is signed and costs one statistic."""
    with local_desk(config, steward) as desk:
        result = desk.decide(Kind.REFUSE_ANSWER, name, reason, code=reason)
    if result is not None:
        charged, entry = result["statistics"], result["log_index"]
        say(f"Refused {name}: {charged} statistic charged, log entry {entry}.")


def _run_document(run: AnswerSummary) -> Document:
    question = {"kind": run.question.kind, "formula": run.question.formula}
    return {"name": run.name, "analyst": run.analyst, **question, "created": time_text(run.time)}


def _number(value: float | None) -> str:
    return "missing" if value is None else f"{value:.{DIGITS}g}"


def _number_document(cell: ReviewedNumber, rules: Iterable[str]) -> Document:
    facts = {name: getattr(cell, name) for name in ("output", "row", "column", "value", "dry")}
    return facts | {"mark": cell.mark, "rules": list(rules), "leaves": cell.leaving}


audits = _group("audits", "Show or clear audit evidence, by black box.", invoke_without_command=True)


@audits.callback()
def show_audits(context: typer.Context, config: ConfigFile = HERE, as_json: AsJson = False) -> None:
    """Count the completed audits of each black box, and those that found leakage."""
    if context.invoked_subcommand is not None:
        return
    with controller_state(config) as state, state.database.reading() as tx:
        families = evidence(results.counting_audits(tx))
    documents: list[Document] = [
        {
            "dataset": one.dataset,
            "black_box": one.black_box,
            "author": one.author or "unknown",
            "tries": one.tries,
            "leakage": one.leakage,
            "newest_verdict": str(one.newest.verdict),
        }
        for one in families
    ]
    _say_list(documents, as_json, "No audit counts.")


@audits.command()
def clear(
    black_box: Annotated[str, typer.Argument(help="Name of the black box in the settings.")],
    dataset: Annotated[str, typer.Option(help="Dataset whose audits of the box are cleared.")],
    remark: Annotated[str, typer.Option(help="Reason, recorded in the log.")],
    emergency: Emergency = False,
    steward: StewardName = None,
    config: ConfigFile = HERE,
) -> None:
    """Clear the evidence against a black box. Its next audit counts as the first attempt.

    Cards whose audit failed stay failed. Audits of the same code under another name still count.
    """
    name = PREFIX + dataset.removeprefix(PREFIX)
    with local_desk(config, steward, emergency=emergency) as desk:
        result = desk.decide(Kind.CLEAR_AUDITS, name, remark, black_box=black_box)
    if result is not None:
        say(f"Cleared {result['tries']} audits of {black_box} on {name}; the log records the reason.")


ledger = _group("ledger", "Show spending; settle or void a reservation.", invoke_without_command=True)


@ledger.callback()
def show_ledger(
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
            page = partial(state.ledger.lines, tx, dataset=name, limit=LARGEST_PAGE)
            lines = [*rows_of_pages(lambda token: page(before=token))]
        fields = ("line", "dataset", "analyst", "kind", "resource", "price", "state")
        documents = [{**json_of(one, *fields), "time": time_text(one.created)} for one in lines]
        _say_list(documents, as_json, "No lines.")
        for line in () if as_json else _caps(state):
            say(line)


@ledger.command()
def settle(
    line: Line, reason: Reason = None, config: ConfigFile = HERE, steward: StewardName = None
) -> None:
    """Charge a reservation for which something may have been released."""
    with local_desk(config, steward) as desk:
        if desk.decide(Kind.SETTLE, f"ledger/{line}", reason) is not None:
            say(f"Line {line} is settled.")


@ledger.command()
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
            say(f"Line {line} is void.")


def _caps(state: ControllerState) -> Iterator[str]:
    """Yield what is spent of each dataset's cap, and the epsilon of all its noisy cards together."""
    with state.database.reading() as tx:
        for entry in state.cards.catalogue:
            account = Account(Scope.DATASET, entry.name)
            spent, cap = state.ledger.spent(tx, account), state.ledger.cap(account)
            epsilons, noise = state.ledger.epsilons(tx, entry.name), "none"
            if epsilons or spent.rho:
                policy = entry.policy.noise
                delta = USUAL_DELTA if policy is None or policy.delta is None else policy.delta
                noise = in_words(together(epsilons, spent.rho, delta), delta)
            yield f"{entry.name}: spent or reserved {spent}; cap {cap}; all noise together: {noise}"


refusals = _group(
    "refusals", "Show or dismiss failures and refusals on the records.", invoke_without_command=True
)


@refusals.callback()
def show_refusals(context: typer.Context, config: ConfigFile = HERE, as_json: AsJson = False) -> None:
    """List unreviewed operations that failed, and runs that were refused, on the records, oldest first.

    An analyst with limits.refusals of them on a dataset cannot start another operation there; nor can
    any analyst of a project with three times as many. Of a refused run the output rules are listed.
    """
    if context.invoked_subcommand is not None:
        return
    with controller_state(config) as state, state.database.reading() as tx:
        rows, fields = state.refusals.reviewable(tx), ("time", "kind", "resource", "reason")
    documents = [{"operation": one.name, "analyst": one.owner, **json_of(one, *fields)} for one in rows]
    _say_list(documents, as_json, "No unreviewed failures on the records.")


@refusals.command()
def dismiss(
    operation: Annotated[str, typer.Argument(help="Name of the operation or answer.")],
    reason: Reason = None,
    emergency: Emergency = False,
    config: ConfigFile = HERE,
    steward: StewardName = None,
) -> None:
    """Mark a failure or refusal as reviewed: it no longer counts. Its price stays charged."""
    with local_desk(config, steward, emergency=emergency) as desk:
        if desk.decide(Kind.DISMISS_REFUSAL, operation, reason) is not None:
            say(f"{operation} no longer counts against its analyst.")
