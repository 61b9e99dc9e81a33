"""Answers at the desk: what a run gave, number by number, and what of it leaves."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from gencard.controller.answers.decisions import STEWARD, Decisions, Review, RunOutcome
from gencard.controller.cards.released import question_of
from gencard.controller.records.catalogue import dataset_of
from gencard.controller.state import results
from gencard.controller.state.results import RunRow, RunTier
from gencard.controller.stewards.actions import (
    Applied,
    Demands,
    InTheState,
    argument,
    refuse_others,
    texts,
)
from gencard.core.errors import InvalidInputError
from gencard.core.policy import TwoStewards
from gencard.core.program_outputs import DIGITS
from gencard.wire.canonical import Document, sha256
from gencard.wire.steward import Action, AnswerReview, AnswerSummary, FirstDecision, Kind


def summary_of(row: RunRow) -> AnswerSummary:
    """Return a run whose answer waits, without its numbers."""
    return AnswerSummary(row.name, row.submitter, question_of(row), row.created)


@dataclass(frozen=True, slots=True)
class AnswerEffect(InTheState):
    """Decisions on answers that wait."""

    decisions: Decisions

    def shown(self, tx: Connection, resource: str, arguments: Mapping[str, Any]) -> Document:  # noqa: ARG002
        """Return the run and what it gave; raises InvalidInputError if it does not wait."""
        row, _ = self.waiting(tx, resource)
        outcome, request = (sha256(part or b"") for part in (row.outcome, row.request))
        return {"name": row.name, "state": str(row.state), "outcome": outcome, "request": request}

    def waiting(self, tx: Connection, name: str) -> tuple[RunRow, RunOutcome]:
        """Return a waiting run and what it gave.

        Raises:
            NotFoundError: No such run.
            InvalidInputError: The answer does not wait.
        """
        row = results.get_run(tx, name)
        return row, RunOutcome.of(row)

    def view(
        self, tx: Connection, name: str, shown: str, firsts: tuple[FirstDecision, ...], *, two: bool
    ) -> AnswerReview:
        """Return all of a waiting answer."""
        row, outcome = self.waiting(tx, name)
        reviewed = row.tier is RunTier.REVIEWED
        review = Review.of(outcome) if reviewed else None
        return AnswerReview(
            summary_of(row),
            () if review is None else tuple(review.cells()),
            "" if review is None else review.program,
            None if reviewed else outcome.answer,
            None if reviewed else outcome.marks,
            outcome.reasons,
            two,
            shown,
            firsts,
        )

    def demands(self, tx: Connection, action: Action) -> Demands:
        """Releasing what a program gave may need two by itself."""
        row = results.get_run(tx, action.resource)
        release = action.kind is Kind.RELEASE_ANSWER
        under = {TwoStewards.REVIEWED_RUNS} if release and row.tier is RunTier.REVIEWED else ()
        return Demands(dataset_of(row.name), release, frozenset(under), row.submitter)

    def apply(self, tx: Connection, by: str, action: Action) -> Applied:
        """Raises InvalidInputError, CardStateError as ``Decisions.release``."""
        row, outcome = self.waiting(tx, action.resource)
        if action.kind is Kind.REFUSE_ANSWER:
            refuse_others(action.arguments, "code")
            code = argument(action.arguments, "code", str, STEWARD)
            ended_row = self.decisions.refuse(tx, row, replace(outcome, reasons=(code,)), by)
        else:
            ended_row = self.decisions.release(tx, row, released(row, outcome, action.arguments), by)
        return Applied({"statistics": str(ended_row.statistics), "log_index": str(ended_row.log_index)})


def released(row: RunRow, outcome: RunOutcome, arguments: Mapping[str, Any]) -> RunOutcome:
    """Return the part of an outcome that leaves.

    Raises:
        InvalidInputError: The arguments do not fit, name no number, or leave none.
    """
    refuse_others(arguments, "withhold", "digits", "red")
    if row.tier is not RunTier.REVIEWED:
        if arguments:
            problem = "applies to programs only; built-in analyses are released or refused as a whole"
            raise InvalidInputError(field="option", problem=problem)
        return replace(outcome, reasons=())
    digits = argument(arguments, "digits", int, DIGITS + 1)
    if "digits" in arguments and not 1 <= digits <= DIGITS:
        raise InvalidInputError(field="digits", problem=f"must be from 1 to {DIGITS}")
    answer, numbers, codes = Review.of(outcome).released(
        question_of(row).formula,
        texts(arguments, "withhold"),
        digits if "digits" in arguments else None,
        red=argument(arguments, "red", bool, False),
    )
    return replace(outcome, answer=answer, numbers=numbers, reasons=tuple(sorted(codes)))
