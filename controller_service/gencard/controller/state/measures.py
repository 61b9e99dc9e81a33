"""What was measured of cards: each measure once, never changed."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, select

from gencard.controller.state.paging import Page, page_of
from gencard.controller.state.tables import measures
from gencard.core.errors import NotFoundError


@dataclass(frozen=True, slots=True)
class MeasureRow:
    """One measure of a card as stored.

    Args:
        name: datasets/{dataset}/cards/{card}/measures/{measure}.
        measure: Its name in the registry.
        submitter: URI of the identity that asked first.
        statistics: What it cost, in independent statistics.
        document: What was found, JSON; its numbers depend on records.
    """

    name: str
    card: str
    measure: str
    submitter: str
    statistics: int
    document: bytes
    created: datetime


class MeasureStore:
    """Measures of cards."""

    def insert(self, tx: Connection, row: MeasureRow) -> None:
        """Raises StorageError, at the end of the transaction's block, where the name is taken."""
        tx.execute(insert(measures).values(asdict(row)))

    def get(self, tx: Connection, name: str) -> MeasureRow:
        """Raises NotFoundError where there is no such measure."""
        row = tx.execute(select(measures).where(measures.c.name == name)).mappings().one_or_none()
        if row is None:
            raise NotFoundError()
        return _row_of(row)

    def taken(self, tx: Connection, card: str) -> frozenset[str]:
        """Names of the measures that were taken of a card."""
        return frozenset(tx.execute(select(measures.c.measure).where(measures.c.card == card)).scalars())

    def list(
        self,
        tx: Connection,
        card: str,
        *,
        among: Collection[str] | None,
        before: str = "",
        limit: int = 50,
    ) -> Page[MeasureRow]:
        """Measures of a card, newest first: those of some names, or all."""
        query = select(measures).where(measures.c.card == card)
        if among is not None:
            query = query.where(measures.c.measure.in_(tuple(among)))
        return page_of(tx, query, measures.c.number, _row_of, before=before, limit=limit)


def _row_of(row: Mapping[Any, Any]) -> MeasureRow:
    values = {name: value for name, value in row.items() if name != "number"}
    return MeasureRow(**values | {"document": bytes(row["document"])})
