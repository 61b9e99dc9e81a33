"""Failures of work on records: what the state keeps, errors for analysts, limits and refunds.

Whether and why work on records fails can depend on the records. An analyst therefore gets one error for
each kind of work, and an analyst with too many failures waits until a steward has reviewed them. Signed
refusals of runs, and answers that wait because of the records, count like failures: each is one bit
about the records. Analysts of one project may share what they learn, so their refusals are counted
together too. The single attempt of a card without replicated uniques is reported once in the card's
life: unless it succeeds or ends before the records are read, there is one error for every end, which the
state keeps.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

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
from gencard.core.policy import OUTPUT_RULES
from gencard.wire.error_table import error_named
from gencard.wire.keys import Identity, Role

UNSEEN = (OperationCancelledError, DatasetUnavailableError, DatasetChangedError, NegotiationError)
"""Ends of operations that were called off, or that did not come as far as the records."""

NOTHING_LEARNT = (*UNSEEN, StorageError, ClusterError)
"""Ends that depend on no record: a reservation is given back."""

OF_SERVICE = (InternalError, ServiceUnavailableError)
"""Failures of the service itself. A reservation stays until another try or a steward ends it."""

REFUSAL_PRICE = Price(statistics=1)
"""Price of failed work on the records: one statistic, because only the failure is disclosed."""


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

    The line is void if no end depends on records. Otherwise it is settled at the price of a refusal if
    it holds statistics. Noise has no smaller price than that of its draw: such a line stays until
    another try or a steward ends it, and so does a line after a failure of the service itself.

    Args:
        before: Errors of earlier operations that the same line was to pay for.
    """
    if line is None or line.state is not SpendState.RESERVED:
        return
    ends = [end for end in (error, *before) if not isinstance(end, NOTHING_LEARNT)]
    # statistics alone, and therefore at least the price of a refusal
    priced = line.price == Price(statistics=line.price.statistics) and REFUSAL_PRICE.fits(line.price)
    details = {"line": str(line.line), "reason": ends[0].reason if ends else error.reason}
    if not ends:
        ledger.void(tx, line.line, cards.clock())
    elif priced and not any(isinstance(end, OF_SERVICE) for end in ends):
        ledger.settle_at(tx, line.line, REFUSAL_PRICE, cards.clock())
        details |= {"statistics": str(REFUSAL_PRICE.statistics)}
    else:
        return
    cards.note(tx, "settle" if ends else "void", line.resource, details)


def error_document(error: GencardError) -> bytes:
    return json.dumps({"reason": error.reason, "fields": error.fields}, sort_keys=True).encode()


def error_of_document(document: bytes | None) -> GencardError:
    """Return the error that the state keeps; InternalError if the catalogue no longer holds it."""
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
"""Error that an analyst receives for a failed job that read records, or data made from records."""

_REASONS = {make().reason for make in _REFUSAL.values()}


def as_reported(failure: BaseException, task: tasks.AnyTask, role: Role) -> BaseException:
    """Return the error to report for a job's failure: unchanged if the role may see it."""
    if role is not Role.ANALYST or task not in _REFUSAL:
        return failure
    silent = isinstance(failure, (*NOTHING_LEARNT, ServiceUnavailableError))
    if silent or not isinstance(failure, GencardError):
        return failure
    return _REFUSAL[task]()


OF_PROJECT = 3
"""Limit of refusals of a project on a dataset, as a multiple of the limit of one analyst."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Work of an analyst that failed or was refused because of the records, and that counts.

    Args:
        name: Name of the failed operation or the refused run.
        owner: URI of the analyst.
        resource: Name of the card or dataset.
        reason: Code of the error; of a run, the codes of the output rules, which stewards alone see.
        look: Key of the attempt: attempts with equal keys count once.
        signed: Whether the work is a run, whose refusal is signed or which waits for a decision.
        waits: Whether the work is an answer that waits for a steward's decision.
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
        """Return a failed operation; all tries of a card's single attempt count once."""
        look = f"{row.kind} {row.resource if row.kind == 'release' else row.name}"
        reason = error_of_document(row.error).reason
        return cls(row.name, row.changed, row.owner, row.kind, row.resource, reason, look)

    @classmethod
    def run(cls, row: RunRow) -> "Refused":
        """Return a run that was refused, or waits, because of the records; or was ended early."""
        waits = row.state is RunState.WAITING
        time, reason = row.ended or row.created, ", ".join(row.broken) or OUTPUT_RULES
        if row.state is RunState.FAILED:
            reason = OperationCancelledError.reason
        return cls(row.name, time, row.submitter, "run", row.card, reason, row.name, True, waits)

    @property
    def accounts(self) -> tuple[tuple[str, str], ...]:
        """Accounts on which the work counts: analyst and project, each with the dataset."""
        dataset = dataset_of(self.resource)
        return (self.owner, dataset), (f"project {Identity.of(self.owner).project}", dataset)


@dataclass(frozen=True, slots=True)
class Refusals:
    """Failures and refusals of analysts' work on the records that no steward has reviewed.

    With ``most`` of them on one dataset, an analyst begins no other operation.
    """

    most: int

    def check(self, tx: Connection, who: Identity, resource: str) -> None:
        """Refuse new work if the analyst or the project has too many failures on a dataset."""
        if who.role is not Role.ANALYST:
            return
        dataset = dataset_of(resource)
        numbers = _numbers(self._counting(tx, dataset))
        if numbers[who.uri, dataset] >= self.most:
            raise TooManyRefusalsError(limit=self.most)
        if numbers[f"project {who.project}", dataset] >= OF_PROJECT * self.most:
            raise TooManyRefusalsError(limit=OF_PROJECT * self.most, whose="your project")

    def reviewable(self, tx: Connection) -> list[Refused]:
        """Return all that count and that a steward can dismiss, oldest first."""
        return [one for one in self._counting(tx) if not one.waits]

    def waiting(self, tx: Connection) -> list[Refused]:
        """Return the failures and refusals that wait for a steward, oldest first.

        A failed operation waits at once. Refused runs wait once they block an analyst: some honest
        analyses are refused, and a steward who sees each of them would dismiss them unread.
        """
        counting = self._counting(tx)
        numbers = _numbers(counting)
        limits = (self.most, OF_PROJECT * self.most)
        return [
            one
            for one in counting
            if not one.waits
            and (
                not one.signed
                or any(numbers[key] >= most for key, most in zip(one.accounts, limits, strict=True))
            )
        ]

    def named(self, tx: Connection, name: str) -> Refused:
        """Return what counts under a name and can be dismissed; raises NotFoundError."""
        for one in self.reviewable(tx):
            if one.name == name:
                return one
        raise NotFoundError(what="operation")

    def look_at(self, tx: Connection, name: str) -> Refused:
        """Stop counting a failure or refusal that a steward has reviewed."""
        one = self.named(tx, name)
        see = results.review_run if one.signed else requests.mark_seen
        see(tx, name)
        return one

    def _counting(self, tx: Connection, dataset: str | None = None) -> list[Refused]:
        """Return all failures and refusals that count, on one dataset or all, oldest first."""
        failed = [
            Refused.operation(row)
            for row in requests.unseen_operations(tx)
            if Identity.of(row.owner).role is Role.ANALYST
            and error_of_document(row.error).reason in _REASONS
        ]
        of_dataset = (one for one in failed if dataset in (None, dataset_of(one.resource)))
        of_runs = {} if dataset is None else {"dataset": dataset}
        refused = (Refused.run(row) for row in results.find_runs(tx, counts=1, **of_runs))
        return sorted((*of_dataset, *refused), key=lambda one: one.time)


def _numbers(counting: Iterable[Refused]) -> Counter[tuple[str, str]]:
    looks = {(key, one.owner, one.look) for one in counting for key in one.accounts}
    return Counter(key for key, *_ in looks)


_UNTRIED = (*UNSEEN, ServiceUnavailableError)


def check_not_attempted(releases: Iterable[OperationRow]) -> None:
    """Check that no earlier try under the card failed or still runs."""
    for row in releases:
        if row.state in UNFINISHED:
            raise ServiceBusyError(what="concurrent releases of a card without replicated uniques")
        if row.error and isinstance(error_of_document(row.error), UniqueFreeFailedError):
            raise UniqueFreeFailedError


@contextmanager
def single_attempt() -> Iterator[None]:
    """Replace errors of the block, which follows the reading of records, by one UniqueFreeFailedError.

    Errors of attempts that ended before any fact could be disclosed pass.
    """
    try:
        yield
        return
    except _UNTRIED:
        raise
    except GencardError:
        pass
    raise UniqueFreeFailedError
