"""Measures of releases as callers see them: begun, listed, told.

Auditors and stewards may have every measure, and it costs them nothing: nothing leaves the house.
An analyst may have what the card names, while the card is in force, and pays for it with one
statistic for each number: that is what an exact count costs, and each number is a fact about records.
Whoever did not pay is not told: an analyst sees own runs alone.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection

from gencard.controller.card_audits import is_private
from gencard.controller.card_body import in_force, offer_of
from gencard.controller.cards import Cards
from gencard.controller.holdings import dataset_of
from gencard.controller.measures_policy import fitting, price_of_measures
from gencard.controller.operations import Operations
from gencard.controller.request import Request
from gencard.controller.state.database import Database
from gencard.controller.state.ledger import Ledger
from gencard.controller.state.measures import MeasuresRow, MeasuresStore
from gencard.controller.state.operations import OperationRow
from gencard.controller.state.psis import PsiStore
from gencard.controller.state.releases import ReleaseStore
from gencard.core.budget import FREE, Price
from gencard.core.errors import InvalidInputError, NotFoundError, PermissionDeniedError
from gencard.core.measures.measure import Measure
from gencard.core.measures.registry import MEASURES, measure_named
from gencard.core.negotiation import Negotiation
from gencard.v1 import measures_pb2 as pb
from gencard.wire.card_codec import timestamp
from gencard.wire.identity import Identity, Role

KIND = "measures"


@dataclass(frozen=True, slots=True)
class Measures:
    """Measures of releases at the records, and what they found.

    Args:
        folder: Where the rows of releases lie.
    """

    database: Database
    cards: Cards
    ledger: Ledger
    releases: ReleaseStore
    psis: PsiStore
    store: MeasuresStore
    operations: Operations
    folder: Path

    def start(self, who: Identity, release: str, names: Sequence[str], request: Request) -> OperationRow:
        """Begin to measure a release.

        Args:
            names: Of measures; none for all that apply and that ``who`` may have.

        Raises:
            NotFoundError: No such release.
            PermissionDeniedError: The card does not name the measure, or names none.
            InvalidInputError: No such measure, one twice, or it needs what is not there.
            CardStateError, CardExpiredError: An analyst's card is not in force.
            DatasetChangedError: The dataset has another schema than the card names.
            BudgetExceededError: The price is not covered.
        """

        def make(tx: Connection) -> bytes:
            card = self.card_of(tx, who, release)
            chosen = self._chosen(who, card, names)
            name = f"{release}/measures/{secrets.token_hex(8)}"
            asked = {"release": release, "name": name, "measures": [one.name for one in chosen]}
            price = self._price(who, card, chosen)
            line = self._reserve(tx, who, name, price) if price.statistics else None
            self.cards.log.append(
                tx,
                action="compare",
                actor=who.uri,
                resource=name,
                details={"statistics": str(price.statistics)},
                now=self.cards.clock(),
            )
            paid = {"line": line, "statistics": price.statistics}
            return self.operations.create(tx, who, KIND, release, asked | paid).encode()

        with self.database.transaction() as tx:
            name = request.once(tx, who, self.cards.clock(), lambda: make(tx))
        return self.operations.begin(name.decode())

    def get(self, who: Identity, name: str) -> pb.Measures:
        """What was found.

        Raises:
            NotFoundError: It is an unknown run, or one that another paid for.
            CardStateError: The card was revoked, which gives analysts nothing more.
        """
        with self.database.reading() as tx:
            row = self.store.get(tx, name)
            if who.role is Role.ANALYST and row.submitter != who.uri:
                raise NotFoundError
            self.cards.readable(tx, who, row.card)
        return measures_message(row)

    def page(
        self, who: Identity, release: str, before: str, limit: int
    ) -> tuple[list[pb.Measures], str]:
        """Runs on a release, newest first, without what they found, and the next page's token."""
        mine = who.uri if who.role is Role.ANALYST else None
        with self.database.reading() as tx:
            self.cards.seen(tx, who, self.releases.get(tx, release).card)
            page = self.store.list(tx, release, submitter=mine, before=before, limit=limit)
        return [measures_message(row, whole=False) for row in page.rows], page.next_token

    def card_of(self, tx: Connection, who: Identity, release: str) -> Negotiation:
        """The card of a release that ``who`` may have measured.

        Raises:
            NotFoundError: No such release, or another's.
            CardStateError, CardExpiredError: An analyst's card is not in force.
        """
        card = self.cards.seen(tx, who, self.releases.get(tx, release).card)
        return in_force(card) if who.role is Role.ANALYST else card

    def _chosen(self, who: Identity, card: Negotiation, names: Sequence[str]) -> list[Measure]:
        """The measures to take, in the order of a report; all that is looked at is public."""
        allowed = _allowed(who, card)
        asked = {measure_named(name) for name in names} or {MEASURES[name] for name in allowed}
        if not asked or not {measure.name for measure in asked} <= set(allowed):
            raise PermissionDeniedError
        if names and len(names) != len(asked):
            raise InvalidInputError(field="measures", problem="names one twice")
        possible = fitting(asked, self.cards.holding_of(card), offer_of(card).terms)
        missing = sorted(measure.name for measure in asked.difference(possible))
        if not possible or (names and missing):
            problem = f"needs what the dataset or the release does not have: {', '.join(missing)}"
            raise InvalidInputError(field="measures", problem=problem)
        order = list(MEASURES.values())
        return sorted(possible, key=order.index)

    def _price(self, who: Identity, card: Negotiation, measures: Sequence[Measure]) -> Price:
        """What stays in the house costs nothing."""
        if who.role is not Role.ANALYST:
            return FREE
        return price_of_measures(measures, self.cards.holding_of(card), offer_of(card).terms)

    def _reserve(self, tx: Connection, who: Identity, name: str, price: Price) -> int:
        return self.ledger.reserve(
            tx,
            dataset=dataset_of(name),
            project=who.project,
            analyst=who.uri,
            resource=name,
            kind=KIND,
            price=price,
            now=self.cards.clock(),
        )


def _allowed(who: Identity, card: Negotiation) -> tuple[str, ...]:
    """Names of the measures that somebody may have; none under a card of tier private."""
    if is_private(card):
        return ()
    return offer_of(card).terms.measures if who.role is Role.ANALYST else tuple(MEASURES)


def measures_message(row: MeasuresRow, *, whole: bool = True) -> pb.Measures:
    return pb.Measures(
        name=row.name,
        measures=row.names,
        document=row.document if whole else b"",
        statistics=row.statistics,
        create_time=timestamp(row.created),
    )
