"""State of stewards: first decisions that wait for a second one, and notifications.

A first decision that has expired reads as none. ``announced`` holds a digest of each thing that waits
and was announced; ``messages`` one row for each message and channel, of which the oldest is sent first.
A message that was tried once never changes, so that a receiver can drop it as known by its name if the
answer to the first try was lost.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from gencard.controller.state.database import find_one
from gencard.controller.state.tables import announced, first_decisions, messages
from gencard.wire.steward import FirstDecision

LIFE = timedelta(days=14)
"""Time for which a first decision waits."""


@dataclass(frozen=True, slots=True)
class StoredDecision(FirstDecision):
    """A first decision with what tells stewards apart.

    Args:
        keys: Fingerprints of the keys that the steward had; of a local steward the account.
    """

    keys: tuple[str, ...] = ()


_COLUMNS = [column for column in first_decisions.columns if column.name != "number"]
_FIELDS = {"actor": "by", "created": "time"}
"""Fields of columns that have another name."""


def add_first_decision(tx: Connection, first: StoredDecision) -> None:
    """Keep one, in the place of an older one on the same action; it expires ``LIFE`` after its time."""
    tx.execute(delete(first_decisions).where(first_decisions.c.digest == first.digest))
    row = {column.name: getattr(first, _FIELDS.get(column.name, column.name)) for column in _COLUMNS}
    row |= {"arguments": json.dumps(dict(first.arguments)).encode(), "keys": json.dumps(first.keys)}
    tx.execute(insert(first_decisions).values(row))


def find_first_decision(tx: Connection, digest: str, now: datetime) -> StoredDecision | None:
    """Return the first decision on an action, if one waits."""
    query = select(first_decisions).where(first_decisions.c.digest == digest, _waits(now))
    return find_one(tx, query, _first_of)


def waiting_first_decisions(
    tx: Connection, now: datetime, resources: Collection[str] | None = None
) -> tuple[StoredDecision, ...]:
    """Return first decisions on some resources, or all, oldest first."""
    query = select(first_decisions).where(_waits(now)).order_by(first_decisions.c.number)
    if resources is not None:
        query = query.where(first_decisions.c.resource.in_(sorted(resources)))
    return tuple(map(_first_of, tx.execute(query).mappings()))


def forget_first_decisions(tx: Connection, resource: str, now: datetime) -> None:
    """Drop first decisions on a resource, which was decided, and all that have expired."""
    mine = first_decisions.c.resource == resource
    tx.execute(delete(first_decisions).where(mine | ~_waits(now)))


def forget_first_decisions_of(tx: Connection, actor: str) -> None:
    """Drop all of one steward."""
    tx.execute(delete(first_decisions).where(first_decisions.c.actor == actor))


def forget_all_first_decisions(tx: Connection) -> None:
    """Drop all of all stewards."""
    tx.execute(delete(first_decisions))


def _waits(now: datetime) -> Any:
    return first_decisions.c.created > now - LIFE


def _first_of(row: Mapping[Any, Any]) -> StoredDecision:
    values = {_FIELDS.get(column.name, column.name): row[column.name] for column in _COLUMNS}
    values["arguments"] = json.loads(bytes(row["arguments"]))
    values["keys"] = tuple(json.loads(row["keys"]))
    return StoredDecision(**values, expires=row["created"] + LIFE)


class MessageState(StrEnum):
    """WAITING -> SENT | LOST: the receiver is gone, or did not take it for two days."""

    WAITING = "waiting"
    SENT = "sent"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One message for one channel.

    Args:
        name: Random; receivers know a repeated message by it.
        kinds: Sorted kinds of waiting items, the message's only content.
        tries: That have failed.
    """

    name: str
    channel: str
    kinds: tuple[str, ...]
    tries: int
    due: datetime
    created: datetime


def announced_digests(tx: Connection) -> frozenset[str]:
    """Digests of what was announced and, when last looked, still waited."""
    return frozenset(tx.execute(select(announced.c.digest)).scalars())


def remember_announced(tx: Connection, digests: Collection[str]) -> None:
    """From now on these have been announced, and nothing else."""
    before = announced_digests(tx)
    for digest in sorted(before.difference(digests)):
        tx.execute(delete(announced).where(announced.c.digest == digest))
    if fresh := sorted(set(digests).difference(before)):
        tx.execute(insert(announced), [{"digest": digest} for digest in fresh])


def add_message(tx: Connection, name: str, channel: str, kinds: Collection[str], now: datetime) -> None:
    """Queue a message in its channel, or merge its kinds into a message that was never tried."""
    untried = _waiting(channel).where(messages.c.tries == 0)
    row = tx.execute(untried.order_by(messages.c.number.desc()).limit(1)).mappings().first()
    if row is not None:
        text = _text({*kinds, *json.loads(row["kinds"])})
        tx.execute(update(messages).where(messages.c.name == row["name"]).values(kinds=text))
        return
    message = {"name": name, "channel": channel, "kinds": _text(kinds), "state": MessageState.WAITING}
    tx.execute(insert(messages).values(message | {"tries": 0, "due": now, "created": now}))


def next_message(tx: Connection, channel: str) -> MessageRow | None:
    """Return the oldest that a channel has not sent, whether or not it is due."""
    row = tx.execute(_waiting(channel).order_by(messages.c.number).limit(1)).mappings().first()
    if row is None:
        return None
    values = {name: row[name] for name in ("name", "channel", "tries", "due", "created")}
    return MessageRow(**values, kinds=tuple(json.loads(row["kinds"])))


def newest_message_time(tx: Connection) -> datetime | None:
    """Return the time of the newest message."""
    newest: datetime | None = tx.execute(select(func.max(messages.c.created))).scalar()
    return newest


def begin_try(tx: Connection, name: str, again: datetime) -> None:
    """Before a try, so that a crash in it neither changes the message nor repeats it at once."""
    row = messages.c.name == name
    tx.execute(update(messages).where(row).values(tries=messages.c.tries + 1, due=again))


def end_message(tx: Connection, name: str, state: MessageState) -> None:
    """Set the end state of a message: sent or lost."""
    tx.execute(update(messages).where(messages.c.name == name).values(state=state))


def forget_messages(tx: Connection, now: datetime, days: int = 30) -> None:
    """Delete messages that ended long ago."""
    has_ended = messages.c.state != MessageState.WAITING
    tx.execute(delete(messages).where(has_ended, messages.c.created < now - timedelta(days=days)))


def _waiting(channel: str) -> Any:
    mine = (messages.c.channel == channel, messages.c.state == MessageState.WAITING)
    return select(messages).where(*mine)


def _text(kinds: Collection[str]) -> str:
    return json.dumps(sorted(set(kinds)))
