"""Proposals that were never agreed leave the state after some days; the log says which."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection

from gencard.controller.cards.body import ENDED
from gencard.controller.cards.book import CardBook
from gencard.controller.state.database import Database
from gencard.controller.state.idempotency import forget
from gencard.core.card.card import Card
from gencard.wire.codecs.card_codec import card_of_bytes

_EVERY = timedelta(days=1)
_AT_A_TIME = 100
"""Cards of one transaction: others write between two of them."""

_METHODS = ("ProposeCard", "CounterCard", "TerminateCard")
"""Their answers hold a whole card, and a repeat long after changes nothing that was agreed."""


@dataclass(slots=True)
class Retention:
    """Prunes proposals at the start and, while somebody proposes, once a day.

    Args:
        keep_days: Days after the last change of a card that was never agreed; 0 keeps all of them.
    """

    database: Database
    cards: CardBook
    keep_days: int
    _due: datetime | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def clock(self) -> Callable[[], datetime]:
        return self.cards.clock

    def prune_daily(self) -> None:
        """Prune, unless that was done within a day."""
        now = self.clock()
        with self._lock:
            if not self.keep_days or (self._due is not None and now < self._due):
                return
            self._due = now + _EVERY
        self.prune()

    def prune(self) -> int:
        """Delete what is too old, each card with its entry in the log; the number of cards.

        A card that both sides signed is never deleted, however it ended, nor is an offer that can
        still be accepted.
        """
        before, pruned, after = self.clock() - timedelta(days=self.keep_days), 0, 0
        while True:
            with self.database.transaction() as tx:
                rows = self.cards.store.never_granted(tx, before, after, _AT_A_TIME)
                pruned += sum(self._prune(tx, card_of_bytes(row.body)) for row in rows)
                if len(rows) < _AT_A_TIME:
                    forget(tx, _METHODS, before)
                    return pruned
                after = rows[-1].number

    def _prune(self, tx: Connection, card: Card) -> bool:
        offered = card.offer is not None and self.clock() < card.offer.expire_time
        if card.envelope or (offered and card.state not in ENDED):
            return False
        self.cards.log.append(
            tx,
            action="prune",
            actor=self.cards.controller,
            resource=card.name,
            details={"state": str(card.state)},
            now=self.clock(),
        )
        self.cards.store.delete(tx, card.name)
        return True
