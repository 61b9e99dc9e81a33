"""Runs on the records under a card: asked for, run, and what of their answers was released."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from itertools import chain
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from gencard.controller.state.database import Page, only, page_of
from gencard.controller.state.tables import runs
from gencard.core.errors import InvalidInputError, NotFoundError


class RunTier(StrEnum):
    """What runs: one of our own analyses, or a program of the analyst's."""

    CHECKED = "checked"
    REVIEWED = "reviewed"


class RunState(StrEnum):
    """RUNNING -> WAITING -> RELEASED | REFUSED; checked runs that need no steward skip WAITING.

    FAILED: it ended without an answer, after the records were looked at. A run that ended before is
    deleted: nothing was learnt, and it does not count.
    """

    RUNNING = "running"
    WAITING = "waiting"
    RELEASED = "released"
    REFUSED = "refused"
    FAILED = "failed"


ENDED = (RunState.RELEASED, RunState.REFUSED)
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
        submitter: URI of the analyst.
        question: SHA-256, in hex, of what was asked: equal questions have one answer.
        request: What was asked, RFC 8785 JSON.
        line: Of the ledger.
        statistics: What it cost, in independent statistics.
        outcome: What the job gave, JSON; its numbers depend on records and are for stewards alone. Of a
            refused run, what the output rules say of it.
        envelope: The signed answer or refusal: a DSSE envelope.
        log_index: The log's entry of the release or refusal.
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


class RunStore:
    """Runs; each change is one conditional UPDATE, so whoever ends one first ends it."""

    def insert(self, tx: Connection, row: RunRow) -> None:
        """Raises StorageError, at the end of the transaction's block, where the name is taken."""
        tx.execute(insert(runs).values(asdict(row)))

    def get(self, tx: Connection, name: str) -> RunRow:
        """Raises NotFoundError where there is no such run."""
        row = tx.execute(select(runs).where(runs.c.name == name)).mappings().one_or_none()
        if row is None:
            raise NotFoundError(what="answer")
        return _row_of(row)

    def asked_before(self, tx: Connection, card: str, question: str) -> RunRow | None:
        """The newest run of the same question under a card that has not failed."""
        same = (runs.c.card == card, runs.c.question == question, runs.c.state != RunState.FAILED)
        query = select(runs).where(*same).order_by(runs.c.number.desc()).limit(1)
        row = tx.execute(query).mappings().one_or_none()
        return None if row is None else _row_of(row)

    def number(self, tx: Connection, card: str, tier: RunTier) -> int:
        """Count the runs of a tier that a card has had and that read records."""
        query = select(func.count()).where(runs.c.card == card, runs.c.tier == tier)
        return int(tx.execute(query).scalar_one())

    def of_dataset(self, tx: Connection, dataset: str) -> Iterator[RunRow]:
        """Every run on a dataset, under any card, that looked at records or does, oldest first."""
        query = select(runs).where(runs.c.dataset == dataset).order_by(runs.c.number)
        return map(_row_of, tx.execute(query).mappings().all())

    def waiting(self, tx: Connection) -> tuple[RunRow, ...]:
        """What a steward has to look at, oldest first."""
        query = select(runs).where(runs.c.state == RunState.WAITING).order_by(runs.c.number)
        return tuple(map(_row_of, tx.execute(query).mappings()))

    def counted(self, tx: Connection, dataset: str | None = None) -> tuple[RunRow, ...]:
        """Runs that count in ``limits.refusals``, of one dataset or all, oldest first."""
        query = only(select(runs).where(runs.c.counts == 1), (runs.c.dataset, dataset))
        return tuple(map(_row_of, tx.execute(query.order_by(runs.c.number)).mappings()))

    def review(self, tx: Connection, name: str) -> None:
        """A steward has reviewed a refused run: it counts no longer."""
        tx.execute(update(runs).where(runs.c.name == name).values(counts=0))

    def undecided(self, tx: Connection, line: int) -> RunRow | None:
        """The run that a line of the ledger pays for, while it goes on or waits; else None."""
        open_ = runs.c.state.in_((RunState.RUNNING, RunState.WAITING))
        row = tx.execute(select(runs).where(runs.c.line == line, open_)).mappings().one_or_none()
        return None if row is None else _row_of(row)

    def list(
        self, tx: Connection, *, card: str | None = None, before: str = "", limit: int = 50
    ) -> Page[RunRow]:
        """Runs, newest first, of one card or all."""
        query = only(select(runs), (runs.c.card, card))
        return page_of(tx, query, runs.c.number, _row_of, before=before, limit=limit)

    def move(self, tx: Connection, name: str, state: RunState, **values: Any) -> None:
        """Put a run into another state, with what it got on the way.

        Raises:
            InvalidInputError: It is not in a state from which that one follows: somebody was faster.
        """
        legal = update(runs).where(runs.c.name == name, runs.c.state.in_(_BEFORE[state]))
        if tx.execute(legal.values(state=state, **values)).rowcount != 1:
            raise InvalidInputError(field="answer", problem="has already been decided")

    def forget(self, tx: Connection, name: str) -> None:
        """Delete a run that ended before it could look at a record."""
        tx.execute(delete(runs).where(runs.c.name == name, runs.c.state == RunState.RUNNING))


def _row_of(row: Mapping[Any, Any]) -> RunRow:
    values = {name: value for name, value in row.items() if name != "number"}
    typed = {
        "tier": RunTier(row["tier"]),
        "state": RunState(row["state"]),
        "counts": bool(row["counts"]),
    }
    return RunRow(**values | typed)
