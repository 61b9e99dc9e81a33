"""psi of each card: measured once, kept for good."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, select

from gencard.controller.state.tables import psis
from gencard.controller.state.upsert import insert_if_absent
from gencard.core.errors import NotFoundError


@dataclass(frozen=True, slots=True)
class PsiRow:
    """psi of a card: its RFC 8785 JSON bytes, and their SHA-256 in hex."""

    card: str
    digest: str
    document: bytes
    created: datetime


class PsiStore:
    """One psi for each card; the first to be stored stays."""

    def put(self, tx: Connection, card: str, document: bytes, digest: str, now: datetime) -> bool:
        """Whether this psi is now the card's; False where the card has one already, which stays."""
        row = {"card": card, "document": document, "digest": digest, "created": now}
        return insert_if_absent(tx, psis, row)

    def find(self, tx: Connection, card: str) -> PsiRow | None:
        """The card's psi, or None where it was not measured yet."""
        row = tx.execute(select(psis).where(psis.c.card == card)).mappings().one_or_none()
        return None if row is None else PsiRow(**{**row, "document": bytes(row["document"])})

    def get(self, tx: Connection, card: str) -> PsiRow:
        """Raises NotFoundError where psi was not measured yet."""
        row = self.find(tx, card)
        if row is None:
            raise NotFoundError()
        return row
