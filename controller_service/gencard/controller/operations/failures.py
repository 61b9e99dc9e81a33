"""What failed at the records: what is stored, what an analyst is told, how often it may happen, refunds.

Whether and why work at the records fails can depend on them. So an analyst gets one error for each kind
of work, and an analyst with too many failures waits until a steward has looked at them. Signed refusals
of runs, and answers that wait because of the records, count like failures: each is one bit about them.
Analysts of one project may share what they learn, so their refusals are counted together too. The single
attempt of a card without replicated uniques is reported once in the card's life: after any end but
success, or one before anything could be known, there is one error for all, which the state keeps.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from gencard.analysis.output_checks.rules import OUTPUT_RULES
from gencard.controller.cards.book import CardBook
from gencard.controller.jobs import tasks
from gencard.controller.records.catalogue import dataset_of
from gencard.controller.state import requests, results
from gencard.controller.state.ledger import Ledger
from gencard.controller.state.requests import UNFINISHED, OperationRow
from gencard.controller.state.results import RunRow, RunState
from gencard.core.card.budget import Price, Spend, SpendState
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
"""Ends that depend on no record: a reservation is given back."""

OF_SERVICE = (InternalError, ServiceUnavailableError)
"""Failures of the service itself. A reservation stays until another try or a steward ends it."""

REFUSAL_PRICE = Price(statistics=1)
"""Price of failed work at the records: one statistic, because only the failure is disclosed."""


def refund(
    tx: Connection,
    line: Spend | None,
    error: GencardError,
    *,
    ledger: Ledger,
    cards: CardBook,
    before: Sequence[GencardError] = (),
) -> None:
    """End a reservation whose work failed, if it is still held, and log it.

    It is void if no end depends on records. Else it is settled at the price of a refusal, if it holds
    statistics. Noise has no smaller price than that of its draw: such a line stays until another try or
    a steward ends it, and so does one after a failure of the service itself.

    Args:
        error: How the operation ended.
        before: How earlier ones ended that the same line was to pay for.
    """
    if line is None or line.state is not SpendState.RESERVED:
        return
    ends = [end for end in (error, *before) if not isinstance(end, NOTHING_LEARNT)]
    details = {"line": str(line.line), "reason": ends[0].reason if ends else error.reason}
    if not ends:
        ledger.void(tx, line.line, cards.clock())
    elif _is_priced(line.price) and not any(isinstance(end, OF_SERVICE) for end in ends):
        ledger.settle_at(tx, line.line, REFUSAL_PRICE, cards.clock())
        details |= {"statistics": str(REFUSAL_PRICE.statistics)}
    else:
        return
    cards.log.append(
        tx,
        action="settle" if ends else "void",
        actor=cards.controller,
        resource=line.resource,
        details=details,
        now=cards.clock(),
    )


def _is_priced(price: Price) -> bool:
    """Whether a line holds statistics alone, and so at least the price of a refusal."""
    return price == Price(statistics=price.statistics) and REFUSAL_PRICE.fits(price)


def error_document(error: GencardError) -> bytes:
    """An error as the state keeps it: reason and fields."""
    return json.dumps({"reason": error.reason, "fields": error.fields}, sort_keys=True).encode()


def error_of_document(document: bytes | None) -> GencardError:
    """The error that the state keeps; InternalError where the catalogue no longer holds it."""
    fields = json.loads(document or b"{}")
    error = error_named(fields.get("reason", ""), fields.get("fields", {}))
    return error or InternalError(incident="unlisted")


_BOX_FAILED = "its runs on the records did not finish correctly"

_REFUSAL: Mapping[tasks.AnyTask, Callable[[], GencardError]] = {
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


def as_reported(failure: BaseException, task: tasks.AnyTask, role: Role) -> BaseException:
    """How a job's failure is told to somebody: as it is, where it says nothing or they may know."""
    if role is not Role.ANALYST or task not in _REFUSAL:
        return failure
    silent = isinstance(failure, (*NOTHING_LEARNT, ServiceUnavailableError))
    if silent or not isinstance(failure, GencardError):
        return failure
    return _REFUSAL[task]()


OF_PROJECT = 3
"""Refusals that all analysts of a project may have on a dataset, as a multiple of those of one."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Work of an analyst that failed or was refused because of the records, and that counts.

    Args:
        name: Of the operation that failed, or of the run that was refused.
        owner: URI of the analyst.
        resource: Name of the card or dataset.
        reason: Of the error; of a run, the codes of the output rules, which stewards alone see.
        look: What was tried: of equal ones, one counts.
        signed: Whether it is a run, whose refusal is signed, or that waits for a decision.
        waits: Whether it is an answer that waits for a steward's decision.
    """

    name: str
    time: datetime
    owner: str
    kind: str
    resource: str
    reason: str
    look: str
    signed: bool = False
    waits: bool = False

    @classmethod
    def operation(cls, row: OperationRow) -> "Refused":
        """An operation that failed; of a card's one look at the records, all tries count once."""
        look = row.resource if row.kind == "release" else row.name
        reason = error_of_document(row.error).reason
        return cls(
            row.name, row.changed, row.owner, row.kind, row.resource, reason, f"{row.kind} {look}"
        )

    @classmethod
    def run(cls, row: RunRow) -> "Refused":
        """A run that was refused, or waits, because of the records; or was ended early."""
        waits = row.state is RunState.WAITING
        time, reason = row.ended or row.created, ", ".join(row.broken) or OUTPUT_RULES
        if row.state is RunState.FAILED:
            reason = OperationCancelledError.reason
        return cls(row.name, time, row.submitter, "run", row.card, reason, row.name, True, waits)

    @property
    def accounts(self) -> tuple[tuple[str, str], ...]:
        """The analyst and the project, each with the dataset: where it counts."""
        dataset = dataset_of(self.resource)
        return (self.owner, dataset), (f"project {Identity.of(self.owner).project}", dataset)


@dataclass(frozen=True, slots=True)
class Refusals:
    """Failures and refusals of analysts' work at the records that no steward has reviewed.

    Args:
        most: Of one analyst on one dataset; then no other operation begins.
    """

    most: int

    def check(self, tx: Connection, who: Identity, resource: str) -> None:
        """Refuse new work where too much was refused or has failed.

        Raises:
            TooManyRefusalsError: Too much of the analyst's work at a dataset, or of their project's.
        """
        if who.role is not Role.ANALYST:
            return
        dataset = dataset_of(resource)
        numbers = _numbers(self._counting(tx, dataset))
        if numbers[who.uri, dataset] >= self.most:
            raise TooManyRefusalsError(limit=self.most)
        if numbers[f"project {who.project}", dataset] >= OF_PROJECT * self.most:
            raise TooManyRefusalsError(limit=OF_PROJECT * self.most, whose="your project")

    def reviewable(self, tx: Connection) -> list[Refused]:
        """All that count and that a steward can dismiss, oldest first."""
        return [one for one in self._counting(tx) if not one.waits]

    def waiting(self, tx: Connection) -> list[Refused]:
        """Those that wait for a steward, oldest first.

        An operation that failed does at once. Refused runs do when they keep an analyst from working: a
        part of honest analyses is refused, and a steward who sees each of them will dismiss all unread.
        """
        counting = self._counting(tx)
        numbers = _numbers(counting)
        reviewable = (one for one in counting if not one.waits)
        return [one for one in reviewable if not one.signed or self._stops(one, numbers)]

    def look_at(self, tx: Connection, name: str) -> Refused:
        """Count one no longer.

        Raises:
            NotFoundError: No such operation or run counts.
        """
        for one in self.reviewable(tx):
            if one.name == name:
                see = results.review_run if one.signed else requests.mark_seen
                see(tx, name)
                return one
        raise NotFoundError(what="operation")

    def _counting(self, tx: Connection, dataset: str | None = None) -> list[Refused]:
        """All that count, on one dataset or all, oldest first."""
        failed = map(Refused.operation, _refused(requests.unseen_operations(tx)))
        of_dataset = (one for one in failed if dataset in (None, dataset_of(one.resource)))
        refused = map(Refused.run, results.counted_runs(tx, dataset))
        return sorted((*of_dataset, *refused), key=lambda one: one.time)

    def _stops(self, one: Refused, numbers: Mapping[tuple[str, str], int]) -> bool:
        limits = (self.most, OF_PROJECT * self.most)
        return any(numbers[key] >= most for key, most in zip(one.accounts, limits, strict=True))


def _numbers(counting: Iterable[Refused]) -> Counter[tuple[str, str]]:
    """How many count against each analyst and each project, by dataset."""
    looks = {(key, one.owner, one.look) for one in counting for key in one.accounts}
    return Counter(key for key, *_ in looks)


def _refused(rows: Iterable[OperationRow]) -> list[OperationRow]:
    failures = ((Identity.of(row.owner).role, error_of_document(row.error).reason, row) for row in rows)
    return [row for role, reason, row in failures if role is Role.ANALYST and reason in _REASONS]


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
