"""google.longrunning.Operations: watch, wait, cancel."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import grpc
from google.longrunning import operations_pb2, operations_pb2_grpc
from google.protobuf import empty_pb2
from google.protobuf.message import Message

from gencard.controller.operations.failures import error_of_document
from gencard.controller.operations.operations import Operations
from gencard.controller.service.guard import identity
from gencard.controller.state.operations import UNFINISHED, OperationRow, OperationState
from gencard.core.errors import GencardError, InvalidNumberError, OperationCancelledError
from gencard.v1 import audit_pb2, measures_pb2, synthesis_pb2
from gencard.v1.synthesis_pb2 import OperationProgress
from gencard.wire.codecs.card_codec import timestamp
from gencard.wire.codecs.error_table import status_message

USUAL = 50
LARGEST = 500


def page_size(size: int) -> int:
    """0 means 50; more than 500 is refused.

    Raises:
        InvalidNumberError: Below 0 or over 500.
    """
    if not 0 <= size <= LARGEST:
        raise InvalidNumberError(field="page_size", expected=f"from 0 to {LARGEST}")
    return size or USUAL


STATE = {state: OperationProgress.State.Value(f"STATE_{state.name}") for state in OperationState}
RESPONSE: dict[str, type[Message]] = {
    "release": synthesis_pb2.Release,
    "audit": audit_pb2.Audit,
    "measures": measures_pb2.RunMeasuresResponse,
}
LONGEST_WAIT = 30.0
LOOK_EVERY = 0.1


@dataclass(frozen=True, slots=True)
class OperationsServicer(operations_pb2_grpc.OperationsServicer):  # type: ignore[misc]  # it ships without types
    """Everybody sees their own operations."""

    operations: Operations

    def ListOperations(
        self, request: operations_pb2.ListOperationsRequest, context: grpc.ServicerContext
    ) -> operations_pb2.ListOperationsResponse:
        rows, token = self.operations.page(identity(), request.page_token, page_size(request.page_size))
        return operations_pb2.ListOperationsResponse(
            operations=map(operation_message, rows), next_page_token=token
        )

    def GetOperation(
        self, request: operations_pb2.GetOperationRequest, context: grpc.ServicerContext
    ) -> operations_pb2.Operation:
        return operation_message(self.operations.get(identity(), request.name))

    def WaitOperation(
        self, request: operations_pb2.WaitOperationRequest, context: grpc.ServicerContext
    ) -> operations_pb2.Operation:
        """The operation as soon as it ends or moves on, at the latest after the time asked for."""
        seconds = (
            request.timeout.ToMilliseconds() / 1000 if request.HasField("timeout") else LONGEST_WAIT
        )
        end = time.monotonic() + min(
            max(seconds, 0.0), LONGEST_WAIT, context.time_remaining() or LONGEST_WAIT
        )
        who = identity()
        first = row = self.operations.get(who, request.name)
        for _ in _ticks(end, context):
            row = self.operations.get(who, request.name)
            if (row.state, row.stage, row.permille) != (first.state, first.stage, first.permille):
                break
            if row.state not in UNFINISHED:
                break
        return operation_message(row)

    def CancelOperation(
        self, request: operations_pb2.CancelOperationRequest, context: grpc.ServicerContext
    ) -> empty_pb2.Empty:
        self.operations.cancel(identity(), request.name)
        return empty_pb2.Empty()


def operation_message(row: OperationRow) -> operations_pb2.Operation:
    """The operation on the wire, with its progress, and its response or error once it ended."""
    message = operations_pb2.Operation(name=row.name)
    message.metadata.Pack(
        OperationProgress(
            state=STATE[row.state],
            stage=row.stage,
            permille=row.permille,
            resource=row.resource,
            owner=row.owner,
            create_time=timestamp(row.created),
        )
    )
    if row.state is OperationState.SUCCEEDED:
        message.done = True
        message.response.Pack(RESPONSE[row.kind].FromString(row.response or b""))
    elif row.state not in UNFINISHED:
        message.done = True
        message.error.CopyFrom(status_message(_error(row)))
    return message


def _error(row: OperationRow) -> GencardError:
    cancelled = row.state is OperationState.CANCELLED
    return OperationCancelledError() if cancelled else error_of_document(row.error)


def _ticks(end: float, context: grpc.ServicerContext) -> Iterator[None]:
    while True:
        yield
        if time.monotonic() + LOOK_EVERY >= end or not context.is_active():
            return
        time.sleep(LOOK_EVERY)
