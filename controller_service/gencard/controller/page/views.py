"""Views of the stewards' page: their types, and the views of items and answers that wait, and of cards.

A view goes from a request of a signed-in steward and the desk to the context of a template: results of
the desk, arranged. Nothing here reads the state.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from starlette.requests import Request

from gencard.analysis.answers.answer import AnalysisAnswer
from gencard.controller.cards.book import question_of
from gencard.controller.page.security import Form, request_id_of
from gencard.controller.records.catalogue import dataset_of
from gencard.controller.state.cards import offer_of
from gencard.controller.state.ledger import Scope
from gencard.controller.stewards.desk import Desk
from gencard.controller.stewards.waiting import ANALYST
from gencard.core.card.budget import FREE, ZERO, Price
from gencard.core.card.card import CardRecord, CardState, Change
from gencard.core.card.privacy import AS_COUNTED
from gencard.core.card.terms import Proposal
from gencard.core.policy import Colour, Rule
from gencard.core.program_outputs import DIGITS, Number
from gencard.measures.privacy.psi_risk import PsiRisk
from gencard.wire.keys import Identity
from gencard.wire.steward import ReviewedNumber, RiskState, Together, Waiting, WaitingKind

Context = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class View:
    """A page, or a part of a page that htmx fetches.

    Args:
        path: Path in Starlette's notation; names of resources are ``{name:path}``.
        template: File below ``templates``; a whole page extends ``base.html``.
        show: Returns the context of the template, without the signed-in steward; raises GencardError.
        label: Label in the navigation; empty for views that are not in it.
        key: Key of the keyboard shortcut, after g.
        under: Path of the view in the navigation that this view belongs to.
    """

    path: str
    template: str
    show: Callable[[Request, Desk, Identity], Context]
    title: str
    label: str = ""
    key: str = ""
    under: str = ""


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """Result of a change: the location of the next page, and its notice.

    If no page shows the result, a template to show at once, and its context besides that of all views.
    """

    location: str
    notice: str = ""
    template: str = ""
    context: Context = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FormAction:
    """A form that was sent, other than a decision; its token and its origin were checked.

    ``make`` raises GencardError.
    """

    path: str
    make: Callable[[Form, Desk, Identity], ChangeResult]


# The queue: items that wait, for whom, and since when.

SIZE = 100
"""Entries of a page."""

LATE = timedelta(days=1)


def show_queue(request: Request, desk: Desk, who: Identity) -> Context:
    """Return a page of waiting items, oldest first, and of failures with the data to dismiss them."""
    after = request.query_params.get("after", "")
    page = desk.queue(who, SIZE, after)
    purposes = desk.purposes(who, [one.resource for one in page.rows])
    return {
        "page": page,
        "later": bool(after),
        "address": request.url.path + (f"?{request.url.query}" if after else ""),
        "rows": [row_of(one, purposes.get(one.resource, ""), desk.clock()) for one in page.rows],
        "refusals": () if after else desk.refusals(who),
    }


def row_of(waiting: Waiting, purpose: str, now: datetime) -> Context:
    """Return a row of the list; ``yours`` says whether a steward can act on the item."""
    yours = waiting.waits_for != ANALYST
    decided = waiting.text.partition("; ")[2]
    text = f"{purpose}; {decided}" if purpose and decided else purpose or waiting.text
    row = {"waiting": waiting, "text": text, "place": place_of(waiting), "yours": yours}
    return {**row, "late": yours and waiting.since < now - LATE}


def place_of(waiting: Waiting) -> str:
    """Return the address of the page on which a steward decides on an item; empty if none has it."""
    parts = waiting.resource.split("/")
    if waiting.kind == WaitingKind.REFUSAL:
        return "#failures"
    match parts:
        case ["datasets", _, "cards", _]:
            return f"/cards/{waiting.resource}"
        case ["datasets", _, "cards", _, *_]:
            return f"/answers/{waiting.resource}"
        case ["people" | "keys", *_]:
            return "/people"
        case ["ledger", _]:
            return "/budget"
    return ""


# Answers that wait: each number beside the dry run, with the rule that marks it.

RULES: Mapping[Rule, str] = {
    Rule.THRESHOLD: "it is based on too few records",
    Rule.ZERO: "an empty cell reveals something about everybody in its row",
    Rule.DOMINANCE: "a few contributions dominate the sum",
    Rule.REMAINDER: "the sum reveals its largest contribution",
    Rule.NEGATIVE: "contributions may be negative: dominance is not defined",
    Rule.FREEDOM: "the model leaves too few degrees of freedom",
    Rule.SATURATED: "the model is saturated: it reveals the table of its features",
    Rule.LEVERAGE: "a fitted value is based on too few records",
    Rule.SAME: "all records of the group have the same value",
    Rule.EXTREME: "a smallest or largest value is the value of one record",
    Rule.RANK: "a quantile has too few records on one side",
    Rule.SURVIVAL: "too few at risk, or too few events for a step",
    Rule.MISSING: "the numbers describe a group with missing values",
    Rule.DIFFERENCING: "combined with an earlier output, it would describe too few records",
    Rule.INFLUENCE: "one record moves a number by too many of its standard errors",
    Rule.UNKNOWN: "no rule covers it: you must decide",
    Rule.UNANSWERED: "the analysis has no result at these records",
    Rule.NUMBERS: "the answer holds more numbers than the card grants",
    Rule.FAILED: "the run failed at the records",
}
"""Meaning of a broken rule, for the steward who decides."""

TONES = {Colour.GREEN: "good", Colour.AMBER: "warn", Colour.RED: "bad"}
"""Classes of the style sheet."""


def _answers(request: Request, desk: Desk, who: Identity) -> Context:  # noqa: ARG001
    lists = {"waiting": desk.answers(who), "decided": desk.archive(who).decided_answers()}
    return {
        name: [{"row": row, "question": question_of(row)} for row in rows]
        for name, rows in lists.items()
    }


def _answer(request: Request, desk: Desk, who: Identity) -> Context:
    view = desk.answer(who, request.path_params["name"])
    answer = None if view.document is None else AnalysisAnswer.of_json(view.document)
    cells = [_marked(cell) for cell in view.cells]
    known = {str(rule): text for rule, text in RULES.items()}
    options = json.loads(view.summary.question.options or "{}")
    outputs = groupby(zip(view.cells, cells, strict=True), key=lambda pair: pair[0].output)
    return {
        "title": f"Answer for {view.summary.analyst.rpartition('/')[2]}",
        "answer": view,
        "outputs": [(name, [table for _, table in pairs]) for name, pairs in outputs],
        "counts": {str(colour): sum(one.mark is colour for one in view.cells) for colour in Colour},
        "numbers": len(cells),
        "missing": MISSING_WORDS[view.summary.question.missing],
        "options": [(name, json.dumps(one, ensure_ascii=False)) for name, one in options.items()],
        "about": None
        if answer is None
        else {"n": _text(answer.n), "noise": answer.noise, "notes": answer.notes},
        "tables": [] if answer is None else list(_tables(answer)),
        "marks": [
            (
                str(mark["colour"]),
                "; ".join(known.get(rule, rule) for rule in mark["rules"]),
                mark["part"],
            )
            for mark in view.marks or ()
        ],
        "digits": range(1, DIGITS + 1),
        "tones": TONES,
    }


MISSING_WORDS = {
    "level": "a level of their own",
    "drop": "records with a missing value in the formula are left out",
}
"""Treatment of missing values, by the keyword of a question."""


def _marked(cell: ReviewedNumber) -> Context:
    """Return one number of a program's output; its difference to the dry run is in per cent of that."""
    difference = ""
    if cell.value is not None and cell.dry:
        percent = f"{100 * (cell.value - cell.dry) / abs(cell.dry):+.3g} %"
        difference = percent.replace("-", "\N{MINUS SIGN}")
    return {
        "cell": cell,
        "name": f"{cell.output}/{cell.row}/{cell.column}",  # in a decision
        "value": _text(cell.value),
        "dry": _text(cell.dry),
        "difference": difference,
        "why": [RULES[Rule(rule)] for rule in cell.rules],
    }


def _tables(
    answer: AnalysisAnswer,
) -> Iterator[tuple[str, Sequence[str], Sequence[tuple[str, list[str]]]]]:
    if (fit := answer.coefficients) is not None:
        lines = zip(fit.names, fit.params, fit.bse.tolist(), strict=True)
        heads = ("estimate", "standard error")
        yield "Coefficients", heads, [(name, [_text(one), _text(error)]) for name, one, error in lines]
    if answer.scalars:
        yield "Numbers", ("value",), [(one.name, [_text(one.value)]) for one in answer.scalars]
    for table in answer.tables:
        rows = zip(table.row_names, table.values, strict=True)
        yield table.name, table.column_names, [(name, list(map(_text, row))) for name, row in rows]


def _text(value: Number) -> str:
    return "missing" if value is None else f"{value:,.{DIGITS}g}".replace("-", "\N{MINUS SIGN}")


# A card: proposed and offered terms, statistics released together, decisions, and risk.

MOST_IN_MAP = 60
"""Attributes of a heat map; it would not be read beyond."""

WORDS = {
    "new": "by this card, for the first time",
    "both": "by this card and before",
    "before": "before",
    "none": "not together",
}
"""Meaning of the tones of the heat map."""


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


def budgets(desk: Desk, who: Identity, card: CardRecord, price: Price | None) -> list[Context]:
    """Return the rests of the budgets of dataset, project and analyst that have accounts.

    They are the rests before the card is agreed; ``short`` says that the card's price exceeds them.
    """
    analyst = Identity.of(card.analyst)
    own = {Scope.DATASET: "", Scope.PROJECT: analyst.project, Scope.ANALYST: analyst.uri}
    rests: list[Context] = []
    for one in desk.accounts(who, dataset_of(card.name)):
        if own[Scope(one.scope)] == one.holder:
            left = Price(
                max(0, one.cap.statistics - one.spent.statistics),
                max(ZERO, one.cap.epsilon - one.spent.epsilon),
                max(ZERO, one.cap.rho - one.spent.rho),
            )
            short = price is not None and not price.fits(left)
            rests.append({"label": f"Left of the {one.scope}'s budget", "left": left, "short": short})
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


def terms_diff(proposed: Proposal, offered: Proposal | None, changes: Sequence[Change]) -> list[Context]:
    """Return single terms side by side, without terms that both sides leave at their default."""
    before, after = _terms(proposed), {} if offered is None else _terms(offered)
    reasons = {change.field.partition(".")[0]: change.reason for change in changes}
    nothing = None if offered is None else ""
    return [
        _line(one[1], before.get(one, ""), after.get(one, nothing), reasons.get(one[0], ""))
        for one in dict.fromkeys([*before, *after])
    ]


def statistics_diff(
    proposed: Proposal, offered: Proposal | None, changes: Sequence[Change]
) -> list[Context]:
    """Return all statistics that were proposed or would be offered; differences come first."""
    before = dict.fromkeys(_statistics(proposed))
    after = before if offered is None else dict.fromkeys(_statistics(offered))
    reasons = {text: change.reason for change in changes for text in (change.old, change.new) if text}
    lines = [
        _line("", name if name in before else "", name if name in after else "", reasons.get(name, ""))
        for name in {**before, **after}
    ]
    return sorted(lines, key=lambda line: line["change"] == "kept")


def _line(name: str, proposed: str, offered: str | None, reason: str) -> Context:
    """Return one term, as proposed and as offered; ``offered`` is None if nothing is."""
    change = "removed" if not offered else "changed" if proposed else "added"
    if offered in (None, proposed):
        change, reason = "kept", ""
    sides = {"name": name, "proposed": proposed, "offered": offered}
    return {**sides, "change": change, "reason": reason}


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


def heat_map(together: Together) -> Context:
    """Return the heat map of all attributes that any card releases: lower triangle, with diagonal."""
    names, here, before = together.attributes, together.here, together.before
    places = [place for place in range(len(names)) if any(here[place]) or any(before[place])]
    places = places[:MOST_IN_MAP]
    tones = {(True, True): "both", (True, False): "new", (False, True): "before"}
    rows = [
        [
            (names[row], names[column], tones.get((here[row][column], before[row][column]), "none"))
            for column in places[: number + 1]
        ]
        for number, row in enumerate(places)
    ]
    return {
        "attributes": [names[place] for place in places],
        "rows": [
            [dict(zip(("row", "column", "tone"), cell, strict=True)) for cell in row] for row in rows
        ],
        "new": sum(tone == "new" and one != other for row in rows for one, other, tone in row),
        "left_out": [name for place, name in enumerate(names) if place not in places],
        "cards": together.cards,
    }


# The risk of psi, as a part of the card's page: started, watched and shown.

MOST_SHADES = 40
"""Attributes of a heat map with numbers; it would not be read beyond."""


def show_risk(request: Request, desk: Desk, who: Identity) -> Context:
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


def maps_of(report: PsiRisk) -> list[Context]:
    """Return heat maps of pairs of attributes: small cells, and certain inferences between the two.

    Each number has a text (empty for 0), a tone from 0 to 4, and its meaning in words.
    """
    largest = max((max(row, default=0) for row in report.small_pairs), default=0)
    few = f"cells of fewer than {report.threshold} records"

    def count(row: int, column: int) -> Context:
        value = report.small_pairs[row][column]
        level = 0 if not value else min(4, 1 + 4 * value // (largest + 1))
        text = f"{value:,}" if value else ""
        return {"text": text, "level": level, "words": f"{value:,} {few}"}

    def share(row: int, column: int) -> Context:
        part = report.certain[row][column]
        text = "" if not part else "<1" if part < 0.01 else f"{100 * part:.0f}"  # never 0 if above 0
        level = 0 if not part else 1 if part < 0.01 else 2 if part < 0.1 else 3 if part < 0.5 else 4
        return {"text": text, "level": level, "words": f"{text or 0} % of the records"}

    names = report.attributes[:MOST_SHADES]
    numbers = range(len(names))
    below = [[count(row, column) for column in range(row + 1)] for row in numbers]
    whole = [[share(row, column) for column in numbers] for row in numbers]
    table = f"{few.capitalize()} in the table of two attributes; on the diagonal, of one."
    determines = "% of the records for which the attribute of the row determines that of the column."
    return [
        {"title": title, "hint": hint, "attributes": names, "rows": [*zip(names, rows, strict=True)]}
        for title, hint, rows in (("Small cells", table, below), ("Certain", determines, whole))
    ]


def run_risk(form: Form, desk: Desk, who: Identity) -> ChangeResult:
    """Begin to look, or join a look that is under way."""
    name = form.text("resource")
    desk.risks.start(who, name, request_id_of(form))
    return ChangeResult(f"/cards/{name}#risk")


VIEWS = (
    View("/", "queue.html", show_queue, "Queue", label="Queue", key="q"),
    View("/answers", "answers.html", _answers, "Answers", label="Answers", key="a"),
    View("/answers/{name:path}", "answer.html", _answer, "Answer", under="/answers"),
    View("/cards/{name:path}", "card.html", show_card, "Card"),
    View("/risk/{name:path}", "risk.html", show_risk, "What psi will show"),
)
CHANGES = (FormAction("/risk", run_risk),)
