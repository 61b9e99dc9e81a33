"""Audits of cards whose generator is a black box: nothing is released before an audit passed.

AGREED -> AUDITING -> AUDITED -> RELEASED        no evidence
                   -> AUDIT_FAILED               evidence of leakage: nothing follows
                   -> AGREED                     the audit ended without a verdict

The family of a black box is its name and author on one dataset, and the same bytes under another name.
An update of a library makes another digest and no other family, so evidence is kept; only a steward's
decision, which the log shows, clears it (``stewards.effects``).

An earlier audit is comparable if a leak that it found is a leak under the judged card, too: the earlier
card released the same statistics or more. A box may rightly use statistics under a large Phi that would
be a leak under a small one, so evidence from a narrow card never counts against a wider card.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection

from gencard.controller.boxes import Boxes
from gencard.controller.cards.book import CardBook
from gencard.controller.state import results
from gencard.controller.state.cards import in_force, offer_of, signed_card
from gencard.controller.state.results import AuditRow
from gencard.core.audit.report import EarlierTry, Verdict
from gencard.core.audit.wording import try_of_object
from gencard.core.card.card import AUDITABLE, CardRecord, CardState
from gencard.core.card.terms import AuditTerms, Proposal, Tier
from gencard.core.errors import AuditRequiredError
from gencard.wire.canonical import sha256
from gencard.wire.documents import AuditedBox
from gencard.wire.dsse import opened

USUAL_ORDER = AuditTerms().order
"""Order from which on earlier audits count, even if a card asks for a higher order."""


@dataclass(frozen=True, slots=True)
class Families:
    """Results of ended audits of a black box's family."""

    cards: CardBook

    def earlier(self, tx: Connection, row: AuditRow, terms: Proposal) -> tuple[EarlierTry, ...]:
        """Return the comparable tries of the family that have ended, in the order of their ends."""
        tries: list[EarlierTry] = []
        for other in results.audits_of_family(tx, row):
            if not other.report:
                continue
            theirs = self._terms(tx, other.card)
            if covers(theirs, terms) and theirs.audit.order >= min(terms.audit.order, USUAL_ORDER):
                same = other.box_digest == row.box_digest
                tries.append(try_of_object(json.loads(other.report), same_bytes=same))
        return tuple(tries)

    def is_known_leak(self, tx: Connection, row: AuditRow, terms: Proposal) -> bool:
        """Whether the family was found to use more than a Phi that holds all of this one."""
        leaks = {
            other.card for other in results.audits_of_family(tx, row) if other.verdict is Verdict.LEAKAGE
        }
        return any(covers(self._terms(tx, card), terms) for card in leaks)

    def _terms(self, tx: Connection, card: str) -> Proposal:
        return offer_of(self.cards.card(tx, card)).terms


def covers(wide: Proposal, narrow: Proposal) -> bool:
    """Whether every statistic of one Phi follows from the other's."""
    marginals = [set(clique) for clique in wide.marginals]
    cliques = list(narrow.marginals)
    cliques += [moment.attributes for moment in narrow.moments if moment not in wide.moments]
    return all(any(set(clique) <= whole for whole in marginals) for clique in cliques)


@dataclass(frozen=True, slots=True)
class CardAudits:
    """Moves cards by the audits of their own generators, and says which audit speaks for a card."""

    cards: CardBook
    boxes: Boxes

    @property
    def families(self) -> Families:
        return Families(self.cards)

    def begin(self, tx: Connection, card: CardRecord, box: str) -> None:
        if box == offer_of(card).terms.generator:
            self.boxes.check_unchanged(signed_card(card))
            if is_audited(card) and card.state is CardState.AGREED:
                self.cards.attest(tx, card, CardState.AUDITING, "audit")

    def give_up(self, tx: Connection, name: str, running: Collection[str]) -> None:
        """Return a card to AGREED after an audit without a verdict, unless its box is still audited."""
        card = self.cards.card(tx, name)
        if card.state is CardState.AUDITING and offer_of(card).terms.generator not in running:
            self.cards.attest(tx, card, CardState.AGREED, "audit ended")

    def conclude(self, tx: Connection, row: AuditRow, verdict: Verdict, fact: bytes) -> None:
        """Attach the verdict on a card's own generator to the card; a card that ended stays as it is."""
        card = self.cards.card(tx, row.card)
        if card.state not in AUDITABLE or row.black_box != offer_of(card).terms.generator:
            return
        state = card.state
        if is_audited(card):
            if verdict is Verdict.LEAKAGE:
                state = CardState.AUDIT_FAILED
            elif state in (CardState.AGREED, CardState.AUDITING):
                state = CardState.AUDITED
        self.cards.attest(tx, card, state, "verdict", fact)

    def passed(self, tx: Connection, card: CardRecord) -> AuditedBox:
        """Return the passed audit of a card's black box, of the same records and digest.

        Raises:
            CardStateError, CardExpiredError: The card is not in force.
            GeneratorChangedError: The present black box is not the audited one.
            BoxNotReviewedError: The settings name no reviewer of the black box.
            AuditRequiredError: No audit passed, or the box or another version of it leaked in an audit.
        """
        signed = signed_card(in_force(card))
        self.boxes.check_unchanged(signed)
        self.boxes.check_reviewed(signed)
        row = results.passed_audit(tx, card.name, signed.generator_digest)
        if row is None or self.families.is_known_leak(tx, row, signed.terms):
            raise AuditRequiredError
        payload, _ = opened(row.attestation or b"")
        return AuditedBox(signed.generator_digest, sha256(payload))


def rows_of_run(rows: int) -> int:
    """Return the number of rows to request from a black box, in its audit and in its run alike.

    With another number in the audit, a box could tell an audit from a run.
    """
    return max(2, rows)


def is_audited(card: CardRecord) -> bool:
    """Whether the card's generator is a black box of an author, of which audits are asked."""
    return signed_card(card).tier is Tier.AUDITED


def is_private(card: CardRecord) -> bool:
    """Whether the card's generator adds the noise itself: it has no psi and no audit on the records."""
    return signed_card(card).tier is Tier.PRIVATE
