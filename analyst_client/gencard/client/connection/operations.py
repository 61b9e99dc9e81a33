"""Long-running operations of the controller: wait for them, show their progress, cancel them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from google.longrunning import operations_pb2 as pb
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from rich import progress as bars
from rich.console import Console

from gencard.client.connection.connection import Connection
from gencard.core.errors import (
    GencardError,
    InternalError,
    OperationCancelledError,
    ServiceUnavailableError,
)
from gencard.core.types import Progress, ignore_progress
from gencard.v1.synthesis_pb2 import OperationProgress
from gencard.wire.codecs.error_table import error_of

_WAIT_SECONDS = 10
_RETRY_SECONDS = 30.0
_SHORTEST, _LONGEST = 0.05, 2.0

Result = TypeVar("Result", bound=Message)

ProgressDisplay = bool | Progress
"""True: a bar in a terminal or notebook, nothing elsewhere. A function: called instead."""


def result_of(
    connection: Connection, operation: pb.Operation, kind: type[Result], progress: Progress
) -> Result:
    """Wait for an operation and return its response. Interrupting the wait cancels the operation.

    An operation survives a restart of the service, so an unreachable service is tried again for half a
    minute.

    Raises:
        GencardError: The error with which the operation ended.
        ServiceUnavailableError: The service remained unreachable.
    """
    try:
        ended = _ended(connection, operation, progress)
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
    """The progress that the operation reports; empty where it reports none."""
    progress = OperationProgress()
    operation.metadata.Unpack(progress)
    return progress


def _ended(connection: Connection, operation: pb.Operation, progress: Progress) -> pb.Operation:
    pause, last_answer = _SHORTEST, time.monotonic()
    while not operation.done:
        before = progress_of(operation)
        _check_alive(before)
        progress(before.stage, before.permille / 1000)
        time.sleep(pause)
        try:
            operation = _awaited(connection, operation.name)
            last_answer = time.monotonic()
        except ServiceUnavailableError:
            if time.monotonic() - last_answer > _RETRY_SECONDS:
                raise
        pause = _SHORTEST if progress_of(operation) != before else min(pause * 1.5, _LONGEST)
    return operation


def _awaited(connection: Connection, name: str) -> pb.Operation:
    request = pb.WaitOperationRequest(name=name, timeout=Duration(seconds=_WAIT_SECONDS))
    operation: pb.Operation = connection.call(connection.operations.WaitOperation, request)
    return operation


def _check_alive(progress: OperationProgress) -> None:
    """Raises where an operation reports that it ended although it is not marked as done."""
    dead: dict[int, GencardError] = {
        OperationProgress.STATE_CANCELLED: OperationCancelledError(),
        OperationProgress.STATE_FAILED: InternalError(incident="unknown"),
    }
    if progress.state in dead:
        raise dead[progress.state]


@contextmanager
def progress_bar(title: str, display: ProgressDisplay) -> Iterator[Progress]:
    """A function that reports progress where ``display`` says, for the length of the block."""
    if callable(display):
        yield display
        return
    console = Console(stderr=True)
    if not display or not (console.is_terminal or console.is_jupyter):
        yield ignore_progress
        return
    text, stage = bars.TextColumn("{task.description}"), bars.TextColumn("{task.fields[stage]}")
    columns = (text, bars.BarColumn(), stage, bars.TimeElapsedColumn())
    with bars.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=1.0, stage="")
        yield lambda stage, share: bar.update(task, completed=share, stage=stage)
