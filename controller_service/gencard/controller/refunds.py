"""Reservations that are given back, where an operation ended and nobody learnt anything from it."""

from sqlalchemy import Connection

from gencard.controller.cards import Cards
from gencard.controller.state.ledger import Ledger
from gencard.core.budget import Spend, SpendState
from gencard.core.errors import (
    DatasetChangedError,
    DatasetUnavailableError,
    GencardError,
    NegotiationError,
    OperationCancelledError,
    StorageError,
)

NOTHING_LEARNT = (
    OperationCancelledError,
    DatasetUnavailableError,
    DatasetChangedError,
    NegotiationError,
    StorageError,
)
"""Ends that depend on no record. After any other, a reservation stays until a steward has looked."""


def refund(
    tx: Connection, line: Spend | None, error: GencardError, *, ledger: Ledger, cards: Cards
) -> None:
    """Void a reservation, in the log too, where it is still held and ``error`` tells nothing."""
    if line is None or line.state is not SpendState.RESERVED or not isinstance(error, NOTHING_LEARNT):
        return
    ledger.void(tx, line.line, cards.clock())
    cards.log.append(
        tx,
        action="void",
        actor=cards.controller,
        resource=line.resource,
        details={"line": str(line.line), "reason": error.reason},
        now=cards.clock(),
    )
