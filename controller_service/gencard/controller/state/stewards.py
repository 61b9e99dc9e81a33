"""State of stewards: passkeys, first decisions that wait for a second one, and notifications.

A first decision that has expired reads as none. ``announced`` holds a digest of each thing that waits
and was announced; ``messages`` one row for each message and channel, of which the oldest is sent first.
A message that was tried once never changes, so that a receiver can drop it as known by its name if the
answer to the first try was lost.
"""

import json
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from gencard.controller.state.database import Database, find_one
from gencard.controller.state.log import EventLog
from gencard.controller.state.tables import announced, first_decisions, messages, passkey_links, passkeys
from gencard.core.errors import InvalidInputError, NotFoundError, UnauthenticatedError
from gencard.wire.canonical import sha256
from gencard.wire.steward import FirstDecision

# Passkeys of stewards in the state: enrolled by a link that works once, used, removed; all in the log.
#
# The state holds public keys and digests alone: a reader of the state can neither sign in nor enrol a
# passkey.


LINK_LIFE = timedelta(minutes=15)
MOST_OF_ONE = 8
"""Passkeys of one steward."""


@dataclass(frozen=True, slots=True)
class Passkey:
    """A steward's passkey.

    Args:
        key: SHA-256, in hex, of the credential's id: its name in the log.
        credential: The id that the authenticator gave.
        public_key: COSE bytes.
        uses: The authenticator's counter at the last use; 0 for one that does not count.
    """

    key: str
    holder: str
    credential: bytes
    public_key: bytes
    uses: int
    created: datetime
    used: datetime | None = None


@dataclass(frozen=True, slots=True)
class Passkeys:
    """All passkeys, and the links by which they are enrolled."""

    database: Database
    log: EventLog
    clock: Callable[[], datetime]

    def new_link(self, holder: str, actor: str) -> str:
        """Return the secret of a new link for a steward; valid once, for ``LINK_LIFE``."""
        token = secrets.token_urlsafe(32)
        with self.database.transaction() as tx:
            now = self.clock()
            tx.execute(delete(passkey_links).where(passkey_links.c.ends < now))
            row = {"digest": sha256(token.encode()), "holder": holder, "ends": now + LINK_LIFE}
            tx.execute(insert(passkey_links).values(**row))
            self._note(tx, "passkey-link", actor, holder)
        return token

    def holder_of_link(self, token: str) -> str:
        """Return the steward whom a link enrols; raises UnauthenticatedError if it is not valid."""
        with self.database.reading() as tx:
            return self._open_link(tx, token)

    def add(self, token: str, credential: bytes, public_key: bytes, uses: int) -> Passkey:
        """Keep the passkey of a link, which works once; UnauthenticatedError or InvalidInputError."""
        with self.database.transaction() as tx:
            holder, now = self._open_link(tx, token), self.clock()
            passkey = Passkey(sha256(credential), holder, credential, public_key, uses, now)
            if self._named(tx, passkey.key) or len(_of(tx, holder)) >= MOST_OF_ONE:
                problem = f"is enrolled already, or the steward has {MOST_OF_ONE} passkeys"
                raise InvalidInputError(field="passkey", problem=problem)
            statement = update(passkey_links).where(passkey_links.c.digest == sha256(token.encode()))
            tx.execute(statement.values(used=now))
            tx.execute(insert(passkeys).values(asdict(passkey)))
            self._note(tx, "add-passkey", holder, holder, key=passkey.key)
        return passkey

    def named(self, key: str) -> Passkey:
        """Raises UnauthenticatedError if no such passkey is enrolled."""
        with self.database.reading() as tx:
            passkey = self._named(tx, key)
        if passkey is None:
            raise UnauthenticatedError
        return passkey

    def is_kept(self, key: str) -> bool:
        """Whether the passkey is still enrolled."""
        with self.database.reading() as tx:
            return self._named(tx, key) is not None

    def are_kept(self, tx: Connection, keys: Iterable[str]) -> bool:
        """Whether all these passkeys are still enrolled."""
        return all(self._named(tx, key) is not None for key in keys)

    def of(self, holder: str) -> list[Passkey]:
        """Return all of a steward, oldest first."""
        with self.database.reading() as tx:
            return _of(tx, holder)

    def note_use(self, passkey: Passkey, uses: int, action: str = "") -> None:
        """Keep the counter, and log ``action`` if given; UnauthenticatedError after another use."""
        with self.database.transaction() as tx:
            same = (passkeys.c.key == passkey.key) & (passkeys.c.uses == passkey.uses)
            statement = update(passkeys).where(same).values(uses=uses, used=self.clock())
            if tx.execute(statement).rowcount != 1:
                raise UnauthenticatedError
            if action:
                self._note(tx, action, passkey.holder, passkey.holder, key=passkey.key)

    def remove(self, holder: str, actor: str, key: str = "") -> int:
        """Remove passkeys by the beginning of their keys, and their sessions; raises NotFoundError."""
        with self.database.transaction() as tx:
            passkeys_of_key = [passkey for passkey in _of(tx, holder) if passkey.key.startswith(key)]
            if not passkeys_of_key:
                raise NotFoundError
            self._take_off(tx, passkeys_of_key, actor)
        return len(passkeys_of_key)

    def forget(self, tx: Connection, holder: str, actor: str) -> None:
        """Remove all passkeys and open links of a person, as part of a larger change."""
        tx.execute(delete(passkey_links).where(passkey_links.c.holder == holder))
        self._take_off(tx, _of(tx, holder), actor)

    def forget_all(self, tx: Connection, actor: str) -> None:
        """Take all passkeys and links of all stewards off, as part of a larger change."""
        tx.execute(delete(passkey_links))
        for holder in sorted(tx.execute(select(passkeys.c.holder).distinct()).scalars()):
            self._take_off(tx, _of(tx, holder), actor)

    def _take_off(self, tx: Connection, removed: list[Passkey], actor: str) -> None:
        for passkey in removed:
            tx.execute(delete(passkeys).where(passkeys.c.key == passkey.key))
            self._note(tx, "remove-passkey", actor, passkey.holder, key=passkey.key)

    def _note(self, tx: Connection, action: str, actor: str, holder: str, **details: str) -> None:
        name = f"people/{holder.rpartition('/')[2]}"
        now = self.clock()
        self.log.append(tx, action=action, actor=actor, resource=name, details=details, now=now)

    def _open_link(self, tx: Connection, token: str) -> str:
        query = select(passkey_links).where(passkey_links.c.digest == sha256(token.encode()))
        row = tx.execute(query).mappings().one_or_none()
        if row is None or row["used"] is not None or row["ends"] < self.clock():
            raise UnauthenticatedError
        return str(row["holder"])

    @staticmethod
    def _named(tx: Connection, key: str) -> Passkey | None:
        return find_one(tx, select(passkeys).where(passkeys.c.key == key), lambda row: Passkey(**row))


def _of(tx: Connection, holder: str) -> list[Passkey]:
    query = select(passkeys).where(passkeys.c.holder == holder).order_by(passkeys.c.created)
    return [Passkey(**row) for row in tx.execute(query).mappings()]


# First decisions and notifications.


LIFE = timedelta(days=14)
"""Time for which a first decision waits."""


@dataclass(frozen=True, slots=True)
class StoredDecision(FirstDecision):
    """A first decision with fingerprints of its steward's keys; of a local steward the account."""

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
    """Drop all first decisions of one steward."""
    tx.execute(delete(first_decisions).where(first_decisions.c.actor == actor))


def forget_all_first_decisions(tx: Connection) -> None:
    """Drop all first decisions of all stewards."""
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
        tries: Number of failed tries.
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
        text = json.dumps(sorted({*kinds, *json.loads(row["kinds"])}))
        tx.execute(update(messages).where(messages.c.name == row["name"]).values(kinds=text))
        return
    waiting = {"state": MessageState.WAITING, "tries": 0, "due": now, "created": now}
    message = insert(messages).values(name=name, channel=channel, **waiting)
    tx.execute(message.values(kinds=json.dumps(sorted(set(kinds)))))


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


def forget_messages(tx: Connection, now: datetime) -> None:
    """Delete messages that ended and are older than 30 days."""
    has_ended = messages.c.state != MessageState.WAITING
    tx.execute(delete(messages).where(has_ended, messages.c.created < now - timedelta(days=30)))


def _waiting(channel: str) -> Any:
    mine = (messages.c.channel == channel, messages.c.state == MessageState.WAITING)
    return select(messages).where(*mine)
