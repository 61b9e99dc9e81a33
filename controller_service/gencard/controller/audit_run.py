"""One audit at the records, from its plan to a signed verdict."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from gencard.controller.audit_resumption import KIND
from gencard.controller.audits import Audits, audit_message, plan_of
from gencard.controller.card_body import offer_of, signed_card
from gencard.controller.jobs import tasks
from gencard.controller.jobs.descriptions import Descriptions
from gencard.controller.refunds import refund
from gencard.controller.run import Run
from gencard.controller.state.audits import AuditRow
from gencard.controller.state.operations import UNFINISHED, OperationRow
from gencard.controller.versions import VERSIONS
from gencard.core.audit.plan import AuditPlan
from gencard.core.audit.verdict import Verdict
from gencard.core.errors import GencardError, GeneratorChangedError, OperationCancelledError
from gencard.core.negotiation import Negotiation
from gencard.wire.canonical import Document, time_text
from gencard.wire.dsse import sign
from gencard.wire.identity import Identity, Role
from gencard.wire.statements import VERDICT, statement

KNOWN_LEAK = (
    "Evidence of leakage: this very black box was found to use more than Phi in an earlier audit on "
    "this dataset. This attempt alone saw no evidence."
)


@dataclass(frozen=True, slots=True)
class AuditRun:
    """Carries audits out.

    Args:
        jobs: Describes jobs: where records, salt and limits are.
    """

    audits: Audits
    jobs: Descriptions

    def __call__(self, run: Run) -> None:
        """Carry one audit out and write its verdict down."""
        with self.audits.database.reading() as tx:
            card = self.audits.at_records(tx, Identity.of(run.row.owner), run.row.resource)
        holding = self.audits.cards.holding_of(card)
        plan = plan_of(card, holding.schema.coding, run.request["seed"], run.request["attempt"])
        journal = self.audits.journals.open(run.request["audit"])
        job = self.jobs.audit(
            holding, signed_card(card).version, self._recipe(run, plan), plan, VERSIONS, journal=journal
        )
        self._conclude(run, card, plan, self._report(run, job))
        self.audits.journals.forget(run.request["audit"])

    def undo(self, tx: Connection, row: OperationRow, error: GencardError) -> None:
        """Give the price back. The attempt stays counted; a cancelled one can be carried on."""
        request, operations = json.loads(row.request), self.audits.operations
        line = self.audits.ledger.line(tx, request["line"])
        refund(tx, line, error, ledger=self.audits.ledger, cards=self.audits.cards)
        others = (one for one in operations.of_kind(tx, KIND, row.resource) if one.state in UNFINISHED)
        self.audits.card_audits.give_up(
            tx, row.resource, {json.loads(other.request)["box"] for other in others}
        )
        if not isinstance(error, OperationCancelledError):
            self.audits.journals.forget(request["audit"])

    def _report(self, run: Run, job: tasks.Job) -> dict[str, Any]:
        """Of a cancelled audit the runs stay that had ended at a tick: the others would tell when."""
        try:
            report: dict[str, Any] = run.job(tasks.AUDIT, job)["report"]
            return report
        except OperationCancelledError:
            self.audits.journals.forget_since(run.request["audit"], run.ticks.last())
            raise

    def _recipe(self, run: Run, plan: AuditPlan) -> Document:
        """Raises GeneratorChangedError where another box than the one counted goes by the name."""
        box, boxes = run.request["box"], self.audits.boxes
        with self.audits.database.reading() as tx:
            digest = self.audits.store.get(tx, run.request["audit"]).box_digest
        if boxes.digest(box) != digest:
            raise GeneratorChangedError
        return boxes.recipe(box, [*plan.cliques, *plan.linear])

    def _conclude(self, run: Run, card: Negotiation, plan: AuditPlan, report: dict[str, Any]) -> None:
        """Log, verdict, ledger and the operation's end: true together, or not at all."""
        audits = self.audits
        with audits.database.transaction() as tx:
            self._check_heard(tx, run, card)
            now = audits.cards.clock()
            row = audits.store.get(tx, run.request["audit"])
            known = audits.card_audits.is_known_leak(tx, row, offer_of(card).terms)
            verdict, wording = outcome = _outcome(report, known)
            self._log(tx, row, verdict, now)
            payload = _payload(row, card, plan, outcome, now)
            attestation = sign(payload, [audits.cards.signing_key(tx)])
            audits.store.conclude(
                tx,
                row.name,
                level=repr(plan.level),
                verdict=verdict,
                wording=wording,
                attestation=attestation,
                report=json.dumps(report).encode(),
                now=now,
            )
            audits.card_audits.conclude(tx, row, verdict, attestation)
            audits.ledger.settle(tx, run.request["line"], now)
            concluded = audit_message(audits.store.get(tx, row.name))
            audits.operations.finish(tx, run.row.name, concluded.SerializeToString())

    def _check_heard(self, tx: Connection, run: Run, card: Negotiation) -> None:
        """Look whether the card is still in force, where its analyst is to hear the verdict.

        Raises:
            CardStateError, CardExpiredError: It ended meanwhile. An auditor's verdict still counts.
        """
        who = Identity.of(run.row.owner)
        if who.role is Role.ANALYST:
            self.audits.agreed(tx, who, card.name)

    def _log(self, tx: Connection, row: AuditRow, verdict: Verdict, now: datetime) -> None:
        self.audits.cards.log.append(
            tx,
            action="verdict",
            actor=self.audits.cards.controller,
            resource=row.name,
            details={"verdict": str(verdict), "black_box": row.black_box},
            now=now,
        )


def _outcome(report: dict[str, Any], known: bool) -> tuple[Verdict, str]:
    """What this attempt says, or what an earlier one said of the same box."""
    if report["verdict"] == Verdict.LEAKAGE:
        return Verdict.LEAKAGE, report["wording"]
    if known:
        return Verdict.LEAKAGE, KNOWN_LEAK
    return Verdict.NO_EVIDENCE, report["wording"]


def _payload(
    row: AuditRow, card: Negotiation, plan: AuditPlan, outcome: tuple[Verdict, str], now: datetime
) -> bytes:
    """What the controller signs: verdict and wording, of which box, under which card, how strict."""
    verdict, wording = outcome
    facts = {
        "attempt": str(row.attempt),
        "blackBox": row.black_box,
        "boxDigest": {"sha256": row.box_digest},
        "card": {"sha256": offer_of(card).digest},
        "level": repr(plan.level),
        "runs": str(plan.terms.runs),
        "verdict": str(verdict),
        "wording": wording,
        "time": time_text(now),
    }
    return statement(VERDICT, row.name, facts, offer_of(card).digest)
