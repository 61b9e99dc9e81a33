"""One call from a formula to rows: show the offer, ask, propose, sign, generate."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console

from gencard.client.card import Card
from gencard.client.catalogue import Budget
from gencard.client.connection.connection import ProgressDisplay
from gencard.client.display import named, plain
from gencard.client.planning.plan import Plan
from gencard.client.release import Release
from gencard.core.card.card import OPEN, USABLE, WAITING, CardState
from gencard.core.card.terms import LONGEST_PURPOSE, CardTerms
from gencard.core.errors import AwaitingStewardError, BudgetExceededError, NotAcceptedError

_DECLINED = "Nothing was spent. `gencard plan` shows the price of other formulas and of noise."
_INCOMPLETE = "Nothing was spent. Plan a smaller formula: `gencard plan` shows what the policy offers."


@dataclass(frozen=True, slots=True)
class Consent:
    """How the analyst agrees to an offer.

    Args:
        accept: Sign without a question.
        show: Whether to say what happens, on standard error or in the notebook.
    """

    accept: bool
    show: bool

    def say(self, text: str) -> None:
        if self.show:
            Console(stderr=True, highlight=False).print(plain(text), soft_wrap=True)

    def ask(self, shown: Plan | Card, lacking: str) -> None:
        """Show an offer and ask whether to sign it.

        Args:
            lacking: Marginals of the formula that it does not determine.

        Raises:
            NotAcceptedError: It was declined; nobody can be asked; or, with ``accept``, it does not
                determine the formula.
        """
        if self.accept and lacking:
            problem = f"it does not determine {lacking}, which the formula needs"
            raise NotAcceptedError(problem=problem, advice=_INCOMPLETE)
        if self.accept:
            for change in shown.changes:
                self.say(f"{change.field}: {change.old} → {change.new or 'left out'} ({change.reason})")
            self.say(f"Price: {shown.price}")
            return
        warning = f"It does not determine {lacking}, which the formula needs. " if lacking else ""
        answer = _answer(shown, f"{warning}Sign this offer for {shown.price}? [y/N] ")
        if answer is None:
            raise NotAcceptedError(problem="nobody can be asked here")
        if not answer:
            raise NotAcceptedError(problem="it was declined", advice=_DECLINED)


def _answer(shown: Plan | Card, question: str) -> bool | None:
    """What the analyst answers in a terminal or notebook; None where there is none."""
    console = Console(stderr=True, highlight=False)
    if not (console.is_jupyter or (sys.stdin is not None and sys.stdin.isatty())):
        return None
    console.print(shown.panel(without="Next"))
    try:
        return console.input(plain(question)).strip().lower() in ("y", "yes")
    except (EOFError, NotImplementedError):  # the latter: a notebook that runs by itself
        return None


def usual_purpose(plan: Plan) -> str:
    """The purpose of a card for an analysis, where none is given."""
    return f"A {plan.kind} analysis: {plan.formula}"[:LONGEST_PURPOSE]


def rows_of(
    plan: Plan,
    cards: Iterable[Card],
    budget: Budget,
    consent: Consent,
    *,
    purpose: str,
    rows: int,
    seed: int,
    progress: ProgressDisplay,
) -> Release:
    """Rows for a plan: from a card in force with the same terms, or from a new one.

    Rows of a card in force are sound to take again: both parties signed these terms, psi was or will
    be measured once for the card, and rows are computed from psi, so no more is learnt or charged.

    Args:
        cards: The analyst's own cards on the dataset.
        budget: What is left there.

    Raises:
        NotAcceptedError: The offer was not signed; see ``Consent``.
        AwaitingStewardError: The proposal waits for a steward; calling again goes on with it.
        BudgetExceededError: The price exceeds the budget.
    """
    mine = list(cards)
    card = next((card for card in mine if _holds(card, plan, purpose)), None)
    if card is not None:
        consent.say(f"Card {card.name} is in force with these terms; it is used, not a new one.")
    else:
        card = _agreed(plan, mine, budget, consent, purpose)
    with _noted(f"Card {card.name} stays signed; the same call goes on with it."):
        return card.release(min(rows, card.terms.rows), seed=seed, progress=progress)


def _holds(card: Card, plan: Plan, purpose: str) -> bool:
    """Whether a card is in force on the offered terms, for this purpose and for as many rows."""
    if card.state not in USABLE or card.terms.rows < plan.answer.terms.rows:
        return False
    spent = card.terms.without_uniques and card.state is CardState.RELEASED  # one release, no more
    signed, offered = card.signed, plan.answer.signed
    if spent or signed is None or offered is None or signed.terms.purpose != purpose:
        return False
    return _facts(signed) == _facts(offered)


def _facts(card: CardTerms) -> tuple[Any, ...]:
    """What two cards must share so that one gives the rows of the other."""
    terms = replace(card.terms, purpose="-", rows=1)
    generator = (card.tier, card.generator_digest, card.parameters, card.claim)
    return terms, card.analyst, card.version, card.coding_digest, generator


def _agreed(plan: Plan, mine: Iterable[Card], budget: Budget, consent: Consent, purpose: str) -> Card:
    """A card that both sides signed: an open one for the same proposal, else a new one."""
    proposal = replace(plan.answer.negotiation.proposed, purpose=purpose)
    same = (card for card in mine if card.negotiation.proposed == proposal)
    card = next((card for card in same if card.state in OPEN and _is_current(card, plan)), None)
    agreed_offer = None
    if card is None:
        _check_budget(plan, budget)
        with _noted("Nothing was proposed, signed or spent."):
            consent.ask(plan, _named(plan.lacking))
        agreed_offer = (replace(plan.answer.terms, purpose=purpose), plan.price)
        card = plan.propose(purpose=purpose)
    with _noted(f"Card {card.name} stays open, and nothing is spent; the same call goes on with it."):
        if card.state in WAITING:
            raise AwaitingStewardError(card=card.name)
        if agreed_offer != (card.terms, card.price):
            _check_budget(card, budget)
            consent.ask(card, _named(plan.lacking_in(card.terms)))
        card.accept()
    if card.state in WAITING:
        raise AwaitingStewardError(card=card.name)
    consent.say(f"Signed: {card.name}, for {card.price}")
    return card


def _is_current(card: Card, plan: Plan) -> bool:
    """Whether an open card can still be signed: its offer, if any, is of today's records and code."""
    signed, offered = card.signed, plan.answer.signed
    if signed is None or offered is None:
        return signed is None
    return _facts(signed)[2:] == _facts(offered)[2:]


def _named(cliques: Iterable[tuple[str, ...]]) -> str:
    return ", ".join(map(named, cliques))


def _check_budget(offer: Plan | Card, budget: Budget) -> None:
    """Refuse before anything is stored what the ledger would refuse after it was signed."""
    if not (budget.spent + offer.price).fits(budget.cap):
        raise BudgetExceededError(scope="analyst")


@contextmanager
def _noted(note: str) -> Iterator[None]:
    """Say how things stand to somebody who interrupts."""
    try:
        yield
    except KeyboardInterrupt as stop:
        stop.add_note(note)
        raise
