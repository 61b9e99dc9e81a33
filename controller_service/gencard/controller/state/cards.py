"""Cards as they are stored, and quotas of an analyst's data."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, case, delete, exists, func, insert, or_, select, update

from gencard.controller.base.disk import check_space, free_bytes
from gencard.controller.state.database import LARGEST_PAGE, Page, get_named, only, page_of, rows_of_pages
from gencard.controller.state.ledger import FIT
from gencard.controller.state.tables import audits, cards, lines, measures, psis, releases, risks, runs
from gencard.core.card.budget import SpendState
from gencard.core.card.card import USABLE, CardRecord, CardState, Offer, Turn
from gencard.core.card.terms import CardTerms
from gencard.core.errors import CardExpiredError, CardStateError, QuotaExceededError, StaleEtagError
from gencard.wire.documents import card_of_document
from gencard.wire.dsse import CARD, predicate_of

# Quotas, and the free space that is kept for ledger and log.

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Quotas:
    """Bounds on the size of one analyst's cards and releases in the state.

    Args:
        open_proposals: Number of proposals and offers that are neither agreed nor ended.
        cards: Number of cards, including ended cards: they stay in the state.
        card_mib: Size of all cards together, in MiB, including the texts of their purposes.
        releases: Number of releases of all cards, including releases in progress.
        reserve_mib: Free space below which no card, offer or operation begins, in MiB.
    """

    open_proposals: int
    cards: int
    card_mib: int
    releases: int
    release_mib: int
    reserve_mib: int
    folder: Path
    free: Callable[[Path], int] = free_bytes

    def check_space(self) -> None:
        """Raise StorageReserveError if only ledger and log may still write."""
        check_space(self.folder, self.reserve_mib, self.free)

    def check_size(self, usage: "CardUsage") -> None:
        """Raise QuotaExceededError if an analyst's cards may not grow."""
        if usage.size >= self.card_mib * _MIB:
            raise self._exceeded("MiB of cards", "card_mib")

    def check_new(self, usage: "CardUsage") -> None:
        """Raise QuotaExceededError if an analyst may not have another card."""
        self.check_size(usage)
        if usage.cards >= self.cards:
            raise self._exceeded("cards", "cards")
        if usage.open >= self.open_proposals:
            raise self._exceeded("open proposals", "open_proposals")

    def check_release(self, number: int, size: int) -> None:
        """Raise QuotaExceededError for one release more than ``number``, or ``size`` bytes in all."""
        if number >= self.releases:
            raise self._exceeded("releases", "releases")
        if size > self.release_mib * _MIB:
            raise self._exceeded("MiB of releases", "release_mib")

    def _exceeded(self, what: str, setting: str) -> QuotaExceededError:
        return QuotaExceededError(what=what, limit=getattr(self, setting), setting=setting)


# Cards as they are stored, and what follows from one.


ENDED = frozenset({CardState.TERMINATED, CardState.EXPIRED, CardState.REVOKED, CardState.AUDIT_FAILED})


def as_of(card: CardRecord, now: datetime) -> CardRecord:
    """Return the card, expired if its time is over."""
    expired = card.offer is not None and now >= card.offer.expire_time
    if expired and card.state not in ENDED:
        return replace(card, state=CardState.EXPIRED, turn=Turn.NOBODY)
    return card


def in_force(card: CardRecord) -> CardRecord:
    """Return the card if it is in force; raises CardStateError or CardExpiredError."""
    if card.state is CardState.EXPIRED:
        raise CardExpiredError
    if card.state not in USABLE:
        raise CardStateError(state=card.state)
    return card


def signed_card(card: CardRecord) -> CardTerms:
    """Return the card that both sides would sign by the present offer; raise CardStateError if none."""
    return _card_of_statement(offer_of(card).statement)


# Each call about a card looks at its terms several times, and reading them takes 0.4 ms.
@lru_cache(maxsize=500)
def _card_of_statement(statement: bytes) -> CardTerms:
    return card_of_document(predicate_of(statement, CARD))


def offer_of(card: CardRecord) -> Offer:
    """Return the card's present offer; raises CardStateError if there is none."""
    if card.offer is None:
        raise CardStateError(state=card.state)
    return card.offer


_AUDITS = (CardState.AUDITING, CardState.AUDITED, CardState.AUDIT_FAILED)
STANDING = frozenset((CardState.AGREED, *_AUDITS, CardState.RELEASED, CardState.SUSPENDED))
"""States in which a card may still release, or has."""


@dataclass(frozen=True, slots=True)
class CardRow:
    """A card as stored; ``number`` grows with every new card."""

    number: int
    name: str
    dataset: str
    analyst: str
    state: CardState
    etag: str
    body: bytes
    created: datetime
    changed: datetime


class GrantedCard(NamedTuple):
    """Part of a granted card that every later proposal reads."""

    name: str
    state: CardState
    body: bytes


@dataclass(frozen=True, slots=True)
class CardUsage:
    """Share of the state that one analyst's cards take: open proposals and offers, cards, bytes."""

    open: int
    cards: int
    size: int


def insert_card(
    tx: Connection,
    name: str,
    *,
    dataset: str,
    analyst: str,
    state: CardState,
    body: bytes,
    etag: str,
    now: datetime,
) -> None:
    """Raises StorageError, at the end of the transaction's block, if the name is taken."""
    row = insert(cards).values(name=name, dataset=dataset, analyst=analyst, state=state, body=body)
    tx.execute(row.values(etag=etag, created=now, changed=now))


def update_card(
    tx: Connection, name: str, *, old_etag: str, etag: str, state: CardState, body: bytes, now: datetime
) -> None:
    """Change a card by one conditional UPDATE; StaleEtagError if it is not as it was when read."""
    fresh = update(cards).where(cards.c.name == name, cards.c.etag == old_etag)
    if tx.execute(fresh.values(etag=etag, state=state, body=body, changed=now)).rowcount != 1:
        get_card(tx, name)
        raise StaleEtagError()
    if state in ENDED:
        tx.execute(delete(risks).where(risks.c.card == name))


def get_card(tx: Connection, name: str) -> CardRow:
    """Raises NotFoundError if there is no such card."""
    return get_named(tx, cards, name, _row_of, "card")


def cards_named(tx: Connection, names: Collection[str]) -> list[CardRow]:
    """Return the cards among some names."""
    query = select(cards).where(cards.c.name.in_([*names]))
    return [_row_of(row) for row in tx.execute(query).mappings()]


def card_usage(tx: Connection, analyst: str, offered_since: datetime) -> CardUsage:
    """Count the cards of an analyst; offers made before ``offered_since`` have expired."""
    requested = cards.c.state == CardState.REQUESTED
    offered = and_(cards.c.state == CardState.OFFERED, cards.c.changed >= offered_since)
    is_open = case((or_(requested, offered), 1), else_=0)
    size = func.coalesce(func.sum(func.length(cards.c.body)), 0)
    query = select(func.coalesce(func.sum(is_open), 0), func.count(), size)
    row = tx.execute(query.where(cards.c.analyst == analyst)).one()
    return CardUsage(*map(int, row))


def never_granted_cards(
    tx: Connection, before: datetime, after_number: int, limit: int
) -> tuple[CardRow, ...]:
    """Cards last changed before a time that do not stand and that nothing was made of, by number.

    Some were agreed and ended unused: the signatures in the body tell.
    """
    tables = (psis, releases, audits, measures, runs)
    entries = [exists().where(table.c.card == cards.c.name) for table in tables]
    has_entries = or_(*entries, exists().where(lines.c.resource == cards.c.name))
    query = select(cards).where(
        cards.c.changed < before,
        cards.c.number > after_number,
        cards.c.state.not_in(sorted(STANDING)),
        ~has_entries,
    )
    return tuple(map(_row_of, tx.execute(query.order_by(cards.c.number).limit(limit)).mappings()))


def delete_card(tx: Connection, name: str) -> None:
    """Remove a card; whatever refers to it keeps it, but for its risk."""
    tx.execute(delete(risks).where(risks.c.card == name))
    tx.execute(delete(cards).where(cards.c.name == name))


def list_cards(
    tx: Connection,
    *,
    analyst: str | None = None,
    dataset: str | None = None,
    before: str = "",
    limit: int = 50,
) -> Page[CardRow]:
    """Cards, newest first, of one analyst, on one dataset, or all."""
    query = only(select(cards), (cards.c.analyst, analyst), (cards.c.dataset, dataset))
    return page_of(tx, query, cards.c.number, _row_of, before=before, limit=limit)


def all_cards(tx: Connection, dataset: str | None = None) -> Iterator[CardRow]:
    """Yield every card, newest first, of one dataset or all."""
    return rows_of_pages(lambda token: list_cards(tx, dataset=dataset, before=token, limit=LARGEST_PAGE))


def granted_cards(tx: Connection, dataset: str, analyst: str | None = None) -> tuple[GrantedCard, ...]:
    """Return all cards on a dataset, of one analyst or of all, that disclose or may disclose facts.

    These are cards in force, and even ended cards whose psi was measured, whose black box
    was fitted, or under which runs have read records.
    """
    counts = or_(cards.c.state.in_(sorted(STANDING)), _MEASURED, _HAS_RUNS)
    query = select(cards.c.name, cards.c.state, cards.c.body).order_by(cards.c.number)
    query = only(query.where(cards.c.dataset == dataset, counts), (cards.c.analyst, analyst))
    return tuple(
        GrantedCard(name, CardState(state), bytes(body)) for name, state, body in tx.execute(query)
    )


def names_of_measured(tx: Connection, dataset: str, *, runs: bool = False) -> frozenset[str]:
    """Names of the cards whose psi was measured, or whose black box of tier private was fitted.

    With ``runs``, also of cards under which runs have read records, or may be reading them.
    """
    condition = or_(_MEASURED, _HAS_RUNS) if runs else _MEASURED
    query = select(cards.c.name).where(cards.c.dataset == dataset, condition)
    return frozenset(tx.execute(query).scalars())


# Two lists, made once in a query: a question for each card would read the whole ledger each time.
# A fit that may have been paid for counts.
_FITTED = select(lines.c.resource).where(lines.c.kind == FIT, lines.c.state != SpendState.VOIDED)
_MEASURED = or_(cards.c.name.in_(select(psis.c.card)), cards.c.name.in_(_FITTED))

_HAS_RUNS = cards.c.name.in_(select(runs.c.card))
"""Runs that ended before they read a record are deleted."""


def _row_of(row: Mapping[Any, Any]) -> CardRow:
    return CardRow(**{**row, "state": CardState(row["state"]), "body": bytes(row["body"])})
