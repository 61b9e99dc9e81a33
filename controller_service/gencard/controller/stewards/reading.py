"""Views of stewards besides cards and answers: the queue, the ledger, the log."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, and_, or_, select

from gencard.controller.cards.book import CardBook
from gencard.controller.operations.failures import Refusals
from gencard.controller.state import results, stewards
from gencard.controller.state.database import Page
from gencard.controller.state.ledger import Account, Ledger, Scope, price_of
from gencard.controller.state.log import Event, EventLog, event_of
from gencard.controller.state.tables import balances, cards, events, lines
from gencard.controller.stewards.log_reading import LogQuery, search
from gencard.core.card.budget import Price, Spend, SpendState
from gencard.core.card.card import CardState
from gencard.core.errors import InvalidInputError
from gencard.wire.signatures.canonical import time_of
from gencard.wire.signatures.identity import short_name
from gencard.wire.steward import BudgetAccount, FirstDecision, Kind, Waiting

STEWARD, ANOTHER, ANALYST = "a steward", "another steward", "the analyst"
_LISTED = {
    Kind.APPROVE,
    Kind.COUNTER,
    Kind.REJECT,
    Kind.RELEASE_ANSWER,
    Kind.REFUSE_ANSWER,
    Kind.DISMISS_REFUSAL,
}
"""Decisions on what is in the queue by itself."""

SOON = timedelta(days=14)
"""Certificates that end within this time are in the queue."""


@dataclass(frozen=True, slots=True)
class Queue:
    """Entries that wait for a steward, oldest first; cards are read by an index and never decoded."""

    cards: CardBook
    refusals: Refusals

    def page(
        self,
        tx: Connection,
        limit: int,
        token: str,
        certificates: Iterable[Waiting],
        stands: Callable[[FirstDecision], bool],
    ) -> Page[Waiting]:
        """Return the next entries that wait, after the token's entry.

        Args:
            stands: Whether a second steward could still agree to a first decision.

        Raises:
            InvalidInputError: The token was not given by this list.
        """
        after = _after(token)
        firsts = stewards.waiting_first_decisions(tx, self.cards.clock())
        loose = (one for one in firsts if Kind(one.kind) not in _LISTED)
        others = (*self._runs(tx), *self._refusals(tx), *certificates, *map(_decision, loose))
        items = [*self._cards(tx, limit + 1, after), *(one for one in others if _key(one) > after)]
        items.sort(key=_key)
        page = tuple(_with_first(one, firsts, stands) for one in items[:limit])
        return Page(page, page[-1].token if len(items) > limit else "")

    def _cards(self, tx: Connection, limit: int, after: tuple[datetime, str, str]) -> Iterator[Waiting]:
        """Proposals and offers; each by its own walk along the index on state and time."""
        columns = (cards.c.name, cards.c.analyst, cards.c.changed)
        for state, kind, waits_for in (
            (CardState.REQUESTED, "proposal", STEWARD),
            (CardState.OFFERED, "offer", ANALYST),
        ):
            query = select(*columns).where(cards.c.state == state, cards.c.changed >= after[0])
            if state is CardState.OFFERED:
                query = query.where(self._still_offered())
            # of one moment, kinds follow in their order, and names within a kind
            later = cards.c.changed > after[0]
            if kind >= after[1]:
                later = or_(later, cards.c.name > (after[2] if kind == after[1] else ""))
            query = query.where(later).order_by(cards.c.changed, cards.c.name).limit(limit)
            for name, analyst, time in tx.execute(query):
                text = f"{kind} of {short_name(analyst)}"
                yield Waiting(time, name, kind, waits_for, text, analyst)

    def _still_offered(self) -> Any:
        now = self.cards.clock()
        return or_(
            *(
                and_(
                    cards.c.dataset == entry.name,
                    cards.c.changed >= now - timedelta(days=entry.policy.valid_days),
                )
                for entry in self.cards.catalogue
            )
        )

    def _runs(self, tx: Connection) -> Iterator[Waiting]:
        for row in results.waiting_runs(tx):
            text = f"{row.tier} run of {short_name(row.submitter)}"
            yield Waiting(row.created, row.name, "answer", STEWARD, text, row.submitter)

    def _refusals(self, tx: Connection) -> Iterator[Waiting]:
        for row in self.refusals.waiting(tx):
            text = f"{row.kind} of {short_name(row.owner)} failed or was refused on the records"
            yield Waiting(row.time, row.name, "refusal", STEWARD, text, row.owner)


def _decision(first: FirstDecision) -> Waiting:
    text = f"{first.kind}, decided by {short_name(first.by)}"
    return Waiting(first.time, first.resource, "decision", ANOTHER, text, first.by)


def _with_first(
    waiting: Waiting, firsts: Iterable[FirstDecision], stands: Callable[[FirstDecision], bool]
) -> Waiting:
    """Return the same item, waiting for a second steward if a first decision is still valid."""
    for first in firsts:
        if waiting.kind != "decision" and first.resource == waiting.resource and stands(first):
            text = f"{waiting.text}; {first.kind}, decided by {short_name(first.by)}"
            return Waiting(waiting.since, waiting.resource, waiting.kind, ANOTHER, text, waiting.who)
    return waiting


def _key(waiting: Waiting) -> tuple[datetime, str, str]:
    return waiting.since.replace(microsecond=0), waiting.kind, waiting.resource


def _after(token: str) -> tuple[datetime, str, str]:
    if not token:
        return datetime.min.replace(year=1970, tzinfo=UTC), "", ""
    try:
        time, kind, resource = token.split(" ", 2)
        return time_of(time), kind, resource
    except ValueError:
        pass
    raise InvalidInputError(field="page_token", problem="was not issued by this list")


@dataclass(frozen=True, slots=True)
class LineView:
    """A line of the ledger, with the digest for decisions on it."""

    line: Spend
    shown: str


def accounts(tx: Connection, ledger: Ledger, dataset: str | None) -> tuple[BudgetAccount, ...]:
    """Return the accounts of all datasets on offer, or of one: widest first, then by holder."""
    names = ledger.datasets if dataset is None else (dataset,)
    views = []
    for name in names:
        rows = tx.execute(select(balances).where(balances.c.dataset == name)).mappings()
        holders = {(Scope(row["scope"]), row["holder"]) for row in rows} | {(Scope.DATASET, "")}
        reserved = _reserved(tx, name)
        for scope, holder in sorted(holders, key=lambda one: (list(Scope).index(one[0]), one[1])):
            account = Account(scope, name, holder)
            reserved_price = reserved.get((scope, holder), Price())
            spent = ledger.spent(tx, account)
            cap = ledger.cap(account)
            views.append(BudgetAccount(name, scope, holder, cap, spent, reserved_price))
    return tuple(views)


def _reserved(tx: Connection, dataset: str) -> dict[tuple[Scope, str], Price]:
    """Return the reserved amounts, by scope and holder."""
    units_of = (lines.c.statistics, lines.c.nano_epsilon, lines.c.nano_rho)
    is_reserved = lines.c.state == SpendState.RESERVED
    query = select(lines.c.project, lines.c.analyst, *units_of).where(
        lines.c.dataset == dataset, is_reserved
    )
    totals: dict[tuple[Scope, str], list[int]] = {}
    for project, analyst, *units in tx.execute(query):
        for key in ((Scope.DATASET, ""), (Scope.PROJECT, project), (Scope.ANALYST, analyst)):
            total = totals.setdefault(key, [0, 0, 0])
            total[:] = (have + more for have, more in zip(total, units, strict=True))
    return {
        key: price_of(dict(zip(("statistics", "nano_epsilon", "nano_rho"), total, strict=True)))
        for key, total in totals.items()
    }


class LogReader:
    """Search of the log, and last activity of people: entries never change, and are read once."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._read = 0
        self._seen: dict[str, datetime] = {}
        self._certified: dict[str, datetime] = {}
        self._known: tuple[int, dict[str, bool]] = 0, {}
        self._lock = threading.Lock()

    def search(self, tx: Connection, query: str, limit: int, token: str) -> Page[Event]:
        """Entries that fit a query, newest first, as ``log_reading.search`` gives them.

        Raises:
            InvalidInputError: The token was not given by this list, or the query cannot be read.
        """
        return search(tx, LogQuery.of(query), token, limit)

    def known(self, tx: Connection, question: str, answer: Callable[[], bool]) -> bool:
        """Return the answer to a question, cached until the log grows: every change is logged first."""
        size = self._log.size(tx)
        with self._lock:
            if self._known[0] != size:
                self._known = size, {}
            answers = self._known[1]
        if question not in answers:
            answers[question] = answer()
        return answers[question]

    def times(self, tx: Connection) -> tuple[Mapping[str, datetime], Mapping[str, datetime]]:
        """Return the time of each URI's last action, and of each name's last certificate."""
        with self._lock:
            query = select(events.c.body).where(events.c.index >= self._read).order_by(events.c.index)
            for body in tx.execute(query, execution_options={"yield_per": 500}).scalars():
                event = event_of(bytes(body))
                self._seen[event.actor] = event.time
                if event.action == "enrol":
                    self._certified[event.resource.removeprefix("people/")] = event.time
                self._read = event.index + 1
            return dict(self._seen), dict(self._certified)
