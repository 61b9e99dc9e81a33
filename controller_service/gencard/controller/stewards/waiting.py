"""Items that wait: the one list that page, API, notifications and metrics read."""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, and_, false, or_, select

from gencard.controller.answers.decisions import Decisions
from gencard.controller.cards.book import CardBook
from gencard.controller.failures import Refusals, Refused
from gencard.controller.state import results, stewards
from gencard.controller.state.database import Page
from gencard.controller.state.results import RunRow, RunState
from gencard.controller.state.tables import cards
from gencard.core.card.card import CardState
from gencard.core.errors import InvalidInputError
from gencard.wire.canonical import time_of
from gencard.wire.keys import short_name
from gencard.wire.steward import FirstDecision, Kind, Waiting, WaitingKind

STEWARD, ANOTHER, ANALYST = "a steward", "another steward", "the analyst"
_LISTED = {
    Kind.APPROVE,
    Kind.COUNTER,
    Kind.REJECT,
    Kind.RELEASE_ANSWER,
    Kind.REFUSE_ANSWER,
    Kind.DISMISS_REFUSAL,
}
"""Decisions on items that are listed by themselves."""

SOON = timedelta(days=14)
"""Certificates that end within this time wait for a steward."""

EVERY_KIND = frozenset(WaitingKind)


@dataclass(frozen=True, slots=True)
class CertificateEnd:
    """A certificate in use.

    Args:
        name: Resource: people/NAME, or the certificate's name in the settings.
        holder: URI of the person; empty for one of the service.
    """

    name: str
    holder: str
    end: datetime


@dataclass(frozen=True, slots=True)
class WaitingList:
    """Items that wait, oldest first; cards are read by an index, and only those of answers are decoded.

    Args:
        stands: Whether a second steward could still agree to a first decision.
    """

    cards: CardBook
    refusals: Refusals
    decisions: Decisions
    certificates: Callable[[Connection], Iterable[CertificateEnd]]
    stands: Callable[[Connection, FirstDecision], bool]

    def items(
        self,
        tx: Connection,
        kinds: Collection[WaitingKind] = EVERY_KIND,
        limit: int | None = None,
        token: str = "",
    ) -> Page[Waiting]:
        """Return the items of some kinds, after the token's item; without a limit, all."""
        after = _after(token)
        most = None if limit is None else limit + 1
        firsts = stewards.waiting_first_decisions(tx, self.cards.clock())
        are_refusals_read = WaitingKind.REFUSAL in kinds or (firsts and WaitingKind.DECISION in kinds)
        refused = self.refusals.waiting(tx) if are_refusals_read else []
        items = [one for kind in kinds for one in self._of_kind(tx, kind, firsts, refused, most, after)]
        items = sorted((one for one in items if _key(one) > after), key=_key)
        rows = tuple(self._with_first(tx, one, firsts) for one in items[:limit])
        return Page(rows, rows[-1].token if limit is not None and len(items) > limit else "")

    def count(self, tx: Connection, kind: WaitingKind) -> int:
        """Return the number of items of a kind, without a look at what any of them would release."""
        refused = self.refusals.waiting(tx) if kind is WaitingKind.REFUSAL else []
        return sum(1 for _ in self._of_kind(tx, kind, (), refused, None, _after("")))

    def firsts(self, tx: Connection) -> tuple[FirstDecision, ...]:
        """Return the first decisions to which a second steward can still agree."""
        firsts = stewards.waiting_first_decisions(tx, self.cards.clock())
        return tuple(one for one in firsts if Kind(one.kind) not in _LISTED or self.stands(tx, one))

    def answers(self, tx: Connection) -> Iterator[RunRow]:
        """Yield the runs whose answers wait under cards that have not ended, oldest first."""
        in_vain = {row.name for row in self.decisions.waiting_in_vain(tx)}
        return (row for row in results.find_runs(tx, state=RunState.WAITING) if row.name not in in_vain)

    def _of_kind(
        self,
        tx: Connection,
        kind: WaitingKind,
        firsts: Collection[FirstDecision],
        refused: Collection[Refused],
        most: int | None,
        after: tuple[datetime, str, str],
    ) -> Iterator[Waiting]:
        if kind in _CARDS:
            yield from self._cards(tx, kind, most, after)
        elif kind is WaitingKind.ANSWER:
            for row in self.answers(tx):
                text = f"{row.tier} run of {short_name(row.submitter)}"
                yield Waiting(row.created, row.name, kind, STEWARD, text, row.submitter)
        elif kind is WaitingKind.REFUSAL:
            for one in refused:
                text = f"{one.kind} of {short_name(one.owner)} failed or was refused on the records"
                yield Waiting(one.time, one.name, kind, STEWARD, text, one.owner)
        elif kind is WaitingKind.DECISION:
            # a refusal can be dismissed before it waits: while it blocks nobody, it is not listed itself
            listed = {one.name for one in refused}
            for first in firsts:
                unlisted = first.kind == Kind.DISMISS_REFUSAL and first.resource not in listed
                if unlisted or Kind(first.kind) not in _LISTED:
                    text = f"{first.kind}, decided by {short_name(first.by)}"
                    yield Waiting(first.time, first.resource, kind, ANOTHER, text, first.by)
        else:
            soon = self.cards.clock() + SOON
            for end in (one for one in self.certificates(tx) if one.end <= soon):
                whose = short_name(end.holder) if end.holder else f"the service ({end.name})"
                text = f"certificate of {whose} ends"
                yield Waiting(end.end, end.name, kind, STEWARD, text, end.holder)

    def _cards(
        self, tx: Connection, kind: WaitingKind, most: int | None, after: tuple[datetime, str, str]
    ) -> Iterator[Waiting]:
        """Proposals or offers: a walk along the index on state and time."""
        state, waits_for = _CARDS[kind]
        query = select(cards.c.name, cards.c.analyst, cards.c.changed)
        query = query.where(cards.c.state == state, cards.c.changed >= after[0])
        if state is CardState.OFFERED:
            now = self.cards.clock()
            still_offered = (
                and_(
                    cards.c.dataset == entry.name,
                    cards.c.changed >= now - timedelta(days=entry.policy.valid_days),
                )
                for entry in self.cards.catalogue
            )
            query = query.where(or_(false(), *still_offered))
        # of one moment, kinds follow in their order, and names within a kind
        later = cards.c.changed > after[0]
        if kind >= after[1]:
            later = or_(later, cards.c.name > (after[2] if kind == after[1] else ""))
        query = query.where(later).order_by(cards.c.changed, cards.c.name).limit(most)
        for name, analyst, time in tx.execute(query):
            yield Waiting(time, name, kind, waits_for, f"{kind} of {short_name(analyst)}", analyst)

    def _with_first(self, tx: Connection, waiting: Waiting, firsts: Iterable[FirstDecision]) -> Waiting:
        same = [] if waiting.kind == WaitingKind.DECISION else firsts
        for first in (one for one in same if one.resource == waiting.resource):
            if self.stands(tx, first):
                text = f"{waiting.text}; {first.kind}, decided by {short_name(first.by)}"
                return replace(waiting, waits_for=ANOTHER, text=text)
        return waiting


_CARDS = {
    WaitingKind.PROPOSAL: (CardState.REQUESTED, STEWARD),
    WaitingKind.OFFER: (CardState.OFFERED, ANALYST),
}


def _key(waiting: Waiting) -> tuple[datetime, str, str]:
    return waiting.since.replace(microsecond=0), waiting.kind, waiting.resource


def _after(token: str) -> tuple[datetime, str, str]:
    if not token:
        return datetime.min.replace(year=1970, tzinfo=UTC), "", ""
    with suppress(ValueError):
        time, kind, resource = token.split(" ", 2)
        return time_of(time), kind, resource
    raise InvalidInputError(field="page_token", problem="was not issued by this list")
