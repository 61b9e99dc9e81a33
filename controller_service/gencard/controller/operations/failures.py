"""What failed at the records: what is stored, what an analyst is told, how often it may happen, refunds.

Whether and why work at the records fails can depend on them. So an analyst gets one error for each kind
of work, and an analyst with too many failures waits until a steward has looked at them. The single
attempt of a card without replicated uniques is reported once in the card's life: after any end but
success, or one before anything could be known, there is one error for all, which the state keeps.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection

from gencard.controller.cards.book import CardBook
from gencard.controller.jobs import tasks
from gencard.controller.records.catalogue import dataset_of
from gencard.controller.state.ledger import Ledger
from gencard.controller.state.operations import UNFINISHED, OperationRow, OperationStore
from gencard.core.card.budget import Spend, SpendState
from gencard.core.errors import (
    BlackBoxError,
    BoxRunFailedError,
    ClusterError,
    DatasetChangedError,
    DatasetUnavailableError,
    GencardError,
    InternalError,
    MeasurementRefusedError,
    NegotiationError,
    NotFoundError,
    OperationCancelledError,
    ProgramRunFailedError,
    ServiceBusyError,
    ServiceUnavailableError,
    StorageError,
    TooManyRefusalsError,
    UniqueFreeFailedError,
)
from gencard.wire.codecs.error_table import error_named
from gencard.wire.signatures.identity import Identity, Role

UNSEEN = (OperationCancelledError, DatasetUnavailableError, DatasetChangedError, NegotiationError)
"""Ends of operations that were called off, or that did not come as far as the records."""

NOTHING_LEARNT = (*UNSEEN, StorageError, ClusterError)
"""Ends that depend on no record. After any other, a reservation stays until a steward has looked."""


def refund(
    tx: Connection,
    line: Spend | None,
    error: GencardError,
    *,
    ledger: Ledger,
    cards: CardBook,
    before: Sequence[GencardError] = (),
) -> None:
    """Void a reservation, in the log too, where it is still held and no end tells anything.

    Args:
        error: How the operation ended.
        before: How earlier ones ended that the same line was to pay for.
    """
    silent = all(isinstance(end, NOTHING_LEARNT) for end in (error, *before))
    if line is None or line.state is not SpendState.RESERVED or not silent:
        return
    ledger.void(tx, line.line, cards.clock())
    cards.log.append(
        tx,
        action="void",
        actor=cards.controller,
        resource=line.resource,
        details={"line": str(line.line), "reason": error.reason},
        now=cards.clock(),
    )


def error_document(error: GencardError) -> bytes:
    """An error as the state keeps it: reason and fields."""
    return json.dumps({"reason": error.reason, "fields": error.fields}, sort_keys=True).encode()


def error_of_document(document: bytes | None) -> GencardError:
    """The error that the state keeps; InternalError where the catalogue no longer holds it."""
    fields = json.loads(document or b"{}")
    error = error_named(fields.get("reason", ""), fields.get("fields", {}))
    return error or InternalError(incident="unlisted")


_BOX_FAILED = "its runs on the records did not finish correctly"

_REFUSAL: Mapping[tasks.Task, Callable[[], GencardError]] = {
    tasks.MEASURE: MeasurementRefusedError,
    tasks.COMPARE: MeasurementRefusedError,
    tasks.ANSWER: MeasurementRefusedError,
    tasks.AUDIT: lambda: BlackBoxError(problem=_BOX_FAILED),
    tasks.KEEP: BoxRunFailedError,
    tasks.DRAW: lambda: BlackBoxError(problem=_BOX_FAILED),
    tasks.THIN_OUT: UniqueFreeFailedError,
    tasks.RUN_ONCE: ProgramRunFailedError,
}
"""All that an analyst hears of a job that looked at records, or at what was made from them."""

_REASONS = {make().reason for make in _REFUSAL.values()}


def as_reported(failure: BaseException, task: tasks.Task, role: Role) -> BaseException:
    """How a job's failure is told to somebody: as it is, where it says nothing or they may know."""
    if role is not Role.ANALYST or task not in _REFUSAL:
        return failure
    silent = isinstance(failure, (*NOTHING_LEARNT, ServiceUnavailableError))
    if silent or not isinstance(failure, GencardError):
        return failure
    return _REFUSAL[task]()


@dataclass(frozen=True, slots=True)
class Refusals:
    """Operations of analysts that failed at the records, and that no steward has looked at.

    Args:
        most: Of one analyst on one dataset; then no other operation begins.
    """

    store: OperationStore
    most: int

    def check(self, tx: Connection, who: Identity, resource: str) -> None:
        """Raises TooManyRefusalsError where too much of an analyst's work at a dataset has failed."""
        if who.role is Role.ANALYST:
            failures = _refused(self.store.unseen(tx, who.uri))
            dataset = dataset_of(resource)
            if len({_look(row) for row in failures if dataset_of(row.resource) == dataset}) >= self.most:
                raise TooManyRefusalsError(limit=self.most)

    def waiting(self, tx: Connection) -> list[OperationRow]:
        """Those that count, oldest first."""
        return _refused(self.store.unseen(tx))

    def look_at(self, tx: Connection, name: str) -> OperationRow:
        """Count one no longer.

        Raises:
            NotFoundError: No such operation counts.
        """
        for row in self.waiting(tx):
            if row.name == name:
                self.store.see(tx, name)
                return row
        raise NotFoundError(what="operation")


def _refused(rows: Iterable[OperationRow]) -> list[OperationRow]:
    failures = ((Identity.of(row.owner).role, error_of_document(row.error).reason, row) for row in rows)
    return [row for role, reason, row in failures if role is Role.ANALYST and reason in _REASONS]


def _look(row: OperationRow) -> tuple[str, str]:
    """What failed: of a card the one look that it has, however often rows of it were asked for."""
    return (row.kind, row.resource if row.kind == "release" else row.name)


_UNTRIED = (*UNSEEN, ServiceUnavailableError)


def check_not_attempted(releases: Iterable[OperationRow]) -> None:
    """Look at all that was ever begun under the card, before another try begins.

    Raises:
        UniqueFreeFailedError: The one try failed.
        ServiceBusyError: It still goes on.
    """
    for row in releases:
        if row.state in UNFINISHED:
            raise ServiceBusyError(what="concurrent releases of a card without replicated uniques")
        if row.error and isinstance(error_of_document(row.error), UniqueFreeFailedError):
            raise UniqueFreeFailedError


@contextmanager
def single_attempt() -> Iterator[None]:
    """Around all that follows a look at the records.

    Raises:
        OperationCancelledError, ServiceUnavailableError, NegotiationError, DatasetUnavailableError,
        DatasetChangedError: It ended before anything could be known.
        UniqueFreeFailedError: Anything else went wrong.
    """
    try:
        yield
        return
    except _UNTRIED:
        raise
    except GencardError:
        pass
    raise UniqueFreeFailedError
