"""The steward's side: look at what waits or failed, offer, reject, revoke, settle."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection

from gencard.controller.cards.book import CardBook
from gencard.controller.operations.failures import Refusals, error_of_document
from gencard.controller.records.catalogue import dataset_of
from gencard.controller.state.audits import AuditStore
from gencard.controller.state.cards import offer_of
from gencard.controller.state.database import Database
from gencard.controller.state.event_log import EventLog
from gencard.controller.state.events import LONGEST_DETAIL
from gencard.controller.state.ledger import Ledger
from gencard.core.card.card import Card, CardState
from gencard.core.card.terms import Proposal
from gencard.core.errors import CardStateError, InvalidInputError, NotFoundError
from gencard.wire.signatures.canonical import time_text
from gencard.wire.signatures.dsse import REVOCATION, sign, statement


@dataclass(frozen=True, slots=True)
class Stewardship:
    """What a steward does, on the controller's own machine.

    Args:
        steward: Who acts; written into history and log.
    """

    database: Database
    cards: CardBook
    ledger: Ledger
    refusals: Refusals
    steward: str

    def approve(self, name: str) -> Card:
        """Offer the proposed terms, or the nearest that the policy allows."""
        return self._offer(name, None)

    def offer(self, name: str, terms: Proposal) -> Card:
        """Offer other terms than asked; the policy still holds for them.

        Raises:
            InvalidInputError: They are about another dataset.
        """
        if terms.dataset != dataset_of(name):
            raise InvalidInputError(field="terms.dataset", problem="cannot change on a card")
        return self._offer(name, terms)

    def reject(self, name: str, remark: str) -> Card:
        """Reject a pending proposal."""
        with self.database.transaction() as tx:
            card = self._waiting(tx, name)
            return self.cards.end(tx, card, CardState.TERMINATED, self.steward, "reject", remark=remark)

    def revoke(self, name: str, remark: str) -> Card:
        """End an agreed card for good, with a signed revocation.

        One that was given back or has expired too: its analyst could still fetch what was made under it.

        Raises:
            CardStateError: The card was never agreed, or was revoked before.
        """
        with self.database.transaction() as tx:
            card = self.cards.card(tx, name)
            if not card.envelope or card.state is CardState.REVOKED:
                raise CardStateError(state=card.state)
            facts = {"card": name, "remark": remark, "time": time_text(self.cards.clock())}
            payload = statement(REVOCATION, name, facts, offer_of(card).digest)
            fact = sign(payload, [self.cards.signing_key(tx)])
            revoked = replace(card, attestations=(*card.attestations, fact))
            return self.cards.end(tx, revoked, CardState.REVOKED, self.steward, "revoke", remark=remark)

    def settle(self, line: int, *, void: bool) -> None:
        """End a reservation that a crash left: it stays spent, or nothing was released for it."""
        with self.database.transaction() as tx:
            now = self.cards.clock()
            action = "void" if void else "settle"
            resource = self.ledger.line(tx, line).resource
            (self.ledger.void if void else self.ledger.settle)(tx, line, now)
            self.cards.log.append(
                tx,
                action=action,
                actor=self.steward,
                resource=resource,
                details={"line": str(line)},
                now=now,
            )

    def look_at(self, operation: str) -> None:
        """An operation that failed at the records counts against its analyst no longer.

        Raises:
            NotFoundError: No such operation does.
        """
        with self.database.transaction() as tx:
            row = self.refusals.look_at(tx, operation)
            self.cards.log.append(
                tx,
                action="look",
                actor=self.steward,
                resource=row.resource,
                details={"operation": operation, "reason": error_of_document(row.error).reason},
                now=self.cards.clock(),
            )

    def _offer(self, name: str, terms: Proposal | None) -> Card:
        with self.database.transaction() as tx:
            card = self._waiting(tx, name)
            dataset_entry = self.cards.catalogue.named(dataset_of(name))
            outcome = self.cards.judged(tx, dataset_entry, terms or card.proposed)
            return self.cards.move(
                tx, card, self.cards.offered(tx, card, dataset_entry, outcome, self.steward)
            )

    def _waiting(self, tx: Connection, name: str) -> Card:
        card = self.cards.card(tx, name)
        if card.state is not CardState.REQUESTED:
            raise CardStateError(state=card.state)
        return card


@dataclass(frozen=True, slots=True)
class AuditClearing:
    """Clears evidence of audits, with a reason in the log.

    Args:
        steward: Who decides; written into the log.
    """

    database: Database
    log: EventLog
    clock: Callable[[], datetime]
    steward: str
    store: AuditStore

    def clear(self, dataset: str, black_box: str, remark: str) -> int:
        """Let no ended audit of a black box on a dataset count any more.

        Cards whose audit failed stay failed. Audits that still run, and those of the same bytes under
        another name, keep counting.

        Args:
            dataset: datasets/{dataset}.
            black_box: Its name in the settings.
            remark: Why; one line of at most 200 characters, written into the log.

        Returns:
            How many audits were cleared.

        Raises:
            InvalidInputError: The remark is empty, too long, or not one printable line.
            NotFoundError: No ended audit of this black box counts on the dataset.
        """
        if not remark.strip() or len(remark) > LONGEST_DETAIL or not remark.isprintable():
            problem = f"must be one printable line of 1 to {LONGEST_DETAIL} characters"
            raise InvalidInputError(field="remark", problem=problem)
        with self.database.transaction() as tx:
            now = self.clock()
            cleared = self.store.clear(tx, dataset, black_box, now)
            if not cleared:
                raise NotFoundError
            self.log.append(
                tx,
                action="clear-audits",
                actor=self.steward,
                resource=dataset,
                details={"black_box": black_box, "remark": remark, "tries": str(cleared)},
                now=now,
            )
        return cleared
