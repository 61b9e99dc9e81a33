"""Results of cards on the records: psi, releases, evaluations, audits and runs.

Psi, releases and evaluations never change. An audit is counted before it runs, keeps its one verdict,
and is spent even if it never ended. Each change of a run is one conditional UPDATE, so the first to end
a run ends it.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from itertools import chain
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, and_, delete, func, insert, or_, select, update

from gencard.controller.state.database import Page, find_one, get_named, insert_if_absent, only, page_of
from gencard.controller.state.tables import audits, cards, measures, psis, releases, runs
from gencard.core.audit.report import Verdict
from gencard.core.errors import InvalidInputError, NotFoundError


@dataclass(frozen=True, slots=True)
class ReleaseRow:
    """A release as stored.

    Args:
        name: datasets/{dataset}/cards/{card}/releases/{release}.
        size: Size of the rows, in bytes, as counted against the analyst's quota.
        digest: SHA-256, in hex, of the rows; ``psi_digest`` of what they were drawn from.
        receipt: The signed receipt: a DSSE envelope.
    """

    name: str
    card: str
    rows: int
    size: int
    seed: int
    digest: str
    psi_digest: str
    receipt: bytes
    file_name: str
    created: datetime


def get_release(tx: Connection, name: str) -> ReleaseRow:
    """Raises NotFoundError if there is no such release."""
    return get_named(tx, releases, name, _release_of, "release")


def find_release(tx: Connection, card: str, name: str) -> ReleaseRow | None:
    """Return a release of a card; None if it has none of this name."""
    query = select(releases).where(releases.c.card == card, releases.c.name == name)
    return find_one(tx, query, _release_of)


def all_releases(tx: Connection) -> Iterator[ReleaseRow]:
    """Yield every release, oldest first."""
    query = select(releases).order_by(releases.c.number)
    return map(_release_of, tx.execute(query).mappings().all())


def released_under(tx: Connection, card: str) -> tuple[int, int]:
    """Number of releases of a card, and number of rows in all of them."""
    query = select(func.count(), func.coalesce(func.sum(releases.c.rows), 0))
    number, rows = tx.execute(query.where(releases.c.card == card)).one()
    return int(number), int(rows)


def released_to(tx: Connection, analyst: str) -> tuple[int, int]:
    """Number of releases of one analyst's cards, and the bytes of all of them."""
    query = select(func.count(), func.coalesce(func.sum(releases.c.size), 0))
    query = query.select_from(releases.join(cards, cards.c.name == releases.c.card))
    number, size = tx.execute(query.where(cards.c.analyst == analyst)).one()
    return int(number), int(size)


def list_releases(
    tx: Connection, *, card: str | None = None, dataset: str | None = None, before: str = "", limit: int
) -> Page[ReleaseRow]:
    """Releases, newest first, of one card, of one dataset, or all."""
    query = only(select(releases), (releases.c.card, card))
    if dataset is not None:
        query = query.where(releases.c.card.startswith(f"{dataset}/", autoescape=True))
    return page_of(tx, query, releases.c.number, _release_of, before=before, limit=limit)


def _release_of(row: Mapping[Any, Any]) -> ReleaseRow:
    return ReleaseRow(**{name: value for name, value in row.items() if name != "number"})


@dataclass(frozen=True, slots=True)
class PsiRow:
    """psi of a card: its RFC 8785 JSON bytes, and their SHA-256 in hex."""

    card: str
    digest: str
    document: bytes
    created: datetime


def put_psi(tx: Connection, card: str, document: bytes, digest: str, now: datetime) -> bool:
    """Store psi; return False if the card has one already, which is kept."""
    row = {"card": card, "document": document, "digest": digest, "created": now}
    return insert_if_absent(tx, psis, row)


def find_psi(tx: Connection, card: str) -> PsiRow | None:
    """Return the card's psi, or None if it was not measured yet."""
    query = select(psis).where(psis.c.card == card)
    return find_one(tx, query, lambda row: PsiRow(**{**row, "document": bytes(row["document"])}))


def get_psi(tx: Connection, card: str) -> PsiRow:
    """Raises NotFoundError if psi was not measured yet."""
    row = find_psi(tx, card)
    if row is None:
        raise NotFoundError(what="psi of this card")
    return row


@dataclass(frozen=True, slots=True)
class EvaluationRow:
    """One measure of a card as stored.

    Args:
        name: datasets/{dataset}/cards/{card}/measures/{measure}.
        submitter: URI of the identity that asked first.
        document: Results as JSON; their numbers depend on records.
    """

    name: str
    card: str
    measure: str
    submitter: str
    statistics: int
    document: bytes
    created: datetime


def get_evaluation(tx: Connection, name: str) -> EvaluationRow:
    """Raises NotFoundError if there is no such measure."""
    return get_named(tx, measures, name, _evaluation_row, "evaluation")


def evaluated_measures(tx: Connection, card: str) -> frozenset[str]:
    """Names of the measures that were taken of a card."""
    return frozenset(tx.execute(select(measures.c.measure).where(measures.c.card == card)).scalars())


def list_evaluations(
    tx: Connection, card: str, *, among: Collection[str] | None, before: str = "", limit: int = 50
) -> Page[EvaluationRow]:
    """Measures of a card, newest first: those of some names, or all."""
    query = select(measures).where(measures.c.card == card)
    if among is not None:
        query = query.where(measures.c.measure.in_(tuple(among)))
    return page_of(tx, query, measures.c.number, _evaluation_row, before=before, limit=limit)


def _evaluation_row(row: Mapping[Any, Any]) -> EvaluationRow:
    values = {name: value for name, value in row.items() if name != "number"}
    return EvaluationRow(**values | {"document": bytes(row["document"])})


@dataclass(frozen=True, slots=True)
class AuditRow:
    """An audit as stored; what comes after ``attempt`` is None until it has ended.

    Args:
        attempt: Number of audits that this submitter has begun on this dataset, including this one.
        level: The level that the pooled evidence was tested at, a decimal.
        attestation: The signed verdict: a DSSE envelope.
        report: The full report, JSON; its numbers depend on records. The evidence of later tries is
            pooled with its tests.
        author: Author of the black box by the settings; None or empty if they name none.
        family_try: Which try of the family this was, from 1; None before families were counted.
        cleared: Time when a steward cleared the audit, which then counts no more.
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


_COUNT = (audits.c.verdict.is_not(None), audits.c.cleared.is_(None))
"""Conditions of ended audits that no steward has cleared."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """End of an audit; the fields are those of ``AuditRow``."""

    level: str
    verdict: Verdict
    wording: str
    attestation: bytes
    report: bytes
    family_try: int = 1


def begin_audit(
    tx: Connection,
    *,
    dataset: str,
    submitter: str,
    now: datetime,
    name: str,
    black_box: str,
    box_digest: str,
    author: str,
) -> int:
    """Write an audit down before it runs; which attempt it is, from 1.

    Args:
        box_digest: SHA-256, in hex, of what runs.
    """
    # counted before the run: an audit that is stopped when it looks bad still counts
    attempt = count_attempts(tx, dataset, submitter) + 1
    card = name.partition("/audits/")[0]
    audit = {"name": name, "card": card, "dataset": dataset, "submitter": submitter}
    box = {"black_box": black_box, "box_digest": box_digest, "author": author}
    tx.execute(insert(audits).values(**audit, **box, created=now, attempt=attempt))
    return attempt


def conclude_audit(tx: Connection, name: str, conclusion: Conclusion, now: datetime) -> None:
    """Write the verdict down, once."""
    # only where there is no verdict yet: a verdict is never replaced by a better one
    running = update(audits).where(audits.c.name == name, audits.c.verdict.is_(None))
    if tx.execute(running.values(**asdict(conclusion), ended=now)).rowcount != 1:
        raise InvalidInputError(field="audit", problem="is not waiting for a verdict")


def get_audit(tx: Connection, name: str) -> AuditRow:
    """Raises NotFoundError if there is no such audit."""
    return get_named(tx, audits, name, _audit_of, "audit")


def list_audits(
    tx: Connection, *, card: str | None = None, dataset: str | None = None, before: str = "", limit: int
) -> Page[AuditRow]:
    """Audits that have ended, newest first, of one card, of one dataset, or all."""
    audits_ended = select(audits).where(audits.c.verdict.is_not(None))
    query = only(audits_ended, (audits.c.card, card), (audits.c.dataset, dataset))
    return page_of(tx, query, audits.c.number, _audit_of, before=before, limit=limit)


def count_attempts(tx: Connection, dataset: str, submitter: str) -> int:
    """Number of audits that a submitter has begun on a dataset."""
    mine = (audits.c.dataset == dataset, audits.c.submitter == submitter)
    return int(tx.execute(select(func.count()).select_from(audits).where(*mine)).scalar_one())


def passed_audit(tx: Connection, card: str, box_digest: str) -> AuditRow | None:
    """Return the newest audit under a card in which this very black box left no evidence."""
    mine = (audits.c.card == card, audits.c.box_digest == box_digest)
    passed = (audits.c.verdict == Verdict.NO_EVIDENCE, audits.c.cleared.is_(None))
    query = select(audits).where(*mine, *passed).order_by(audits.c.number.desc()).limit(1)
    return find_one(tx, query, _audit_of)


def audits_of_family(tx: Connection, row: AuditRow) -> tuple[AuditRow, ...]:
    """Ended audits of the same family on the same dataset that count, in the order of their ends.

    The family of an audit are audits of boxes with the same name and author, and of the same bytes under
    any name. An unknown author counts as every author. ``row`` itself is not among them.
    """
    same_name_and_author = audits.c.black_box == row.black_box
    if row.author:
        # an unknown author is taken for every author: leaving it out must not start a new family
        author = or_(audits.c.author.is_(None), audits.c.author.in_(["", row.author]))
        same_name_and_author = and_(same_name_and_author, author)
    family = or_(audits.c.box_digest == row.box_digest, same_name_and_author)
    return counting_audits(tx, audits.c.dataset == row.dataset, audits.c.name != row.name, family)


def counting_audits(tx: Connection, *conditions: ColumnElement[bool]) -> tuple[AuditRow, ...]:
    """Return all ended audits that no steward has cleared, in the order of their ends."""
    query = select(audits).where(*conditions, *_COUNT).order_by(audits.c.ended, audits.c.number)
    return tuple(map(_audit_of, tx.execute(query).mappings()))


def clear_audits(tx: Connection, dataset: str, black_box: str, now: datetime) -> int:
    """Let no ended audit of a black box on a dataset count any more; how many did."""
    mine = (audits.c.dataset == dataset, audits.c.black_box == black_box)
    return tx.execute(update(audits).where(*mine, *_COUNT).values(cleared=now)).rowcount


def _audit_of(row: Mapping[Any, Any]) -> AuditRow:
    verdict = row["verdict"]
    return AuditRow(**{**row, "verdict": None if verdict is None else Verdict(verdict)})


class RunTier(StrEnum):
    """Kind of a run: one of our own analyses, or a program of the analyst's."""

    CHECKED = "checked"
    REVIEWED = "reviewed"


class RunState(StrEnum):
    """RUNNING -> WAITING -> RELEASED | REFUSED; checked runs that need no steward skip WAITING.

    FAILED: it ended without an answer, after it had read records. A run that ended before is
    deleted: nothing was learnt, and it does not count.
    """

    RUNNING = "running"
    WAITING = "waiting"
    RELEASED = "released"
    REFUSED = "refused"
    FAILED = "failed"


SIGNED = (RunState.RELEASED, RunState.REFUSED)
"""States in which there is something signed."""

_BEFORE = {
    RunState.WAITING: (RunState.RUNNING,),
    RunState.RELEASED: (RunState.RUNNING, RunState.WAITING),
    RunState.REFUSED: (RunState.RUNNING, RunState.WAITING),
    RunState.FAILED: (RunState.RUNNING,),
}


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run as stored.

    Args:
        name: datasets/{dataset}/cards/{card}/answers/{answer}.
        version: Salted digest of the records that it reads.
        question: SHA-256, in hex, of what was asked: equal questions have one answer.
        request: The question, as RFC 8785 JSON.
        outcome: Result of the job as JSON; its numbers depend on records and are for stewards alone. Of
            a refused run, what the output rules say of it.
        envelope: The signed answer or refusal: a DSSE envelope.
        counts: Whether it counts in ``limits.refusals``: it was refused, or waits, because of the
            records, or it was ended early; and no steward has decided on it or reviewed it.
    """

    name: str
    card: str
    dataset: str
    version: str
    submitter: str
    tier: RunTier
    question: str
    request: bytes
    created: datetime
    state: RunState = RunState.RUNNING
    line: int | None = None
    statistics: int = 0
    outcome: bytes | None = None
    envelope: bytes | None = None
    log_index: int | None = None
    ended: datetime | None = None
    counts: bool = False

    @property
    def broken(self) -> tuple[str, ...]:
        """Codes of the output rules that its outcome names, for stewards alone."""
        marks = json.loads(self.outcome)["marks"] if self.outcome else None
        rules = chain.from_iterable(mark["rules"] for mark in marks) if isinstance(marks, list) else ()
        return tuple(dict.fromkeys(rules))


def get_run(tx: Connection, name: str) -> RunRow:
    """Raises NotFoundError if there is no such run."""
    return get_named(tx, runs, name, _run_of, "answer")


def earlier_run(tx: Connection, card: str, question: str) -> RunRow | None:
    """Return the newest run of the same question under a card that has not failed."""
    same = (runs.c.card == card, runs.c.question == question, runs.c.state != RunState.FAILED)
    query = select(runs).where(*same).order_by(runs.c.number.desc()).limit(1)
    return find_one(tx, query, _run_of)


def count_runs(tx: Connection, card: str, tier: RunTier) -> int:
    """Count the runs of a tier that a card has had and that read records."""
    query = select(func.count()).where(runs.c.card == card, runs.c.tier == tier)
    return int(tx.execute(query).scalar_one())


def find_runs(tx: Connection, **values: Any) -> tuple[RunRow, ...]:
    """Return the runs with these values in their columns, oldest first.

    All of them have read records or are reading them.
    """
    query = select(runs).filter_by(**values).order_by(runs.c.number)
    return tuple(map(_run_of, tx.execute(query).mappings()))


def review_run(tx: Connection, name: str) -> None:
    """Stop counting a refused run, which a steward has reviewed."""
    tx.execute(update(runs).where(runs.c.name == name).values(counts=0))


def undecided_run(tx: Connection, line: int) -> RunRow | None:
    """Return the run that a line of the ledger pays for, while it goes on or waits; else None."""
    open_ = runs.c.state.in_((RunState.RUNNING, RunState.WAITING))
    return find_one(tx, select(runs).where(runs.c.line == line, open_), _run_of)


def list_runs(
    tx: Connection, *, card: str | None = None, signed: bool = False, before: str = "", limit: int = 50
) -> Page[RunRow]:
    """Runs, newest first, of one card or all, or only those with something signed."""
    query = only(select(runs), (runs.c.card, card))
    if signed:
        query = query.where(runs.c.state.in_(SIGNED))
    return page_of(tx, query, runs.c.number, _run_of, before=before, limit=limit)


def move_run(tx: Connection, name: str, state: RunState, **values: Any) -> None:
    """Put a run into another state, with what it got on the way."""
    legal = update(runs).where(runs.c.name == name, runs.c.state.in_(_BEFORE[state]))
    if tx.execute(legal.values(state=state, **values)).rowcount != 1:
        raise InvalidInputError(field="answer", problem="has already been decided")


def forget_run(tx: Connection, name: str) -> None:
    """Delete a run that ended before it could look at a record."""
    tx.execute(delete(runs).where(runs.c.name == name, runs.c.state == RunState.RUNNING))


def _run_of(row: Mapping[Any, Any]) -> RunRow:
    values = {name: value for name, value in row.items() if name != "number"}
    typed = {
        "tier": RunTier(row["tier"]),
        "state": RunState(row["state"]),
        "counts": bool(row["counts"]),
    }
    return RunRow(**values | typed)


_TABLES: dict[type, Table] = {ReleaseRow: releases, EvaluationRow: measures, RunRow: runs}


def insert_result(tx: Connection, row: ReleaseRow | EvaluationRow | RunRow) -> None:
    """Raises StorageError, at the end of the transaction's block, if the name is taken."""
    tx.execute(insert(_TABLES[type(row)]).values(asdict(row)))
