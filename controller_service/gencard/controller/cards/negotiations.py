"""The analyst's side of a negotiation: propose, counter, accept, terminate. Old proposals are pruned."""

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from sqlalchemy import Connection

from gencard.controller.cards.book import CardBook
from gencard.controller.records.catalogue import dataset_of
from gencard.controller.state.cards import (
    ENDED,
    delete_card,
    list_cards,
    never_granted_cards,
    offer_of,
    signed_card,
)
from gencard.controller.state.database import Database
from gencard.controller.state.requests import Request, forget_answers
from gencard.core.card.card import OPEN, CardRecord, CardState, CounterOffer, Turn
from gencard.core.card.terms import Proposal
from gencard.core.errors import (
    CardExpiredError,
    CardStateError,
    InvalidInputError,
    ProposalRefusedError,
    StaleEtagError,
    VerificationError,
    WrongTurnError,
)
from gencard.wire.codec import card_bytes, card_of_bytes
from gencard.wire.dsse import envelope_of, is_signed_by, key_id, signature_of
from gencard.wire.keys import Identity, Role

_AT_A_TIME = 100
"""Number of cards per transaction, so that other writers are served between transactions."""

_METHODS = ("ProposeCard", "CounterCard", "TerminateCard")
"""Their answers hold a whole card, and a repeat long after changes nothing that was agreed."""


@dataclass(slots=True)
class Retention:
    """Prunes proposals at the start and, while analysts propose, once a day.

    Args:
        keep_days: Days to keep a card that was never agreed after its last change; 0 keeps all cards.
    """

    database: Database
    cards: CardBook
    keep_days: int
    _due: datetime | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def prune_daily(self) -> None:
        """Prune, unless that was done within a day."""
        now = self.cards.clock()
        with self._lock:
            if not self.keep_days or (self._due is not None and now < self._due):
                return
            self._due = now + timedelta(days=1)
        self.prune()

    def prune(self) -> int:
        """Delete cards that are too old, each with an entry in the log; return their number.

        A card that both sides signed is never deleted, however it ended, nor is an offer that can
        still be accepted.
        """
        before, pruned, after = self.cards.clock() - timedelta(days=self.keep_days), 0, 0
        while True:
            with self.database.transaction() as tx:
                rows = never_granted_cards(tx, before, after, _AT_A_TIME)
                for card in (card_of_bytes(row.body) for row in rows):
                    offered = card.offer is not None and self.cards.clock() < card.offer.expire_time
                    if not card.envelope and (not offered or card.state in ENDED):
                        self.cards.note(tx, "prune", card.name, {"state": str(card.state)})
                        delete_card(tx, card.name)
                        pruned += 1
                if len(rows) < _AT_A_TIME:
                    forget_answers(tx, _METHODS, before)
                    return pruned
                after = rows[-1].number


@dataclass(frozen=True, slots=True)
class Negotiations:
    """The methods with which analysts negotiate cards; old proposals are pruned before a new one."""

    database: Database
    cards: CardBook
    signing_key: Callable[[Identity], Ed25519PublicKey]
    retention: Retention

    def price(self, who: Identity, proposal: Proposal) -> CardRecord:
        """Return the card that would be offered; nothing is stored and no record is read."""
        dataset_entry = self.cards.catalogue.named(proposal.dataset)
        with self.database.reading() as tx:
            outcome = self.cards.judged(tx, dataset_entry, proposal)
            return self.cards.offered(tx, _fresh("", who, proposal), dataset_entry, outcome)

    def propose(self, who: Identity, proposal: Proposal, request: Request) -> CardRecord:
        """Store a new card: offered at once if the policy allows, else waiting for a steward.

        Raises:
            NotFoundError: No such dataset or generator.
            InvalidInputError, TooLargeError: The core or the limits refuse the terms.
            ProposalRefusedError: The policy permits no similar card; the log says so.
            QuotaExceededError, StorageReserveError: No further card may be stored.
        """
        dataset_entry = self.cards.catalogue.named(proposal.dataset)
        self.retention.prune_daily()

        def make(tx: Connection, outcome: CounterOffer) -> CardRecord:
            self.cards.quotas.check_new(self.cards.usage(tx, who.uri, dataset_entry))
            name = f"{dataset_entry.name}/cards/{secrets.token_hex(8)}"
            requested = self.cards.stepped(_fresh(name, who, proposal), who.uri, "propose")
            if not dataset_entry.policy.automatic:
                return self.cards.open(tx, requested)
            offered = self.cards.offered(tx, requested, dataset_entry, outcome)
            return self.cards.open(tx, requested, offered)

        return self._judged_once(who, request, proposal, make)

    def counter(
        self, who: Identity, name: str, etag: str, proposal: Proposal, request: Request
    ) -> CardRecord:
        """Return the analyst's answer to an offer: other terms on the same dataset."""
        if proposal.dataset != dataset_of(name):
            raise InvalidInputError(field="terms.dataset", problem="cannot change on a card")
        dataset_entry = self.cards.catalogue.named(proposal.dataset)

        def make(tx: Connection, outcome: CounterOffer) -> CardRecord:
            card = self._to_move(tx, who, name, etag)
            self.cards.quotas.check_size(self.cards.usage(tx, who.uri, dataset_entry))
            fresh = replace(
                card, proposed=proposal, state=CardState.REQUESTED, turn=Turn.CONTROLLER, offer=None
            )
            requested = self.cards.stepped(fresh, who.uri, "counter")
            if not dataset_entry.policy.automatic:
                return self.cards.move(tx, card, requested)
            offered = self.cards.offered(tx, requested, dataset_entry, outcome)
            return self.cards.move(tx, card, requested, offered)

        return self._judged_once(who, request, proposal, make)

    def accept(
        self, who: Identity, name: str, etag: str, signature: bytes, request: Request
    ) -> CardRecord:
        """Add the analyst's signature to the frozen statement: the card is agreed.

        Raises:
            VerificationError: The signature is not the analyst's over the offered statement.
            ProposalRefusedError: The card conflicts with a grant since it was offered.
        """
        key = self.signing_key(who)

        def make(tx: Connection) -> CardRecord:
            card = self._to_move(tx, who, name, etag)
            statement = offer_of(card).statement
            if not is_signed_by(statement, signature, key):
                raise VerificationError(
                    problem="the signature does not match your key and the offered card"
                )
            self.cards.grants.check_joins(tx, signed_card(card))
            accepted = replace(card, state=CardState.ACCEPTED, turn=Turn.CONTROLLER)
            accepted = self.cards.stepped(accepted, who.uri, "accept")
            ours = self.cards.signing_key(tx)
            signatures = {
                key_id(key): signature,
                key_id(ours.public_key()): signature_of(statement, ours),
            }
            envelope = envelope_of(statement, signatures)
            agreed_card = replace(accepted, state=CardState.AGREED, turn=Turn.NOBODY, envelope=envelope)
            agreed_card = self.cards.stepped(agreed_card, self.cards.controller, "sign")
            return self.cards.move(tx, card, accepted, agreed_card)

        with self._refusals_logged(who, name):
            return self._once(who, request, make)

    def terminate(self, who: Identity, name: str, etag: str, request: Request) -> CardRecord:
        def make(tx: Connection) -> CardRecord:
            card = self.cards.owned(tx, who, name)
            if not etag or etag != card.etag:
                raise StaleEtagError
            if card.state in ENDED:
                raise CardStateError(state=card.state)
            return self.cards.end(tx, card, CardState.TERMINATED, who.uri, "terminate")

        return self._once(who, request, make)

    def get(self, who: Identity, name: str) -> CardRecord:
        with self.database.reading() as tx:
            return self.cards.seen(tx, who, name)

    def page(
        self, who: Identity, dataset: str | None, before: str, limit: int
    ) -> tuple[list[CardRecord], str]:
        """Cards that ``who`` may see, newest first, and the token of the next page."""
        owner = who.uri if who.role is Role.ANALYST else None
        with self.database.reading() as tx:
            page = list_cards(tx, analyst=owner, dataset=dataset, before=before, limit=limit)
        cards = [self.cards.as_of_now(card_of_bytes(row.body)) for row in page.rows]
        return cards, page.next_token

    def _judged_once(
        self,
        who: Identity,
        request: Request,
        proposal: Proposal,
        make: Callable[[Connection, CounterOffer], CardRecord],
    ) -> CardRecord:
        """Judge a proposal and store the card from ``make``; a repeated request is not judged again."""
        with self.database.reading() as tx:
            known = request.answer(tx, who)
        if known is not None:
            return card_of_bytes(known)
        self.cards.quotas.check_space()
        dataset_entry = self.cards.catalogue.named(proposal.dataset)
        with self._refusals_logged(who, dataset_entry.name), self.database.reading() as tx:
            outcome = self.cards.judged(tx, dataset_entry, proposal)
        return self._once(who, request, lambda tx: make(tx, outcome))

    @contextmanager
    def _refusals_logged(self, who: Identity, resource: str) -> Iterator[None]:
        """Log refusals of the policy before the caller receives them."""
        try:
            yield
            return
        except ProposalRefusedError as error:
            refusal = error
        with self.database.transaction() as tx:
            self.cards.note(tx, "refuse", resource, {"reason": refusal.fields["reasons"]}, who.uri)
        raise refusal

    def _to_move(self, tx: Connection, who: Identity, name: str, etag: str) -> CardRecord:
        card = self.cards.owned(tx, who, name)
        if not etag or etag != card.etag:
            raise StaleEtagError
        if card.state is CardState.EXPIRED:
            raise CardExpiredError
        if card.state not in OPEN:
            raise CardStateError(state=card.state)
        if card.turn is not Turn.ANALYST:
            raise WrongTurnError(turn=card.turn)
        return card

    def _once(
        self, who: Identity, request: Request, make: Callable[[Connection], CardRecord]
    ) -> CardRecord:
        made: list[CardRecord] = []

        def answer() -> bytes:
            made.append(make(tx))
            return card_bytes(made[0])

        with self.database.transaction() as tx:
            body = request.once(tx, who, self.cards.clock(), answer)
        return made[0] if made else card_of_bytes(body)


def _fresh(name: str, who: Identity, proposal: Proposal) -> CardRecord:
    return CardRecord(
        name, CardState.REQUESTED, Turn.CONTROLLER, etag="", analyst=who.uri, proposed=proposal
    )
