"""propose, price, cards, accept, counter, terminate, plan: from a proposal to a signed card."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from gencard.client.analyst import Analyst
from gencard.client.card import Card
from gencard.client.card_view import ANSWERED
from gencard.client.catalogue import AUTO
from gencard.client.planning import Consent, Plan
from gencard.client.shell.terminal import (
    HERE,
    AimKind,
    AsJson,
    CardName,
    DatasetName,
    Folder,
    Generator,
    NoiseOptions,
    PlannedFormula,
    Rows,
    console,
    is_interactive,
    moment_said,
    names_in,
    needs,
    number_option,
    say_json,
    say_next,
    say_table,
    with_groups,
)
from gencard.client.terms import Marginals, Measured, Statistic, all_marginals
from gencard.core.card.card import CardState
from gencard.core.card.terms import NO_ANALYSES, Tier
from gencard.core.errors import InvalidInputError, NotAcceptedError
from gencard.core.statistics.formula import Analysis
from gencard.wire.canonical import Document
from gencard.wire.documents import json_of

AimMissing = Annotated[
    str | None,
    typer.Option(
        "--missing",
        help="With a formula: 'level', the default, makes missing values a level of their own, 'drop' "
        "leaves them out.",
    ),
]
Part = Annotated[
    str | None,
    typer.Option(
        "--where", help="Subset of the records that the card is about, such as \"sex == 'F'\"."
    ),
]


@dataclass(frozen=True, slots=True)
class StatisticOptions:
    """Options that name the statistics of a card."""

    marginal: Annotated[
        list[str] | None, typer.Option(help="A marginal, such as sex,health. Repeatable.")
    ] = None
    marginals_of_order: Annotated[
        int | None, typer.Option(help="All marginals of this number of attributes.")
    ] = None
    attributes: Annotated[
        str | None, typer.Option(help="With --marginals-of-order: only these attributes.")
    ] = None
    moment: Annotated[
        list[str] | None,
        typer.Option(
            help="A moment: mean=age, moment3=age, group-means=sex,age, ...; or of numbers with a step "
            "histogram=pay, sum=pay:sex (by sex), sum=pay*age, sum=pay:sex:age (where age is present). "
            "Repeatable."
        ),
    ] = None

    def requested(self) -> Marginals:
        """The named statistics; raises InvalidInputError if none is named, or marginals in both ways."""
        order = self.marginals_of_order
        if (self.marginal and order is not None) or not self.are_given():
            problem = "give either --marginal or --marginals-of-order"
            raise InvalidInputError(field="marginals", problem=problem)
        needs("--attributes", self.attributes, "--marginals-of-order", order)
        statistics: list[Statistic] = [names_in(names) for names in self.marginal or ()]
        if order is not None:
            names = None if self.attributes is None else names_in(self.attributes)
            statistics.append(all_marginals(order, names))
        return [*statistics, *map(moment_said, self.moment or ())]

    def are_given(self) -> bool:
        return bool(self.marginal or self.moment or self.marginals_of_order is not None)


@dataclass(frozen=True, slots=True)
class GrantOptions:
    """Options of what else a card grants at the records: evaluations, and runs on a part of them."""

    measure: Annotated[
        list[str] | None,
        typer.Option(help="Evaluation to run on the records for the card, such as dcr. Repeatable."),
    ] = None
    without_uniques: Annotated[
        bool,
        typer.Option(
            "--without-uniques", help="Remove replicated uniques; the card then allows one release."
        ),
    ] = False
    where: Part = None
    analyses: Annotated[
        list[str] | None,
        typer.Option(
            help="Analyses to run on the records with `gencard run`, such as linear,crosstab. "
            "Repeatable."
        ),
    ] = None
    checked_runs: Annotated[
        int | None, typer.Option(help="With --analyses: most runs under the card. Default: 1.")
    ] = None
    program: Annotated[
        list[Path] | None,
        typer.Option(help="Program to run on the records, each answer reviewed. Repeatable."),
    ] = None
    library: Annotated[
        list[str] | None, typer.Option(help="Library that a program imports. Repeatable.")
    ] = None
    reviewed_runs: Annotated[
        int | None, typer.Option(help="With --program: most runs under the card. Default: 1.")
    ] = None

    def measured(self) -> Measured:
        """The options as arguments of the library."""
        return Measured(
            measures=self.measure,
            without_uniques=self.without_uniques,
            where=self.where,
            analyses=self.runs(),
        )

    def runs(self) -> Mapping[str, Any] | None:
        """The runs that a proposal asks for; None where it names neither kind nor program."""
        needs("--checked-runs", self.checked_runs, "--analyses", self.analyses)
        needs("--reviewed-runs", self.reviewed_runs, "--program", self.program)
        granted: dict[str, Any] = {}
        if self.analyses:
            names = {name for text in self.analyses for name in names_in(text)}
            runs = 1 if self.checked_runs is None else self.checked_runs
            granted |= {"kinds": sorted(names), "checked_runs": runs}
        if self.program:
            from gencard.client.answers.answering import granting  # noqa: PLC0415 - loads pandas

            runs = 1 if self.reviewed_runs is None else self.reviewed_runs
            granted |= granting(self.program, self.library or ()) | {"reviewed_runs": runs}
        elif self.library:
            raise InvalidInputError(field="--library", problem="needs a --program that imports it")
        return granted or None


@dataclass(frozen=True, slots=True)
class AimOptions:
    """Options of the analysis that a card is for."""

    formula: Annotated[
        str | None,
        typer.Option(
            help="Analysis that the card is for: the offer says what noise and levels do to it."
        ),
    ] = None
    kind: AimKind = None
    missing: AimMissing = None

    def arguments(self, name: str = "--formula") -> dict[str, Any]:
        """The options as arguments of the library; ``name`` is that of the formula."""
        needs("--kind", self.kind, name, self.formula)
        needs("--missing", self.missing, name, self.formula)
        kind, missing = self.kind or Analysis.LOGISTIC, self.missing or "level"
        return {"formula": self.formula, "kind": kind, "missing": missing}


@with_groups
def propose(
    dataset: DatasetName,
    purpose: Annotated[str, typer.Option(help="What the data will be used for, in one sentence.")],
    statistics: StatisticOptions,
    *,
    generator: Generator = "ipf",
    rows: Rows = None,
    noise: NoiseOptions,
    on_records: GrantOptions,
    aim: AimOptions,
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
    marginals = statistics.requested()
    how = noise.measured() | on_records.measured()
    analysis = aim.arguments()
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


@with_groups
def price(
    dataset: DatasetName,
    statistics: StatisticOptions,
    *,
    generator: Generator = "ipf",
    rows: Rows = None,
    noise: NoiseOptions,
    on_records: GrantOptions,
    aim: AimOptions,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Show the offer and price that a proposal would get. Stores nothing, reads no record."""
    marginals = statistics.requested()
    how = noise.measured() | on_records.measured()
    dry = aim.arguments() | {"purpose": "price", "dry_run": True}
    with Analyst.connect(folder=connection) as analyst:
        _say(analyst.propose(dataset, marginals, generator=generator, rows=rows, **dry, **how), as_json)


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


@with_groups
def accept(
    name: CardName,
    yes: Annotated[bool, typer.Option("--yes", help="Sign without confirmation.")] = False,
    *,
    aim: AimOptions,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Sign the offer, after checking that the bytes to be signed state exactly its terms.

    If the offer differs from the proposal, a terminal shows the differences and asks for confirmation.
    Without a question, no other mechanism is signed than the one that was asked for.
    """
    analysis = aim.arguments()
    with Analyst.connect(folder=connection) as analyst:
        card = analyst.card(name)
        if aim.formula is not None:
            card.for_analysis(**analysis)
        if card.state is CardState.OFFERED and card.changes and not yes and is_interactive():
            console.print(card)
            typer.confirm("Sign this offer?", abort=True)
        elif card.state is CardState.OFFERED:
            Consent(accept=True, show=True).ask(card)
        _say(card.accept(), as_json)


@with_groups
def counter(
    name: CardName,
    statistics: StatisticOptions,
    *,
    generator: Annotated[str | None, typer.Option(help="New generator.")] = None,
    rows: Annotated[int | None, typer.Option(help="New number of rows.")] = None,
    purpose: Annotated[str | None, typer.Option(help="New purpose.")] = None,
    noise: NoiseOptions,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Answer an offer with other terms. Options that are not given keep the offered value."""
    needs("--attributes", statistics.attributes, "--marginals-of-order", statistics.marginals_of_order)
    marginals = statistics.requested() if statistics.are_given() else None
    how = noise.measured()
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
    effects = card.effects.document() if card.state is CardState.OFFERED and has_effects else {}
    return {"effects": effects} if effects else {}


def _document(card: Card) -> Document:
    offer = card.negotiation.offer
    priced: Document = {**dict.fromkeys(("price", "measuresPrice", "expires", "sha256")), "heldBy": []}
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


@with_groups
def plan(
    dataset: DatasetName,
    formula: PlannedFormula = None,
    *,
    kind: AimKind = None,
    where: Part = None,
    missing: AimMissing = None,
    generator: Generator = AUTO,
    rows: Rows = None,
    noise: NoiseOptions,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Show the marginals that an analysis, or all columns, need, and their price. Stores nothing."""
    how = noise.measured() | Measured(where=where)
    analysis = AimOptions(formula, kind, missing).arguments("a formula")
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
