"""Releases: rows that were drawn, and the receipt of what they were made from."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, insert, select

from gencard.controller.state.paging import Page, page_of
from gencard.controller.state.tables import cards, releases
from gencard.core.errors import NotFoundError


@dataclass(frozen=True, slots=True)
class ReleaseRow:
    """A release as stored.

    Args:
        name: datasets/{dataset}/cards/{card}/releases/{release}.
        rows: Number of rows, in records.
        size: Of the rows, in bytes, as it counts against the analyst's quota.
        digest: SHA-256, in hex, of the rows; ``psi_digest`` of what they were drawn from.
        receipt: The signed receipt: a DSSE envelope.
        file_name: Where the rows are, inside the folder of releases.
    """

    name: str
    card: str
    rows: int
    size: int
    seed: int
    digest: str
    psi_digest: str
    receipt: bytes
    file_name: str
    created: datetime


class ReleaseStore:
    """Releases; never changed."""

    def insert(self, tx: Connection, release: ReleaseRow) -> None:
        """Raises StorageError, at the end of the transaction's block, where the name is taken."""
        tx.execute(insert(releases).values(**asdict(release)))

    def get(self, tx: Connection, name: str) -> ReleaseRow:
        """Raises NotFoundError where there is no such release."""
        row = tx.execute(select(releases).where(releases.c.name == name)).mappings().one_or_none()
        if row is None:
            raise NotFoundError()
        return _row_of(row)

    def all(self, tx: Connection) -> Iterator[ReleaseRow]:
        """Every release, oldest first."""
        query = select(releases).order_by(releases.c.number)
        return map(_row_of, tx.execute(query).mappings().all())

    def held(self, tx: Connection, card: str) -> tuple[int, int]:
        """How many releases a card has, and how many rows in all of them."""
        query = select(func.count(), func.coalesce(func.sum(releases.c.rows), 0))
        number, rows = tx.execute(query.where(releases.c.card == card)).one()
        return int(number), int(rows)

    def held_by(self, tx: Connection, analyst: str) -> tuple[int, int]:
        """How many releases one analyst's cards have, and the bytes of all of them."""
        query = select(func.count(), func.coalesce(func.sum(releases.c.size), 0))
        query = query.select_from(releases.join(cards, cards.c.name == releases.c.card))
        number, size = tx.execute(query.where(cards.c.analyst == analyst)).one()
        return int(number), int(size)

    def list(
        self, tx: Connection, *, card: str | None = None, before: str = "", limit: int = 50
    ) -> Page[ReleaseRow]:
        """Releases, newest first, of one card or all."""
        query = select(releases)
        if card is not None:
            query = query.where(releases.c.card == card)
        return page_of(tx, query, releases.c.number, _row_of, before=before, limit=limit)


def _row_of(row: Mapping[Any, Any]) -> ReleaseRow:
    return ReleaseRow(**{name: value for name, value in row.items() if name != "number"})
