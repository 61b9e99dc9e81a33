"""Families of black boxes: whose audits speak against whom.

A family is a black box's name and author on one dataset. An update of a library or one changed byte
makes another digest and no other family, so that evidence is kept; the same bytes under another name
belong to it too. Only a steward's decision, which the log shows, clears it (``audit_clearing``).

Audits are comparable where a leak that one of them saw is a leak under the card that is judged: the
earlier card released the same statistics or more. What a box uses beyond a small Phi it may well use
rightly under a larger one, so evidence never goes from a narrow card to a wider one.
"""

import json
from dataclasses import dataclass

from sqlalchemy import Connection

from gencard.controller.cards.card_body import offer_of
from gencard.controller.cards.cards import Cards
from gencard.controller.state.audits import AuditRow, AuditStore
from gencard.core.audit.report import EarlierTry
from gencard.core.audit.report_json import try_of_object
from gencard.core.audit.verdict import Verdict
from gencard.core.card.terms import AuditTerms, Proposal

USUAL_ORDER = AuditTerms().order
"""Earlier audits of this order or more count, also where a card asks for a higher one."""


@dataclass(frozen=True, slots=True)
class Families:
    """What ended audits say about the family of a black box."""

    cards: Cards
    store: AuditStore

    def earlier(self, tx: Connection, row: AuditRow, terms: Proposal) -> tuple[EarlierTry, ...]:
        """Comparable tries of the family that have ended, in the order in which they ended.

        Args:
            row: The audit that is judged, or is about to run.
            terms: Of its card.
        """
        return tuple(
            try_of_object(json.loads(other.report), same_bytes=other.box_digest == row.box_digest)
            for other in self.store.family(tx, row)
            if other.report and self._is_comparable(tx, other, terms)
        )

    def is_known_leak(self, tx: Connection, row: AuditRow, terms: Proposal) -> bool:
        """Whether the family was found to use more than a Phi that holds all of this one."""
        leaks = {other.card for other in self.store.family(tx, row) if other.verdict is Verdict.LEAKAGE}
        return any(covers(self._terms(tx, card), terms) for card in leaks)

    def _is_comparable(self, tx: Connection, other: AuditRow, terms: Proposal) -> bool:
        theirs = self._terms(tx, other.card)
        order = min(terms.audit.order, USUAL_ORDER)
        return covers(theirs, terms) and theirs.audit.order >= order

    def _terms(self, tx: Connection, card: str) -> Proposal:
        return offer_of(self.cards.card(tx, card)).terms


def covers(wide: Proposal, narrow: Proposal) -> bool:
    """Whether every statistic of one Phi follows from the other's."""
    marginals = [set(clique) for clique in wide.marginals]
    needed = list(narrow.marginals)
    needed += [moment.attributes for moment in narrow.moments if moment not in wide.moments]
    return all(any(set(clique) <= whole for whole in marginals) for clique in needed)
