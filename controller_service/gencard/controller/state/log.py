"""The log: append-only, hash-chained, signed as a whole by Merkle checkpoints; and its check.

Beside it are the two registers whose changes it records: signing keys, and the rules read last. The
check trusts no keeper of the log, and names the first entry that is wrong. A pass does not prove that
nothing was cut off after the newest checkpoint at hand, nor that all readers were given the same log:
for that, compare checkpoints, each of which every newer one must continue.
"""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import Connection, bindparam, delete, func, insert, select

from gencard.controller.state.database import Database
from gencard.controller.state.tables import checkpoints, events, key_changes, log_nodes, rules
from gencard.core.errors import (
    InvalidInputError,
    InvalidNumberError,
    NotLeadingError,
    StorageError,
    VerificationError,
)
from gencard.wire import dsse
from gencard.wire import log as merkle
from gencard.wire.canonical import document_of, json_bytes, time_of, time_text
from gencard.wire.dsse import CHECKPOINT, DOCUMENT, predicate_of, statement
from gencard.wire.keys import KeyHistory
from gencard.wire.log import leaf_hash
from gencard.wire.steward import LogLine

DETAILS = frozenset(
    (
        *("account", "after", "alpha", "approved", "attempt", "author", "before", "black_box"),
        *("box_digest", "card_digest", "clock_behind_seconds", "columns", "data_digest", "digest"),
        *("emergency", "entries", "epsilon", "etag", "field", "first", "generator", "held_by"),
        *("incident", "key", "kind", "known_entries", "level", "line", "operation", "previous_key"),
        *("project", "psi_digest", "reason", "remark", "request_id", "rho", "role", "rows"),
        *("schema_digest", "seed", "settings", "settings_before", "shown", "software", "state"),
        *("statistics", "tries", "turn", "verdict", "verdict_digest", "version", "way"),
    )
)
"""Details of an entry besides actor, action, resource and time: no value, no count of records."""

CORRECTION = "correct-clock"
"""Action of the entry that sets the log back to the clock of the machine, after a clock was ahead."""

LONGEST_DETAIL = 200
FIRST = bytes(32)
"""Leaf hash in front of the first entry."""


@dataclass(frozen=True, slots=True)
class Event(LogLine):
    """A decision, in the log before its effect shows.

    Its time is before that of the entry in front only if the action is ``CORRECTION``.

    Args:
        details: Keys from ``DETAILS``.
        previous: Leaf hash of the entry in front: the chain.

    Raises:
        InvalidInputError: A detail's key is not in ``DETAILS``, or its value is not a short line.
    """

    previous: bytes

    def __post_init__(self) -> None:
        for key, value in self.details.items():
            if key not in DETAILS:
                raise InvalidInputError(field="details", problem="has a key that the log does not take")
            if len(value) > LONGEST_DETAIL or not value.isprintable():
                raise InvalidInputError(field=f"details.{key}", problem="is not a short printable line")

    @property
    def body(self) -> bytes:
        """RFC 8785 bytes of the entry: what the log stores and hashes."""
        return json_bytes(_EVENT.write(self))


_EVENT = DOCUMENT.codec(Event)


def event_of(body: bytes) -> Event:
    """Return the entry that some bytes are; raises VerificationError."""
    try:
        document = document_of(body, "entry", compared=True)
        index, when = int(document["index"]), time_of(document["time"])
        action, actor, resource = (document[name] for name in ("action", "actor", "resource"))
        details, previous = document["details"], bytes.fromhex(document["previous"])
        event = Event(index, when, action, actor, resource, details, previous)
        if event.body == body:
            return event
    except (KeyError, TypeError, ValueError, AttributeError, InvalidInputError):
        pass
    raise VerificationError(problem="the bytes are not an entry of the log")


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry as stored: its bytes, and the leaf hash that was made of them."""

    body: bytes
    leaf: bytes


@dataclass(frozen=True, slots=True)
class TreeHead:
    """Content of a checkpoint: the root over the first ``size`` entries, and its time."""

    root: bytes
    size: int
    time: str


def checkpoint_of(envelope: bytes, keys: KeyHistory) -> TreeHead:
    """Return the checkpoint in an envelope that the log has signed; raises VerificationError."""
    facts = predicate_of(keys.payload_of(envelope), CHECKPOINT)
    try:
        return TreeHead(bytes.fromhex(facts["root"]), int(facts["size"]), str(facts["time"]))
    except (KeyError, TypeError, ValueError):
        raise VerificationError(problem="the statement is not a checkpoint") from None


def verify(entries: Iterable[Entry], checkpoints: Iterable[bytes], keys: KeyHistory) -> int:
    """Check every entry, the chain, the clock and every checkpoint; the number of entries.

    VerificationError names the first index that is wrong, or the stretch between two checkpoints
    that was rewritten with all its hashes.
    """
    ahead = [checkpoint_of(envelope, keys) for envelope in checkpoints]
    ahead.sort(key=lambda checkpoint: checkpoint.size, reverse=True)
    size, agreed, peaks, rest = 0, 0, merkle.Peaks(), iter(entries)
    leaf, newest = FIRST, datetime.min.replace(tzinfo=UTC)
    while True:
        # every checkpoint of the present size must have the present root
        while ahead and ahead[-1].size == size:
            if ahead.pop().root != peaks.root():
                stretch = f"entries {agreed} to {size - 1}"
                raise VerificationError(problem=f"{stretch} of the log are not those of a checkpoint")
            agreed = size
        entry = next(rest, None)
        if entry is None:
            break
        newest = _checked(entry, size, leaf, newest).time
        peaks.append(entry.leaf)
        leaf, size = entry.leaf, size + 1
    if ahead:
        problem = f"entry {size} of the log is missing: a checkpoint covers {ahead[0].size} entries"
        raise VerificationError(problem=problem)
    return size


def _checked(entry: Entry, index: int, previous: bytes, newest: datetime) -> Event:
    """Return the event of an entry, which follows the leaf hash ``previous`` and the time ``newest``."""
    if leaf_hash(entry.body) != entry.leaf:
        raise VerificationError(problem=f"entry {index} of the log was changed")
    try:
        event = event_of(entry.body)
    except VerificationError:
        raise VerificationError(problem=f"entry {index} of the log is not an entry") from None
    if event.index != index:
        raise VerificationError(problem=f"entry {index} of the log is missing or out of place")
    if event.previous != previous:
        raise VerificationError(problem=f"entry {max(index - 1, 0)} of the log was changed")
    # only a correction may be earlier than the entry in front, and says by how much
    if event.time < newest and not (
        event.action == CORRECTION and event.details.get("before") == time_text(newest)
    ):
        raise VerificationError(problem=f"entry {index} of the log goes back in time")
    return event


Clock = Callable[[], datetime]


class EventLog:
    """Appends entries, proves what is in the log, and signs checkpoints with a key of its own.

    ``machine`` is the clock of this machine, by which an entry says that the clock is behind the log; by
    default the time that the caller of ``append`` gives.
    """

    def __init__(
        self, signing_key: Callable[[Connection], Ed25519PrivateKey], machine: Clock | None = None
    ) -> None:
        self._signing_key, self._machine = signing_key, machine
        self.newest: datetime | None = None
        """Time of the entry that this process appended last; None if it appended none."""
        self._own: tuple[bytes, Event | None] = b"", None
        """The entry that this process appended last, which it need not read again."""

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

        A clock that went back does not take the log's time back: the entry bears the time of the one
        in front and says in ``clock_behind_seconds`` how far behind the clock was. Raises
        InvalidInputError for a detail that the log does not take.
        """
        last, leaf = self.newest_entry(tx)
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
        index = 0 if last is None else last.index + 1
        return self._added(tx, Event(index, now, action, actor, resource, details, leaf))

    def correct(self, tx: Connection, *, actor: str, details: Mapping[str, str], now: datetime) -> Event:
        """Append the one entry that may be earlier than the entry in front of it.

        The way out after a clock that was ahead: from this entry on, the machine's clock counts
        again. Raises InvalidInputError for any other clock.
        """
        (last, leaf), now = self.newest_entry(tx), now.replace(microsecond=0)
        if last is None or last.time <= now:
            problem = "is not ahead of this machine's clock, so there is nothing to correct"
            raise InvalidInputError(field="the newest log entry", problem=problem)
        details = {**details, "before": time_text(last.time)}
        return self._added(tx, Event(last.index + 1, now, CORRECTION, actor, "log", details, leaf))

    def _added(self, tx: Connection, event: Event) -> Event:
        body, node = event.body, _node_of(tx)
        level, position, digest = 0, event.index, merkle.leaf_hash(body)
        tx.execute(insert(events).values(index=event.index, body=body, leaf=digest))
        # the entry completes one node of the tree for each trailing 1 of its index
        while position & 1:
            digest = merkle.node_hash(node(level, position - 1), digest)
            level, position = level + 1, position >> 1
            tx.execute(insert(log_nodes).values(level=level, position=position, hash=digest))
        self.newest, self._own = event.time, (body, event)
        return event

    def newest_entry(self, tx: Connection) -> tuple[Event | None, bytes]:
        """Return the newest entry with its leaf hash; None and ``FIRST`` in an empty log."""
        stored, (own, event) = tx.execute(_NEWEST).scalar_one_or_none(), self._own
        if stored is None:
            return None, FIRST
        body = bytes(stored)
        return event if body == own else event_of(body), leaf_hash(body)

    def size(self, tx: Connection) -> int:
        """Number of entries."""
        last = tx.execute(select(func.max(events.c.index))).scalar_one()
        return 0 if last is None else int(last) + 1

    def checkpoint(self, tx: Connection, now: datetime) -> bytes:
        """Return the signed present root of the log: a DSSE envelope over ``{"root", "size", "time"}``.

        A log that has not grown keeps the checkpoint it has.
        """
        envelope = self.current_checkpoint(tx)
        # one size, one signature: two checkpoints of one size would look like a forked log
        if envelope is None:
            size = self.size(tx)
            envelope = signed_checkpoint(
                self._signing_key(tx), merkle.root(_node_of(tx), size), size, now
            )
            tx.execute(insert(checkpoints).values(size=size, envelope=envelope))
        return envelope

    def current_checkpoint(self, tx: Connection) -> bytes | None:
        """Return the checkpoint of the log as it stands; None if it has grown since the last one."""
        known = select(checkpoints.c.envelope).where(checkpoints.c.size == self.size(tx))
        envelope = tx.execute(known).scalar_one_or_none()
        return None if envelope is None else bytes(envelope)

    def entry(self, tx: Connection, index: int) -> bytes:
        """Return the bytes of one entry, as they are hashed; raises InvalidNumberError."""
        body = None
        if 0 <= index < 1 << 63:  # another number would be an error of the database
            query = select(events.c.body).where(events.c.index == index)
            body = tx.execute(query).scalar_one_or_none()
        if body is None:
            raise InvalidNumberError(field="index", expected="the number of an entry of the log")
        return bytes(body)

    def inclusion(self, tx: Connection, index: int, size: int) -> tuple[bytes, list[bytes]]:
        """Leaf hash of an entry, and its path to the root of ``size`` entries; InvalidNumberError."""
        self._refuse_beyond(tx, size)
        node = _node_of(tx)
        path = merkle.inclusion_path(node, index, size)
        return node(0, index), path

    def consistency(self, tx: Connection, old_size: int, new_size: int) -> list[bytes]:
        """Hashes that show the newer log to continue the older one; raises InvalidNumberError."""
        self._refuse_beyond(tx, new_size)
        return merkle.consistency_path(_node_of(tx), old_size, new_size)

    def entries(self, tx: Connection) -> Iterator[Entry]:
        """Everything, oldest first, as it is stored."""
        query = select(events.c.body, events.c.leaf).order_by(events.c.index)
        for body, leaf in tx.execute(query, execution_options={"yield_per": 1000}):
            yield Entry(bytes(body), bytes(leaf))

    def checkpoints(self, tx: Connection) -> list[bytes]:
        """Return all checkpoints, oldest first."""
        query = select(checkpoints.c.envelope).order_by(checkpoints.c.size)
        return [bytes(envelope) for envelope in tx.execute(query).scalars()]

    def _refuse_beyond(self, tx: Connection, size: int) -> None:
        if size > (present := self.size(tx)):
            raise InvalidNumberError(field="size", expected=f"at most {present}")

    @staticmethod
    def last(tx: Connection) -> Event | None:
        """Return the newest entry; None in an empty log."""
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
                # without the database the entries seen before go on counting
                with suppress(StorageError, NotLeadingError), self.database.reading() as tx:
                    last, _ = self.log.newest_entry(tx)
                    self.log.newest = None if last is None else last.time
                self._read = time.monotonic()
            finally:
                self._turn.release()
        now, newest = self.machine(), self.log.newest
        return now if newest is None else max(now, newest)


# Every decision asks for these: to put one together takes as long as to run it.
_NEWEST = select(events.c.body).order_by(events.c.index.desc()).limit(1)
_LEAF = select(events.c.leaf).where(events.c.index == bindparam("position"))
_NODE = select(log_nodes.c.hash).where(
    log_nodes.c.level == bindparam("level"), log_nodes.c.position == bindparam("position")
)


def signed_checkpoint(key: Ed25519PrivateKey, root: bytes, size: int, now: datetime) -> bytes:
    """Return the envelope over the root of the first ``size`` entries."""
    facts = {"root": root.hex(), "size": str(size), "time": time_text(now)}
    return dsse.sign(statement(CHECKPOINT, "log", facts, root.hex()), [key])


def _node_of(tx: Connection) -> merkle.Node:
    """Return the stored nodes of the tree; level 0 are the leaves of the entries."""

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
    """Return the envelope of the last change, or None if the first key is in force."""
    query = select(key_changes.c.envelope).where(key_changes.c.use == use)
    envelope = tx.execute(query.order_by(key_changes.c.number.desc()).limit(1)).scalar_one_or_none()
    return None if envelope is None else bytes(envelope)


def all_changes(tx: Connection) -> list[bytes]:
    """Return all envelopes, by use, each use oldest first."""
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
        rows = [{"resource": name, "fields": json.dumps(dict(fields))} for name, fields in new.items()]
        tx.execute(insert(rules), rows)
