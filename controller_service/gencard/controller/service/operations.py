"""Operations, LedgerService and LogService, and what all services share: pages and messages."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

import grpc
from google.longrunning import operations_pb2 as longrunning
from google.longrunning import operations_pb2_grpc
from google.protobuf import empty_pb2
from google.protobuf.message import Message

from gencard.controller.failures import error_of_document
from gencard.controller.operations import Operations
from gencard.controller.service.guard import identity
from gencard.controller.state.database import Database
from gencard.controller.state.ledger import Account, Ledger, Scope
from gencard.controller.state.log import EventLog, all_changes
from gencard.controller.state.requests import UNFINISHED, OperationRow, OperationState, Request
from gencard.controller.state.results import AuditRow, EvaluationRow, ReleaseRow
from gencard.core.errors import InvalidInputError, InvalidNumberError, OperationCancelledError
from gencard.v1 import (
    answers_pb2,
    audit_pb2,
    common_pb2,
    ledger_pb2,
    ledger_pb2_grpc,
    measures_pb2,
    synthesis_pb2,
)
from gencard.v1.synthesis_pb2 import OperationProgress
from gencard.wire.canonical import sha256
from gencard.wire.codec import message_of, messages_of, part_of, timestamp
from gencard.wire.error_table import status_message
from gencard.wire.keys import Role

T = TypeVar("T")
Context = grpc.ServicerContext

USUAL = 50
LARGEST = 500

RESPONSE: dict[str, type[Message]] = {
    "release": synthesis_pb2.Release,
    "audit": audit_pb2.Audit,
    "measures": measures_pb2.RunMeasuresResponse,
    "run": answers_pb2.Answer,
    "program": answers_pb2.Answer,
    "risk": empty_pb2.Empty,  # its numbers leave by GetRisk alone, which the log notes
}
LONGEST_WAIT = 30.0
LOOK_EVERY = 0.1


def page_size(size: int) -> int:
    """Return the size: 0 means 50; more than 500 is refused."""
    if not 0 <= size <= LARGEST:
        raise InvalidNumberError(field="page_size", expected=f"from 0 to {LARGEST}")
    return size or USUAL


class PageRequest(Protocol):
    page_size: int
    page_token: str


def paging(request: PageRequest) -> tuple[str, int]:
    """Return the token and the size of the requested page."""
    return request.page_token, page_size(request.page_size)


def page_and_token(
    items: Sequence[T], request: PageRequest, name_of: Callable[[T], str]
) -> tuple[Sequence[T], str]:
    """Return the requested page of a sorted list, and the next token: the last name of the page."""
    (token, size), names = paging(request), list(map(name_of, items))
    if token and token not in names:
        raise InvalidInputError(field="page_token", problem="was not issued by this list")
    start = names.index(token) + 1 if token else 0
    end = start + size
    return items[start:end], names[end - 1] if end < len(names) else ""


def request_of(method: str, message: Message) -> Request:
    """Return a mutating request as the state remembers it: a repeat gets the same answer."""
    plain = type(message)()
    plain.CopyFrom(message)
    plain.ClearField("request_id")
    request_id: str = getattr(message, "request_id")  # noqa: B009  # every mutating request has one
    return Request(method, request_id, sha256(plain.SerializeToString(deterministic=True)))


def release_message(row: ReleaseRow) -> synthesis_pb2.Release:
    return part_of(row, synthesis_pb2.Release)


def audit_message(row: AuditRow) -> audit_pb2.Audit:
    """Return an audit as the analyst may see it."""
    ended = timestamp(row.ended or row.created)
    return part_of(row, audit_pb2.Audit, attempt=row.try_number, create_time=ended)


def evaluation_message(row: EvaluationRow, *, whole: bool = True) -> measures_pb2.Measures:
    hidden = {} if whole else {"document": b""}
    return part_of(row, measures_pb2.Measures, **hidden)


def response_of(message: Callable[[T], Message]) -> Callable[[T], bytes]:
    """Return the function that encodes a row as the response of its operation, as the state keeps it."""
    return lambda row: message(row).SerializeToString()


def evaluation_response(card: str, names: Sequence[str]) -> bytes:
    """Return the response of an operation that ran evaluations, as the state keeps it."""
    return measures_pb2.RunMeasuresResponse(card=card, measures=names).SerializeToString()


def operation_message(row: OperationRow) -> longrunning.Operation:
    """Return the operation on the wire, with its progress, and its response or error once it ended."""
    message = longrunning.Operation(name=row.name)
    message.metadata.Pack(part_of(row, OperationProgress, create_time=timestamp(row.created)))
    if row.state is OperationState.SUCCEEDED:
        message.done = True
        message.response.Pack(RESPONSE[row.kind].FromString(row.response or b""))
    elif row.state not in UNFINISHED:
        message.done = True
        cancelled = row.state is OperationState.CANCELLED
        error = OperationCancelledError() if cancelled else error_of_document(row.error)
        message.error.CopyFrom(status_message(error))
    return message


@dataclass(frozen=True, slots=True)
class OperationsServicer(operations_pb2_grpc.OperationsServicer):  # type: ignore[misc]  # it ships without types
    """Operations for callers, who see their own operations."""

    operations: Operations

    def ListOperations(
        self, request: longrunning.ListOperationsRequest, context: Context
    ) -> longrunning.ListOperationsResponse:
        rows, token = self.operations.page(identity(), *paging(request))
        return longrunning.ListOperationsResponse(
            operations=map(operation_message, rows), next_page_token=token
        )

    def GetOperation(
        self, request: longrunning.GetOperationRequest, context: Context
    ) -> longrunning.Operation:
        return operation_message(self.operations.get(identity(), request.name))

    def WaitOperation(
        self, request: longrunning.WaitOperationRequest, context: Context
    ) -> longrunning.Operation:
        """Return the operation once it ends or makes progress, or after the requested time."""
        seconds = left = context.time_remaining() or LONGEST_WAIT
        if request.HasField("timeout"):
            seconds = max(request.timeout.ToMilliseconds() / 1000, 0.0)
        end = time.monotonic() + min(seconds, left, LONGEST_WAIT)
        who = identity()
        first = self.operations.get(who, request.name)
        while True:
            row = self.operations.get(who, request.name)
            if (row.state, row.stage, row.permille) != (first.state, first.stage, first.permille):
                break
            is_late = time.monotonic() + LOOK_EVERY >= end
            if row.state not in UNFINISHED or is_late or not context.is_active():
                break
            time.sleep(LOOK_EVERY)
        return operation_message(row)

    def CancelOperation(
        self, request: longrunning.CancelOperationRequest, context: Context
    ) -> empty_pb2.Empty:
        self.operations.cancel(identity(), request.name)
        return empty_pb2.Empty()


@dataclass(frozen=True, slots=True)
class LedgerServicer(ledger_pb2_grpc.LedgerServiceServicer):
    """Lines of the ledger for callers, who see their own lines; stewards see all lines."""

    database: Database
    ledger: Ledger

    def ListSpends(
        self, request: ledger_pb2.ListSpendsRequest, context: Context
    ) -> ledger_pb2.ListSpendsResponse:
        who = identity()
        owner = None if who.role is Role.STEWARD else who.uri
        with self.database.reading() as tx:
            token, size = paging(request)
            page = self.ledger.lines(tx, analyst=owner, before=token, limit=size)
        return ledger_pb2.ListSpendsResponse(
            spends=messages_of(page.rows, ledger_pb2.Spend), next_page_token=page.next_token
        )

    def GetBudget(
        self, request: ledger_pb2.GetBudgetRequest, context: Context
    ) -> ledger_pb2.GetBudgetResponse:
        account = Account(Scope.ANALYST, request.dataset, identity().uri)
        cap = self.ledger.cap(account)
        with self.database.reading() as tx:
            spent = self.ledger.spent(tx, account)
        return ledger_pb2.GetBudgetResponse(
            cap=message_of(cap, common_pb2.Price), spent=message_of(spent, common_pb2.Price)
        )


@dataclass(frozen=True, slots=True)
class LogServicer(ledger_pb2_grpc.LogServiceServicer):
    """Checkpoints, proofs and changes of keys; hashes alone leave the log."""

    database: Database
    log: EventLog
    clock: Callable[[], datetime]

    def GetCheckpoint(
        self, request: ledger_pb2.GetCheckpointRequest, context: Context
    ) -> ledger_pb2.GetCheckpointResponse:
        with self.database.reading() as tx:
            checkpoint = self.log.current_checkpoint(tx)
        if checkpoint is None:
            with self.database.transaction() as tx:
                checkpoint = self.log.checkpoint(tx, self.clock())
        return ledger_pb2.GetCheckpointResponse(checkpoint=checkpoint)

    def GetInclusionProof(
        self, request: ledger_pb2.GetInclusionProofRequest, context: Context
    ) -> ledger_pb2.GetInclusionProofResponse:
        with self.database.reading() as tx:
            leaf, path = self.log.inclusion(tx, request.index, request.size)
        return ledger_pb2.GetInclusionProofResponse(leaf=leaf, path=path)

    def GetConsistencyProof(
        self, request: ledger_pb2.GetConsistencyProofRequest, context: Context
    ) -> ledger_pb2.GetConsistencyProofResponse:
        with self.database.reading() as tx:
            path = self.log.consistency(tx, request.old_size, request.new_size)
        return ledger_pb2.GetConsistencyProofResponse(path=path)

    def GetKeyHistory(
        self, request: ledger_pb2.GetKeyHistoryRequest, context: Context
    ) -> ledger_pb2.GetKeyHistoryResponse:
        with self.database.reading() as tx:
            return ledger_pb2.GetKeyHistoryResponse(changes=all_changes(tx))
