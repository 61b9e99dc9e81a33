"""cards, approve, counter, reject, revoke: a steward's decisions on cards."""

from typing import Annotated, Any

import typer
from rich.markup import escape

from gencard.controller.shell.terminal import (
    HERE,
    AsJson,
    ConfigFile,
    Emergency,
    LocalDesk,
    Reason,
    StewardName,
    Yes,
    console,
    controller_state,
    local_desk,
    reason_for_good,
    say,
    say_json,
)
from gencard.controller.state.cards import list_cards
from gencard.core.card.budget import FREE
from gencard.core.card.card import CardRecord, CardState, Offer
from gencard.core.card.terms import Proposal
from gencard.wire.codecs.card_codec import card_of_bytes
from gencard.wire.documents.card_document import json_of
from gencard.wire.signatures.canonical import time_text
from gencard.wire.signatures.identity import short_name
from gencard.wire.steward import Kind

CardName = Annotated[str, typer.Argument(help="datasets/DATASET/cards/CARD")]
Remark = Annotated[str, typer.Option(help="Short remark, shown to the analyst.")]
PAGE = 500


def show(
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
            _say(state.cards.card(tx, name), as_json)
            return
        rows = list_cards(tx, limit=PAGE).rows
        cards = [state.cards.as_of_now(card_of_bytes(row.body)) for row in rows]
    visible = [card for card in cards if not waiting or card.state is CardState.REQUESTED]
    if as_json:
        say_json([_document(card) for card in visible])
        return
    for card in visible:
        _say_short(card)
    if not visible:
        console.print("No cards waiting." if waiting else "No cards.")


def approve(
    name: CardName,
    reason: Reason = None,
    emergency: Emergency = False,
    config: ConfigFile = HERE,
    steward: StewardName = None,
) -> None:
    """Offer the proposed terms, or the nearest that the policy allows.

    For emergencies, without the service; otherwise use `gencard steward approve`.
    """
    with local_desk(config, steward, emergency=emergency) as desk:
        _decide(desk, Kind.APPROVE, name, reason)


def counter(
    name: CardName,
    drop: Annotated[
        list[str] | None, typer.Option(help="Marginal to leave out, such as sex,age. Repeatable.")
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(help="Attribute to leave out, with all statistics about it. Repeatable."),
    ] = None,
    rows: Annotated[int | None, typer.Option(help="Most rows in one release.")] = None,
    reason: Reason = None,
    emergency: Emergency = False,
    config: ConfigFile = HERE,
    steward: StewardName = None,
) -> None:
    """Offer fewer statistics or rows than proposed.

    For emergencies, without the service; otherwise use `gencard steward counter`.
    """
    arguments: dict[str, Any] = {
        "drop": [[part.strip() for part in marginal.split(",")] for marginal in drop or ()]
    }
    arguments |= {"without": without} if without else {}
    arguments |= {} if rows is None else {"rows": rows}
    with local_desk(config, steward, emergency=emergency) as desk:
        _decide(desk, Kind.COUNTER, name, reason, **arguments)


def reject(
    name: CardName,
    remark: Remark = "",
    reason: Reason = None,
    config: ConfigFile = HERE,
    steward: StewardName = None,
) -> None:
    """Reject a pending proposal.

    For emergencies, without the service; otherwise use `gencard steward reject`.
    """
    with local_desk(config, steward) as desk:
        _decide(desk, Kind.REJECT, name, reason or remark, remark=remark)


def revoke(
    name: CardName,
    remark: Remark = "",
    reason: Reason = None,
    emergency: Emergency = False,
    yes: Yes = False,
    config: ConfigFile = HERE,
    steward: StewardName = None,
) -> None:
    """Revoke an agreed card permanently, by a signed revocation.

    For emergencies, without the service; otherwise use `gencard steward revoke`.
    """
    with local_desk(config, steward, emergency=emergency) as desk:
        with desk.opened.database.reading() as tx:
            card = desk.opened.cards.card(tx, name)
        if not yes:
            _say_short(card)
        why = reason_for_good("Revoke this card permanently?", reason or remark, yes)
        _decide(desk, Kind.REVOKE, name, why, remark=remark)


def _decide(desk: LocalDesk, kind: Kind, name: str, reason: str | None, **arguments: Any) -> None:
    """Decide on a card, and print it; numbers whose answers will wait come first."""
    report = desk.desk.risks.examined(desk.who, name) if kind in (Kind.APPROVE, Kind.COUNTER) else None
    for line in () if report is None else report.tail_lines:
        say(line)
    if desk.decide(kind, name, reason, **arguments) is None:
        return
    with desk.opened.database.reading() as tx:
        _say(desk.opened.cards.card(tx, name))


def _say_short(card: CardRecord) -> None:
    """Print three lines; the card's name is not broken, so that it can be copied."""
    terms = card.proposed if card.offer is None else card.offer.terms
    price = "" if card.offer is None else f", price: {card.offer.price}"
    console.print(f"[bold]{card.name}[/]  {card.state}, turn: {card.turn}", soft_wrap=True)
    moments = f", moments: {len(terms.moments)}" if terms.moments else ""
    moments += f", histograms and sums: {len(terms.numbers)}" if terms.numbers else ""
    summary = f"marginals: {len(terms.marginals)}{moments}{price}"
    console.print(f"  {short_name(card.analyst)}  {summary}", soft_wrap=True)
    console.print(f"  {escape(terms.purpose)}", soft_wrap=True)


def _say(card: CardRecord, as_json: bool = False) -> None:
    if as_json:
        say_json(_document(card))
        return
    console.print(f"[bold]{card.name}[/]  {card.state}, turn: {card.turn}")
    console.print(f"  analyst   {short_name(card.analyst)}")
    _say_terms(card.proposed if card.offer is None else card.offer.terms)
    if card.offer is not None:
        _say_offer(card.offer)
    for step in card.history:
        remark = f"  {escape(step.remark)}" if step.remark else ""
        console.print(
            f"  {time_text(step.time)}  {step.action:13}  {short_name(step.actor)}{remark}",
            soft_wrap=True,
        )


def _say_terms(terms: Proposal) -> None:
    for name, value in terms.about:
        console.print(f"  {name.lower():9} {escape(value)}")
    console.print(f"  generator {terms.generator}, at most {terms.rows} rows, {terms.privacy.mechanism}")
    for clique in terms.marginals:
        console.print(f"  marginal  {escape(', '.join(clique))}")
    for moment in terms.moments:
        console.print(f"  moment    {escape(str(moment))}")
    for name in terms.histograms:
        console.print(f"  histogram {escape(name)}")
    for one in terms.sums:
        console.print(f"  sum       {escape(str(one))}")
    for measure in terms.measures:
        console.print(f"  measure   {escape(measure)}: reads records, and the analyst sees the result")
    for title, value in terms.analyses.about:
        console.print(
            f"  {title.lower():13} {escape(value)}; reads records, and the analyst sees the result"
        )
    if terms.without_uniques:
        console.print("  uniques   replicated ones are removed; the card allows one release")


def _say_offer(offer: Offer) -> None:
    console.print(f"  price     {offer.price}")
    if offer.analyses_price != FREE:
        console.print(f"  runs      at most {offer.analyses_price}, in addition")
    console.print(f"  expires   {time_text(offer.expire_time)}")
    for change in offer.changes:
        console.print(
            f"  change    {change.field}: {escape(change.old)} -> "
            f"{escape(change.new) or 'left out'} ({change.reason})"
        )


def _document(card: CardRecord) -> dict[str, object]:
    offer = card.offer
    return {
        **json_of(card, "name", "state", "turn", "analyst"),
        "terms": json_of(offer.terms if offer else card.proposed),
        "price": json_of(offer and offer.price),
        "expires": json_of(offer and offer.expire_time),
    }
