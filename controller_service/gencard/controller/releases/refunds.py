"""Reservations that are given back, where an operation ended and nobody learnt anything from it."""

from collections.abc import Sequence

from sqlalchemy import Connection

from gencard.controller.cards.cards import Cards
from gencard.controller.state.ledger import Ledger
from gencard.core.card.budget import Spend, SpendState
from gencard.core.errors import (
    DatasetChangedError,
    DatasetUnavailableError,
    GencardError,
    NegotiationError,
    OperationCancelledError,
    StorageError,
)

UNSEEN = (OperationCancelledError, DatasetUnavailableError, DatasetChangedError, NegotiationError)
"""Ends of operations that were called off, or that did not come as far as the records."""

NOTHING_LEARNT = (*UNSEEN, StorageError)
"""Ends that depend on no record. After any other, a reservation stays until a steward has looked."""


def refund(
    tx: Connection,
    line: Spend | None,
    error: GencardError,
    *,
    ledger: Ledger,
    cards: Cards,
    before: Sequence[GencardError] = (),
) -> None:
    """Void a reservation, in the log too, where it is still held and no end tells anything.

    Args:
        error: How the operation ended.
        before: How earlier ones ended that the same line was to pay for.
    """
    silent = all(isinstance(end, NOTHING_LEARNT) for end in (error, *before))
    if line is None or line.state is not SpendState.RESERVED or not silent:
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
