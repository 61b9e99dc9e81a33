"""Operations: long work that outlives calls, disconnects and restarts."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, insert, select, update

from gencard.controller.state.database import Page, only, page_of
from gencard.controller.state.tables import operations
from gencard.core.errors import NotFoundError


class OperationState(StrEnum):
    """QUEUED -> RUNNING -> SUCCEEDED | FAILED | CANCELLED; the last two also straight from QUEUED."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


UNFINISHED = (OperationState.QUEUED, OperationState.RUNNING)
SEEN = "seen"
"""Stage of an operation that failed, once a steward has looked at why."""

_BEFORE: Mapping[OperationState, tuple[OperationState, ...]] = {
    OperationState.RUNNING: UNFINISHED,
    OperationState.SUCCEEDED: (OperationState.RUNNING,),  # after a cancel the result is discarded
    OperationState.FAILED: UNFINISHED,
    OperationState.CANCELLED: UNFINISHED,
}


@dataclass(frozen=True, slots=True)
class OperationRow:
    """An operation as stored.

    Args:
        request: JSON bytes of what was asked: all that is needed to start again after a restart.
        permille: How much is done, in thousandths.
        response: What it ended with, where it succeeded.
        error: JSON bytes of reason and fields, where it failed.
    """

    number: int
    name: str
    owner: str
    kind: str
    resource: str
    request: bytes
    state: OperationState
    stage: str
    permille: int
    response: bytes | None
    error: bytes | None
    created: datetime
    changed: datetime


class OperationStore:
    """Operations; each change is one conditional UPDATE, so whoever ends one first ends it."""

    def create(
        self,
        tx: Connection,
        name: str,
        *,
        owner: str,
        kind: str,
        resource: str,
        request: bytes,
        now: datetime,
    ) -> None:
        """Put an operation in the queue."""
        tx.execute(
            insert(operations).values(
                name=name,
                owner=owner,
                kind=kind,
                resource=resource,
                request=request,
                state=OperationState.QUEUED,
                stage="",
                permille=0,
                created=now,
                changed=now,
            )
        )

    def progress(self, tx: Connection, name: str, stage: str, permille: int, now: datetime) -> bool:
        """Say how far it is; it runs from the first time on. False where it has ended: stop the work."""
        return _move(tx, name, OperationState.RUNNING, now, stage=stage, permille=permille)

    def succeed(self, tx: Connection, name: str, response: bytes, now: datetime) -> bool:
        """End a running operation. False where it does not run, as after a cancel: undo the work."""
        return _move(tx, name, OperationState.SUCCEEDED, now, response=response, permille=1000)

    def fail(self, tx: Connection, name: str, error: bytes, now: datetime) -> bool:
        """End an operation with reason and fields. False where it had ended already."""
        return _move(tx, name, OperationState.FAILED, now, error=error)

    def cancel(self, tx: Connection, name: str, now: datetime) -> bool:
        """End an operation at its owner's wish. False where it had ended already."""
        return _move(tx, name, OperationState.CANCELLED, now)

    def get(self, tx: Connection, name: str) -> OperationRow:
        """Raises NotFoundError where there is no such operation."""
        row = tx.execute(select(operations).where(operations.c.name == name)).mappings().one_or_none()
        if row is None:
            raise NotFoundError(what="operation")
        return _row_of(row)

    def list(
        self, tx: Connection, *, owner: str | None = None, before: str = "", limit: int = 50
    ) -> Page[OperationRow]:
        """Operations, newest first, of one owner or all."""
        query = only(select(operations), (operations.c.owner, owner))
        return page_of(tx, query, operations.c.number, _row_of, before=before, limit=limit)

    def failed(self, tx: Connection, kind: str, resource: str) -> tuple[OperationRow, ...]:
        """Operations of one kind for one resource that failed, oldest first."""
        conditions = (
            operations.c.kind == kind,
            operations.c.resource == resource,
            operations.c.state == OperationState.FAILED,
        )
        query = select(operations).where(*conditions).order_by(operations.c.number)
        return tuple(map(_row_of, tx.execute(query).mappings()))

    def unseen(self, tx: Connection, owner: str | None = None) -> tuple[OperationRow, ...]:
        """What failed and no steward has looked at, of one owner or all, oldest first."""
        conditions = operations.c.state == OperationState.FAILED, operations.c.stage != SEEN
        query = only(select(operations).where(*conditions), (operations.c.owner, owner))
        return tuple(map(_row_of, tx.execute(query.order_by(operations.c.number)).mappings()))

    def see(self, tx: Connection, name: str) -> None:
        """A steward has looked at one that failed."""
        failed = operations.c.name == name, operations.c.state == OperationState.FAILED
        tx.execute(update(operations).where(*failed).values(stage=SEEN))

    def of_kind(
        self, tx: Connection, kind: str, resource: str | None = None
    ) -> tuple[OperationRow, ...]:
        """Operations of one kind, for one resource or all, oldest first, however they ended."""
        query = only(select(operations), (operations.c.kind, kind), (operations.c.resource, resource))
        return tuple(map(_row_of, tx.execute(query.order_by(operations.c.number)).mappings()))

    def unfinished(self, tx: Connection) -> tuple[OperationRow, ...]:
        """What a restart takes up again, oldest first."""
        query = (
            select(operations).where(operations.c.state.in_(UNFINISHED)).order_by(operations.c.number)
        )
        return tuple(map(_row_of, tx.execute(query).mappings()))


def _move(tx: Connection, name: str, state: OperationState, now: datetime, **values: Any) -> bool:
    legal = update(operations).where(operations.c.name == name, operations.c.state.in_(_BEFORE[state]))
    return tx.execute(legal.values(state=state, changed=now, **values)).rowcount == 1


def _row_of(row: Mapping[Any, Any]) -> OperationRow:
    return OperationRow(**{**row, "state": OperationState(row["state"])})
