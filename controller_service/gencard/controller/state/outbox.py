"""Word to stewards that is to be sent: what was told already, and messages on their way.

``told`` holds a digest of each thing that waits and was told; ``messages`` one row for each message
and channel. A message that was tried once never changes, so that a receiver can drop it as known by
its name where the answer to the first try was lost.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Integer,
    String,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    update,
)

from gencard.controller.state.tables import SERIAL, Instant, metadata

announced = Table("announced", metadata, Column("digest", String(64), primary_key=True))

messages = Table(
    "messages",
    metadata,
    Column("number", SERIAL, primary_key=True, autoincrement=True),
    Column("name", String(64), nullable=False, unique=True),
    Column("channel", String(20), nullable=False),
    Column("kinds", Text, nullable=False),
    Column("state", String(20), nullable=False),
    Column("tries", Integer, nullable=False),
    Column("due", Instant, nullable=False),
    Column("created", Instant, nullable=False),
    sqlite_autoincrement=True,
)


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
        kinds: Of what waits, sorted; all that the message says.
        tries: That have failed.
        due: When it is to be tried, at the earliest.
    """

    name: str
    channel: str
    kinds: tuple[str, ...]
    tries: int
    due: datetime
    created: datetime


class Outbox:
    """Messages of all channels; of each channel the oldest is sent first."""

    def announced(self, tx: Connection) -> frozenset[str]:
        """Digests of what was announced and, when last looked, still waited."""
        return frozenset(tx.execute(select(announced.c.digest)).scalars())

    def remember(self, tx: Connection, digests: Collection[str]) -> None:
        """From now on these have been announced, and nothing else."""
        before = self.announced(tx)
        for digest in sorted(before.difference(digests)):
            tx.execute(delete(announced).where(announced.c.digest == digest))
        if fresh := sorted(set(digests).difference(before)):
            tx.execute(insert(announced), [{"digest": digest} for digest in fresh])

    def add(
        self, tx: Connection, name: str, channel: str, kinds: Collection[str], now: datetime
    ) -> None:
        """Put a message behind those of its channel, or its kinds into one that was never tried."""
        untried = self._waiting(channel).where(messages.c.tries == 0)
        row = tx.execute(untried.order_by(messages.c.number.desc()).limit(1)).mappings().first()
        if row is not None:
            text = _text({*kinds, *json.loads(row["kinds"])})
            tx.execute(update(messages).where(messages.c.name == row["name"]).values(kinds=text))
            return
        tx.execute(
            insert(messages).values(
                name=name,
                channel=channel,
                kinds=_text(kinds),
                state=MessageState.WAITING,
                tries=0,
                due=now,
                created=now,
            )
        )

    def next(self, tx: Connection, channel: str) -> MessageRow | None:
        """The oldest that a channel has not sent, whether or not it is due."""
        row = tx.execute(self._waiting(channel).order_by(messages.c.number).limit(1)).mappings().first()
        return None if row is None else _row_of(row)

    def newest(self, tx: Connection) -> datetime | None:
        """When the newest message was made."""
        newest: datetime | None = tx.execute(select(func.max(messages.c.created))).scalar()
        return newest

    def try_begins(self, tx: Connection, name: str, again: datetime) -> None:
        """Before a try, so that a crash in it neither changes the message nor repeats it at once."""
        row = messages.c.name == name
        tx.execute(update(messages).where(row).values(tries=messages.c.tries + 1, due=again))

    def end(self, tx: Connection, name: str, state: MessageState) -> None:
        """The message is sent or lost."""
        tx.execute(update(messages).where(messages.c.name == name).values(state=state))

    def forget(self, tx: Connection, now: datetime, days: int = 30) -> None:
        """Delete messages that ended long ago."""
        has_ended = messages.c.state != MessageState.WAITING
        tx.execute(delete(messages).where(has_ended, messages.c.created < now - timedelta(days=days)))

    def _waiting(self, channel: str) -> Any:
        mine = (messages.c.channel == channel, messages.c.state == MessageState.WAITING)
        return select(messages).where(*mine)


def _text(kinds: Collection[str]) -> str:
    return json.dumps(sorted(set(kinds)))


def _row_of(row: Mapping[Any, Any]) -> MessageRow:
    values = {name: row[name] for name in ("name", "channel", "tries", "due", "created")}
    return MessageRow(**values, kinds=tuple(json.loads(row["kinds"])))
