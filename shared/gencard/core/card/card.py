"""A card and how it came to be: states, turns, offers, steps."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from gencard.core.card.budget import FREE, Price
from gencard.core.card.terms import Proposal
from gencard.core.json_codecs import written


class CardState(StrEnum):
    """State of a card.

    REQUESTED <-> OFFERED -> ACCEPTED -> AGREED -> [AUDITING -> AUDITED | AUDIT_FAILED] -> RELEASED
    -> EXPIRED; TERMINATED from any open state; SUSPENDED and REVOKED by the controller.
    """

    REQUESTED = "requested"
    OFFERED = "offered"
    ACCEPTED = "accepted"
    AGREED = "agreed"
    AUDITING = "auditing"
    AUDITED = "audited"
    AUDIT_FAILED = "audit-failed"
    RELEASED = "released"
    EXPIRED = "expired"
    TERMINATED = "terminated"
    SUSPENDED = "suspended"
    REVOKED = "revoked"


class Turn(StrEnum):
    """Party that has to act next."""

    NOBODY = "nobody"
    ANALYST = "analyst"
    CONTROLLER = "controller"


OPEN = frozenset({CardState.REQUESTED, CardState.OFFERED, CardState.ACCEPTED})
"""States in which a card is still talked about."""

WAITING = frozenset({CardState.REQUESTED, CardState.ACCEPTED})
"""States in which the controller has to answer."""

USABLE = frozenset({CardState.AGREED, CardState.AUDITED, CardState.RELEASED})
"""States in which rows may be generated."""

AUDITABLE = USABLE | {CardState.AUDITING}
"""States in which audits may run."""


@dataclass(frozen=True, slots=True)
class Change:
    """One line of a typed diff: field, what was asked, what is offered, reason code."""

    field: str
    old: str
    new: str
    reason: str


@dataclass(frozen=True, slots=True)
class CounterOffer:
    """The nearest acceptable terms, how they differ, and their price. No change: accepted as asked."""

    terms: Proposal
    changes: tuple[Change, ...]
    price: Price


@dataclass(frozen=True, slots=True)
class Refusal:
    """No acceptable terms are near; the reasons are codes of the policy."""

    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Offer(CounterOffer):
    """The controller's offer; immutable.

    Args:
        statement: Statement that both parties sign: in-toto, as RFC 8785 JSON bytes.
        digest: SHA-256, in hex, of the statement's predicate.
        measures_price: Price of all measures that the terms name, for one release, besides ``price``.
        held_by: Cards of the analyst that hold some of these statistics; ``price`` is of the others.
        analyses_price: Most that all runs on the records may cost, besides ``price``.
    """

    statement: bytes
    digest: str
    expire_time: datetime
    measures_price: Price = FREE
    held_by: tuple[str, ...] = ()
    analyses_price: Price = field(default=FREE, metadata=written(omit=True))


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a negotiation."""

    actor: str
    action: str
    remark: str
    time: datetime


@dataclass(frozen=True, slots=True)
class CardRecord:
    """A card as both sides see it.

    Args:
        name: datasets/{dataset}/cards/{card}; empty where the proposal was only priced.
        envelope: The DSSE envelope signed by both; empty before agreement.
        attestations: Later signed facts, oldest first.
        encoded: The card as it is stored, once it was encoded or read; a changed card has none yet.
    """

    name: str
    state: CardState
    turn: Turn
    etag: str
    analyst: str
    proposed: Proposal
    offer: Offer | None = None
    history: tuple[Step, ...] = ()
    envelope: bytes = b""
    attestations: tuple[bytes, ...] = ()
    encoded: bytes = field(default=b"", init=False, compare=False, repr=False)
