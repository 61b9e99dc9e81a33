"""Long work on the controller's side: wait for it, show it, stop it."""

import time
from contextlib import suppress
from typing import TypeVar

from google.longrunning import operations_pb2 as pb
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from gencard.client.connection.connection import Connection
from gencard.client.connection.progress import Tell
from gencard.core.errors import (
    GencardError,
    InternalError,
    OperationCancelledError,
    ServiceUnavailableError,
)
from gencard.v1.synthesis_pb2 import OperationProgress
from gencard.wire.codecs.error_table import error_of

_WAIT_SECONDS = 10
_PATIENCE_SECONDS = 30.0
_SHORTEST, _LONGEST = 0.05, 2.0

Result = TypeVar("Result", bound=Message)


def result_of(connection: Connection, operation: pb.Operation, kind: type[Result], tell: Tell) -> Result:
    """Wait for an operation and return its response. Interrupting the wait cancels the operation.

    An operation outlives a restart of the service, so a service that cannot be reached is asked again
    for half a minute.

    Raises:
        GencardError: What the operation ended with.
        ServiceUnavailableError: The service stayed away.
    """
    try:
        ended = _ended(connection, operation, tell)
    except KeyboardInterrupt:
        with suppress(GencardError):
            cancel(connection, operation.name)
        raise
    if ended.HasField("error"):
        raise error_of(ended.error) or InternalError(incident="unknown")
    response = kind()
    if not ended.response.Unpack(response):
        raise InternalError(incident="unexpected response")
    return response


def cancel(connection: Connection, name: str) -> None:
    connection.call(connection.operations.CancelOperation, pb.CancelOperationRequest(name=name))


def progress_of(operation: pb.Operation) -> OperationProgress:
    """What the operation says of itself; empty where it says nothing."""
    progress = OperationProgress()
    operation.metadata.Unpack(progress)
    return progress


def _ended(connection: Connection, operation: pb.Operation, tell: Tell) -> pb.Operation:
    pause, heard = _SHORTEST, time.monotonic()
    while not operation.done:
        before = progress_of(operation)
        _refuse_dead(before)
        tell(before.stage, before.permille / 1000)
        time.sleep(pause)
        try:
            operation = _asked(connection, operation.name)
            heard = time.monotonic()
        except ServiceUnavailableError:
            if time.monotonic() - heard > _PATIENCE_SECONDS:
                raise
        pause = _SHORTEST if progress_of(operation) != before else min(pause * 1.5, _LONGEST)
    return operation


def _asked(connection: Connection, name: str) -> pb.Operation:
    request = pb.WaitOperationRequest(name=name, timeout=Duration(seconds=_WAIT_SECONDS))
    found: pb.Operation = connection.call(connection.operations.WaitOperation, request)
    return found


def _refuse_dead(progress: OperationProgress) -> None:
    """Raises where an operation says that it ended, though it is not marked as done."""
    dead: dict[int, GencardError] = {
        OperationProgress.STATE_CANCELLED: OperationCancelledError(),
        OperationProgress.STATE_FAILED: InternalError(incident="unknown"),
    }
    if progress.state in dead:
        raise dead[progress.state]
