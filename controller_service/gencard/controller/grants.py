"""What was granted on a dataset, to anybody, and what goes together with all of it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from gencard.controller.card_body import as_of, negotiation_of, signed_card
from gencard.controller.holdings import Holding
from gencard.controller.measuring import NEIGHBOURING
from gencard.controller.state.cards import CardStore
from gencard.core.budget import Mechanism, Neighbouring
from gencard.core.card import Card
from gencard.core.errors import ProposalRefusedError
from gencard.core.negotiation import CardState
from gencard.core.statistics.differencing import Grant, shows_a_difference

DIFFERENCING = "DIFFERENCING"
_NOISY = (Mechanism.LAPLACE, Mechanism.GAUSSIAN)


@dataclass(frozen=True, slots=True)
class Grants:
    """Cards in force, and those of which psi was measured, whoever holds them."""

    store: CardStore
    clock: Callable[[], datetime]

    def closed(self, tx: Connection, holding: Holding) -> Mapping[Mechanism, str]:
        """The mechanisms that are not on offer for a new card, each with its reason code."""
        policy = holding.policy
        exact = Grant(holding.version, holding.coding_digest, policy.transform.rounding)
        relation = None if policy.noise is None else policy.noise.neighbouring
        return self._closed(tx, holding.name, exact, relation)

    def check_joins(self, tx: Connection, card: Card) -> None:
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
        closed: dict[Mechanism, str] = {}
        for card in self._granted(tx, dataset):
            privacy = card.terms.privacy
            if privacy.noisy and relation not in (None, privacy.neighbouring):
                closed |= dict.fromkeys(_NOISY, NEIGHBOURING)
            if not privacy.noisy and shows_a_difference(exact, [_grant_of(card)]):
                closed[Mechanism.EXACT] = DIFFERENCING
        return closed

    def _granted(self, tx: Connection, dataset: str) -> Iterator[Card]:
        """All but those that ran out before they were measured."""
        for row in self.store.granted(tx, dataset):
            card = as_of(negotiation_of(row.body), self.clock())
            if card.state is not CardState.EXPIRED or self.store.measured(tx, card.name):
                yield signed_card(card)


def _grant_of(card: Card) -> Grant:
    return Grant(card.version, card.coding_digest, card.terms.transform.rounding)
