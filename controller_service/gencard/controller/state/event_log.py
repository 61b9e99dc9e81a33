"""The log: append-only, hash-chained, signed as a whole by Merkle checkpoints.

Beside it stand the two registers whose changes it records: signing keys, and the rules read last.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import Connection, bindparam, delete, func, insert, select

from gencard.controller.state.database import Database
from gencard.controller.state.events import CORRECTION, FIRST, Entry, Event, event_of
from gencard.controller.state.tables import checkpoints, events, key_changes, log_nodes, rules
from gencard.core.errors import InvalidInputError, InvalidNumberError, NotLeadingError, StorageError
from gencard.wire.log import merkle
from gencard.wire.signatures import dsse
from gencard.wire.signatures.canonical import time_text
from gencard.wire.signatures.dsse import CHECKPOINT, statement

Clock = Callable[[], datetime]


class EventLog:
    """Appends entries, proves what is in the log, and signs checkpoints with a key of its own.

    Args:
        signing_key: The key of checkpoints, as of a transaction.
        machine: Clock of this machine, by which an entry says that the clock is behind the log; by
            default the time that the caller of ``append`` gives.
    """

    def __init__(
        self,
        signing_key: Callable[[Connection], Ed25519PrivateKey],
        machine: Clock | None = None,
    ) -> None:
        self._signing_key, self._machine = signing_key, machine
        self.newest: datetime | None = None
        """Time of the entry that this process appended last; None if it appended none."""

    def append(
        self,
        tx: Connection,
        *,
        action: str,
        actor: str,
        resource: str,
        details: Mapping[str, str],
        now: datetime,
    ) -> Event:
        """Write a decision down, in the transaction that also makes it true.

        A clock that went back does not take the log's time back: the entry bears the time of the one in
        front and says in ``clock_behind_seconds`` how far behind the clock was.

        Raises:
            InvalidInputError: A detail is not one that the log takes.
        """
        last = self.last(tx)
        reading = (self._machine() if self._machine else now).replace(microsecond=0)
        now = now.replace(microsecond=0)
        # the order of entries is the order of decisions, which a clock set back must not change
        if last is not None and now < last.time:
            now = last.time
        # Times judged by the log are never behind it, so only the machine's clock shows that it is. A
        # second that begins between the caller's reading and this one is no clock set back: entries
        # of two refusals would differ by how long their decisions took.
        if (behind := int((now - reading).total_seconds())) > 0:
            details = {**details, "clock_behind_seconds": str(behind)}
        return self._added(tx, last, Event(0, now, action, actor, resource, details, FIRST))

    def correct(self, tx: Connection, *, actor: str, details: Mapping[str, str], now: datetime) -> Event:
        """Append the one entry that may be earlier than the entry in front of it.

        The way out after a clock that was ahead: from this entry on, the machine's clock counts again.

        Args:
            now: Time by the machine's clock.

        Raises:
            InvalidInputError: The newest entry is not later than the clock.
        """
        last, now = self.last(tx), now.replace(microsecond=0)
        if last is None or last.time <= now:
            problem = "is not ahead of this machine's clock, so there is nothing to correct"
            raise InvalidInputError(field="the newest log entry", problem=problem)
        details = {**details, "before": time_text(last.time)}
        return self._added(tx, last, Event(0, now, CORRECTION, actor, "log", details, FIRST))

    def _added(self, tx: Connection, last: Event | None, event: Event) -> Event:
        """Store an event behind the last one."""
        index, previous = (0, FIRST) if last is None else (last.index + 1, last.leaf)
        event = replace(event, index=index, previous=previous)
        _store(tx, event)
        self.newest = event.time
        return event

    def size(self, tx: Connection) -> int:
        """Number of entries."""
        last = tx.execute(select(func.max(events.c.index))).scalar_one()
        return 0 if last is None else int(last) + 1

    def checkpoint(self, tx: Connection, now: datetime) -> bytes:
        """The signed root of the log as it stands: a DSSE envelope over ``{"root", "size", "time"}``.

        A log that has not grown keeps the checkpoint it has.
        """
        size = self.size(tx)
        envelope = _checkpoint_of(tx, size)
        # one size, one signature: two checkpoints of one size would look like a forked log
        if envelope is None:
            root = merkle.root(_node_of(tx), size)
            envelope = signed_checkpoint(self._signing_key(tx), root, size, now)
            tx.execute(insert(checkpoints).values(size=size, envelope=envelope))
        return envelope

    def current_checkpoint(self, tx: Connection) -> bytes | None:
        """The checkpoint of the log as it stands; None where it has grown since the last one."""
        return _checkpoint_of(tx, self.size(tx))

    def entry(self, tx: Connection, index: int) -> bytes:
        """The bytes of one entry, as they are hashed.

        Raises:
            InvalidNumberError: The log has no such entry.
        """
        body = None
        if 0 <= index < 1 << 63:  # another number would be an error of the database
            query = select(events.c.body).where(events.c.index == index)
            body = tx.execute(query).scalar_one_or_none()
        if body is None:
            raise InvalidNumberError(field="index", expected="the number of an entry of the log")
        return bytes(body)

    def inclusion(self, tx: Connection, index: int, size: int) -> tuple[bytes, list[bytes]]:
        """Leaf hash of an entry, and the path from it to the root of the first ``size`` entries.

        Raises:
            InvalidNumberError: The log is not so long, or the entry not inside that size.
        """
        self._refuse_beyond(tx, size)
        path = merkle.inclusion_path(_node_of(tx), index, size)
        return _node_of(tx)(0, index), path

    def consistency(self, tx: Connection, old_size: int, new_size: int) -> list[bytes]:
        """Hashes that show the log of the newer size to continue that of the older.

        Raises:
            InvalidNumberError: The log is not so long, or the sizes are not in order.
        """
        self._refuse_beyond(tx, new_size)
        return merkle.consistency_path(_node_of(tx), old_size, new_size)

    def entries(self, tx: Connection) -> Iterator[Entry]:
        """Everything, oldest first, as it is stored."""
        query = select(events.c.body, events.c.leaf).order_by(events.c.index)
        for body, leaf in tx.execute(query, execution_options={"yield_per": 1000}):
            yield Entry(bytes(body), bytes(leaf))

    def checkpoints(self, tx: Connection) -> list[bytes]:
        """All checkpoints, oldest first."""
        query = select(checkpoints.c.envelope).order_by(checkpoints.c.size)
        return [bytes(envelope) for envelope in tx.execute(query).scalars()]

    def _refuse_beyond(self, tx: Connection, size: int) -> None:
        if size > (present := self.size(tx)):
            raise InvalidNumberError(field="size", expected=f"at most {present}")

    @staticmethod
    def last(tx: Connection) -> Event | None:
        """The newest entry; None in an empty log."""
        body = tx.execute(_NEWEST).scalar_one_or_none()
        return None if body is None else event_of(bytes(body))


def ahead_of(tx: Connection, now: datetime) -> Event | None:
    """Return the newest entry if it lies ahead of a clock's time by more than ``AHEAD``."""
    last = EventLog.last(tx)
    return last if last is not None and last.time > now + AHEAD else None


AHEAD = timedelta(seconds=5)
"""Smaller differences are usual between the clocks of machines that share a state."""

_FRESH_SECONDS = 1.0


@dataclass(slots=True)
class LogClock:
    """Time by which everything ends: the later of the machine's clock and of the newest log entry.

    Cards, offers, links, sessions, request ids and quotas are judged by it, so a clock that is set back
    revives nothing that had ended when the log was last written to. Certificates are issued by the
    machine's clock alone: TLS judges them by the clocks of other machines.

    Entries of this process count at once, entries of other processes after a second at most.
    """

    machine: Clock
    database: Database
    log: EventLog
    _read: float = field(default=float("-inf"), init=False)
    _turn: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __call__(self) -> datetime:
        # one thread reads and the others go on: threads inside a transaction, each waiting for a second
        # connection, could otherwise use up the pool and wait for each other
        if time.monotonic() - self._read > _FRESH_SECONDS and self._turn.acquire(blocking=False):
            try:
                self._refresh()
            finally:
                self._turn.release()
        now, newest = self.machine(), self.log.newest
        return now if newest is None else max(now, newest)

    def _refresh(self) -> None:
        # without the database the entries seen before go on counting
        with suppress(StorageError, NotLeadingError), self.database.reading() as tx:
            last = EventLog.last(tx)
            self.log.newest = None if last is None else last.time
        self._read = time.monotonic()


# Every decision asks for these: to put one together takes as long as to run it.
_NEWEST = select(events.c.body).order_by(events.c.index.desc()).limit(1)
_LEAF = select(events.c.leaf).where(events.c.index == bindparam("position"))
_NODE = select(log_nodes.c.hash).where(
    log_nodes.c.level == bindparam("level"), log_nodes.c.position == bindparam("position")
)


def _checkpoint_of(tx: Connection, size: int) -> bytes | None:
    known = select(checkpoints.c.envelope).where(checkpoints.c.size == size)
    envelope = tx.execute(known).scalar_one_or_none()
    return None if envelope is None else bytes(envelope)


def signed_checkpoint(key: Ed25519PrivateKey, root: bytes, size: int, now: datetime) -> bytes:
    """The envelope over the root of the first ``size`` entries."""
    facts = {"root": root.hex(), "size": str(size), "time": time_text(now)}
    return dsse.sign(statement(CHECKPOINT, "log", facts, root.hex()), [key])


def _store(tx: Connection, event: Event) -> None:
    """The entry, and the nodes of the tree that it completes: one for each trailing 1 of its index."""
    node, body = _node_of(tx), event.body
    level, position, digest = 0, event.index, merkle.leaf_hash(body)
    tx.execute(insert(events).values(index=event.index, body=body, leaf=digest))
    while position & 1:
        digest = merkle.node_hash(node(level, position - 1), digest)
        level, position = level + 1, position >> 1
        tx.execute(insert(log_nodes).values(level=level, position=position, hash=digest))


def _node_of(tx: Connection) -> merkle.Node:
    """The stored nodes of the tree; level 0 are the leaves of the entries."""

    def node(level: int, position: int) -> bytes:
        place = {"level": level, "position": position}
        digest = tx.execute(_NODE if level else _LEAF, place).scalar_one_or_none()
        if digest is None:
            raise StorageError()
        return bytes(digest)

    return node


def add_change(tx: Connection, use: str, number: int, envelope: bytes) -> None:
    """Keep one more change; the database refuses a number that is taken."""
    tx.execute(insert(key_changes).values(use=use, number=number, envelope=envelope))


def newest_change(tx: Connection, use: str) -> bytes | None:
    """The envelope of the last change, or None where the first key is in force."""
    query = select(key_changes.c.envelope).where(key_changes.c.use == use)
    envelope = tx.execute(query.order_by(key_changes.c.number.desc()).limit(1)).scalar_one_or_none()
    return None if envelope is None else bytes(envelope)


def all_changes(tx: Connection) -> list[bytes]:
    """All envelopes, by use, each use oldest first."""
    query = select(key_changes.c.envelope).order_by(key_changes.c.use, key_changes.c.number)
    return [bytes(envelope) for envelope in tx.execute(query).scalars()]


def kept_rules(tx: Connection) -> dict[str, dict[str, str]]:
    """Fields and their texts, by resource; empty before the first start."""
    rows = tx.execute(select(rules.c.resource, rules.c.fields))
    return {resource: json.loads(fields) for resource, fields in rows}


def keep_rules(tx: Connection, new: Mapping[str, Mapping[str, str]]) -> None:
    """Put these in the place of the last ones."""
    tx.execute(delete(rules))
    if new:
        rows = [
            {"resource": resource, "fields": json.dumps(dict(fields))}
            for resource, fields in new.items()
        ]
        tx.execute(insert(rules), rows)
