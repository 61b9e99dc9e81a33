"""Views of the stewards' page: their types, and the views of items and of answers that wait.

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
from gencard.controller.page.security import Form
from gencard.controller.stewards.desk import Desk
from gencard.controller.stewards.waiting import ANALYST
from gencard.core.policy import Colour, Rule
from gencard.core.program_outputs import DIGITS, Number
from gencard.wire.keys import Identity
from gencard.wire.steward import ReviewedNumber, Waiting, WaitingKind

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


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """A row of the list of waiting items.

    Args:
        text: A card's purpose, or the queue's text about the item.
        place: Address of the page on which a steward decides.
        late: Whether the item has waited for a steward longer than ``LATE``.
        yours: Whether a steward can act on the item.
    """

    waiting: Waiting
    text: str
    place: str
    late: bool
    yours: bool


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


def row_of(waiting: Waiting, purpose: str, now: datetime) -> WaitingRow:
    yours = waiting.waits_for != ANALYST
    decided = waiting.text.partition("; ")[2]
    text = f"{purpose}; {decided}" if purpose and decided else purpose or waiting.text
    return WaitingRow(waiting, text, place_of(waiting), yours and waiting.since < now - LATE, yours)


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


@dataclass(frozen=True, slots=True)
class Marked:
    """One number of a program's output, formatted for the page.

    Args:
        name: Name of the cell in a decision.
        difference: Difference to the dry run, in per cent of it; empty if that is not defined.
        rules: Texts of the rules that mark the number.
    """

    name: str
    row: str
    column: str
    value: str
    dry: str
    difference: str
    colour: Colour
    rules: tuple[str, ...]


def _answers(request: Request, desk: Desk, who: Identity) -> Context:  # noqa: ARG001
    waiting = [{"row": row, "question": question_of(row)} for row in desk.answers(who)]
    decided = desk.archive(who).decided_answers()
    return {
        "waiting": waiting,
        "decided": [{"row": row, "question": question_of(row)} for row in decided],
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
        "counts": {str(colour): sum(one.colour is colour for one in cells) for colour in Colour},
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


def _marked(cell: ReviewedNumber) -> Marked:
    difference = ""
    if cell.value is not None and cell.dry:
        percent = f"{100 * (cell.value - cell.dry) / abs(cell.dry):+.3g} %"
        difference = percent.replace("-", "\N{MINUS SIGN}")
    return Marked(
        f"{cell.output}/{cell.row}/{cell.column}",
        cell.row,
        cell.column,
        _text(cell.value),
        _text(cell.dry),
        difference,
        cell.mark,
        tuple(RULES[Rule(rule)] for rule in cell.rules),
    )


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


VIEWS = (
    View("/", "queue.html", show_queue, "Queue", label="Queue", key="q"),
    View("/answers", "answers.html", _answers, "Answers", label="Answers", key="a"),
    View("/answers/{name:path}", "answer.html", _answer, "Answer", under="/answers"),
)
CHANGES: tuple[FormAction, ...] = ()
