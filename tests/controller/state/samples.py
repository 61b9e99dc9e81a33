"""Names, prices and rows that the tests of the state use."""

from datetime import UTC, datetime
from decimal import Decimal

from sqlalchemy import Connection

from gencard.controller.state.cards import insert_card as insert_stored
from gencard.controller.state.ledger import Account, Caps, Ledger, Scope
from gencard.core.card.budget import Price
from gencard.core.card.card import CardState

NOW = datetime(2026, 11, 20, 18, 0, 0, tzinfo=UTC)
DATASET = "datasets/census"
CARD = f"{DATASET}/cards/c1"
ANA = "spiffe://gencard.local/health/analyst/ana"
BEN = "spiffe://gencard.local/health/analyst/ben"
ALL_OF_IT = Account(Scope.DATASET, DATASET)


def ledger_of(statistics: int, epsilon: str = "0", dataset: str = DATASET) -> Ledger:
    """A ledger with the same caps for dataset, project and analyst."""
    cap = Price(statistics, Decimal(epsilon))
    return Ledger({dataset: Caps(cap, cap, cap)})


def reserve(
    ledger: Ledger,
    tx: Connection,
    price: Price,
    *,
    dataset: str = DATASET,
    project: str = "health",
    analyst: str = ANA,
    kind: str = "psi",
) -> int:
    return ledger.reserve(
        tx,
        dataset=dataset,
        project=project,
        analyst=analyst,
        resource=f"{dataset}/cards/c1",
        kind=kind,
        price=price,
        now=NOW,
    )


def insert_card(
    tx: Connection,
    name: str = CARD,
    state: CardState = CardState.REQUESTED,
    analyst: str = ANA,
    dataset: str = DATASET,
) -> None:
    insert_stored(
        tx, name, dataset=dataset, analyst=analyst, state=state, body=b"{}", etag="etag-1", now=NOW
    )
