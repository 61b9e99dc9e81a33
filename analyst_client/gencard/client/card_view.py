"""The displayed form of a card: terms, price, changes and next step."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from gencard.client.checking.signing import card_of_statement
from gencard.client.display import LEFT_OUT, Diff, Displayable, Facts, Part
from gencard.client.terms import stddevs
from gencard.core.card.budget import FREE, NO_CLAIM, Price
from gencard.core.card.card import Card, CardState, Change, Offer, Turn
from gencard.core.card.mechanism import InsideGenerator
from gencard.core.card.offer_changes import changes_between
from gencard.core.card.terms import CardTerms, Proposal, Tier
from gencard.core.domain import Clique
from gencard.core.errors import CardStateError
from gencard.core.noise import USUAL_DELTA, epsilon_of, in_words
from gencard.wire.signatures.canonical import time_text

NEXT = {
    CardState.REQUESTED: "wait() for the controller's steward",
    CardState.OFFERED: "accept(), counter(...) or terminate()",
    CardState.ACCEPTED: "wait() for the controller's signature",
    CardState.AGREED: "generate(rows=...)",
    CardState.AUDITING: "wait for the audit, then refresh()",
    CardState.AUDITED: "generate(rows=...)",
    CardState.AUDIT_FAILED: "propose another generator: this one was found to leak",
    CardState.RELEASED: "generate(rows=...), replay(data) or audit()",
    CardState.EXPIRED: "propose it again",
    CardState.TERMINATED: "propose another card",
    CardState.SUSPENDED: "ask the controller's steward",
    CardState.REVOKED: "stop using what was made under it, and ask the controller's steward",
}
_WAITS_FOR = {
    CardState.REQUESTED: "the controller's steward",
    CardState.OFFERED: "the analyst",
    CardState.ACCEPTED: "the controller's signature",
    CardState.AUDITING: "its audit",
    CardState.SUSPENDED: "the controller's steward",
}
CHANGED = "The offer differs from the proposal:"
CHANGE_HEADS = ("Field", "Proposed", "Offered", "Reason")
_FROM = {
    Tier.BY_CONSTRUCTION: "rows are computed from psi (the measured statistics) only",
    Tier.PRIVATE: "the generator reads the records once and adds noise; no psi is released",
    Tier.AUDITED: "the generator reads the records; an audit must pass before rows are generated",
}
UNIQUES = "replicated uniques are removed; one release only, without replay"
_MOST_CHANGES = 20


class CardView(Displayable):
    """A card in the state in which it was last read."""

    def __init__(self, negotiation: Card) -> None:
        self._negotiation = negotiation

    @property
    def negotiation(self) -> Card:
        """The card as the controller sent it: history, envelope, attestations."""
        return self._negotiation

    @property
    def name(self) -> str:
        """datasets/{dataset}/cards/{card}; empty if the card was only priced."""
        return self._negotiation.name

    @property
    def state(self) -> CardState:
        return self._negotiation.state

    @property
    def turn(self) -> Turn:
        return self._negotiation.turn

    @property
    def terms(self) -> Proposal:
        """The offered terms, or the proposed ones before an offer."""
        offer = self._negotiation.offer
        return self._negotiation.proposed if offer is None else offer.terms

    @property
    def offer(self) -> Offer:
        """Raises CardStateError before the controller has made an offer."""
        if self._negotiation.offer is None:
            raise CardStateError(state=self.state)
        return self._negotiation.offer

    @property
    def price(self) -> Price:
        """Raises CardStateError before the controller has made an offer."""
        return self.offer.price

    @property
    def measures_price(self) -> Price:
        """Offered price of all evaluations named on the card, charged once when they are run."""
        return self.offer.measures_price

    @property
    def analyses_price(self) -> Price:
        """Most that all runs on the records may cost; each is charged when it is run."""
        return self.offer.analyses_price

    @property
    def changes(self) -> tuple[Change, ...]:
        """Differences between the offer and the proposal.

        Computed here from both terms; only the reasons are taken from the controller's list.
        """
        offer = self._negotiation.offer
        if offer is None:
            return ()
        return changes_between(self._negotiation.proposed, offer.terms, offer.changes)

    @property
    def signed(self) -> CardTerms | None:
        """The card that both sides would sign under the present offer; None before an offer.

        Raises:
            VerificationError: The offer's statement is not a card.
        """
        offer = self._negotiation.offer
        return None if offer is None else card_of_statement(offer.statement)

    @property
    def tier(self) -> Tier | None:
        """The card's tier: what the rows are computed from; None before an offer."""
        signed = self.signed
        return None if signed is None else signed.tier

    @property
    def black_box(self) -> CardTerms | None:
        """The card under the present offer if its generator reads records, else None.

        Raises:
            VerificationError: The offer's statement is not a card.
        """
        signed = self.signed
        return None if signed is None or signed.tier is Tier.BY_CONSTRUCTION else signed

    @property
    def next_step(self) -> str:
        """The next step."""
        if self.name and self.tier is Tier.AUDITED and self.state is CardState.AGREED:
            return 'audit(where="card"), then generate(rows=...)'
        if self.tier is Tier.PRIVATE and self.state is CardState.RELEASED:
            return "generate(rows=...) or audit()"
        return NEXT[self.state] if self.name else "propose it: so far it has only been priced"

    @property
    def waits_for(self) -> str:
        """Who or what has to act before the card goes on; empty if nobody has."""
        return _WAITS_FOR.get(self.state, "") if self.name else ""

    @property
    def since(self) -> datetime | None:
        """When the card came into its state, by the controller's clock; None if it was only priced."""
        history = self._negotiation.history
        return history[-1].time if history else None

    def _waits(self) -> str:
        return (
            self.waits_for if self.since is None else f"{self.waits_for}, since {time_text(self.since)}"
        )

    def lines(self) -> list[tuple[str, str]]:
        """The card in names and values."""
        terms, offer = self.terms, self._negotiation.offer
        lines = [
            ("State", str(self.state) if self.name else "priced only"),
            *([("Waits for", self._waits())] if self.waits_for else []),
            ("Next", self.next_step),
            *terms.about,
            ("Marginals", _marginals(terms.marginals) or "none"),
            *([("Moments", _few(map(str, terms.moments)))] if terms.moments else []),
            *([("Histograms", _few(terms.histograms))] if terms.histograms else []),
            *([("Sums", _few(map(str, terms.sums)))] if terms.sums else []),
            *_measured(terms),
            *([("Evaluations", _measures(terms, offer))] if terms.measures else []),
            *_analyses(terms),
            *([("Uniques", UNIQUES)] if terms.without_uniques else []),
            ("Generator", terms.generator),
            *_of_tier(self.signed),
            ("Rows", f"at most {terms.rows:,} per release"),
        ]
        if offer is not None:
            lines += [
                ("Price", _price(offer)),
                ("Valid until", time_text(offer.expire_time)),
                ("SHA-256", offer.digest),
            ]
        return lines

    def _panel(self) -> tuple[str, Sequence[Part]]:
        parts: list[Part] = [Facts(self.lines())]
        if self.changes:
            parts += [CHANGED, Diff(CHANGE_HEADS, change_lines(self.changes))]
        return self.name or "Card, priced only", parts

    def __repr__(self) -> str:
        return f"<Card {self.name or '(priced only)'}: {self.state}; {self.next_step}>"


LIST_HEADS = ("Card", "State", "Turn", "Price", "Next")
"""Of a list of cards."""


def list_line(card: CardView) -> tuple[str, str, str, str, str]:
    """A card under ``LIST_HEADS``."""
    offer = card.negotiation.offer
    price = "—" if offer is None else str(offer.price)
    return card.name, str(card.state), str(card.turn), price, card.next_step


def _of_tier(card: CardTerms | None) -> list[tuple[str, str]]:
    """Tier, guarantee, and facts about a generator that reads records."""
    if card is None:
        return []
    lines = [
        ("Tier", f"{card.tier}: {_FROM[card.tier]}"),
        ("Reliable for", card.tier.holds_against),
    ]
    lines += [("Records", card.counted)] if card.most_records else []
    if card.tier is Tier.BY_CONSTRUCTION:
        return lines
    if card.tier is Tier.AUDITED:
        lines.append(
            ("Reviewed by", card.reviewed_by or "nobody; a review is required before rows are generated")
        )
    return [
        *lines,
        ("Parameters", ", ".join(f"{name} {value}" for name, value in card.parameters) or "—"),
        ("Claims", str(card.claim or NO_CLAIM)),
        ("Code", card.generator_digest),
    ]


def change_lines(changes: tuple[Change, ...]) -> list[tuple[str, str, str, str]]:
    """The first changes, under ``CHANGE_HEADS``."""
    shown, more = changes[:_MOST_CHANGES], len(changes) - _MOST_CHANGES
    lines = [(line.field, line.old, line.new or LEFT_OUT, line.reason) for line in shown]
    return lines if more <= 0 else [*lines, (f"and {more} more", "", "", "")]


def _price(offer: Offer) -> str:
    """The price, and the cards that already hold the statistics not charged."""
    payment = f"; the rest was paid for by card {_few(offer.held_by)}" if offer.held_by else ""
    if offer.held_by and offer.price == FREE:
        payment = f"; already paid for by card {_few(offer.held_by)}"
    return f"{offer.price}{payment}"


def _measures(terms: Proposal, offer: Offer | None) -> str:
    """Names and price of the evaluations."""
    names = ", ".join(terms.measures)
    return names if offer is None else f"{names}; price {offer.measures_price}, once per card"


def _analyses(terms: Proposal) -> list[tuple[str, str]]:
    """The runs on the records that are granted, and most that they may cost."""
    rows = [*terms.analyses.about]
    return [*rows, ("Price of runs", f"at most {terms.analyses.price}, in addition")] if rows else []


def _measured(terms: Proposal) -> list[tuple[str, str]]:
    """Mechanism, weights, standard deviation of each count, and epsilon at delta."""
    privacy, errors = terms.privacy, sorted(set(stddevs(terms)))
    how = str(privacy) if privacy.noisy else f"exact, {terms.transform}"
    if isinstance(privacy, InsideGenerator):
        how = f"no psi; one fit of the {privacy}"
    lines = [("Measured", how)]
    if terms.weights:
        lines.append(("Weights", _few(map(str, terms.weights))))
    if errors and errors[-1]:
        between = " to ".join(dict.fromkeys(map(_short, (errors[0], errors[-1]))))
        lines.append(("Error", f"standard deviation of {between} records on each count"))
    if privacy.price.rho:
        delta = privacy.delta or USUAL_DELTA
        lines.append(("Equivalent to", in_words(epsilon_of(privacy.price.rho, delta), delta)))
    return lines


def _short(number: float) -> str:
    """Three significant digits, or all before the point.

    >>> [_short(number) for number in (0.012345, 12.345, 12345.6)]
    ['0.0123', '12.3', '12,346']
    """
    return f"{number:,.0f}" if number >= 1_000 else f"{number:.3g}"


def _few(names: Iterable[str]) -> str:
    """The first six and the total number."""
    items = list(names)
    text = "; ".join(items[:6])
    return text if len(items) <= 6 else f"{text}; … ({len(items):,} in all)"


def _marginals(cliques: tuple[Clique, ...]) -> str:
    return _few(" × ".join(clique) for clique in cliques)
