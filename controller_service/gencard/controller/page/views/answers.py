"""The view of answers that wait: each number beside the dry run, with the rule that marks it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from starlette.requests import Request

from gencard.analysis.answers.answer import AnalysisAnswer
from gencard.controller.cards.released import question_of
from gencard.controller.page.views import Context, FormAction, View
from gencard.controller.stewards.desk import Desk
from gencard.core.output_rules import Colour, Rule
from gencard.core.program_outputs import DIGITS, Number
from gencard.wire.keys import Identity
from gencard.wire.steward import ReviewedNumber

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
    """Title, heads and lines of each part of a checked run's answer."""
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
    View("/answers", "answers.html", _answers, "Answers", label="Answers", key="a"),
    View("/answers/{name:path}", "answer.html", _answer, "Answer", under="/answers"),
)
CHANGES: tuple[FormAction, ...] = ()
