"""Audits: every attempt is counted before it runs, every verdict kept."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, insert, or_, select, update

from gencard.controller.state.database import Page, only, page_of
from gencard.controller.state.tables import audits
from gencard.core.audit.report import Verdict
from gencard.core.errors import InvalidInputError, NotFoundError


@dataclass(frozen=True, slots=True)
class AuditRow:
    """An audit as stored; what comes after ``attempt`` is None until it has ended.

    Args:
        submitter: URI of the identity that asked.
        box_digest: SHA-256, in hex, of what ran.
        attempt: How many audits this submitter has begun on this dataset, this one included.
        level: The level that the pooled evidence was tested at, a decimal.
        attestation: The signed verdict: a DSSE envelope.
        report: The full report, JSON; its numbers depend on records. The evidence of later tries is
            pooled with its tests.
        author: Of the black box, as the settings named one; None or empty where nobody did.
        family_try: Which try of the family this was, from 1; None before families were counted.
        cleared: When a steward let it count no more.
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
    author: str | None = None
    family_try: int | None = None
    cleared: datetime | None = None

    @property
    def try_number(self) -> int:
        """From which the level follows: the family's, or the submitter's before families counted."""
        return self.family_try or self.attempt


@dataclass(frozen=True, slots=True)
class Audited:
    """The black box of an audit.

    Args:
        name: In the settings.
        digest: SHA-256, in hex, of what runs.
        author: As the settings name one, or empty.
    """

    name: str
    digest: str
    author: str = ""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """How an audit ended; the fields are those of ``AuditRow``."""

    level: str
    verdict: Verdict
    wording: str
    attestation: bytes
    report: bytes
    family_try: int = 1


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
        box: Audited,
        now: datetime,
    ) -> int:
        """Write an audit down before it runs; which attempt it is, from 1."""
        # counted before the run: an audit that is stopped when it looks bad still counts
        attempt = self.attempts(tx, dataset, submitter) + 1
        tx.execute(
            insert(audits).values(
                name=name,
                card=card,
                dataset=dataset,
                submitter=submitter,
                black_box=box.name,
                box_digest=box.digest,
                attempt=attempt,
                created=now,
                author=box.author,
            )
        )
        return attempt

    def conclude(self, tx: Connection, name: str, conclusion: Conclusion, now: datetime) -> None:
        """Write the verdict down, once.

        Raises:
            InvalidInputError: The audit has a verdict, or was never begun.
        """
        # only where there is no verdict yet: a verdict is never replaced by a better one
        running = update(audits).where(audits.c.name == name, audits.c.verdict.is_(None))
        if tx.execute(running.values(**asdict(conclusion), ended=now)).rowcount != 1:
            raise InvalidInputError(field="audit", problem="is not waiting for a verdict")

    def get(self, tx: Connection, name: str) -> AuditRow:
        """Raises NotFoundError where there is no such audit."""
        row = tx.execute(select(audits).where(audits.c.name == name)).mappings().one_or_none()
        if row is None:
            raise NotFoundError(what="audit")
        return _row_of(row)

    def list(
        self,
        tx: Connection,
        *,
        card: str | None = None,
        dataset: str | None = None,
        before: str = "",
        limit: int = 50,
    ) -> Page[AuditRow]:
        """Audits that have ended, newest first, of one card, of one dataset, or all."""
        audits_ended = select(audits).where(audits.c.verdict.is_not(None))
        query = only(audits_ended, (audits.c.card, card), (audits.c.dataset, dataset))
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
            audits.c.cleared.is_(None),
        )
        query = select(audits).where(*mine).order_by(audits.c.number.desc()).limit(1)
        row = tx.execute(query).mappings().one_or_none()
        return None if row is None else _row_of(row)

    def family(self, tx: Connection, row: AuditRow) -> tuple[AuditRow, ...]:
        """Ended audits of the same family on the same dataset that count, in the order of their ends.

        The family of an audit are those of the same name and author, and of the same bytes under any
        name. An unknown author may be anybody. ``row`` itself is not among them.
        """
        query = select(audits).where(
            audits.c.dataset == row.dataset,
            audits.c.name != row.name,
            audits.c.verdict.is_not(None),
            audits.c.cleared.is_(None),
            or_(audits.c.box_digest == row.box_digest, _same_name_and_author(row)),
        )
        rows = tx.execute(query.order_by(audits.c.ended, audits.c.number)).mappings()
        return tuple(_row_of(other) for other in rows)

    def counting(self, tx: Connection) -> tuple[AuditRow, ...]:
        """All ended audits that no steward has cleared, in the order of their ends."""
        query = select(audits).where(audits.c.verdict.is_not(None), audits.c.cleared.is_(None))
        rows = tx.execute(query.order_by(audits.c.ended, audits.c.number)).mappings()
        return tuple(_row_of(row) for row in rows)

    def clear(self, tx: Connection, dataset: str, black_box: str, now: datetime) -> int:
        """Let no ended audit of a black box on a dataset count any more; how many did."""
        statement = update(audits).where(
            audits.c.dataset == dataset,
            audits.c.black_box == black_box,
            audits.c.verdict.is_not(None),
            audits.c.cleared.is_(None),
        )
        return tx.execute(statement.values(cleared=now)).rowcount


def _same_name_and_author(row: AuditRow) -> ColumnElement[bool]:
    same_name = audits.c.black_box == row.black_box
    # an unknown author is taken for every author: leaving it out must not start a new family
    if not row.author:
        return same_name
    known = or_(audits.c.author.is_(None), audits.c.author.in_(["", row.author]))
    return and_(same_name, known)


def _row_of(row: Mapping[Any, Any]) -> AuditRow:
    verdict = row["verdict"]
    return AuditRow(**{**row, "verdict": None if verdict is None else Verdict(verdict)})
