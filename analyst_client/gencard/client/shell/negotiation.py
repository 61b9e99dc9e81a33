"""propose, price, cards, accept, counter, terminate, plan: from a proposal to a signed card."""

import shlex
from typing import Annotated

import typer

from gencard.client.analyst import Analyst
from gencard.client.card import Card
from gencard.client.card_view import ANSWERED
from gencard.client.catalogue import AUTO
from gencard.client.planning import Consent, Plan
from gencard.client.shell.terminal import (
    HERE,
    AimFormula,
    AimKind,
    AimMissing,
    AsJson,
    Attributes,
    CardName,
    CheckedRuns,
    DatasetName,
    Delta,
    Epsilon,
    Folder,
    Generator,
    Libraries,
    Marginal,
    Measures,
    Moments,
    Order,
    Part,
    PlannedFormula,
    Programs,
    Relation,
    ReviewedRuns,
    Rho,
    Rows,
    RunKinds,
    Weight,
    WithoutUniques,
    aim,
    console,
    is_interactive,
    measured,
    needs,
    number_option,
    requested_statistics,
    runs,
    say_json,
    say_next,
    say_table,
)
from gencard.core.card.card import CardState
from gencard.core.card.terms import NO_ANALYSES, Tier
from gencard.core.errors import InvalidInputError, NotAcceptedError
from gencard.wire.canonical import Document
from gencard.wire.documents import json_of


def propose(
    dataset: DatasetName,
    purpose: Annotated[str, typer.Option(help="What the data will be used for, in one sentence.")],
    marginal: Marginal = None,
    marginals_of_order: Order = None,
    attributes: Attributes = None,
    moment: Moments = None,
    generator: Generator = "ipf",
    rows: Rows = None,
    epsilon: Epsilon = None,
    rho: Rho = None,
    delta: Delta = None,
    neighbouring: Relation = None,
    weight: Weight = None,
    measure: Measures = None,
    without_uniques: WithoutUniques = False,
    where: Part = None,
    analyses: RunKinds = None,
    checked_runs: CheckedRuns = None,
    program: Programs = None,
    library: Libraries = None,
    reviewed_runs: ReviewedRuns = None,
    formula: AimFormula = None,
    kind: AimKind = None,
    missing: AimMissing = None,
    accept: Annotated[
        bool,
        typer.Option(
            "--accept",
            help="Sign the offer even if it differs from the proposal, but no other mechanism.",
        ),
    ] = False,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Propose a card. The controller answers with an offer: its terms, changes and price."""
    marginals = requested_statistics(marginal, marginals_of_order, attributes, moment)
    how = measured(epsilon, rho, delta, neighbouring, weight)
    how |= {"measures": measure, "without_uniques": without_uniques, "where": where}
    how |= {"analyses": runs(analyses, checked_runs, program, library, reviewed_runs)}
    analysis = aim(formula, kind, missing)
    with Analyst.connect(folder=connection) as analyst:
        card = analyst.propose(
            dataset, marginals, purpose=purpose, generator=generator, rows=rows, **analysis, **how
        )
        if accept and card.state is CardState.OFFERED:
            try:
                Consent(accept=True, show=True).ask(card)
            except NotAcceptedError as error:
                error.add_note(f"Card {card.name} stays open.")
                raise
            card.accept()
        _say(card, as_json)


def price(
    dataset: DatasetName,
    marginal: Marginal = None,
    marginals_of_order: Order = None,
    attributes: Attributes = None,
    moment: Moments = None,
    generator: Generator = "ipf",
    rows: Rows = None,
    epsilon: Epsilon = None,
    rho: Rho = None,
    delta: Delta = None,
    neighbouring: Relation = None,
    weight: Weight = None,
    measure: Measures = None,
    without_uniques: WithoutUniques = False,
    where: Part = None,
    analyses: RunKinds = None,
    checked_runs: CheckedRuns = None,
    program: Programs = None,
    library: Libraries = None,
    reviewed_runs: ReviewedRuns = None,
    formula: AimFormula = None,
    kind: AimKind = None,
    missing: AimMissing = None,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Show the offer and price that a proposal would get. Stores nothing, reads no record."""
    marginals = requested_statistics(marginal, marginals_of_order, attributes, moment)
    how = measured(epsilon, rho, delta, neighbouring, weight)
    how |= {"measures": measure, "without_uniques": without_uniques, "where": where}
    how |= {"analyses": runs(analyses, checked_runs, program, library, reviewed_runs)}
    analysis = aim(formula, kind, missing)
    with Analyst.connect(folder=connection) as analyst:
        card = analyst.propose(
            dataset,
            marginals,
            purpose="price",
            generator=generator,
            rows=rows,
            dry_run=True,
            **analysis,
            **how,
        )
        _say(card, as_json)


def cards(
    name: Annotated[str | None, typer.Argument(help="Card to show in full; default: list all.")] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the steward has answered the proposal.")
    ] = False,
    wait_for: Annotated[
        str | None,
        typer.Option("--for", help="Wait until the card is 'answered', 'agreed' or 'audited'."),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(help="With --wait or --for: longest wait in seconds. Default: no limit."),
    ] = None,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """List cards, newest first, or show one."""
    waits = wait or wait_for is not None
    if name is None and (waits or timeout is not None):
        raise InvalidInputError(field="--wait", problem="needs the name of a card")
    needs("--timeout", timeout, "--wait or --for", waits or None)
    with Analyst.connect(folder=connection) as analyst:
        if name is not None:
            card = analyst.card(name)
            _say(card.wait(timeout, for_=wait_for or ANSWERED) if waits else card, as_json)
            return
        all_cards = analyst.cards()
    if as_json:
        say_json([_document(card) for card in all_cards])
        return
    lines = []
    for card in all_cards:
        offer = card.negotiation.offer
        price = "" if offer is None else str(offer.price)
        lines.append((card.name, str(card.state), str(card.turn), price, _next(card, "CARD")))
    say_table(("Card", "State", "Turn", "Price", "Next"), lines)


def accept(
    name: CardName,
    yes: Annotated[bool, typer.Option("--yes", help="Sign without confirmation.")] = False,
    formula: AimFormula = None,
    kind: AimKind = None,
    missing: AimMissing = None,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Sign the offer, after checking that the bytes to be signed state exactly its terms.

    If the offer differs from the proposal, a terminal shows the differences and asks for confirmation.
    Without a question, no other mechanism is signed than the one that was asked for.
    """
    analysis = aim(formula, kind, missing)
    with Analyst.connect(folder=connection) as analyst:
        card = analyst.card(name)
        if formula is not None:
            card.for_analysis(**analysis)
        if card.state is CardState.OFFERED and card.changes and not yes and is_interactive():
            console.print(card)
            typer.confirm("Sign this offer?", abort=True)
        elif card.state is CardState.OFFERED:
            Consent(accept=True, show=True).ask(card)
        _say(card.accept(), as_json)


def counter(
    name: CardName,
    marginal: Marginal = None,
    marginals_of_order: Order = None,
    attributes: Attributes = None,
    moment: Moments = None,
    generator: Annotated[str | None, typer.Option(help="New generator.")] = None,
    rows: Annotated[int | None, typer.Option(help="New number of rows.")] = None,
    purpose: Annotated[str | None, typer.Option(help="New purpose.")] = None,
    epsilon: Epsilon = None,
    rho: Rho = None,
    delta: Delta = None,
    neighbouring: Relation = None,
    weight: Weight = None,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Answer an offer with other terms. Options that are not given keep the offered value."""
    needs("--attributes", attributes, "--marginals-of-order", marginals_of_order)
    has_statistics = marginal or moment or marginals_of_order is not None
    marginals = (
        requested_statistics(marginal, marginals_of_order, attributes, moment)
        if has_statistics
        else None
    )
    how = measured(epsilon, rho, delta, neighbouring, weight)
    with Analyst.connect(folder=connection) as analyst:
        card = analyst.card(name)
        card.counter(marginals=marginals, generator=generator, rows=rows, purpose=purpose, **how)
        _say(card, as_json)


def terminate(name: CardName, connection: Folder = HERE, as_json: AsJson = False) -> None:
    """End a negotiation, or give up an agreed card."""
    with Analyst.connect(folder=connection) as analyst:
        _say(analyst.card(name).terminate(), as_json)


def _say(card: Card, as_json: bool) -> None:
    if as_json:
        say_json({**_document(card), **_effects(card)})
        return
    console.print(card.panel(without="Next"))
    say_next(_next(card, card.name))


_SHOW = "gencard cards {card}"
_NEXT = {
    CardState.REQUESTED: f"{_SHOW} --wait",
    CardState.OFFERED: "gencard accept {card}",
    CardState.ACCEPTED: f"{_SHOW} --wait",
    CardState.AGREED: "gencard generate {card} --rows {rows} --output release",
    CardState.AUDITING: f"wait for the audit, then {_SHOW}",
    CardState.AUDITED: "gencard generate {card} --rows {rows} --output release",
    CardState.RELEASED: "gencard report {card} --html report.html",
}
"""Commands that take a card on; of other states the next step is no command."""


def _next(card: Card, name: str) -> str:
    """Return the next command for a card under this name; empty if the card was only priced."""
    if not card.name:
        return ""
    if card.state is CardState.AGREED and card.tier is Tier.AUDITED:
        return f"gencard audit {name} --where card"
    return _NEXT.get(card.state, card.next_step).format(card=name, rows=card.terms.rows)


def _effects(card: Card) -> Document:
    """Effects of an open offer; of a schema without a step, on a formula if one is given."""
    has_effects = card.aim is not None or card.entry.coding.with_step
    is_open = card.state is CardState.OFFERED
    effects = card.effects.document() if is_open and has_effects else {}
    return {"effects": effects} if effects else {}


def _document(card: Card) -> Document:
    offer, priced = card.negotiation.offer, _NO_OFFER
    if offer is not None:
        priced = json_of(offer, "price", "held_by", "measures_price")
        priced |= {"expires": json_of(offer.expire_time), "sha256": offer.digest}
    grants_runs = offer is not None and card.terms.analyses != NO_ANALYSES
    return {
        **json_of(card, "name", "state", "turn", "tier", "next_step", "terms", "changes"),
        **priced,
        **(json_of(card, "analyses_price") if grants_runs else {}),
        "history": [json_of(step, "actor", "action", "time") for step in card.negotiation.history],
    }


_NO_OFFER: Document = {**dict.fromkeys(("price", "measuresPrice", "expires", "sha256")), "heldBy": []}


def plan(
    dataset: DatasetName,
    formula: PlannedFormula = None,
    kind: AimKind = None,
    where: Part = None,
    missing: AimMissing = None,
    generator: Generator = AUTO,
    rows: Rows = None,
    epsilon: Epsilon = None,
    rho: Rho = None,
    delta: Delta = None,
    neighbouring: Relation = None,
    weight: Weight = None,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Show the marginals that an analysis, or all columns, need, and their price. Stores nothing."""
    how = measured(epsilon, rho, delta, neighbouring, weight)
    how |= {"where": where}
    analysis = aim(formula, kind, missing, name="a formula")
    with Analyst.connect(folder=connection) as analyst:
        answer = analyst.plan(dataset, generator=generator, rows=rows, **analysis, **how)
    if as_json:
        names = ["kind", "marginals", "price", "changes", "lacking", "missing", "next_step"]
        names += [name for name in ("numbers", "lacking_sums") if getattr(answer, name)]
        said_formula = None if answer.formula is None else str(answer.formula)
        effects = _effects(answer.answer) if answer.coding.with_step else {}
        say_json({"formula": said_formula, **json_of(answer, *names), **effects})
        return
    console.print(answer.panel(without="Next"))
    say_next(plan_next(answer))


def plan_next(plan: Plan) -> str:
    """The command that proposes it, or what else to do."""
    terms = plan.answer.terms
    if plan.lacking or plan.lacking_sums:
        return plan.next_step
    if terms.privacy.noisy:
        return "gencard propose with these statistics and the same noise options"
    marginals = " ".join(f"--marginal {shlex.quote(','.join(clique))}" for clique in plan.marginals)
    numbers = "".join(f" --moment {shlex.quote(number_option(one))}" for one in plan.numbers)
    part = f"--where {shlex.quote(terms.where)} " if terms.where else ""
    about = f"{part}--generator {terms.generator} --rows {terms.rows}"
    return (
        f'gencard propose {terms.dataset.partition("/")[2]} {marginals}{numbers} {about} --purpose "..."'
    )
