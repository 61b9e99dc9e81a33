"""What was measured of releases, and for whom; never changed."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, select

from gencard.controller.state.paging import Page, page_of
from gencard.controller.state.tables import measures
from gencard.core.errors import NotFoundError


@dataclass(frozen=True, slots=True)
class MeasuresRow:
    """One run of measures as stored.

    Args:
        name: datasets/{dataset}/cards/{card}/releases/{release}/measures/{measures}.
        submitter: URI of the identity that asked.
        names: The measures that were taken.
        statistics: What it cost, in independent statistics.
        document: What was found, JSON; its numbers depend on records.
    """

    name: str
    card: str
    release: str
    submitter: str
    names: tuple[str, ...]
    statistics: int
    document: bytes
    created: datetime


class MeasuresStore:
    """Runs of measures."""

    def insert(self, tx: Connection, row: MeasuresRow) -> None:
        """Raises StorageError, at the end of the transaction's block, where the name is taken."""
        tx.execute(insert(measures).values(asdict(row) | {"names": json.dumps(row.names)}))

    def get(self, tx: Connection, name: str) -> MeasuresRow:
        """Raises NotFoundError where there is no such run."""
        row = tx.execute(select(measures).where(measures.c.name == name)).mappings().one_or_none()
        if row is None:
            raise NotFoundError()
        return _row_of(row)

    def list(
        self, tx: Connection, release: str, *, submitter: str | None, before: str = "", limit: int = 50
    ) -> Page[MeasuresRow]:
        """Runs on a release, newest first, of one submitter or all."""
        query = select(measures).where(measures.c.release == release)
        if submitter is not None:
            query = query.where(measures.c.submitter == submitter)
        return page_of(tx, query, measures.c.number, _row_of, before=before, limit=limit)


def _row_of(row: Mapping[Any, Any]) -> MeasuresRow:
    values = {name: value for name, value in row.items() if name != "number"}
    names, document = tuple(json.loads(row["names"])), bytes(row["document"])
    return MeasuresRow(**values | {"names": names, "document": document})
