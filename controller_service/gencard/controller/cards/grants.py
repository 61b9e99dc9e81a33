"""What was granted on a dataset, to anybody, and what goes together with all of it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from sqlalchemy import Connection

from gencard.controller.cards.card_body import negotiation_of, offer_of, signed_card
from gencard.controller.policy.measuring import NEIGHBOURING
from gencard.controller.records.holdings import Holding
from gencard.controller.state.cards import CardStore
from gencard.core.card.budget import Mechanism, Neighbouring
from gencard.core.card.terms import CardTerms
from gencard.core.errors import ProposalRefusedError
from gencard.core.statistics.differencing import Grant, shows_a_difference

DIFFERENCING = "DIFFERENCING"
_NOISY = (Mechanism.LAPLACE, Mechanism.GAUSSIAN, Mechanism.GENERATOR)


@dataclass(frozen=True, slots=True)
class Grants:
    """Cards in force, and those of which psi was measured, whoever holds them."""

    store: CardStore
    clock: Callable[[], datetime]

    def closed(
        self, tx: Connection, holding: Holding, relation: Neighbouring | None
    ) -> Mapping[Mechanism, str]:
        """The mechanisms that are not on offer for a new card, each with its reason code.

        Args:
            relation: Of all noise on the dataset; None where the policy offers none.
        """
        policy = holding.policy
        exact = Grant(holding.version, holding.coding_digest, policy.transform.rounding)
        return self._closed(tx, holding.name, exact, relation)

    def check_joins(self, tx: Connection, card: CardTerms) -> None:
        """Refuse an offered card that does not go together with what was granted since.

        Raises:
            ProposalRefusedError: It does not.
        """
        privacy = card.terms.privacy
        closed = self._closed(tx, card.terms.dataset, _grant_of(card), privacy.neighbouring)
        if privacy.mechanism in closed:
            raise ProposalRefusedError(reasons=closed[privacy.mechanism])

    def _closed(
        self, tx: Connection, dataset: str, exact: Grant, relation: Neighbouring | None
    ) -> Mapping[Mechanism, str]:
        """Budgets under two neighbouring relations cannot be added; see also ``differencing``."""
        granted = set(self._granted(tx, dataset))
        counts = [told for told in granted if isinstance(told, Grant)]
        relations = granted - set(counts)
        closed: dict[Mechanism, str] = {}
        if shows_a_difference(exact, counts):
            closed[Mechanism.EXACT] = DIFFERENCING
        if relation is not None and relations - {relation}:
            closed |= dict.fromkeys(_NOISY, NEIGHBOURING)
        return closed

    def _granted(self, tx: Connection, dataset: str) -> Iterator[Grant | Neighbouring | None]:
        """What each card tells; all but those that ran out before they were measured."""
        now = self.clock()
        for row in self.store.granted(tx, dataset):
            told, expires = _told(row.body)
            if now < expires or self.store.measured(tx, row.name):
                yield told


@lru_cache(maxsize=1_000)
def _told(body: bytes) -> tuple[Grant | Neighbouring | None, datetime]:
    """What a granted card tells, and until when it may: exact counts, or the relation of its noise."""
    card = negotiation_of(body)
    signed = signed_card(card)
    exact = not signed.terms.privacy.noisy
    return _grant_of(signed) if exact else signed.terms.privacy.neighbouring, offer_of(card).expire_time


def _grant_of(card: CardTerms) -> Grant:
    return Grant(card.version, card.coding_digest, card.terms.transform.rounding)
