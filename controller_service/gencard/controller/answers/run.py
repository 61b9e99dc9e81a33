"""One run on the records: a job, its outcome, the decision."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from gencard.analysis.answers.answer import EXACT, NOISE, numbers_in_json
from gencard.controller.answers.answers import Answers
from gencard.controller.answers.decisions import PRICE, RunOutcome
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
from gencard.core.output_rules import Rule

AT_RECORDS = ("answer", "read")
"""Stages that jobs of runs report before they read records."""

ENDED_EARLY = (OperationCancelledError, CardStateError, CardExpiredError)
"""Ends that an analyst can bring about, by a cancellation or by the end of the card."""


@dataclass(frozen=True, slots=True)
class AnswerRun:
    """Runner of checked runs.

    Args:
        jobs: Describes jobs: the places of records, the salt and the limits.
        response: Encodes a run as the operation's response.
    """

    answers: Answers
    jobs: Descriptions
    response: Callable[[RunRow], bytes]

    def __call__(self, run: Run) -> None:
        """Run the job on the records once, and decide; after a crash before the decision, run it again.

        A run that fails on the records ends as a refusal like any other.
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
            outcome = RunOutcome.refused(Rule.FAILED)
        if outcome.depends_on_records:
            # A refusal may be decided early or late in the work, depending on the records: waiting for
            # the end of the duration class keeps the time from disclosing the reason.
            run.rest()
        self._keep(run, row, outcome)

    def undo(self, tx: Connection, row: OperationRow, error: GencardError) -> None:
        """Return the price and delete the run if the analyst learnt nothing from it.

        Otherwise the run has failed: it costs one statistic, and counts as one of the runs of its card.
        A run that is cancelled after its job began to read records counts in ``limits.refusals`` too.
        Refusals take longer than answers, so an analyst who cancels long runs would otherwise learn of
        refusals for free.
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
        """Whether an analyst may have ended a run because its job on the records took long."""
        has_looked = requests.get_operation(tx, row.name).stage in AT_RECORDS
        return has_looked and isinstance(error, ENDED_EARLY)

    def _charged(self, tx: Connection, run: RunRow, line: Spend | None, error: GencardError) -> int:
        """Return the price of a failed run: that of a refusal, because only the failure is disclosed.

        Noise that may have been drawn stays paid, and so does a failure of the service itself, until a
        steward has reviewed it.
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

    def _keep(self, run: Run, row: RunRow, outcome: RunOutcome) -> None:
        """Write decision, ledger, log and the operation's end in one transaction.

        Raises:
            TooManyRefusalsError: Other runs of the analyst or project were refused meanwhile. Nothing of
                this run is disclosed, however it ended.
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


def outcome_of(result: AnswerResult, analyses: Analyses) -> RunOutcome:
    """Return the outcome of a job's result, on which the rules or a steward decide."""
    numbers = numbers_in_json(_without_noise(result.answer))
    if numbers > analyses.numbers:
        return RunOutcome.refused(Rule.NUMBERS)
    return RunOutcome(
        result.answer,
        numbers,
        result.reasons,
        result.rules,
        review=result.review,
        marks=JOBS.write(result)["marks"],
    )


def _without_noise(answer: Any) -> Any:
    """Return an answer without the sizes of its noise, which say nothing more about the records.

    A question is tried on exact counts before it is paid: its noisy answer must not have more numbers.
    """
    if not isinstance(answer, dict) or answer.get("noise", EXACT) == EXACT:
        return answer
    return answer | {"tables": [one for one in answer["tables"] if one["name"] != NOISE]}
