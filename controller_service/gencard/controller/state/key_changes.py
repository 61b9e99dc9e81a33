"""Changes of the controller's signing keys, one after the other for each use."""

from sqlalchemy import Connection, insert, select

from gencard.controller.state.tables import key_changes


def add_change(tx: Connection, use: str, number: int, envelope: bytes) -> None:
    """Keep one more change; the database refuses a number that is taken."""
    tx.execute(insert(key_changes).values(use=use, number=number, envelope=envelope))


def newest_change(tx: Connection, use: str) -> bytes | None:
    """The envelope of the last change, or None where the first key is in force."""
    query = select(key_changes.c.envelope).where(key_changes.c.use == use)
    found = tx.execute(query.order_by(key_changes.c.number.desc()).limit(1)).scalar_one_or_none()
    return None if found is None else bytes(found)


def all_changes(tx: Connection) -> list[bytes]:
    """All envelopes, by use, each use oldest first."""
    query = select(key_changes.c.envelope).order_by(key_changes.c.use, key_changes.c.number)
    return [bytes(envelope) for envelope in tx.execute(query).scalars()]
