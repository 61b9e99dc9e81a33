"""One entry of the log: a decision, in the bytes that are hashed."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from gencard.core.errors import InvalidInputError, VerificationError
from gencard.wire.log.merkle import leaf_hash
from gencard.wire.signatures.canonical import document_of, json_bytes, time_of, time_text

DETAILS = frozenset(
    {
        "after",
        "alpha",
        "attempt",
        "author",
        "before",
        "black_box",
        "box_digest",
        "card_digest",
        "clock_behind_seconds",
        "data_digest",
        "entries",
        "epsilon",
        "etag",
        "field",
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
        "software",
        "state",
        "statistics",
        "tries",
        "turn",
        "verdict",
        "verdict_digest",
        "version",
    }
)
"""What an entry may say besides who, what, on what and when: no value, no count of records."""

LONGEST_DETAIL = 200
FIRST = bytes(32)
"""What stands for the leaf before the first."""


@dataclass(frozen=True, slots=True)
class Event:
    """A decision, in the log before its effect shows.

    Args:
        index: Position in the log, from 0.
        time: UTC, to the second; never before that of the entry in front.
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
