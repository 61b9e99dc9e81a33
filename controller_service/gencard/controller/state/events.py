"""Entries of the log: the bytes that are hashed, and the check of a whole log.

The check trusts nobody who kept the log, and names the first entry that is wrong. A pass does not prove
that nothing was cut off after the newest checkpoint at hand, nor that everybody was shown the same log:
for that, compare checkpoints, each of which every newer one must continue.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from gencard.core.errors import InvalidInputError, VerificationError
from gencard.wire.documents.key_history import KeyHistory
from gencard.wire.log import merkle
from gencard.wire.log.merkle import leaf_hash
from gencard.wire.signatures.canonical import document_of, json_bytes, time_of, time_text
from gencard.wire.signatures.dsse import CHECKPOINT, predicate_of

DETAILS = frozenset(
    {
        "account",
        "after",
        "alpha",
        "approved",
        "attempt",
        "author",
        "before",
        "black_box",
        "box_digest",
        "card_digest",
        "clock_behind_seconds",
        "columns",
        "data_digest",
        "digest",
        "emergency",
        "entries",
        "epsilon",
        "etag",
        "field",
        "first",
        "generator",
        "held_by",
        "incident",
        "key",
        "kind",
        "known_entries",
        "level",
        "line",
        "operation",
        "previous_key",
        "project",
        "psi_digest",
        "reason",
        "remark",
        "request_id",
        "rho",
        "role",
        "rows",
        "schema_digest",
        "seed",
        "settings",
        "settings_before",
        "shown",
        "software",
        "state",
        "statistics",
        "tries",
        "turn",
        "verdict",
        "verdict_digest",
        "version",
        "way",
    }
)
"""What an entry may say besides who, what, on what and when: no value, no count of records."""

CORRECTION = "correct-clock"
"""Action of the entry that sets the log back to the clock of the machine, after a clock was ahead."""

LONGEST_DETAIL = 200
FIRST = bytes(32)
"""What stands for the leaf before the first."""


@dataclass(frozen=True, slots=True)
class Event:
    """A decision, in the log before its effect shows.

    Args:
        index: Position in the log, from 0.
        time: UTC, to the second; before that of the entry in front only if the action is ``CORRECTION``.
        actor: URI of the identity that acted; the controller's own where nobody else did.
        resource: What it was done to, by name.
        details: Keys from ``DETAILS``.
        previous: Leaf hash of the entry in front: the chain.

    Raises:
        InvalidInputError: A detail's key is not in ``DETAILS``, or its value is not a short line.
    """

    index: int
    time: datetime
    action: str
    actor: str
    resource: str
    details: Mapping[str, str]
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
        return json_bytes(
            {
                "action": self.action,
                "actor": self.actor,
                "details": dict(self.details),
                "index": str(self.index),
                "previous": self.previous.hex(),
                "resource": self.resource,
                "time": time_text(self.time),
            }
        )

    @property
    def leaf(self) -> bytes:
        return leaf_hash(self.body)


def event_of(body: bytes) -> Event:
    """The entry that some bytes are.

    Raises:
        VerificationError: They are not the bytes of any entry.
    """
    try:
        document = document_of(body, "entry")
        event = Event(
            index=int(document["index"]),
            time=time_of(document["time"]),
            action=document["action"],
            actor=document["actor"],
            resource=document["resource"],
            details=document["details"],
            previous=bytes.fromhex(document["previous"]),
        )
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
class Checkpoint:
    """What a checkpoint says: the root over the first ``size`` entries, and when."""

    root: bytes
    size: int
    time: str


def checkpoint_of(envelope: bytes, keys: KeyHistory) -> Checkpoint:
    """The checkpoint in an envelope, once its signature is found to be the log's.

    Raises:
        VerificationError: The signature is missing or wrong, or it signs something else.
    """
    facts = predicate_of(keys.payload_of(envelope), CHECKPOINT)
    try:
        return Checkpoint(bytes.fromhex(facts["root"]), int(facts["size"]), str(facts["time"]))
    except (KeyError, TypeError, ValueError):
        raise VerificationError(problem="the statement is not a checkpoint") from None


def verify(entries: Iterable[Entry], checkpoints: Iterable[bytes], keys: KeyHistory) -> int:
    """Check every entry, the chain, the clock and every checkpoint; the number of entries.

    Raises:
        VerificationError: Names the first index that is wrong; or, where a stretch of the log was
            rewritten with all its hashes, the stretch between two checkpoints.
    """
    walk = _Walk([checkpoint_of(envelope, keys) for envelope in checkpoints])
    for entry in entries:
        walk.step(entry)
    walk.end()
    return walk.size


class _Walk:
    """One pass over the log; holds the last leaf, the peaks of the tree and the checkpoints ahead."""

    def __init__(self, checkpoints: Iterable[Checkpoint]) -> None:
        self.size = 0
        self._ahead = sorted(checkpoints, key=lambda checkpoint: checkpoint.size, reverse=True)
        self._agreed = 0
        self._peaks = merkle.Peaks()
        self._leaf = FIRST
        self._time = datetime.min.replace(tzinfo=UTC)
        self._compare()

    def step(self, entry: Entry) -> None:
        """Take the next entry as it is stored."""
        event = self._event(entry)
        if event.index != self.size:
            raise VerificationError(problem=f"entry {self.size} of the log is missing or out of place")
        if event.previous != self._leaf:
            raise VerificationError(problem=f"entry {max(self.size - 1, 0)} of the log was changed")
        if event.time < self._time and not self._corrects(event):
            raise VerificationError(problem=f"entry {self.size} of the log goes back in time")
        self._peaks.append(entry.leaf)
        self._leaf, self._time = entry.leaf, event.time
        self.size += 1
        self._compare()

    def _corrects(self, event: Event) -> bool:
        """Whether the event may be earlier than the one in front: it says so, and by how much."""
        return event.action == CORRECTION and event.details.get("before") == time_text(self._time)

    def end(self) -> None:
        """Nothing comes after: every checkpoint must have been passed."""
        if self._ahead:
            size = self._ahead[0].size
            raise VerificationError(
                problem=f"entry {self.size} of the log is missing: a checkpoint covers {size} entries"
            )

    def _event(self, entry: Entry) -> Event:
        if leaf_hash(entry.body) != entry.leaf:
            raise VerificationError(problem=f"entry {self.size} of the log was changed")
        try:
            return event_of(entry.body)
        except VerificationError:
            raise VerificationError(problem=f"entry {self.size} of the log is not an entry") from None

    def _compare(self) -> None:
        """Every checkpoint of the present size must have the present root."""
        while self._ahead and self._ahead[-1].size == self.size:
            if self._ahead.pop().root != self._peaks.root():
                stretch = f"entries {self._agreed} to {self.size - 1}"
                raise VerificationError(problem=f"{stretch} of the log are not those of a checkpoint")
            self._agreed = self.size
