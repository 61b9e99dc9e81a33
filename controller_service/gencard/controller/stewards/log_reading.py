"""Reading of the log by stewards: search by words and fields, and single entries with their proof."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from sqlalchemy import Connection, select

from gencard.controller.state.database import Page, number_of_token
from gencard.controller.state.log import Event, EventLog, checkpoint_of, event_of
from gencard.controller.state.tables import events
from gencard.core.errors import InvalidInputError, VerificationError
from gencard.wire import dsse
from gencard.wire.keys import KeyHistory
from gencard.wire.log import LogEntry, check_in_log, leaf_hash

FIELDS = ("action", "who", "resource", "since", "until")
LONGEST_QUERY = 200
MOST_READ = 20_000
"""Entries that one page reads at most: a search for what is rare goes on from there."""

_PAGE = 100


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Conditions on the entries of the log that are shown.

    Args:
        words: In lower case; each must stand somewhere in the entry.
        fields: "action", "who" and "resource", and the text in lower case that each must contain.
        since, until: Days (UTC), both included.

    >>> LogQuery.of("ana action:approve since:2026-01-01").fields
    {'action': 'approve'}
    """

    words: tuple[str, ...] = ()
    fields: Mapping[str, str] = field(default_factory=dict)
    since: date | None = None
    until: date | None = None

    @classmethod
    def of(cls, text: str) -> "LogQuery":
        """Parse the query of a person: words, and ``field:text`` for a field of ``FIELDS``.

        Raises:
            InvalidInputError: The query is too long, or a day is not written YYYY-MM-DD.
        """
        if len(text) > LONGEST_QUERY:
            problem = f"must have at most {LONGEST_QUERY} characters"
            raise InvalidInputError(field="query", problem=problem)
        words, fields, days = [], {}, {}
        for part in text.lower().split():
            name, colon, value = part.partition(":")
            if colon and value and name in ("since", "until"):
                try:
                    days[name] = datetime.strptime(value, "%Y-%m-%d").replace(tzinfo=UTC).date()
                except ValueError:
                    problem = "is not a day written YYYY-MM-DD"
                    raise InvalidInputError(field=name, problem=problem) from None
            elif colon and value and name in FIELDS:
                fields[name] = value
            else:
                words.append(part)
        return cls(tuple(words), fields, days.get("since"), days.get("until"))

    def matches(self, event: Event) -> bool:
        day = event.time.astimezone(UTC).date()
        if (self.since and day < self.since) or (self.until and day > self.until):
            return False
        # by name alone: "ana" is in the URI of every analyst
        name = event.actor.rpartition("/")[2]
        who = f"{name}\n{event.actor}" if "/" in self.fields.get("who", "") else name
        fields = {"action": event.action, "who": who, "resource": event.resource}
        if any(text not in fields[field].lower() for field, text in self.fields.items()):
            return False
        parts = (*fields.values(), *event.details, *event.details.values())
        whole = "\n".join((str(event.index), *parts)).lower()
        return all(word in whole for word in self.words)


def search(tx: Connection, query: LogQuery, token: str = "", limit: int = _PAGE) -> Page[Event]:
    """Return entries that match, newest first.

    Args:
        token: Token of the page before; empty for the first page.

    Returns:
        At most ``limit`` entries; fewer, with a token to continue, if ``MOST_READ`` were read.
    """
    rows = select(events.c.body).order_by(events.c.index.desc()).limit(MOST_READ)
    if token:
        rows = rows.where(events.c.index < number_of_token(token))
    entries: list[Event] = []
    event = None
    for number, body in enumerate(tx.execute(rows, execution_options={"yield_per": 500}).scalars(), 1):
        event = event_of(bytes(body))
        if query.since and event.time.astimezone(UTC).date() < query.since:
            return Page(tuple(entries), "")  # no older entry can match
        if query.matches(event):
            entries.append(event)
        if len(entries) == limit or number == MOST_READ:
            break
    more = event is not None and event.index > 0 and (len(entries) == limit or number == MOST_READ)
    return Page(tuple(entries), str(event.index) if more and event is not None else "")


@dataclass(frozen=True, slots=True)
class ProvenEntry:
    """One entry, with all data to verify it independently: bytes, path and signed checkpoint.

    Args:
        leaf: Leaf hash that the log stores.
        checkpoint: The signed root of the log that the path leads to: a DSSE envelope.
        next_previous: Hash of this entry in the next entry; None for the newest.
    """

    entry: LogEntry
    leaf: bytes
    checkpoint: bytes
    next_previous: bytes | None

    @property
    def event(self) -> Event:
        return event_of(self.entry.body)


@dataclass(frozen=True, slots=True)
class ProofStep:
    """One step of a proof: the value, its result in hex or in words, and whether it is right."""

    what: str
    result: str
    holds: bool


def proven(tx: Connection, log: EventLog, index: int, now: datetime) -> ProvenEntry:
    """Return an entry with its proof; signs a checkpoint if the log has grown since the last.

    Args:
        tx: A transaction that may write.
    """
    body = log.entry(tx, index)
    checkpoint, size = log.checkpoint(tx, now), log.size(tx)
    leaf, path = log.inclusion(tx, index, size)
    behind = event_of(log.entry(tx, index + 1)).previous if index + 1 < size else None
    return ProvenEntry(LogEntry(body, size, tuple(path)), leaf, checkpoint, behind)


def steps(proof: ProvenEntry, keys: KeyHistory) -> Iterator[ProofStep]:
    """Recompute an entry's proof from its bytes, step by step, with the keys of the log."""
    entry, leaf = proof.entry, leaf_hash(proof.entry.body)
    yield ProofStep("Leaf: SHA-256 of a zero byte and the entry's bytes", leaf.hex(), leaf == proof.leaf)
    if proof.next_previous is not None:
        chained = proof.next_previous == leaf
        yield ProofStep("Chain: the next entry names this leaf", proof.next_previous.hex(), chained)
    checkpoint = None
    with suppress(VerificationError):
        checkpoint = checkpoint_of(proof.checkpoint, keys)
    signer = ", ".join(key[:16] for key in dsse.opened(proof.checkpoint)[1])
    yield ProofStep("Signature of the checkpoint, by the log's key", signer, checkpoint is not None)
    if checkpoint is not None:
        place = f"entry {proof.event.index} of {entry.size}, root {checkpoint.root.hex()}"
        what = f"Path: {len(entry.path)} hashes from the leaf to the signed root"
        is_placed = False
        with suppress(VerificationError):
            check_in_log(proof.entry, proof.event.index, checkpoint.root)
            is_placed = checkpoint.size == entry.size
        yield ProofStep(what, place, is_placed)


class LogReader:
    """Search of the log, and last activity of people: entries never change, and are read once."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._read = 0
        self._seen: dict[str, datetime] = {}
        self._certified: dict[str, datetime] = {}
        self._known: tuple[int, dict[str, bool]] = 0, {}
        self._lock = threading.Lock()

    def known(self, tx: Connection, question: str, answer: Callable[[], bool]) -> bool:
        """Return the answer to a question, cached until the log grows: every change is logged first."""
        size = self._log.size(tx)
        with self._lock:
            if self._known[0] != size:
                self._known = size, {}
            answers = self._known[1]
        if question not in answers:
            answers[question] = answer()
        return answers[question]

    def times(self, tx: Connection) -> tuple[Mapping[str, datetime], Mapping[str, datetime]]:
        """Return the time of each URI's last action, and of each name's last certificate."""
        with self._lock:
            query = select(events.c.body).where(events.c.index >= self._read).order_by(events.c.index)
            for body in tx.execute(query, execution_options={"yield_per": 500}).scalars():
                event = event_of(bytes(body))
                self._seen[event.actor] = event.time
                if event.action == "enrol":
                    self._certified[event.resource.removeprefix("people/")] = event.time
                self._read = event.index + 1
            return dict(self._seen), dict(self._certified)
