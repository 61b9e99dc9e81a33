"""First decisions: what one steward decided, until another one decides the same."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from gencard.controller.state.tables import first_decisions

LIFE = timedelta(days=14)
"""How long a first decision waits."""


@dataclass(frozen=True, slots=True)
class FirstDecision:
    """What one steward decided on.

    Args:
        digest: Of the action: what the second one has to agree on.
        arguments: Of the action, JSON.
        shown: SHA-256, in hex, of what the steward was shown.
        actor: URI.
        keys: Fingerprints of the keys that the steward had; of a local steward the account.
        created: It expires ``LIFE`` later.
    """

    digest: str
    kind: str
    resource: str
    arguments: Mapping[str, Any]
    shown: str
    reason: str
    actor: str
    keys: tuple[str, ...]
    created: datetime

    @property
    def expires(self) -> datetime:
        return self.created + LIFE


class FirstDecisions:
    """All first decisions; those that have expired read as none."""

    def add(self, tx: Connection, first: FirstDecision) -> None:
        """Keep one, in the place of an older one on the same action."""
        tx.execute(delete(first_decisions).where(first_decisions.c.digest == first.digest))
        row = {name: getattr(first, name) for name in FirstDecision.__dataclass_fields__}
        documents = {
            "arguments": json.dumps(dict(first.arguments)).encode(),
            "keys": json.dumps(first.keys),
        }
        tx.execute(insert(first_decisions).values(row | documents))

    def of_digest(self, tx: Connection, digest: str, now: datetime) -> FirstDecision | None:
        """The first decision on an action, where one waits."""
        query = select(first_decisions).where(first_decisions.c.digest == digest, _waits(now))
        row = tx.execute(query).mappings().one_or_none()
        return None if row is None else _first_of(row)

    def waiting(
        self, tx: Connection, now: datetime, resources: Collection[str] | None = None
    ) -> tuple[FirstDecision, ...]:
        """Those on some resources, or all, oldest first."""
        query = select(first_decisions).where(_waits(now)).order_by(first_decisions.c.number)
        if resources is not None:
            query = query.where(first_decisions.c.resource.in_(sorted(resources)))
        return tuple(map(_first_of, tx.execute(query).mappings()))

    def forget(self, tx: Connection, resource: str, now: datetime) -> None:
        """Drop those on a resource, which was decided on, and all that have expired."""
        mine = first_decisions.c.resource == resource
        tx.execute(delete(first_decisions).where(mine | ~_waits(now)))

    def forget_actor(self, tx: Connection, actor: str) -> None:
        """Drop all of one steward."""
        tx.execute(delete(first_decisions).where(first_decisions.c.actor == actor))

    def forget_all(self, tx: Connection) -> None:
        """Drop all of all stewards."""
        tx.execute(delete(first_decisions))


def _waits(now: datetime) -> Any:
    return first_decisions.c.created > now - LIFE


def _first_of(row: Mapping[Any, Any]) -> FirstDecision:
    values = {name: value for name, value in row.items() if name != "number"}
    documents = {
        "arguments": json.loads(bytes(row["arguments"])),
        "keys": tuple(json.loads(row["keys"])),
    }
    return FirstDecision(**values | documents)
