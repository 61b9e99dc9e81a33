"""One audit on the records, from its plan to a signed verdict."""

import json
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from gencard.controller.audits import KIND, Audits, plan_of
from gencard.controller.failures import refund
from gencard.controller.jobs import tasks
from gencard.controller.jobs.descriptions import Descriptions
from gencard.controller.jobs.executor import ProcessExecutor
from gencard.controller.jobs.synthesis import RowsFile
from gencard.controller.operations import VERSIONS, Run, scratch_folder
from gencard.controller.records.catalogue import DatasetEntry
from gencard.controller.sandbox.boxes import Recipe
from gencard.controller.state import requests, results
from gencard.controller.state.cards import offer_of, signed_card
from gencard.controller.state.requests import UNFINISHED, OperationRow
from gencard.controller.state.results import AuditRow, Conclusion
from gencard.core.audit.report import AuditReport, EarlierTry, Verdict, false_runs
from gencard.core.audit.wording import report_to_json_object, wording
from gencard.core.card.card import CardRecord
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import (
    BoxNotLentError,
    DomainMismatchError,
    GencardError,
    GeneratorChangedError,
    InvalidNumberError,
    OperationCancelledError,
    TooLargeError,
    WorkerError,
)
from gencard.core.statistics.linear import statistics_of
from gencard.wire.canonical import sha256, time_text
from gencard.wire.dsse import VERDICT, sign, statement
from gencard.wire.keys import Identity, Role

# Runs of lent black boxes on datasets that callers made up: no record is read, nothing is spent.

logger = logging.getLogger(__name__)

OnEnd = Callable[[Callable[[], Any]], bool]
"""Registers a function to be called when the caller goes away; False if the caller has gone already."""


@dataclass(frozen=True, slots=True)
class RemoteRuns:
    """Runs of black boxes on made-up data of callers. No record is read and no budget is spent.

    Args:
        lent: Names of the black boxes and generators that the settings lend.
        most_rows: Bound on rows in and out.
    """

    audits: Audits
    jobs: Descriptions
    executor: ProcessExecutor
    work: Path
    most_rows: int
    lent: frozenset[str]

    def open(self, who: Identity, card: str, black_box: str, rows: int) -> "RemoteRun":
        """Look before an upload is read: card, box and bounds.

        Raises:
            InvalidNumberError, TooLargeError: ``rows`` is out of bounds.
            CardStateError, NotFoundError: There is no such agreed card, or no such box.
            BoxNotLentError: The settings do not lend this box.
            DatasetChangedError: The dataset has another schema than the card names.
        """
        if rows < 1:
            raise InvalidNumberError(field="rows", expected="1 or more")
        if rows > self.most_rows:
            advice = f"Request at most {self.most_rows:,} rows."
            raise TooLargeError(what="The number of rows", limit=self.most_rows, advice=advice)
        with self.audits.database.reading() as tx:
            card_in_force = self.audits.agreed(tx, who, card)
        terms, dataset_entry = offer_of(card_in_force).terms, self.audits.cards.entry_of(card_in_force)
        linear = statistics_of(terms.moments, dataset_entry.schema.coding)
        name = black_box or terms.generator
        boxes = self.audits.card_audits.boxes
        if name in boxes.names - self.lent:
            raise BoxNotLentError(name=name)
        # a comparison of the box's environment serves the runs of a second; the job compares it again
        recipe = boxes.recipe(name, [*terms.marginals, *linear], within=1.0)
        domain = dataset_entry.domain.covered_by(terms.cliques)
        return RemoteRun(self, who.uri, dataset_entry, domain, name, recipe, rows)


@dataclass(frozen=True, slots=True)
class RemoteRun:
    """A run that passed all checks."""

    remote_runs: RemoteRuns
    caller: str
    dataset_entry: DatasetEntry
    domain: Domain
    name: str
    recipe: Recipe
    rows: int

    def run(
        self, dataset: Dataset, *, seed: int, on_end: OnEnd, on_errors: Callable[[str], None]
    ) -> Dataset:
        """Run the black box on a made-up dataset and return its rows in canonical form.

        Args:
            on_end: Called with a function that stops the job when the caller goes away.
            on_errors: Called with the standard error of a program that fails, if it wrote any.
        """
        if dataset.domain != self.domain:
            raise DomainMismatchError(problem="the dataset is not over the attributes of the card")
        with scratch_folder(self.remote_runs.work, f"visit-{secrets.token_hex(8)}") as folder:
            RowsFile(folder / "in").write(dataset, lasting=False)
            job = self.remote_runs.jobs.run_black_box(
                self.dataset_entry,
                self.recipe,
                rows=self.rows,
                seed=seed,
                upload=folder / "in",
                rows_file=folder / "out",
            )
            # of this caller with this recipe alone: another caller's runs have a process of their own
            series = f"{self.caller} {self.recipe}"
            running = self.remote_runs.executor.submit(
                tasks.RUN_BLACK_BOX, job, owner=self.caller, series=series
            )
            if not on_end(running.cancel):
                running.cancel()
            try:
                running.result()
            except GencardError as error:
                # the name and the reason: a text of the program never reaches the log
                extra = {"place": f"black_boxes/{self.name}", "kind": error.reason}
                logger.warning("lent run failed", extra=extra)
                if job.errors_file.exists():
                    on_errors(job.errors_file.read_text(encoding="utf-8"))
                raise
            finally:
                self.remote_runs.executor.await_end(running)
            return RowsFile(folder / "out").dataset()


KNOWN_LEAK = (
    "Evidence of leakage: in an earlier audit on this dataset this black box, with the same or other "
    "bytes, was found to use more than Phi. This try adds no evidence of its own; only a steward can "
    "clear the earlier one."
)


@dataclass(frozen=True, slots=True)
class AuditRun:
    """Runner of audits; ``response`` encodes a concluded audit as the operation's response."""

    audits: Audits
    jobs: Descriptions
    response: Callable[[AuditRow], bytes]

    def __call__(self, run: Run) -> None:
        with self.audits.database.reading() as tx:
            card = self.audits.at_records(tx, Identity.of(run.row.owner), run.row.resource)
            row = results.get_audit(tx, run.request["audit"])
            earlier = self.audits.card_audits.earlier(tx, row, offer_of(card).terms)
        dataset_entry = self.audits.cards.entry_of(card)
        # the number of this try in the family if no other try ends before it
        plan = plan_of(card, dataset_entry.schema.coding, run.request["seed"], len(earlier) + 1)
        journal = self.audits.journals.open(run.request["audit"])
        box, boxes = run.request["box"], self.audits.card_audits.boxes
        if boxes.digest(box) != row.box_digest:  # the name belongs to another box now
            raise GeneratorChangedError
        run.note = partial(self._note, run.note, run.request["audit"])
        version, recipe = signed_card(card).version, boxes.recipe(box, [*plan.cliques, *plan.linear])
        workers = self.audits.refused_workers.trusted(self.jobs.workers)
        job = self.jobs.audit(
            dataset_entry, version, recipe, plan, VERSIONS, journal=journal, workers=workers
        )
        self._conclude(run, card, self._report(run, job))
        self.audits.journals.forget(run.request["audit"])

    def _note(self, note: Callable[[str, int], None], audit: str, stage: str, permille: int) -> None:
        """Note progress and store the journal: a controller that takes over repeats no noted run."""
        note(stage, permille)
        self.audits.journals.store(audit)

    def undo(self, tx: Connection, row: OperationRow, error: GencardError) -> None:
        """Return the price. The attempt stays counted; a cancelled attempt can be resumed."""
        request = json.loads(row.request)
        line = self.audits.ledger.line(tx, request["line"])
        refund(tx, line, error, ledger=self.audits.ledger, cards=self.audits.cards)
        others = (
            one for one in requests.operations_of_kind(tx, KIND, row.resource) if one.state in UNFINISHED
        )
        self.audits.card_audits.give_up(
            tx, row.resource, {json.loads(other.request)["box"] for other in others}
        )
        if not isinstance(error, OperationCancelledError):
            self.audits.journals.forget(request["audit"], tx)

    def _report(self, run: Run, job: tasks.AuditJob) -> AuditReport:
        """Run the audit job.

        If the audit is cancelled, only runs that had ended at a tick stay in the journal: the
        presence of later runs would disclose when they ended.
        """
        try:
            return run.job(tasks.AUDIT, job).report
        except OperationCancelledError:
            self.audits.journals.forget_since(run.request["audit"], run.ticks.last())
            raise
        except WorkerError as error:
            # no audit uses the worker again until an operator admits it
            cards, operation = self.audits.cards, run.row.name
            name = self.audits.refused_workers.refuse(error, operation)
            details = {"operation": operation, "reason": error.reason}
            with self.audits.database.transaction() as tx:
                cards.note(tx, "refuse-worker", f"workers/{name}", details)
            raise

    def _conclude(self, run: Run, card: CardRecord, alone: AuditReport) -> None:
        """Pool the evidence; write log, verdict, ledger and the operation's end in one transaction.

        Tries are numbered here, at their end: a try that is cancelled or fails does not weaken
        later tries, and of two concurrent tries the second to end is judged with the evidence of the
        first.
        """
        audits = self.audits
        with audits.database.transaction() as tx:
            who = Identity.of(run.row.owner)
            # an analyst hears no verdict of a card that has ended; one for an auditor still counts
            if who.role is Role.ANALYST:
                audits.agreed(tx, who, card.name)
            now = audits.cards.clock()
            row = results.get_audit(tx, run.request["audit"])
            card_audits, terms = audits.card_audits, offer_of(card).terms
            report = pooled(alone, card_audits.earlier(tx, row, terms))
            verdict, wording_text = report.verdict, wording(report)
            if verdict is Verdict.NO_EVIDENCE and card_audits.is_known_leak(tx, row, terms):
                verdict, wording_text = Verdict.LEAKAGE, KNOWN_LEAK  # a leak that is known stays one
            outcome = verdict, wording_text
            document = json.dumps(report_to_json_object(report)).encode()
            details = {"verdict": str(verdict), "black_box": row.black_box}
            actor = audits.cards.controller
            audits.cards.log.append(
                tx, action="verdict", actor=actor, resource=row.name, details=details, now=now
            )
            payload = _payload(row, card, report, document, outcome, now)
            attestation = sign(payload, [audits.cards.signing_key(tx)])
            conclusion = Conclusion(
                repr(report.plan.level), *outcome, attestation, document, report.plan.attempt
            )
            results.conclude_audit(tx, row.name, conclusion, now)
            card_audits.conclude(tx, row, verdict, attestation)
            audits.ledger.settle(tx, run.request["line"], now)
            concluded = self.response(results.get_audit(tx, row.name))
            audits.operations.finish(tx, run.row.name, concluded)


def pooled(alone: AuditReport, earlier: tuple[EarlierTry, ...]) -> AuditReport:
    """Return the report of one try, judged together with the earlier tries of its family."""
    return replace(alone, plan=replace(alone.plan, attempt=len(earlier) + 1), earlier=earlier)


def _payload(
    row: AuditRow,
    card: CardRecord,
    report: AuditReport,
    document: bytes,
    outcome: tuple[Verdict, str],
    now: datetime,
) -> bytes:
    """Return the payload to sign: verdict and wording, black box, card, and strictness of the audit.

    Everybody may read the payload, so no number in it depends on records. Its digest of the report binds
    the report, which only auditors and stewards may read: that holds the secret seed.
    """
    verdict, wording_text = outcome
    runs = report.plan.terms.runs
    facts: dict[str, object] = {
        "attempt": str(report.plan.attempt),
        "blackBox": row.black_box,
        "boxDigest": {"sha256": row.box_digest},
        "card": {"sha256": offer_of(card).digest},
        "level": repr(report.plan.level),
        "report": {"sha256": sha256(document)},
        "runs": str(runs),
        "verdict": str(verdict),
        "wording": wording_text,
        "time": time_text(now),
        **({"author": row.author} if row.author else {}),
        **({"triesPooled": str(len(report.earlier) + 1)} if report.earlier else {}),
    }
    if (workers := report.workers) is not None:
        # numbers of runs a side depend on no record; sums might
        by_drawing = {
            str(false): f"{workers.probability(false, runs):.3f}" for false in false_runs(runs)
        }
        facts["workers"] = {
            "drawnOfEachSide": str(workers.drawn),
            "weighedOfEachSide": str(workers.weighed),
            "foundByDrawing": by_drawing,
        }
    return statement(VERDICT, row.name, facts, offer_of(card).digest)
