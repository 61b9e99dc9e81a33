"""From a formula to rows: the statistics an analysis needs, the offer for them, one call for all."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any

from rich.console import Console

from gencard.client.agreement import Release
from gencard.client.card import Card
from gencard.client.card_view import CHANGE_HEADS, CHANGED, PlannedAnalysis, change_lines
from gencard.client.catalogue import Budget
from gencard.client.common.arguments import checked
from gencard.client.common.display import Diff, Displayable, Facts, Grid, Part, named, plain
from gencard.client.connection.connection import ProgressDisplay
from gencard.core.card.budget import Price
from gencard.core.card.card import OPEN, USABLE, WAITING, CardState, Change
from gencard.core.card.privacy import AddedNoise, InsideGenerator, Mechanism
from gencard.core.card.sums import Histogram, Sum
from gencard.core.card.terms import LONGEST_PURPOSE, CardTerms
from gencard.core.coding import Coding
from gencard.core.domain import Clique
from gencard.core.errors import (
    AwaitingStewardError,
    BudgetExceededError,
    MeasurementRefusedError,
    NotAcceptedError,
    ProposalRefusedError,
)
from gencard.core.statistics.formula import Analysis, Formula, analysis_of
from gencard.core.statistics.linear import fine_cells

if TYPE_CHECKING:
    from gencard.analysis.formulas.answering import Prediction

_MOST_MARGINALS = 20


@dataclass(frozen=True, slots=True, repr=False)
class Plan(Displayable):
    """Phi of an analysis, or of all columns, with its price; nothing was stored or spent.

    Args:
        formula: Response and predictors; None for all columns.
        aim: The analysis, and the smallest Phi that determines it; None for all columns.
        answer: The card that the controller would offer, priced only.
        ask: Proposes these marginals on the dataset.
    """

    formula: Formula | None
    aim: PlannedAnalysis | None
    coding: Coding = field(repr=False)
    answer: Card
    ask: Callable[..., Card] = field(repr=False)

    @property
    def kind(self) -> Analysis | None:
        """Type of analysis; None for all columns."""
        return None if self.aim is None else analysis_of(self.aim.question.kind)

    @property
    def title(self) -> str:
        """The formula, or that the plan is for all columns."""
        return "All columns" if self.formula is None else str(self.formula)

    @property
    def marginals(self) -> tuple[Clique, ...]:
        """The marginals of Phi."""
        return (self.aim or self.answer.negotiation.proposed).marginals

    @property
    def numbers(self) -> tuple[Histogram | Sum, ...]:
        """The histograms and sums of Phi."""
        return (self.aim or self.answer.negotiation.proposed).numbers

    @property
    def prediction(self) -> "Prediction | None":
        """Predicted effect of the noise of the offer; None without noise, or if nothing can be said."""
        return self.answer.effects.prediction

    @checked()
    def propose(self, *, purpose: str, generator: str | None = None, rows: int | None = None) -> Card:
        """Propose the card; generator and rows default to those of the plan.

        Raises:
            ProposalRefusedError: The policy refuses the proposal and has no counter-offer.
        """
        given = {"generator": generator, "rows": rows}
        others = {name: value for name, value in given.items() if value is not None}
        return self.ask(purpose=purpose, **others)

    @property
    def price(self) -> Price:
        """Price of the offer."""
        return self.answer.price

    @property
    def changes(self) -> tuple[Change, ...]:
        """Differences between the offer and the plan."""
        return self.answer.changes

    @property
    def lacking(self) -> tuple[Clique, ...]:
        """Marginals that the offer does not determine; if any, the analysis is impossible."""
        return () if self.aim is None else self.aim.lacking_in(self.answer.terms)

    @property
    def lacking_sums(self) -> tuple[Sum, ...]:
        """Sums that the offer does not determine; if any, the analysis is impossible."""
        return () if self.aim is None else self.aim.lacking_sums_in(self.answer.terms)

    @property
    def left_out(self) -> Clique:
        """Attributes in no marginal of the offer, of a plan for all columns."""
        offered = {name for clique in self.answer.terms.marginals for name in clique}
        names = () if self.formula is not None else self.coding.domain.attributes
        return tuple(name for name in names if name not in offered)

    @property
    def missing(self) -> tuple[str, ...]:
        """Attributes of the marginals that have a level "missing"."""
        attributes = map(self.coding.attribute, self.coding.domain.covered_by(self.marginals).attributes)
        return tuple(attribute.name for attribute in attributes if attribute.coding.missing)

    @property
    def next_step(self) -> str:
        if self.lacking:
            return "plan a smaller formula: the offer would not determine this one"
        if self.lacking_sums:
            return (
                "ask for sums as the policy offers them, such as with noise (rho=...): see the changes"
            )
        return "propose(purpose=...)"

    def purposes(self) -> Iterator[tuple[Clique, str]]:
        """Each marginal, and the terms of the formula whose sufficient statistic it is."""
        formula = self.formula
        if formula is None:
            for clique in self.marginals:
                yield clique, "columns together" if len(clique) > 1 else "column"
            return
        response = {formula.response} - {None}
        for clique in self.marginals:
            inside = [":".join(term) for term in formula.terms if response | {*term} <= {*clique}]
            beside = "the response" if clique == (formula.response,) else "features together"
            yield clique, ", ".join(inside) or beside

    def lines(self) -> list[tuple[str, str]]:
        """The plan in names and values."""
        lines = [
            ("Analysis", str(self.kind or "none: all columns")),
            ("Generator", self.answer.terms.generator),
            ("Price", f"{self.price}{' (for the offered terms)' * bool(self.changes)}"),
            ("Next", self.next_step),
        ]
        if self.missing:
            names = ", ".join(self.missing)
            drops = self.aim is not None and self.aim.question.missing == "drop"
            note = f"a separate level of {names}; dropping these records would be a different analysis"
            lines.append(("Missing", f"records without {names} are left out" if drops else note))
        if self.left_out:
            lines.append(("Left out", ", ".join(self.left_out)))
        return [*lines, *self.answer.effects.lines()]

    def __repr__(self) -> str:
        return f"<Plan {self.title}: {len(self.marginals)} marginals, {self.price}; {self.next_step}>"

    def _panel(self) -> tuple[str, Sequence[Part]]:
        domain, facts = self.coding.domain, Facts(self.lines())
        lines = [
            (" × ".join(clique), f"{domain.project(clique).cells:,}", purpose)
            for clique, purpose in self.purposes()
        ]
        for one in self.numbers:
            if isinstance(one, Sum):
                cells, purpose = prod(map(domain.size, one.by)), "values of the records"
            else:
                cells, purpose = fine_cells(self.coding, one.attribute), "values inside levels"
            lines.append((str(one), f"{cells:,}", purpose))
        if (more := len(self.marginals) + len(self.numbers) - _MOST_MARGINALS) > 0:
            lines = [*lines[:_MOST_MARGINALS], (f"and {more:,} more", "", "")]
        heading = "Statistic" if self.numbers else "Marginal"
        parts: list[Part] = [facts, Grid((heading, "Cells", "For"), lines)]
        parts += self.answer.effects.grids()
        if self.changes:
            parts += [CHANGED, Diff(CHANGE_HEADS, change_lines(self.changes))]
        return self.title, parts


_DECLINED = "Nothing was spent. `gencard plan` shows the price of other formulas and of noise."
_OTHER_MECHANISM = "Nothing was spent. Ask for what is offered, {}, or sign the offer in a terminal."
_INCOMPLETE = "Nothing was spent. Plan a smaller formula: `gencard plan` shows what the policy offers."


@dataclass(frozen=True, slots=True)
class Consent:
    """Settings by which the analyst agrees to an offer.

    Args:
        accept: Whether to sign without confirmation.
        show: Whether to print each step to standard error or to the notebook.
    """

    accept: bool
    show: bool

    def say(self, text: str) -> None:
        if self.show:
            Console(stderr=True, highlight=False).print(plain(text), soft_wrap=True)

    def ask(self, shown: Plan | Card) -> None:
        """Show an offer and ask whether to sign it.

        Raises:
            NotAcceptedError: The analyst declined, or there is no terminal or notebook. With ``accept``:
                the offer does not determine the formula, or has another mechanism than was proposed.
        """
        card = shown.answer if isinstance(shown, Plan) else shown
        lacking = card.effects.lacking
        if self.accept and lacking:
            problem = f"it does not determine {lacking}, which the formula needs{_bounds(card)}"
            raise NotAcceptedError(problem=problem, advice=_INCOMPLETE)
        if self.accept:
            check_mechanism(card)
            for change in shown.changes:
                self.say(f"{change.field}: {change.old} → {change.new or 'left out'} ({change.reason})")
            for name, text in card.effects.lines():
                self.say(f"{name}: {text}")
            if isinstance(shown, Plan) and shown.left_out:
                self.say(f"Left out: {', '.join(shown.left_out)}")
            self.say(f"Price: {shown.price}")
            return
        warning = f"It does not determine {lacking}, which the formula needs. " if lacking else ""
        answer = _answer(shown, f"{warning}Sign this offer for {shown.price}? [y/N] ")
        if answer is None:
            raise NotAcceptedError(problem="confirmation needs a terminal")
        if not answer:
            raise NotAcceptedError(problem="you declined it", advice=_DECLINED)


def _bounds(card: Card) -> str:
    """The bounds of the policy to which an offer was brought, in words, with their values."""
    policy = card.entry.policy.measuring(noisy=card.terms.privacy.noisy)
    values = {
        "ORDER_TOO_HIGH": f"at most {policy.largest_order} attributes in a marginal",
        "TOO_MANY_CELLS": f"at most {policy.largest_marginal_cells:,} cells in a marginal",
        "TOO_MANY_MARGINALS": f"at most {policy.most_marginals:,} marginals",
        "PRICE_TOO_HIGH": f"a price of at most {policy.most_per_card}",
        "HISTOGRAM_NOT_OFFERED": f"histograms: {policy.histograms}",
        "SUM_NOT_OFFERED": f"sums: {policy.sums}",
        "FORBIDDEN_TOGETHER": "not together: " + "; ".join(map(named, policy.forbidden)),
    }
    reasons = dict.fromkeys(change.reason for change in card.changes)
    texts = [values[reason] for reason in reasons if reason in values]
    return f"; the policy permits {', '.join(texts)}" if texts else ""


def check_mechanism(card: Card) -> None:
    """Check that an offer to be signed without a question has the mechanism of the proposal.

    An offer whose generator adds its own noise is accepted if the proposal names this generator.
    """
    proposal = card.negotiation.proposed
    proposed, offered = proposal.privacy, card.terms.privacy
    is_named = offered.mechanism is Mechanism.GENERATOR and proposal.generator == card.terms.generator
    if offered.mechanism is not proposed.mechanism and not is_named:
        options = "without options of noise"
        if isinstance(offered, InsideGenerator):
            options = f"with `--generator {card.terms.generator}`"
        elif isinstance(offered, AddedNoise):
            options = (
                f"with `--{offered.currency} {offered.budget} --neighbouring {offered.neighbouring}`"
            )
        problem = f"it measures with {offered} where {proposed} was asked for"
        raise NotAcceptedError(problem=problem, advice=_OTHER_MECHANISM.format(options))


def _answer(shown: Plan | Card, question: str) -> bool | None:
    """Ask the analyst in a terminal or notebook; None if there is neither."""
    console = Console(stderr=True, highlight=False)
    if not (console.is_jupyter or (sys.stdin is not None and sys.stdin.isatty())):
        return None
    console.print(shown.panel(without="Next"))
    try:
        return console.input(plain(question)).strip().lower() in ("y", "yes")
    except (EOFError, NotImplementedError):  # the latter: a notebook that runs by itself
        return None


def rows_of(
    plan: Plan,
    cards: Iterable[Card],
    budget: Budget,
    consent: Consent,
    *,
    purpose: str | None,
    rows: int,
    seed: int,
    progress: ProgressDisplay,
) -> Release:
    """Rows for a plan: from a card in force with the same terms, or from a new one.

    A card of which the measurement was refused is not used again.

    It is safe to use a card in force again: both parties signed these terms. psi is measured, or a black
    box is run, once for each card, and rows follow from that result, so nothing more is charged.

    Args:
        cards: The analyst's own cards on the dataset.
        purpose: What the rows will be used for; None for the plan in words.
    """
    if purpose is None:
        usual = f"A {plan.kind} analysis: {plan.formula}"[:LONGEST_PURPOSE]
        purpose = "Rows of all columns" if plan.formula is None else usual
    mine = list(cards)
    held = [card for card in mine if _holds(card, plan, purpose)]
    card = next((card for card in held if not card.is_refused), None)
    if card is not None:
        consent.say(f"Card {card.name} is in force with these terms and is used again.")
    else:
        for refused in held[:1]:
            consent.say(
                f"The measurement of card {refused.name} was refused, so a new card is negotiated; "
                f"`gencard terminate {refused.name}` gives up the old one."
            )
        card = _agreed(plan, mine, budget, consent, purpose)
    with _noted(f"Card {card.name} stays signed; the same call continues with it."):
        try:
            return card.release(min(rows, card.terms.rows), seed=seed, progress=progress)
        except MeasurementRefusedError as error:
            error.advice = (
                f"{error.advice} Under changed rules, call again: a new card is negotiated. "
                f"`gencard terminate {card.name}` gives up the refused one."
            )
            raise


@contextmanager
def naming_refused(cards: Callable[[], Iterable[Card]]) -> Iterator[None]:
    """Add to a refusal because of earlier grants those of these cards that still count as grants."""
    try:
        yield
    except ProposalRefusedError as error:
        if "DIFFERENCING" in str(error.fields.get("reasons", "")):
            names = [f"`gencard terminate {card.name}`" for card in cards() if card.is_refused]
            if names:
                error.advice = (
                    f"A card of which the measurement was refused counts until it is given up: "
                    f"{', '.join(names)}. {error.advice}"
                )
        raise


def _holds(card: Card, plan: Plan, purpose: str) -> bool:
    """Whether a card is in force on the offered terms, for this purpose and for as many rows."""
    if card.state not in USABLE or card.terms.rows < plan.answer.terms.rows:
        return False
    is_spent = card.terms.without_uniques and card.state is CardState.RELEASED  # one release, no more
    signed, offered = card.signed, plan.answer.signed
    if is_spent or signed is None or offered is None or signed.terms.purpose != purpose:
        return False
    return _facts(signed) == _facts(offered)


def _facts(card: CardTerms) -> tuple[Any, ...]:
    """Facts that two cards must share so that one gives the rows of the other."""
    # purpose and rows are compared by the caller; ``_is_current`` leaves out the first two facts
    terms = replace(card.terms, purpose="-", rows=1)
    generator = (card.tier, card.generator_digest, card.parameters, card.claim)
    return terms, card.analyst, card.version, card.coding_digest, generator


def _agreed(plan: Plan, mine: Iterable[Card], budget: Budget, consent: Consent, purpose: str) -> Card:
    """A card that both sides signed: an open one for the same proposal, else a new one."""
    proposal = replace(plan.answer.negotiation.proposed, purpose=purpose)
    same = (card for card in mine if card.negotiation.proposed == proposal)
    card = next((card for card in same if card.state in OPEN and _is_current(card, plan)), None)
    agreed_offer = None
    if card is not None:
        card.aim = plan.aim
    if card is None:
        _check_budget(plan, budget)
        with _noted("Nothing was proposed, signed or spent."):
            consent.ask(plan)
        agreed_offer = (replace(plan.answer.terms, purpose=purpose), plan.price)
        card = plan.propose(purpose=purpose)
    with _noted(f"Card {card.name} stays open, and nothing is spent; the same call continues with it."):
        if card.state in WAITING:
            raise AwaitingStewardError(card=card.name)
        # The analyst agreed to the priced plan. Ask again if the offer to sign has other terms or price.
        if agreed_offer != (card.terms, card.price):
            _check_budget(card, budget)
            consent.ask(card)
        card.accept()
    if card.state in WAITING:
        raise AwaitingStewardError(card=card.name)
    consent.say(f"Signed: {card.name}, for {card.price}")
    return card


def _is_current(card: Card, plan: Plan) -> bool:
    """Whether an open card has no offer, or an offer on the current records, schema and generator."""
    signed, offered = card.signed, plan.answer.signed
    if signed is None or offered is None:
        return signed is None
    return _facts(signed)[2:] == _facts(offered)[2:]


def _check_budget(offer: Plan | Card, budget: Budget) -> None:
    """Raise BudgetExceededError before the card is proposed or signed, not when it is charged."""
    if not (budget.spent + offer.price).fits(budget.cap):
        raise BudgetExceededError(scope="analyst")


@contextmanager
def _noted(note: str) -> Iterator[None]:
    """Add a note about what was spent or signed to a KeyboardInterrupt."""
    try:
        yield
    except KeyboardInterrupt as stop:
        stop.add_note(note)
        raise
