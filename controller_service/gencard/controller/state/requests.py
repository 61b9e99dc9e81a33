"""Requests, each with one effect and one answer however often it is sent, and the operations they begin.

An operation is long work that outlives calls, disconnects and restarts. Each change of one is one
conditional UPDATE, so the first to end an operation ends it.
"""

import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from gencard.controller.state.database import Page, get_named, insert_if_absent, only, page_of
from gencard.controller.state.tables import answers, operations
from gencard.core.errors import InvalidInputError, RequestIdReusedError, StorageError
from gencard.wire.keys import Identity

_ZLIB = b"\x78\x9c"
"""First bytes of what ``zlib.compress`` makes."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request of one caller, which has one effect and one answer however often it is sent.

    Args:
        request_id: The caller's random UUID; ids of different callers never meet.
        digest: SHA-256, in hex, of everything else that was asked.
    """

    method: str
    request_id: str
    digest: str

    def answer(self, tx: Connection, who: Identity) -> bytes | None:
        """Return the stored answer; None if the request is new. Raises RequestIdReusedError."""
        row = tx.execute(select(answers).where(*self._row(who))).mappings().one_or_none()
        if row is None:
            return None
        # a reused id must not return the answer to a different request as if it were this one's
        if (row["method"], row["request_digest"]) != (self.method, self.digest):
            raise RequestIdReusedError()
        # Older answers were stored without packing. None of them begins as zlib's output does: a card
        # begins with 0x0A, its first field, and a name with ``operations/``.
        stored = bytes(row["answer"])
        return zlib.decompress(stored) if stored.startswith(_ZLIB) else stored

    def once(self, tx: Connection, who: Identity, now: datetime, make: Callable[[], bytes]) -> bytes:
        """Return the stored answer, or the one that ``make`` gives now.

        The id is claimed before ``make`` runs, so of two equal requests at the same moment one makes the
        answer and the other waits for it. If ``make``, which works inside ``tx``, raises, the claim is
        undone with all that it did.

        Raises:
            InvalidInputError: The id is not a random UUID in its usual spelling.
            RequestIdReusedError: The id came before with another method or request.
        """
        # version 4 in 36 characters: an id without randomness could be met by accident
        try:
            uuid = UUID(self.request_id)
        except ValueError:
            uuid = None
        if uuid is None or uuid.version != 4 or str(uuid) != self.request_id.lower():
            raise InvalidInputError(field="request_id", problem="is not a random UUID (version 4)")
        key = {"actor": who.uri, "request_id": self.request_id.lower()}
        request = {"method": self.method, "request_digest": self.digest}
        # the claim comes first: of two equal requests at once, only one may charge and measure
        with tx.begin_nested():
            if insert_if_absent(tx, answers, {**key, **request, "answer": b"", "created": now}):
                answer = make()
                # compressed if that is shorter: the body of a card contains its purpose three times
                packed = zlib.compress(answer)
                shorter = len(packed) < len(answer) or answer.startswith(_ZLIB)
                values = {"answer": packed if shorter else answer}
                stored = update(answers).where(*self._row(who)).values(values)
                if tx.execute(stored).rowcount != 1:
                    raise StorageError()
                return answer
        known = self.answer(tx, who)
        if known is None:
            raise StorageError()
        return known

    def _row(self, who: Identity) -> tuple[ColumnElement[bool], ...]:
        return answers.c.actor == who.uri, answers.c.request_id == self.request_id.lower()


def forget_answers(tx: Connection, methods: Collection[str], before: datetime) -> None:
    """Drop stored answers of some methods that were given before a time."""
    tx.execute(delete(answers).where(answers.c.method.in_(methods), answers.c.created < before))


class OperationState(StrEnum):
    """QUEUED -> RUNNING -> SUCCEEDED | FAILED | CANCELLED; the last two also straight from QUEUED."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


UNFINISHED = (OperationState.QUEUED, OperationState.RUNNING)
SEEN = "seen"
"""Stage of a failed operation that a steward has reviewed."""

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
        permille: Completed part of the work, in thousandths.
        error: JSON bytes of reason and fields of a failed operation.
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


def create_operation(
    tx: Connection, name: str, *, owner: str, kind: str, resource: str, request: bytes, now: datetime
) -> None:
    """Put an operation in the queue."""
    row = insert(operations).values(
        name=name, owner=owner, kind=kind, resource=resource, request=request
    )
    queued = row.values(state=OperationState.QUEUED, stage="", permille=0, created=now, changed=now)
    tx.execute(queued)


def move_operation(
    tx: Connection, name: str, state: OperationState, now: datetime, **values: Any
) -> bool:
    """Put an operation into another state, or note its progress, with what it got on the way.

    False if it had ended already; a success needs a running operation. The caller then stops or undoes
    the work.
    """
    legal = update(operations).where(operations.c.name == name, operations.c.state.in_(_BEFORE[state]))
    return tx.execute(legal.values(state=state, changed=now, **values)).rowcount == 1


def get_operation(tx: Connection, name: str) -> OperationRow:
    """Raises NotFoundError if there is no such operation."""
    return get_named(tx, operations, name, _operation_of, "operation")


def list_operations(
    tx: Connection, *, owner: str | None = None, before: str = "", limit: int = 50
) -> Page[OperationRow]:
    """Operations, newest first, of one owner or all."""
    query = only(select(operations), (operations.c.owner, owner))
    return page_of(tx, query, operations.c.number, _operation_of, before=before, limit=limit)


def unseen_operations(tx: Connection) -> tuple[OperationRow, ...]:
    """Return failed operations that no steward has reviewed, oldest first."""
    conditions = operations.c.state == OperationState.FAILED, operations.c.stage != SEEN
    query = select(operations).where(*conditions).order_by(operations.c.number)
    return tuple(map(_operation_of, tx.execute(query).mappings()))


def mark_seen(tx: Connection, name: str) -> None:
    """Mark a failed operation as reviewed by a steward."""
    failed = operations.c.name == name, operations.c.state == OperationState.FAILED
    tx.execute(update(operations).where(*failed).values(stage=SEEN))


def operations_of_kind(
    tx: Connection, kind: str, resource: str | None = None
) -> tuple[OperationRow, ...]:
    """Operations of one kind, for one resource or all, oldest first, however they ended."""
    query = only(select(operations), (operations.c.kind, kind), (operations.c.resource, resource))
    return tuple(map(_operation_of, tx.execute(query.order_by(operations.c.number)).mappings()))


def unfinished_operations(tx: Connection) -> tuple[OperationRow, ...]:
    """Return the operations that a restart takes up again, oldest first."""
    query = select(operations).where(operations.c.state.in_(UNFINISHED)).order_by(operations.c.number)
    return tuple(map(_operation_of, tx.execute(query).mappings()))


def _operation_of(row: Mapping[Any, Any]) -> OperationRow:
    return OperationRow(**{**row, "state": OperationState(row["state"])})
