"""Views of a card: proposed and offered terms, statistics released together, decisions, and risk."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from starlette.requests import Request

from gencard.controller.page.passkeys import request_id_of
from gencard.controller.page.security import Form
from gencard.controller.page.views import ChangeResult, Context, FormAction, View
from gencard.controller.records.catalogue import dataset_of
from gencard.controller.state.cards import offer_of
from gencard.controller.state.ledger import Scope
from gencard.controller.stewards.desk import Desk
from gencard.core.card.budget import FREE, ZERO, Price
from gencard.core.card.card import CardRecord, CardState, Change
from gencard.core.card.privacy import AS_COUNTED
from gencard.core.card.terms import Proposal
from gencard.measures.privacy.psi_risk import PsiRisk
from gencard.wire.keys import Identity
from gencard.wire.steward import RiskState, Together

MOST_IN_MAP = 60
"""Attributes of a heat map; it would not be read beyond."""

WORDS = {
    "new": "by this card, for the first time",
    "both": "by this card and before",
    "before": "before",
    "none": "not together",
}
"""Meaning of the tones of the heat map."""


@dataclass(frozen=True, slots=True)
class Line:
    """One term, as proposed and as offered; ``offered`` is None if nothing is.

    Args:
        change: kept, changed, removed or added.
        reason: Reason of a difference, from the policy or a steward.
    """

    name: str
    proposed: str
    offered: str | None
    change: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of the heat map: two attributes, or one on the diagonal.

    Args:
        here, before: Whether this card, or an earlier one, releases a table of both attributes.
    """

    row: str
    column: str
    here: bool
    before: bool

    @property
    def tone(self) -> str:
        """Tone of the cell, a key of ``WORDS``."""
        return {(True, True): "both", (True, False): "new", (False, True): "before"}.get(
            (self.here, self.before), "none"
        )


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Heat map of pairs of attributes: the lower triangle, with the diagonal.

    Args:
        left_out: Attributes that neither this card nor an earlier one releases.
    """

    attributes: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    left_out: tuple[str, ...]
    cards: tuple[str, ...]

    @property
    def new(self) -> int:
        return sum(cell.tone == "new" and cell.row != cell.column for row in self.rows for cell in row)


def show_card(request: Request, desk: Desk, who: Identity) -> Context:
    view = desk.card(who, request.path_params["name"])
    card = view.card
    proposed = (*card.proposed.cliques, *card.proposed.number_cliques)
    terms = None if card.offer is None else card.offer.terms
    offered = terms if view.offer is None else view.offer
    changes = view.changes if card.offer is None else card.offer.changes
    price = view.price if view.offer else card.offer.price if card.offer else None
    return {
        "title": f"Card of {card.analyst.rpartition('/')[2]}",
        "card": card,
        "desk_view": view,
        "waits": card.state is CardState.REQUESTED,
        "revocable": bool(card.envelope) and card.state is not CardState.REVOKED,
        "price": price,
        "proposed_attributes": list(dict.fromkeys(name for clique in proposed for name in clique)),
        "besides": [] if card.offer is None else besides(card),
        "budgets": budgets(desk, who, card, price if view.offer else None),
        "terms": terms_diff(card.proposed, offered, changes),
        "statistics": statistics_diff(card.proposed, offered, changes),
        "map": heat_map(view.together),
        "words": WORDS,
        "seconds": [first for first in view.firsts if first.shown == view.shown],
        "stale": [first for first in view.firsts if first.shown != view.shown],
    }


@dataclass(frozen=True, slots=True)
class BudgetLeft:
    """Rest of a budget before the card is agreed, and whether the card's price exceeds it."""

    label: str
    left: Price
    short: bool


def budgets(desk: Desk, who: Identity, card: CardRecord, price: Price | None) -> list[BudgetLeft]:
    """Return the rests of the budgets of dataset, project and analyst that have accounts."""
    analyst = Identity.of(card.analyst)
    own = {Scope.DATASET: "", Scope.PROJECT: analyst.project, Scope.ANALYST: analyst.uri}
    rests: list[BudgetLeft] = []
    for one in desk.accounts(who, dataset_of(card.name)):
        if own[Scope(one.scope)] == one.holder:
            left = Price(
                max(0, one.cap.statistics - one.spent.statistics),
                max(ZERO, one.cap.epsilon - one.spent.epsilon),
                max(ZERO, one.cap.rho - one.spent.rho),
            )
            short = price is not None and not price.fits(left)
            rests.append(BudgetLeft(f"Left of the {one.scope}'s budget", left, short))
    return rests


_ENDS = {CardState.OFFERED: "Offer ends", CardState.AGREED: "Card ends", CardState.RELEASED: "Card ends"}
"""Label of the time at which an offer or the card made from it ends, by the card's state."""


def besides(card: CardRecord) -> list[tuple[str, str]]:
    """Further facts of a card's offer: prices in addition, and when offer or card end or ended."""
    offer = offer_of(card)
    lines = [
        ("Evaluations, in addition", offer.measures_price),
        ("Runs, in addition at most", offer.analyses_price),
    ]
    texts = [(label, str(price)) for label, price in lines if price != FREE]
    ends = _ENDS.get(card.state)
    return [*texts, (ends, f"{offer.expire_time:%Y-%m-%d}")] if ends else texts


def terms_diff(proposed: Proposal, offered: Proposal | None, changes: Sequence[Change]) -> list[Line]:
    """Return single terms side by side, without terms that both sides leave at their default."""
    before, after = _terms(proposed), {} if offered is None else _terms(offered)
    reasons = {change.field.partition(".")[0]: change.reason for change in changes}
    return [
        _line(label, before.get((key, label), ""), after.get((key, label), ""), reasons.get(key, ""))
        if offered is not None
        else Line(label, before[key, label], None, "kept")
        for key, label in dict.fromkeys([*before, *after])
    ]


def statistics_diff(
    proposed: Proposal, offered: Proposal | None, changes: Sequence[Change]
) -> list[Line]:
    """Return all statistics that were proposed or would be offered; differences come first."""
    before = dict.fromkeys(_statistics(proposed))
    after = before if offered is None else dict.fromkeys(_statistics(offered))
    reasons = {text: change.reason for change in changes for text in (change.old, change.new) if text}
    lines = [
        _line("", name if name in before else "", name if name in after else "", reasons.get(name, ""))
        for name in {**before, **after}
    ]
    return sorted(lines, key=lambda line: line.change == "kept")


def _line(name: str, proposed: str, offered: str, reason: str) -> Line:
    if proposed == offered:
        return Line(name, proposed, offered, "kept")
    change = "removed" if not offered else "changed" if proposed else "added"
    return Line(name, proposed, offered, change, reason)


def _statistics(terms: Proposal) -> Iterator[str]:
    yield from (", ".join(clique) for clique in terms.marginals)
    yield from map(str, (*terms.moments, *terms.numbers))


def _terms(terms: Proposal) -> Mapping[tuple[str, str], str]:
    exact = terms.transform == AS_COUNTED
    texts = {
        ("purpose", "purpose"): terms.purpose,
        ("generator", "generator"): terms.generator,
        ("rows", "rows, at most"): f"{terms.rows:,}",
        ("privacy", "measured"): str(terms.privacy) if exact else f"{terms.privacy}, {terms.transform}",
        ("measures", "evaluations on the records"): ", ".join(terms.measures),
        ("without_uniques", "replicated uniques"): "removed" if terms.without_uniques else "",
    }
    texts |= {("analyses", title.lower()): value for title, value in terms.analyses.about}
    return {name: text for name, text in texts.items() if text}


def heat_map(together: Together) -> HeatMap:
    """Return the heat map of all attributes that any card releases."""
    places = [
        place
        for place in range(len(together.attributes))
        if any(together.here[place]) or any(together.before[place])
    ][:MOST_IN_MAP]
    names = together.attributes
    rows = tuple(
        tuple(
            Cell(names[row], names[column], together.here[row][column], together.before[row][column])
            for column in places[: number + 1]
        )
        for number, row in enumerate(places)
    )
    left_out = tuple(name for place, name in enumerate(names) if place not in places)
    return HeatMap(tuple(names[place] for place in places), rows, left_out, together.cards)


# The risk of psi, as a part of the card's page: started, watched and shown.

MOST_SHADES = 40
"""Attributes of a heat map with numbers; it would not be read beyond."""


@dataclass(frozen=True, slots=True)
class Shade:
    """A number of a heat map: its text (empty for 0), its tone from 0 to 4, its meaning in words."""

    text: str
    level: int
    words: str


@dataclass(frozen=True, slots=True)
class Shades:
    """A heat map with numbers: a title and a row for each attribute."""

    title: str
    hint: str
    attributes: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Shade, ...]], ...]


def show_risk(request: Request, desk: Desk, who: Identity) -> Context:
    """Return the progress of an evaluation, or its result."""
    view = desk.risks.view(who, request.path_params["name"])
    report = view.report
    return {
        "risk": view,
        "report": report,
        "running": view.state is RiskState.RUNNING,
        "outdated": view.state is RiskState.OUTDATED,
        "worst": [(one.known, one.certain, one.records) for one in view.worst],
        "maps": [] if report is None else maps_of(report),
    }


def maps_of(report: PsiRisk) -> list[Shades]:
    """Return heat maps of pairs of attributes: small cells, and certain inferences between the two."""
    largest = max((max(row, default=0) for row in report.small_pairs), default=0)
    few = f"cells of fewer than {report.threshold} records"

    def count(row: int, column: int) -> Shade:
        value = report.small_pairs[row][column]
        level = 0 if not value else min(4, 1 + 4 * value // (largest + 1))
        return Shade(f"{value:,}" if value else "", level, f"{value:,} {few}")

    def share(row: int, column: int) -> Shade:
        part = report.certain[row][column]
        text = "" if not part else "<1" if part < 0.01 else f"{100 * part:.0f}"  # never 0 if above 0
        level = 0 if not part else 1 if part < 0.01 else 2 if part < 0.1 else 3 if part < 0.5 else 4
        return Shade(text, level, f"{text or 0} % of the records")

    return [
        _shades(
            report,
            "Small cells",
            f"{few.capitalize()} in the table of two attributes; on the diagonal, of one.",
            count,
            below=True,
        ),
        _shades(
            report,
            "Certain",
            "% of the records for which the attribute of the row determines that of the column.",
            share,
        ),
    ]


def _shades(
    report: PsiRisk, title: str, hint: str, shade: Callable[[int, int], Shade], *, below: bool = False
) -> Shades:
    names: Sequence[str] = report.attributes[:MOST_SHADES]
    rows = tuple(
        (name, tuple(shade(row, column) for column in range(row + 1 if below else len(names))))
        for row, name in enumerate(names)
    )
    return Shades(title, hint, tuple(names), rows)


def run_risk(form: Form, desk: Desk, who: Identity) -> ChangeResult:
    """Begin to look, or join a look that is under way."""
    name = form.text("resource")
    desk.risks.start(who, name, request_id_of(form))
    return ChangeResult(f"/cards/{name}#risk")


VIEWS = (
    View("/cards/{name:path}", "card.html", show_card, "Card"),
    View("/risk/{name:path}", "risk.html", show_risk, "What psi will show"),
)
CHANGES = (FormAction("/risk", run_risk),)
