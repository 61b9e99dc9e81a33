"""The closed catalogue of errors on the wire: reason -> status, and back to a typed exception.

Only ``reason`` and ``fields`` travel (google.rpc.ErrorInfo); the text is made again from the
class's own template on the other side, so no free text ever crosses.
"""

from collections.abc import Callable, Mapping

import grpc
from google.protobuf.any_pb2 import Any
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from gencard.core import errors
from gencard.core.errors import GencardError

DOMAIN = "gencard"
_INVALID = grpc.StatusCode.INVALID_ARGUMENT
_PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
_EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
_INTERNAL = grpc.StatusCode.INTERNAL

STATUS: Mapping[type[GencardError], grpc.StatusCode] = {
    errors.InvalidInputError: _INVALID,
    errors.UnknownAttributeError: _INVALID,
    errors.InvalidDomainError: _INVALID,
    errors.InvalidCliqueError: _INVALID,
    errors.InvalidNumberError: _INVALID,
    errors.InvalidCodingError: _INVALID,
    errors.InvalidDatasetError: _INVALID,
    errors.DomainMismatchError: _INVALID,
    errors.InvalidPsiError: _INVALID,
    errors.InvalidFormulaError: _INVALID,
    errors.NotReplayableError: _INVALID,
    errors.RequestIdReusedError: _INVALID,
    errors.ConnectionClosedError: _INVALID,
    errors.TooLargeError: _EXHAUSTED,
    errors.ModelTooLargeError: _EXHAUSTED,
    errors.TooManyRecordsError: _EXHAUSTED,
    errors.NotFittableError: _PRECONDITION,
    errors.NegotiationError: _PRECONDITION,
    errors.WrongTurnError: _PRECONDITION,
    errors.StaleEtagError: grpc.StatusCode.ABORTED,
    errors.CardStateError: _PRECONDITION,
    errors.CardExpiredError: _PRECONDITION,
    errors.SecondStewardError: _PRECONDITION,
    errors.AuditRequiredError: _PRECONDITION,
    errors.TooManyAuditsError: _PRECONDITION,
    errors.QuotaExceededError: _EXHAUSTED,
    errors.TooManyRefusalsError: _PRECONDITION,
    errors.GeneratorChangedError: _PRECONDITION,
    errors.RecordsProtectedError: _PRECONDITION,
    errors.BoxNotLentError: _PRECONDITION,
    errors.BoxNotReviewedError: _PRECONDITION,
    errors.NoPsiError: _PRECONDITION,
    errors.LackingMarginalsError: _PRECONDITION,
    errors.LevelsTooWideError: _PRECONDITION,
    errors.ProposalRefusedError: _PRECONDITION,
    errors.NotAcceptedError: _PRECONDITION,
    errors.AwaitingStewardError: _PRECONDITION,
    errors.RunRefusedError: _PRECONDITION,
    errors.AnswerWaitingError: _PRECONDITION,
    errors.AccessError: grpc.StatusCode.PERMISSION_DENIED,
    errors.UnauthenticatedError: grpc.StatusCode.UNAUTHENTICATED,
    errors.PermissionDeniedError: grpc.StatusCode.PERMISSION_DENIED,
    errors.AuthorityElsewhereError: _PRECONDITION,
    errors.CertificateNotTrustedError: grpc.StatusCode.UNAUTHENTICATED,
    errors.AuthorityMismatchError: grpc.StatusCode.UNAUTHENTICATED,
    errors.CertificateExpiredError: grpc.StatusCode.UNAUTHENTICATED,
    errors.CertificateNotYetValidError: grpc.StatusCode.UNAUTHENTICATED,
    errors.HostNameMismatchError: grpc.StatusCode.UNAUTHENTICATED,
    errors.NotFoundError: grpc.StatusCode.NOT_FOUND,
    errors.BudgetExceededError: _EXHAUSTED,
    errors.DatasetError: _PRECONDITION,
    errors.DatasetUnavailableError: _PRECONDITION,
    errors.RoleNotReadOnlyError: _PRECONDITION,
    errors.DatasetChangedError: _PRECONDITION,
    errors.EmptyDatasetError: _PRECONDITION,
    errors.MissingAttributeError: _PRECONDITION,
    errors.UndeclaredLevelError: _PRECONDITION,
    errors.MeasurementRefusedError: _PRECONDITION,
    errors.StorageError: _INTERNAL,
    errors.StorageReserveError: _INTERNAL,
    errors.ComputationError: _PRECONDITION,
    errors.NotConvergedError: _PRECONDITION,
    errors.NoEstimateError: _PRECONDITION,
    errors.NoiseDrownsError: _PRECONDITION,
    errors.NoExtremalPairError: _PRECONDITION,
    errors.BlackBoxError: _PRECONDITION,
    errors.BoxRunFailedError: _PRECONDITION,
    errors.ProgramNotRunError: _PRECONDITION,
    errors.NoAnswerError: _PRECONDITION,
    errors.ProgramRunFailedError: _PRECONDITION,
    errors.UniqueFreeFailedError: _PRECONDITION,
    errors.VerificationError: _INVALID,
    errors.OperationError: _INTERNAL,
    errors.OperationCancelledError: grpc.StatusCode.CANCELLED,
    errors.JobFailedError: _INTERNAL,
    errors.JobLimitError: _EXHAUSTED,
    errors.ServiceUnavailableError: grpc.StatusCode.UNAVAILABLE,
    errors.NotLeadingError: grpc.StatusCode.UNAVAILABLE,
    errors.ServiceBusyError: _EXHAUSTED,
    errors.IsolationError: _INTERNAL,
    errors.ClusterError: _INTERNAL,
    errors.WorkerError: _INTERNAL,
    errors.DeadlineError: grpc.StatusCode.DEADLINE_EXCEEDED,
    errors.InternalError: _INTERNAL,
}

_FOREIGN: Mapping[grpc.StatusCode, Callable[[], GencardError]] = {
    grpc.StatusCode.DEADLINE_EXCEEDED: errors.DeadlineError,
    grpc.StatusCode.CANCELLED: errors.OperationCancelledError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: lambda: errors.ServiceBusyError(
        what="concurrent calls or message size"
    ),
    grpc.StatusCode.UNAUTHENTICATED: errors.UnauthenticatedError,
    grpc.StatusCode.PERMISSION_DENIED: errors.PermissionDeniedError,
    grpc.StatusCode.UNIMPLEMENTED: errors.PermissionDeniedError,
    grpc.StatusCode.INTERNAL: lambda: errors.InternalError(incident="unknown"),
}
"""Status with which gRPC itself or the network ended a call -> error to raise."""

BY_REASON: Mapping[str, type[GencardError]] = {kind.reason: kind for kind in STATUS}


def status_message(error: GencardError) -> status_pb2.Status:
    """The error as ``google.rpc.Status``; a class outside the table becomes INTERNAL."""
    if type(error) not in STATUS:
        error = errors.InternalError(incident="unlisted")
    info = error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=error.fields)
    packed = Any()
    packed.Pack(info)
    return status_pb2.Status(code=STATUS[type(error)].value[0], message=error.message, details=[packed])


def error_of(status: status_pb2.Status) -> GencardError | None:
    """The typed error that a status carries, or None where it is not one of ours."""
    info = error_details_pb2.ErrorInfo()
    try:
        for detail in status.details:
            if detail.Unpack(info) and info.domain == DOMAIN:
                return error_named(info.reason, dict(info.metadata))
    except DecodeError:
        pass
    return None


def error_named(reason: str, fields: Mapping[str, str]) -> GencardError | None:
    """The error with this reason and these fields; None where the catalogue does not hold it."""
    kind = BY_REASON.get(reason)
    try:
        return kind(**fields) if kind else None
    except KeyError:
        return None


def error_of_call(call: grpc.RpcError) -> GencardError:
    """The typed error of a failed call, whoever ended it: the service, gRPC or the network."""
    if not isinstance(call, grpc.Call):
        return errors.ServiceUnavailableError()
    try:
        status = rpc_status.from_call(call)
    except (DecodeError, ValueError):
        status = None
    ours = error_of(status) if status is not None else None
    return ours or _FOREIGN.get(call.code(), errors.ServiceUnavailableError)()
