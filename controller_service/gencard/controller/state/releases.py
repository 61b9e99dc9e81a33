"""What was made of cards, never changed afterwards: psi, releases and evaluations."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, insert, select

from gencard.controller.state.database import Page, insert_if_absent, only, page_of
from gencard.controller.state.tables import cards, measures, psis, releases
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
            raise NotFoundError(what="release")
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
        self,
        tx: Connection,
        *,
        card: str | None = None,
        dataset: str | None = None,
        before: str = "",
        limit: int = 50,
    ) -> Page[ReleaseRow]:
        """Releases, newest first, of one card, of one dataset, or all."""
        query = only(select(releases), (releases.c.card, card))
        if dataset is not None:
            query = query.where(releases.c.card.startswith(f"{dataset}/", autoescape=True))
        return page_of(tx, query, releases.c.number, _row_of, before=before, limit=limit)


def _row_of(row: Mapping[Any, Any]) -> ReleaseRow:
    return ReleaseRow(**{name: value for name, value in row.items() if name != "number"})


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
            raise NotFoundError(what="psi of this card")
        return row


@dataclass(frozen=True, slots=True)
class EvaluationRow:
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


class EvaluationStore:
    """Measures of cards."""

    def insert(self, tx: Connection, row: EvaluationRow) -> None:
        """Raises StorageError, at the end of the transaction's block, where the name is taken."""
        tx.execute(insert(measures).values(asdict(row)))

    def get(self, tx: Connection, name: str) -> EvaluationRow:
        """Raises NotFoundError where there is no such measure."""
        row = tx.execute(select(measures).where(measures.c.name == name)).mappings().one_or_none()
        if row is None:
            raise NotFoundError(what="evaluation")
        return _evaluation_row(row)

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
    ) -> Page[EvaluationRow]:
        """Measures of a card, newest first: those of some names, or all."""
        query = select(measures).where(measures.c.card == card)
        if among is not None:
            query = query.where(measures.c.measure.in_(tuple(among)))
        return page_of(tx, query, measures.c.number, _evaluation_row, before=before, limit=limit)


def _evaluation_row(row: Mapping[Any, Any]) -> EvaluationRow:
    values = {name: value for name, value in row.items() if name != "number"}
    return EvaluationRow(**values | {"document": bytes(row["document"])})
