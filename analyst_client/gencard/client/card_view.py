"""The displayed form of a card: terms, price, changes, effects on an analysis; and waiting for it."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner

from gencard.client.catalogue import CatalogueEntry
from gencard.client.checking.checks import card_of_statement
from gencard.client.common.arguments import AnalystQuestion
from gencard.client.common.display import LEFT_OUT, Diff, Displayable, Facts, Grid, Part, named, plain
from gencard.client.connection.connection import ProgressDisplay
from gencard.client.terms import measured_with, stddevs
from gencard.core.card.budget import FREE, NO_CLAIM, Price
from gencard.core.card.card import (
    AUDITABLE,
    WAITING,
    CardRecord,
    CardState,
    Change,
    Offer,
    Turn,
    changes_between,
)
from gencard.core.card.privacy import AddedNoise, InsideGenerator
from gencard.core.card.sums import Histogram, Sum
from gencard.core.card.terms import CardTerms, Proposal, Tier
from gencard.core.coding import Coding
from gencard.core.derived_cells import invented_words
from gencard.core.domain import Clique
from gencard.core.errors import (
    AwaitingStewardError,
    CardStateError,
    GencardError,
    InvalidInputError,
    ServiceUnavailableError,
    WrongTurnError,
)
from gencard.core.generators.contract import rng_of
from gencard.core.statistics.formula import Analysis, Formula, analysis_of
from gencard.core.statistics.noise import USUAL_DELTA, epsilon_of, in_words
from gencard.wire.canonical import time_text

if TYPE_CHECKING:
    from gencard.analysis.formulas.answering import Prediction


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
_PREDICTED = ("Predicted", "Sampling error", "Error by noise")
_MOST_PREDICTED = 20
_MADE_UP = 0
"""The seed of records that predict noise: the same terms have the same prediction."""


@dataclass(frozen=True, slots=True)
class PlannedAnalysis:
    """An analysis that a card is for, and the smallest Phi for it: marginals, histograms, sums."""

    question: AnalystQuestion
    marginals: tuple[Clique, ...]
    numbers: tuple[Histogram | Sum, ...]

    @classmethod
    def of(cls, question: AnalystQuestion, coding: Coding) -> Self:
        """Find out what an analysis needs; raises LevelsTooWideError if no card determines it."""
        from gencard.analysis.formulas.summing import question_needs  # noqa: PLC0415 - loads pandas

        kind, where, missing = analysis_of(question.kind), question.where, question.missing
        needs = question_needs(question.formula, kind, coding, where=where, missing=missing)
        numbers: tuple[Histogram | Sum, ...] = (*map(Histogram, needs.histograms), *needs.sums)
        return cls(question, needs.cliques, numbers)

    def lacking_in(self, terms: Proposal) -> tuple[Clique, ...]:
        """Return the marginals that some terms do not determine."""
        offered = [frozenset(clique) for clique in terms.marginals]
        return tuple(
            clique for clique in self.marginals if not any(wide.issuperset(clique) for wide in offered)
        )

    def lacking_sums_in(self, terms: Proposal) -> tuple[Sum, ...]:
        """Return the sums that some terms do not determine."""
        return tuple(one for one in self.numbers if isinstance(one, Sum) and one not in terms.sums)

    def prediction(self, terms: Proposal, entry: CatalogueEntry) -> "Prediction | None":
        """Return what the noise of some terms would do to the analysis of made-up records.

        None without noise, if the number of records is not declared, and if the analysis has no standard
        errors or the terms do not give it.
        """
        from gencard.analysis.formulas.answering import predicted  # noqa: PLC0415 - loads pandas

        if not isinstance(terms.privacy, AddedNoise) or not entry.records:
            return None
        held, rng, question = measured_with(terms, entry.coding), rng_of(_MADE_UP), self.question
        return predicted(
            question.formula,
            analysis_of(question.kind),
            entry.coding,
            held,
            entry.records,
            rng=rng,
            where=question.where,
            missing=question.missing,
        )


@dataclass(frozen=True, slots=True)
class OfferEffects:
    """Effects of noise and levels on an analysis, as they are known before a card is signed.

    Args:
        lacking: Statistics that the analysis needs and the terms lack; "" if none.
        noise: Effect of the noise; "" without noise, or if the terms lack a statistic.
        invented: Attributes of which rows have invented values; "" if none.
        prediction: Predicted standard errors; None where there is no prediction.
    """

    lacking: str
    noise: str
    invented: str
    prediction: "Prediction | None" = None

    def lines(self) -> list[tuple[str, str]]:
        """The effects in names and values."""
        named_texts = {"Not determined": self.lacking, "Noise": self.noise, "Numbers": self.invented}
        return [(name, text) for name, text in named_texts.items() if text]

    def document(self) -> dict[str, Any]:
        """The effects as an object of JSON types; empty if there are none."""
        texts = {"lacking": self.lacking, "noise": self.noise, "invented": self.invented}
        known = {name: text for name, text in texts.items() if text}
        return {**known, **({} if self.prediction is None else {"prediction": asdict(self.prediction)})}

    def grids(self) -> list[Part]:
        """The predicted standard error by noise beside the predicted sampling error."""
        known = self.prediction
        if known is None or known.noise is None:
            return []
        rows = zip(known.names, known.sampling, known.noise, strict=True)
        shown = [(name, f"{own:.3g}", f"{noise:.3g}") for name, own, noise in rows]
        return [Grid(_PREDICTED, shown[:_MOST_PREDICTED])]


_ASSUMED = (
    "predicted for independent, evenly spread numbers; skewed or correlated terms can have many times "
    "that noise"
)
_UNKNOWN = "unknown: the number of records is not declared, or nothing here has a standard error"


def effects_of(terms: Proposal, entry: CatalogueEntry, aim: PlannedAnalysis | None) -> OfferEffects:
    """Return the effects of some terms, for plans, prices and offers alike.

    Args:
        aim: The analysis; None for groups of the numbers that the terms have sums of.
    """
    coding = entry.coding
    names = [name for name in coding.domain.attributes if any(name in one for one in terms.cliques)]
    invented = invented_words(coding, tuple(names), terms.histograms)
    if aim is None:
        lines = [*_of_sums(terms, entry)]
        return OfferEffects("", "; ".join([*lines, _ASSUMED] if lines else []), invented)
    lacking = ", ".join([*map(named, aim.lacking_in(terms)), *map(str, aim.lacking_sums_in(terms))])
    noise = ""
    prediction = None if lacking else aim.prediction(terms, entry)
    if isinstance(terms.privacy, AddedNoise) and not lacking:
        noise = _UNKNOWN if prediction is None else f"{prediction}; {_ASSUMED}"
    return OfferEffects(lacking, noise, invented, prediction)


def _of_sums(terms: Proposal, entry: CatalogueEntry) -> Iterator[str]:
    """Say what noise does to the groups of each number that has sums, by the finest ones."""
    if not isinstance(terms.privacy, AddedNoise):
        return
    ordered = sorted(terms.sums, key=lambda one: len(one.by))
    finest = {one.of: one for one in ordered if len(one.of) == 1}
    for (name,), one in finest.items():
        formula = str(Formula(name, (one.by,) if one.by else ()))
        for kind in (Analysis.MEANS, Analysis.LINEAR):
            prediction = None
            with suppress(GencardError):
                question = AnalystQuestion(formula, kind, where=terms.where, missing="drop")
                prediction = PlannedAnalysis.of(question, entry.coding).prediction(terms, entry)
            if prediction is not None and prediction.names:
                yield f"{formula} ({kind}): {prediction}"
                break


class CardView(Displayable):
    """A card in the state in which it was last read."""

    def __init__(self, negotiation: CardRecord) -> None:
        self._negotiation = negotiation

    @property
    def negotiation(self) -> CardRecord:
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
        """The card that both sides would sign under the present offer; None before an offer."""
        offer = self._negotiation.offer
        return None if offer is None else card_of_statement(offer.statement)

    @property
    def tier(self) -> Tier | None:
        """The card's tier: what the rows are computed from; None before an offer."""
        signed = self.signed
        return None if signed is None else signed.tier

    @property
    def black_box(self) -> CardTerms | None:
        """The card under the present offer if its generator reads records, else None."""
        signed = self.signed
        return None if signed is None or signed.tier is Tier.BY_CONSTRUCTION else signed

    @property
    def next_step(self) -> str:
        if self.name and self.tier is Tier.AUDITED and self.state is CardState.AGREED:
            return 'audit(where="card"), then generate(rows=...)'
        if self.tier is Tier.PRIVATE and self.state is CardState.RELEASED:
            return "generate(rows=...) or audit()"
        return NEXT[self.state] if self.name else "propose it: so far it has only been priced"

    @property
    def waits_for(self) -> str:
        """Person or operation that has to act before the card proceeds; empty if there is none."""
        return _WAITS_FOR.get(self.state, "") if self.name else ""

    @property
    def since(self) -> datetime | None:
        """When the card came into its state, by the controller's clock; None if it was only priced."""
        history = self._negotiation.history
        return history[-1].time if history else None

    @property
    def ended_by(self) -> str:
        """The party that ended the card, and its remark; empty if the card was not ended."""
        if self.state not in (CardState.TERMINATED, CardState.REVOKED) or not self._negotiation.history:
            return ""
        last = self._negotiation.history[-1]
        words = "the controller's steward" if last.action in ("reject", "revoke") else "the analyst"
        return f"{words}: {last.remark}" if last.remark else f"{words}, without a remark"

    def lines(self) -> list[tuple[str, str]]:
        """The card in names and values."""
        terms, offer = self.terms, self._negotiation.offer
        since = "" if self.since is None else f", since {time_text(self.since)}"
        evaluations = ", ".join(terms.measures)
        if offer is not None:
            evaluations += f"; price {offer.measures_price}, once per card"
        runs = [*terms.analyses.about]
        if runs:
            runs.append(("Price of runs", f"at most {terms.analyses.price}, in addition"))
        lines = [
            ("State", str(self.state) if self.name else "priced only"),
            *([("Waits for", f"{self.waits_for}{since}")] if self.waits_for else []),
            *([("Ended by", self.ended_by)] if self.ended_by else []),
            ("Next", self.next_step),
            *terms.about,
            ("Marginals", _few(" × ".join(clique) for clique in terms.marginals) or "none"),
            *([("Moments", _few(map(str, terms.moments)))] if terms.moments else []),
            *([("Histograms", _few(terms.histograms))] if terms.histograms else []),
            *([("Sums", _few(map(str, terms.sums)))] if terms.sums else []),
            *_measured(terms),
            *([("Evaluations", evaluations)] if terms.measures else []),
            *runs,
            *([("Uniques", UNIQUES)] if terms.without_uniques else []),
            ("Generator", terms.generator),
            *_of_tier(self.signed),
            ("Rows", f"at most {terms.rows:,} per release"),
        ]
        if offer is not None:
            payment = f"; the rest was paid for by card {_few(offer.held_by)}" if offer.held_by else ""
            if offer.held_by and offer.price == FREE:
                payment = f"; already paid for by card {_few(offer.held_by)}"
            lines += [
                ("Price", f"{offer.price}{payment}"),
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


def list_line(card: CardView) -> tuple[str, str, str, str, str]:
    """A card under ``LIST_HEADS``."""
    offer = card.negotiation.offer
    price = "—" if offer is None else str(offer.price)
    return card.name, str(card.state), str(card.turn), price, card.next_step


def _of_tier(card: CardTerms | None) -> list[tuple[str, str]]:
    """Tier, guarantee, and facts about a generator that reads records."""
    if card is None:
        return []
    lines = [("Tier", f"{card.tier}: {_FROM[card.tier]}"), ("Reliable for", card.tier.holds_against)]
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
    items = list(names)
    text = "; ".join(items[:6])
    return text if len(items) <= 6 else f"{text}; … ({len(items):,} in all)"


# Waiting for a card: until when, how often it is read, and what is shown meanwhile.

ANSWERED, AGREED, AUDITED = TARGETS = ("answered", "agreed", "audited")
"""States of a card to wait for: an offer or a refusal, both signatures, or a passed audit."""

_SHORTEST, _LONGEST = 2.0, 15.0
"""Seconds between two looks at a card: at first, and after some minutes."""

_SLOWER = 1.1
_RETRY_SECONDS = 30.0
"""Seconds for which an unreachable service is tried again: a restart takes less."""

_ENDED = frozenset({CardState.AUDIT_FAILED, CardState.EXPIRED, CardState.TERMINATED, CardState.REVOKED})
_TIME_OVER = (
    "The card stays as it is, and nothing is spent while it waits. Ask the controller's "
    "steward, continue to wait with `gencard cards CARD --wait`, or give the card up with "
    "`gencard terminate CARD`."
)


def wait_for(
    card: CardView,
    refresh: Callable[[], object],
    target: str,
    seconds: float | None,
    display: ProgressDisplay,
) -> None:
    """Read a card again until it reaches the target; an interruption leaves it as it is.

    Args:
        refresh: Reads ``card`` again, in place.
        target: One of ``TARGETS``.
        seconds: Wait no longer; None for no limit.
    """
    last = None if seconds is None else time.monotonic() + seconds
    pause = _SHORTEST
    try:
        with _live(display) as show:
            refresh()
            while not _reached(card, target):
                left = pause if last is None else last - time.monotonic()
                if left <= 0:
                    whom = card.waits_for or "an audit"
                    raise AwaitingStewardError(card=card.name, whom=whom, advice=_TIME_OVER)
                show(card)
                time.sleep(min(pause, left))
                _patiently(refresh)
                pause = min(pause * _SLOWER, _LONGEST)
    except KeyboardInterrupt as stop:
        stop.add_note(f"Interrupted: card {card.name} stays as it is, and can be waited for again.")
        raise


def _reached(card: CardView, target: str) -> bool:
    """Whether the card is where the wait ends; raises where it cannot get there by waiting."""
    if target == ANSWERED:
        return card.state not in WAITING
    if card.state in _ENDED:
        why = f"Ended by {card.ended_by}. " if card.ended_by else ""
        raise CardStateError(state=card.state, advice=f"{why}Next: {card.next_step}.")
    if card.state is CardState.OFFERED:
        raise WrongTurnError(turn=card.turn, advice=f"Answer the offer first: {card.next_step}.")
    if target == AGREED:
        return card.state in AUDITABLE
    if card.tier not in (None, Tier.AUDITED):
        problem = "this card needs no audit before rows are generated"
        raise InvalidInputError(field="for_", problem=problem, advice=f"Next: {card.next_step}.")
    return card.state in {CardState.AUDITED, CardState.RELEASED}


def _patiently(refresh: Callable[[], object]) -> None:
    """Read the card again; a service that restarts is tried for half a minute."""
    last = time.monotonic() + _RETRY_SECONDS
    while True:
        try:
            refresh()
            return
        except ServiceUnavailableError:
            if time.monotonic() >= last:
                raise
            time.sleep(_SHORTEST)


@contextmanager
def _live(display: ProgressDisplay) -> Iterator[Callable[[CardView], None]]:
    """A card that is shown anew at each look, in a notebook or terminal; nothing elsewhere."""
    if callable(display):
        yield lambda card: display(str(card.state), 0.0)
        return
    console = Console(stderr=True, highlight=False)
    if display and console.is_jupyter:
        notebook = import_module("IPython.display")  # there only in a notebook
        handle = notebook.display(notebook.HTML(""), display_id=True)
        bar = '<progress aria-label="waiting" style="vertical-align:middle"></progress>'
        try:
            yield lambda card: handle.update(
                notebook.HTML(f"<div>{bar} {escape(waiting_line(card))}</div>{card._repr_html_()}")
            )
        finally:  # the cell then shows its result
            handle.update(notebook.HTML(""))
    elif display and console.is_terminal:
        spinner = Spinner("dots")
        with Live(spinner, console=console, transient=True):
            yield lambda card: spinner.update(text=plain(waiting_line(card)))
    else:
        yield lambda _: None


def waiting_line(card: CardView) -> str:
    """Return the line that names who must act on a card, and how long it has waited."""
    since = card.since
    past = "" if since is None else f", {_duration((datetime.now(UTC) - since).total_seconds())} so far"
    return f"Waiting for {card.waits_for or 'an audit'}{past}. An interruption leaves the card as it is."


def _duration(seconds: float) -> str:
    """A length of time in its two largest units.

    >>> [_duration(seconds) for seconds in (-3, 42, 150, 7_260, 200_000)]
    ['0 s', '42 s', '2 min', '2 h 1 min', '2 d 7 h']
    """
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min" if minutes else f"{rest} s"
