"""Who is calling, by the certificate of the connection, and which roles may call each method.

Deny by default (security checklist, S3).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import grpc
from cryptography import x509

from gencard.core.errors import UnauthenticatedError
from gencard.wire.signatures.identity import Identity, Role

ANALYST, AUDITOR, STEWARD = Role.ANALYST, Role.AUDITOR, Role.STEWARD
EVERYBODY = frozenset({ANALYST, AUDITOR, STEWARD})
HEALTH_CHECK = EVERYBODY | {Role.CONTROLLER}

MAY_CALL: Mapping[str, frozenset[Role]] = {
    "/gencard.v1.CatalogService/ListDatasets": EVERYBODY,
    "/gencard.v1.CatalogService/GetDataset": EVERYBODY,
    "/gencard.v1.CatalogService/ListGenerators": EVERYBODY,
    "/gencard.v1.NegotiationService/ProposeCard": frozenset({ANALYST}),
    "/gencard.v1.NegotiationService/GetCard": EVERYBODY,
    "/gencard.v1.NegotiationService/ListCards": EVERYBODY,
    "/gencard.v1.NegotiationService/CounterCard": frozenset({ANALYST}),
    "/gencard.v1.NegotiationService/AcceptCard": frozenset({ANALYST}),
    "/gencard.v1.NegotiationService/TerminateCard": frozenset({ANALYST}),
    "/gencard.v1.SynthesisService/GenerateRelease": frozenset({ANALYST}),
    "/gencard.v1.SynthesisService/GetRelease": EVERYBODY,
    "/gencard.v1.SynthesisService/ListReleases": EVERYBODY,
    "/gencard.v1.SynthesisService/StreamRows": frozenset({ANALYST}),
    "/gencard.v1.SynthesisService/StreamPsi": frozenset({ANALYST, AUDITOR}),
    "/gencard.v1.AuditService/RunAudit": frozenset({ANALYST, AUDITOR}),
    "/gencard.v1.AuditService/GetAudit": EVERYBODY,
    "/gencard.v1.AuditService/ListAudits": EVERYBODY,
    "/gencard.v1.AuditService/GetAuditReport": frozenset({AUDITOR, STEWARD}),
    "/gencard.v1.AuditService/RunBlackBox": frozenset({ANALYST, AUDITOR}),
    "/gencard.v1.MeasuresService/RunMeasures": EVERYBODY,
    "/gencard.v1.MeasuresService/GetMeasures": EVERYBODY,
    "/gencard.v1.MeasuresService/ListMeasures": EVERYBODY,
    "/gencard.v1.LedgerService/ListSpends": EVERYBODY,
    "/gencard.v1.LedgerService/GetBudget": EVERYBODY,
    "/gencard.v1.LogService/GetCheckpoint": EVERYBODY,
    "/gencard.v1.LogService/GetInclusionProof": EVERYBODY,
    "/gencard.v1.LogService/GetConsistencyProof": EVERYBODY,
    "/gencard.v1.LogService/GetKeyHistory": EVERYBODY,
    "/google.longrunning.Operations/ListOperations": EVERYBODY,
    "/google.longrunning.Operations/GetOperation": EVERYBODY,
    "/google.longrunning.Operations/CancelOperation": EVERYBODY,
    "/google.longrunning.Operations/WaitOperation": EVERYBODY,
    "/google.longrunning.Operations/DeleteOperation": frozenset(),
    "/grpc.health.v1.Health/Check": HEALTH_CHECK,
    "/grpc.health.v1.Health/List": frozenset(),
    "/grpc.health.v1.Health/Watch": EVERYBODY,
}
"""A method that is not here cannot be served; an empty set is served to nobody."""

EXEMPT = frozenset(
    {
        "/grpc.health.v1.Health/Check",
        "/google.longrunning.Operations/CancelOperation",
    }
)
"""Calls that count against no limit: one must be able to ask and to stop at any time."""


Enrolled = Callable[[Identity], bool]
"""Whether an identity is (still) on the controller's list."""

_CERTIFICATE = "x509_pem_cert"
"""Where gRPC puts the peer's own certificate, whole; TLS has verified its chain and its time."""


def caller_of(context: grpc.ServicerContext, enrolled: Enrolled, development: str | None) -> Identity:
    """The caller's identity.

    Args:
        development: URI that a plaintext caller on loopback gets in development; None elsewhere.

    Raises:
        UnauthenticatedError: The connection has no certificate, its alternative names are not exactly
            one identity's URI, or that identity is not enrolled.
    """
    certificates: Iterable[Any] = context.auth_context().get(_CERTIFICATE, ())
    pems = list(certificates)
    if not pems and development is not None:
        identity = Identity.of(development)
    elif len(pems) == 1:
        identity = Identity.of_certificate(_certificate(pems[0]))
    else:
        raise UnauthenticatedError
    if not enrolled(identity):
        raise UnauthenticatedError
    return identity


def _certificate(pem: bytes) -> x509.Certificate:
    """Raises UnauthenticatedError where the bytes are no certificate that ``cryptography`` reads."""
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError:
        pass
    raise UnauthenticatedError
