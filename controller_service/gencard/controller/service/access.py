"""Callers, the roles that may call each method, and the share of the service for one caller.

Deny by default (security checklist, S3). Until a message has come, gRPC keeps a thread waiting for it
without a limit: a few callers that open calls and send nothing would otherwise hold all threads.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import count
from typing import Any

import grpc
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

from gencard.controller.people.enrolment import tls_key_id
from gencard.core.errors import UnauthenticatedError
from gencard.wire.keys import Identity, Role

ANALYST, AUDITOR, STEWARD = Role.ANALYST, Role.AUDITOR, Role.STEWARD
EVERYBODY = frozenset({ANALYST, AUDITOR, STEWARD})

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
    "/gencard.v1.AnswersService/RunAnalysis": frozenset({ANALYST}),
    "/gencard.v1.AnswersService/RunProgram": frozenset({ANALYST}),
    "/gencard.v1.AnswersService/GetAnswer": EVERYBODY,
    "/gencard.v1.AnswersService/ListAnswers": EVERYBODY,
    "/gencard.v1.LedgerService/ListSpends": EVERYBODY,
    "/gencard.v1.LedgerService/GetBudget": EVERYBODY,
    "/gencard.v1.LogService/GetCheckpoint": EVERYBODY,
    "/gencard.v1.LogService/GetInclusionProof": EVERYBODY,
    "/gencard.v1.LogService/GetConsistencyProof": EVERYBODY,
    "/gencard.v1.LogService/GetKeyHistory": EVERYBODY,
    "/gencard.v1.StewardService/ListQueue": frozenset({STEWARD}),
    "/gencard.v1.StewardService/GetReview": frozenset({STEWARD}),
    "/gencard.v1.StewardService/GetPreview": frozenset({STEWARD}),
    "/gencard.v1.StewardService/Decide": frozenset({STEWARD}),
    "/gencard.v1.StewardService/ListAnswersToReview": frozenset({STEWARD}),
    "/gencard.v1.StewardService/GetAnswerReview": frozenset({STEWARD}),
    "/gencard.v1.StewardService/ListAccounts": frozenset({STEWARD}),
    "/gencard.v1.StewardService/ListPeople": frozenset({STEWARD}),
    "/gencard.v1.StewardService/SearchLog": frozenset({STEWARD}),
    "/gencard.v1.StewardService/GetLogEntry": frozenset({STEWARD}),
    "/gencard.v1.StewardService/ListRefusals": frozenset({STEWARD}),
    "/gencard.v1.StewardService/RunRisk": frozenset({STEWARD}),
    "/gencard.v1.StewardService/GetRisk": frozenset({STEWARD}),
    "/google.longrunning.Operations/ListOperations": EVERYBODY,
    "/google.longrunning.Operations/GetOperation": EVERYBODY,
    "/google.longrunning.Operations/CancelOperation": EVERYBODY,
    "/google.longrunning.Operations/WaitOperation": EVERYBODY,
    "/google.longrunning.Operations/DeleteOperation": frozenset(),
    "/grpc.health.v1.Health/Check": EVERYBODY | {Role.CONTROLLER},
    "/grpc.health.v1.Health/List": frozenset(),
    "/grpc.health.v1.Health/Watch": EVERYBODY,
}
"""Roles that may call each method. Methods without an entry, or with an empty set, are never served."""

EXEMPT = frozenset({"/grpc.health.v1.Health/Check", "/google.longrunning.Operations/CancelOperation"})
"""Calls that count against no limit: callers must be able to check health and to cancel at any time.

If the guard has just refused many calls, these calls need another connection, or a second.
"""

UNQUEUED = EXEMPT | {
    "/gencard.v1.AuditService/RunBlackBox",
    "/google.longrunning.Operations/WaitOperation",
    "/grpc.health.v1.Health/Watch",
}
"""Calls that keep no other call of their caller waiting: most wait themselves, for work or requests."""

Admits = Callable[[Identity, str], bool]
"""Returns whether an identity is (still) on the controller's list, and a TLS key is its newest key."""

_CERTIFICATE = "x509_pem_cert"
"""Key of the peer's certificate in gRPC's authentication context.

gRPC puts the whole certificate there; TLS has verified its chain, and its time once.
"""
_ALWAYS = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Caller:
    """The other side of a connection, as its certificate describes it.

    Args:
        tls_key: Fingerprint of the certificate's key; empty in development, and for keys of other kinds
            than those that are enrolled.
        begins, ends: First and last moment at which the certificate is valid.
    """

    identity: Identity
    tls_key: str = ""
    begins: datetime = _ALWAYS[0]
    ends: datetime = _ALWAYS[1]

    def check(self, admits: Admits, now: datetime) -> None:
        """Raise UnauthenticatedError unless certificate, key and enrolment are valid now."""
        # TLS checks the time at the handshake alone, and a connection may be open for an hour. A
        # certificate cannot be recalled before it ends; the list of people counts at each call.
        if now > self.ends:
            raise UnauthenticatedError(why=f"the certificate ended on {self.ends:%Y-%m-%d}")
        if now < self.begins or not admits(self.identity, self.tls_key):
            raise UnauthenticatedError


def caller_of(
    context: grpc.ServicerContext, admits: Admits, development: str | None, now: datetime
) -> Caller:
    """Return the caller of a method.

    Args:
        development: URI of plaintext callers on loopback in development; None elsewhere.

    Raises:
        UnauthenticatedError: The connection has no certificate, its alternative names are not exactly
            one identity's URI, or ``Caller.check`` fails.
    """
    certificates: Iterable[Any] = context.auth_context().get(_CERTIFICATE, ())
    pems = list(certificates)
    if not pems and development is not None:
        caller = Caller(Identity.of(development))
    elif len(pems) == 1:  # a second certificate could carry another identity than the verified one
        caller = _caller_in(pems[0])
    else:
        raise UnauthenticatedError
    caller.check(admits, now)
    return caller


@lru_cache(maxsize=1_024)
def _caller_in(pem: bytes) -> Caller:
    """Read once for each certificate; time and enrolment are checked for each call."""
    certificate = None
    with suppress(ValueError):
        certificate = x509.load_pem_x509_certificate(pem)
    if certificate is None:
        raise UnauthenticatedError
    identity, key = Identity.of_certificate(certificate), certificate.public_key()
    tls_key = tls_key_id(key) if isinstance(key, EllipticCurvePublicKey) else ""
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return Caller(identity, tls_key, begins, ends)


class CallTimeout:
    """Cancels calls that take longer than so many seconds, in a single thread for all calls."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._numbers = count()
        self._waiting: dict[int, tuple[float, grpc.ServicerContext]] = {}
        """By number, earliest end first: all have the same time."""
        self._changed = threading.Condition()
        self._watcher: threading.Thread | None = None
        self._asleep = self._stopped = False

    @contextmanager
    def waiting(self, context: grpc.ServicerContext) -> Iterator[None]:
        """Limit the time of the block, which waits for the caller; a late call is cancelled."""
        number = self.keep(context)
        try:
            yield
        finally:
            with self._changed:
                self._waiting.pop(number, None)

    def stop(self) -> None:
        """End the thread; no call is cancelled any more, and none is kept."""
        with self._changed:
            self._stopped = True
            self._waiting.clear()
            self._changed.notify()

    def keep(self, context: grpc.ServicerContext) -> int:
        """Keep a call that ends from being freed until its time is over; return its number here.

        gRPC counts a call as a stream of its connection until it is freed, and refuses streams beyond
        the limit of a connection by itself.
        """
        with self._changed:
            number = next(self._numbers)
            self._waiting[number] = time.monotonic() + self._seconds, context
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, name="call-timeout", daemon=True)
                self._watcher.start()
            elif self._asleep:  # else it waits for an earlier end already
                self._changed.notify()
        return number

    def _watch(self) -> None:
        while self._cancel_next():
            pass

    def _cancel_next(self) -> bool:
        """Wait for the next late call and cancel it; return False once the watch has stopped."""
        with self._changed:
            while not self._stopped:
                # in one expression: a call that this thread held while it waits could not be freed
                left = next((end - time.monotonic() for end, _ in self._waiting.values()), None)
                if left is not None and left <= 0:
                    _, context = self._waiting.pop(next(iter(self._waiting)))
                    break
                self._asleep = left is None
                self._changed.wait(left)
            else:
                return False
        context.cancel()
        return True


CHECK_SECONDS = 1.0
"""Time between two checks of the callers of open calls."""


class OpenCalls:
    """Cancels calls in progress whose callers may call no more; one thread checks all of them.

    Streams are checked at each message, too. This is for calls that wait, for work or for the caller.

    Args:
        check: Raises UnauthenticatedError for a caller who may call no more.
    """

    def __init__(self, check: Callable[[Caller], None]) -> None:
        self._check = check
        self._numbers = count()
        self._open: dict[int, tuple[Caller, grpc.ServicerContext]] = {}
        self._changed = threading.Condition()
        self._checker: threading.Thread | None = None
        self._stopped = False

    @contextmanager
    def opened(self, caller: Caller, context: grpc.ServicerContext) -> Iterator[None]:
        """Register the call that the block serves."""
        number = next(self._numbers)
        with self._changed:
            self._open[number] = caller, context
            if self._checker is None:
                self._checker = threading.Thread(target=self._run, name="open calls", daemon=True)
                self._checker.start()
            elif len(self._open) == 1:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._open.pop(number, None)

    def stop(self) -> None:
        """End the thread; no call is cancelled any more."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopped or self._open)
                self._changed.wait_for(lambda: self._stopped, CHECK_SECONDS)
                if self._stopped:
                    return
                calls = list(self._open.values())
            for caller, context in calls:
                try:
                    self._check(caller)
                except UnauthenticatedError:
                    context.cancel()
                except Exception:  # noqa: S110  # such as a full disk: the next look decides
                    pass
