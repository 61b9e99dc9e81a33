"""Audits: every attempt is counted before it runs, every verdict kept."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from gencard.controller.state.paging import Page, page_of
from gencard.controller.state.tables import audits
from gencard.core.audit.verdict import Verdict
from gencard.core.errors import InvalidInputError, NotFoundError


@dataclass(frozen=True, slots=True)
class AuditRow:
    """An audit as stored; what comes after ``attempt`` is None until it has ended.

    Args:
        submitter: URI of the identity that asked.
        box_digest: SHA-256, in hex, of what ran.
        attempt: How many audits this submitter has begun on this dataset, this one included.
        level: The level this attempt was tested at, a decimal.
        attestation: The signed verdict: a DSSE envelope.
        report: The full report, JSON; its numbers depend on records.
    """

    number: int
    name: str
    card: str
    dataset: str
    submitter: str
    black_box: str
    box_digest: str
    attempt: int
    created: datetime
    level: str | None
    verdict: Verdict | None
    wording: str | None
    attestation: bytes | None
    report: bytes | None
    ended: datetime | None


class AuditStore:
    """Audits. An attempt that was begun is spent, even if it never ended."""

    def begin(
        self,
        tx: Connection,
        *,
        name: str,
        card: str,
        dataset: str,
        submitter: str,
        black_box: str,
        box_digest: str,
        now: datetime,
    ) -> int:
        """Write an audit down before it runs; which attempt it is, from 1."""
        attempt = self.attempts(tx, dataset, submitter) + 1
        tx.execute(
            insert(audits).values(
                name=name,
                card=card,
                dataset=dataset,
                submitter=submitter,
                black_box=black_box,
                box_digest=box_digest,
                attempt=attempt,
                created=now,
            )
        )
        return attempt

    def conclude(
        self,
        tx: Connection,
        name: str,
        *,
        level: str,
        verdict: Verdict,
        wording: str,
        attestation: bytes,
        report: bytes,
        now: datetime,
    ) -> None:
        """Write the verdict down, once.

        Raises:
            InvalidInputError: The audit has a verdict, or was never begun.
        """
        running = update(audits).where(audits.c.name == name, audits.c.verdict.is_(None))
        verdict_of = running.values(
            level=level,
            verdict=verdict,
            wording=wording,
            attestation=attestation,
            report=report,
            ended=now,
        )
        if tx.execute(verdict_of).rowcount != 1:
            raise InvalidInputError(field="audit", problem="does not wait for a verdict")

    def get(self, tx: Connection, name: str) -> AuditRow:
        """Raises NotFoundError where there is no such audit."""
        row = tx.execute(select(audits).where(audits.c.name == name)).mappings().one_or_none()
        if row is None:
            raise NotFoundError()
        return _row_of(row)

    def list(
        self, tx: Connection, *, card: str | None = None, before: str = "", limit: int = 50
    ) -> Page[AuditRow]:
        """Audits that have ended, newest first, of one card or all."""
        query = select(audits).where(audits.c.verdict.is_not(None))
        if card is not None:
            query = query.where(audits.c.card == card)
        return page_of(tx, query, audits.c.number, _row_of, before=before, limit=limit)

    def attempts(self, tx: Connection, dataset: str, submitter: str) -> int:
        """How many audits somebody has begun on a dataset."""
        mine = (audits.c.dataset == dataset, audits.c.submitter == submitter)
        return int(tx.execute(select(func.count()).select_from(audits).where(*mine)).scalar_one())

    def passed(self, tx: Connection, card: str, box_digest: str) -> AuditRow | None:
        """The newest audit under a card in which this very black box left no evidence."""
        mine = (
            audits.c.card == card,
            audits.c.box_digest == box_digest,
            audits.c.verdict == Verdict.NO_EVIDENCE,
        )
        query = select(audits).where(*mine).order_by(audits.c.number.desc()).limit(1)
        row = tx.execute(query).mappings().one_or_none()
        return None if row is None else _row_of(row)

    def failed(self, tx: Connection, dataset: str, box_digest: str) -> tuple[str, ...]:
        """Cards under which this very black box was found to leak on this dataset, whoever asked."""
        leaks = (
            audits.c.dataset == dataset,
            audits.c.box_digest == box_digest,
            audits.c.verdict == Verdict.LEAKAGE,
        )
        return tuple(tx.execute(select(audits.c.card).where(*leaks).distinct()).scalars())


def _row_of(row: Mapping[Any, Any]) -> AuditRow:
    verdict = row["verdict"]
    return AuditRow(**{**row, "verdict": None if verdict is None else Verdict(verdict)})
