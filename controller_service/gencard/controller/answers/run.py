"""One run at the records: a job, its outcome, the decision."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from gencard.controller.answers.answers import Answers
from gencard.controller.answers.decisions import PRICE, Outcome
from gencard.controller.cards.released import question_of, released_before
from gencard.controller.jobs import tasks
from gencard.controller.jobs.descriptions import Descriptions
from gencard.controller.jobs.tasks import JOBS, AnswerResult
from gencard.controller.operations.failures import NOTHING_LEARNT, refund
from gencard.controller.operations.run import Run
from gencard.controller.state import requests, results
from gencard.controller.state.cards import in_force, offer_of
from gencard.controller.state.requests import OperationRow
from gencard.controller.state.results import RunRow, RunState
from gencard.core.answers.answer import EXACT, NOISE, numbers_in_json
from gencard.core.card.analyses import Analyses
from gencard.core.card.budget import Price, Spend, SpendState
from gencard.core.errors import (
    CardExpiredError,
    CardStateError,
    GencardError,
    MeasurementRefusedError,
    OperationCancelledError,
    ProgramRunFailedError,
)
from gencard.core.output_checks.rules import Rule

AT_RECORDS = ("answer", "read")
"""Stages that jobs of runs report before they read records."""

ENDED_EARLY = (OperationCancelledError, CardStateError, CardExpiredError)
"""Ends that an analyst can bring about, by a cancellation or by the end of the card."""


@dataclass(frozen=True, slots=True)
class AnswerRun:
    """Carries checked runs out.

    Args:
        jobs: Describes jobs: where records, salt and limits are.
        response: Encodes a run as the operation's response.
    """

    answers: Answers
    jobs: Descriptions
    response: Callable[[RunRow], bytes]

    def __call__(self, run: Run) -> None:
        """Look at the records once, and decide; after a crash before that, look again.

        A run that fails at the records ends as a refusal like any other.
        """
        answers = self.answers
        with answers.cards.database.reading() as tx:
            row = results.get_run(tx, run.request["run"])
            card = in_force(answers.cards.card(tx, row.card))
            before = released_before(
                tx, answers.cards, dataset=row.dataset, version=row.version, but=row.name
            )
        analyses = offer_of(card).terms.analyses
        job = self.jobs.answer(
            answers.cards.entry_of(card),
            row.version,
            question_of(row),
            privacy=analyses.privacy if analyses.privacy.noisy else None,
            numbers=analyses.numbers,
            before=before,
        )
        try:
            outcome = outcome_of(run.job(tasks.ANSWER, job), analyses)
        except MeasurementRefusedError:  # whether work at the records fails may depend on them
            outcome = Outcome.refused(Rule.FAILED)
        if outcome.depends_on_records:
            # A refusal may be decided early or late in the work, depending on the records: waiting for
            # the end of the duration class keeps the time from disclosing the reason.
            run.rest()
        self._keep(run, row, outcome)

    def undo(self, tx: Connection, row: OperationRow, error: GencardError) -> None:
        """Give the price back and forget the run, where nothing was learnt.

        Else it has failed: it costs one statistic, and counts as one of the runs of its card. A run
        that is ended early, once its job reads records, counts in ``limits.refusals`` too: refusals rest
        longer than answers, so that an analyst who cancels what takes long would learn of them for
        nothing.
        """
        answers, name = self.answers, json.loads(row.request)["run"]
        run = results.get_run(tx, name)
        if run.state is not RunState.RUNNING:
            return
        line = None if run.line is None else answers.decisions.ledger.line(tx, run.line)
        exact = line is not None and line.price == Price(statistics=line.price.statistics)
        early = exact and self._ended_early(tx, row, error)
        if early or not isinstance(error, NOTHING_LEARNT):
            values = {"statistics": self._charged(tx, run, line, error), "counts": int(early)}
            results.move_run(tx, name, RunState.FAILED, ended=answers.cards.clock(), **values)
            return
        refund(tx, line, error, ledger=answers.decisions.ledger, cards=answers.cards)
        results.forget_run(tx, name)

    def _ended_early(self, tx: Connection, row: OperationRow, error: GencardError) -> bool:
        """Whether an analyst may have ended a run because its job at the records took long."""
        has_looked = requests.get_operation(tx, row.name).stage in AT_RECORDS
        return has_looked and isinstance(error, ENDED_EARLY)

    def _charged(self, tx: Connection, run: RunRow, line: Spend | None, error: GencardError) -> int:
        """Statistics that a failure costs: those of a refusal, for only that it failed is disclosed.

        Noise that may have been drawn stays paid, and so does a failure of the service itself, until a
        steward has looked.
        """
        cards, ledger = self.answers.cards, self.answers.decisions.ledger
        silent = isinstance(error, (MeasurementRefusedError, ProgramRunFailedError, *ENDED_EARLY))
        if line is None or line.state is not SpendState.RESERVED or not silent:
            return 0
        if line.price != Price(statistics=line.price.statistics):
            return 0
        ledger.settle_at(tx, line.line, Price(statistics=PRICE), cards.clock())
        cards.log.append(
            tx,
            action="settle",
            actor=cards.controller,
            resource=run.name,
            details={"line": str(line.line), "reason": error.reason, "statistics": str(PRICE)},
            now=cards.clock(),
        )
        return PRICE

    def _keep(self, run: Run, row: RunRow, outcome: Outcome) -> None:
        """Decision, ledger, log and the operation's end: true together, or not at all.

        Raises:
            TooManyRefusalsError: Other runs of the analyst or project were refused meanwhile. However
                this one ends, nothing of it is disclosed.
        """
        answers = self.answers
        with answers.cards.database.transaction() as tx:
            # Again, in the transaction of the decision: runs that were started together would each see
            # no refusal yet, and disclose one refusal each.
            answers.operations.check_refusals(tx, run.row)
            card = in_force(answers.cards.card(tx, row.card))
            decisions, by = answers.decisions, answers.cards.controller
            steward = answers.cards.entry_of(card).policy.analyses.by_steward
            if outcome.answer is None:
                ended_row = decisions.refuse(tx, row, outcome, by)
            # If all answers wait for a steward, waiting does not disclose the verdict of the rules.
            elif outcome.review or steward:
                ended_row = decisions.hold(tx, row, outcome, counts=outcome.review and not steward)
            else:
                ended_row = decisions.release(tx, row, outcome, by)
            answers.operations.finish(tx, run.row.name, self.response(ended_row))


def outcome_of(result: AnswerResult, analyses: Analyses) -> Outcome:
    """What a job gave, as it is decided on."""
    numbers = numbers_in_json(_without_noise(result.answer))
    if numbers > analyses.numbers:
        return Outcome.refused(Rule.NUMBERS)
    return Outcome(
        result.answer,
        numbers,
        result.reasons,
        result.rules,
        review=result.review,
        marks=JOBS.write(result)["marks"],
    )


def _without_noise(answer: Any) -> Any:
    """An answer without the sizes of its noise, which say nothing more about the records.

    A question is tried on exact counts before it is paid: its noisy answer must not have more numbers.
    """
    if not isinstance(answer, dict) or answer.get("noise", EXACT) == EXACT:
        return answer
    return answer | {"tables": [one for one in answer["tables"] if one["name"] != NOISE]}
