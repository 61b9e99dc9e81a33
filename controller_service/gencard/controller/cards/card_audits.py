"""What audits mean for a card whose generator is a black box: nothing is released before one passed.

AGREED -> AUDITING -> AUDITED -> RELEASED        no evidence
                   -> AUDIT_FAILED               evidence of leakage: nothing follows
                   -> AGREED                     the audit ended without a verdict
"""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection

from gencard.controller.audits.families import Families
from gencard.controller.boxes.boxes import Boxes
from gencard.controller.cards.card_body import in_force, offer_of, signed_card
from gencard.controller.cards.cards import Cards
from gencard.controller.state.audits import AuditRow, AuditStore
from gencard.core.audit.verdict import Verdict
from gencard.core.card.card import AUDITABLE, Card, CardState
from gencard.core.card.terms import Tier
from gencard.core.errors import AuditRequiredError
from gencard.wire.documents.receipt import AuditedBox
from gencard.wire.signatures.canonical import sha256
from gencard.wire.signatures.dsse import opened


@dataclass(frozen=True, slots=True)
class CardAudits:
    """Moves cards by the audits of their own generators, and says which audit speaks for a card."""

    cards: Cards
    boxes: Boxes
    store: AuditStore

    @property
    def families(self) -> Families:
        """What audits say about other versions of a black box."""
        return Families(self.cards, self.store)

    def begin(self, tx: Connection, card: Card, box: str) -> None:
        """An audit of ``box`` begins under a card.

        Raises:
            GeneratorChangedError: It is the card's own black box, and no longer what the card names.
        """
        if box == offer_of(card).terms.generator:
            self.boxes.check_unchanged(signed_card(card))
            if is_audited(card) and card.state is CardState.AGREED:
                self.cards.attest(tx, card, CardState.AUDITING, "audit")

    def give_up(self, tx: Connection, name: str, running: Collection[str]) -> None:
        """An audit ended without a verdict, and only these black boxes are still audited."""
        card = self.cards.card(tx, name)
        if card.state is CardState.AUDITING and offer_of(card).terms.generator not in running:
            self.cards.attest(tx, card, CardState.AGREED, "audit ended")

    def conclude(self, tx: Connection, row: AuditRow, verdict: Verdict, fact: bytes) -> None:
        """Attach the verdict on a card's own generator to the card; what has ended stays as it is."""
        card = self.cards.card(tx, row.card)
        if card.state not in AUDITABLE or row.black_box != offer_of(card).terms.generator:
            return
        state = card.state
        if is_audited(card):
            state = _after(verdict, state)
        self.cards.attest(tx, card, state, "verdict", fact)

    def passed(self, tx: Connection, card: Card) -> AuditedBox:
        """The audit that speaks for the black box of a card: at its records, under its digest.

        Raises:
            CardStateError, CardExpiredError: The card is not in force.
            GeneratorChangedError: What would run is not what was audited.
            BoxNotReviewedError: The settings name nobody who reviewed it.
            AuditRequiredError: No audit passed, or the box or another version of it was found to leak.
        """
        signed = signed_card(in_force(card))
        self.boxes.check_unchanged(signed)
        self.boxes.check_reviewed(signed)
        row = self.store.passed(tx, card.name, signed.generator_digest)
        if row is None or self.families.is_known_leak(tx, row, signed.terms):
            raise AuditRequiredError
        payload, _ = opened(row.attestation or b"")
        return AuditedBox(signed.generator_digest, sha256(payload))


def rows_of_run(rows: int) -> int:
    """Rows asked of a black box for a card with so many, by its audit and by the run that makes them.

    A box that was asked for another number in its audit would know when nobody looks.
    """
    return max(2, rows)


def is_audited(card: Card) -> bool:
    """Whether the card's generator is a black box of an author, of which audits are asked."""
    return signed_card(card).tier is Tier.AUDITED


def is_private(card: Card) -> bool:
    """Whether the card's generator adds the noise itself: it has no psi and no audit at the records."""
    return signed_card(card).tier is Tier.PRIVATE


def _after(verdict: Verdict, state: CardState) -> CardState:
    if verdict is Verdict.LEAKAGE:
        return CardState.AUDIT_FAILED
    return CardState.AUDITED if state in (CardState.AGREED, CardState.AUDITING) else state
