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
_CLASSES: Mapping[grpc.StatusCode, tuple[type[GencardError], ...]] = {
    grpc.StatusCode.INVALID_ARGUMENT: (
        *(errors.InvalidInputError, errors.UnknownAttributeError, errors.InvalidDomainError),
        *(errors.InvalidCliqueError, errors.InvalidNumberError, errors.InvalidCodingError),
        *(errors.InvalidDatasetError, errors.DomainMismatchError, errors.InvalidPsiError),
        *(errors.InvalidFormulaError, errors.NotReplayableError, errors.RequestIdReusedError),
        *(errors.ConnectionClosedError, errors.VerificationError),
    ),
    grpc.StatusCode.RESOURCE_EXHAUSTED: (
        *(errors.TooLargeError, errors.ModelTooLargeError, errors.TooManyRecordsError),
        *(errors.QuotaExceededError, errors.BudgetExceededError, errors.JobLimitError),
        errors.ServiceBusyError,
    ),
    grpc.StatusCode.FAILED_PRECONDITION: (
        *(errors.NotFittableError, errors.NegotiationError, errors.WrongTurnError),
        *(errors.CardStateError, errors.CardExpiredError, errors.SecondStewardError),
        *(errors.AuditRequiredError, errors.TooManyAuditsError, errors.TooManyRefusalsError),
        *(errors.GeneratorChangedError, errors.RecordsProtectedError, errors.BoxNotLentError),
        *(errors.BoxNotReviewedError, errors.NoPsiError, errors.LackingMarginalsError),
        *(errors.LevelsTooWideError, errors.ProposalRefusedError, errors.NotAcceptedError),
        *(errors.AwaitingStewardError, errors.RunRefusedError, errors.AnswerWaitingError),
        *(errors.AuthorityElsewhereError, errors.DatasetError, errors.DatasetUnavailableError),
        *(errors.RoleNotReadOnlyError, errors.DatasetChangedError, errors.EmptyDatasetError),
        *(errors.MissingAttributeError, errors.UndeclaredLevelError, errors.MeasurementRefusedError),
        *(errors.ComputationError, errors.NotConvergedError, errors.NoEstimateError),
        *(errors.NoiseDrownsError, errors.NoExtremalPairError, errors.BlackBoxError),
        *(errors.BoxRunFailedError, errors.ProgramNotRunError, errors.NoAnswerError),
        *(errors.ProgramRunFailedError, errors.UniqueFreeFailedError),
    ),
    grpc.StatusCode.ABORTED: (errors.StaleEtagError,),
    grpc.StatusCode.PERMISSION_DENIED: (errors.AccessError, errors.PermissionDeniedError),
    grpc.StatusCode.UNAUTHENTICATED: (
        *(errors.UnauthenticatedError, errors.CertificateNotTrustedError, errors.AuthorityMismatchError),
        *(errors.CertificateExpiredError, errors.CertificateNotYetValidError),
        errors.HostNameMismatchError,
    ),
    grpc.StatusCode.NOT_FOUND: (errors.NotFoundError,),
    grpc.StatusCode.INTERNAL: (
        *(errors.StorageError, errors.StorageReserveError, errors.OperationError, errors.JobFailedError),
        *(errors.IsolationError, errors.ClusterError, errors.WorkerError, errors.InternalError),
    ),
    grpc.StatusCode.CANCELLED: (errors.OperationCancelledError,),
    grpc.StatusCode.UNAVAILABLE: (errors.ServiceUnavailableError, errors.NotLeadingError),
    grpc.StatusCode.DEADLINE_EXCEEDED: (errors.DeadlineError,),
}

STATUS = {kind: status for status, kinds in _CLASSES.items() for kind in kinds}

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
