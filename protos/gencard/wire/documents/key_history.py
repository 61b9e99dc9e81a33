"""Signing keys that follow one another: which key signed in which period, each change signed by both.

A change of key is a statement about the new key, signed by the key before it and by the new one. Who
trusts any key of the chain can follow it: forwards, as the older key names the newer, and backwards, as
the newer key says which one was in force until then.

What a history does not prove: that a retired key which was stolen did not sign, later, a statement that
bears a time of its own period.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from gencard.core.errors import InvalidInputError, VerificationError
from gencard.core.types import Time
from gencard.wire.signatures import dsse
from gencard.wire.signatures.canonical import document_of, json_bytes, time_text_of
from gencard.wire.signatures.dsse import DOCUMENT, KEY_CHANGE, predicate_of, read_document, statement

CARDS, LOG = "cards", "log"
"""Uses of the controller's two keys: cards, receipts, verdicts and revocations; checkpoints."""

LINKS = "keyChanges"
"""The one field of a file of changes."""


@dataclass(frozen=True, slots=True)
class KeyChange:
    """One link of the chain.

    Args:
        use: What the keys sign.
        number: Which change of this use, from 1.
        previous: The key that was in force until then.
        key: The key that is in force from then on.
        time: When, in UTC, to the second.
    """

    use: str
    number: int
    previous: Ed25519PublicKey
    key: Ed25519PublicKey
    time: Time

    def signed(self, old: Ed25519PrivateKey, new: Ed25519PrivateKey) -> bytes:
        """The change as an envelope, signed with both keys."""
        return dsse.sign(self.statement, [old, new])

    @property
    def statement(self) -> bytes:
        """Return the statement that both keys sign; its subject is the new key."""
        return statement(KEY_CHANGE, f"keys/{self.use}", DOCUMENT.write(self), dsse.key_id(self.key))


def key_change_of(envelope: bytes) -> KeyChange:
    """The change in an envelope, once both keys are found to have signed it.

    Raises:
        VerificationError: A signature is missing or wrong, or it is no change of a key.
    """
    payload, _ = dsse.opened(envelope)
    facts = predicate_of(payload, KEY_CHANGE)
    change = read_document(KeyChange, facts, "a key change")
    if change.statement != payload:
        raise VerificationError(problem="the key change is not in canonical form")
    dsse.verify(envelope, [change.previous, change.key])
    return change


@dataclass(frozen=True, slots=True)
class Period:
    """When a key was in force; empty times where there is no bound.

    A second belongs to the key that ends in it and to the one that begins in it.
    """

    key: Ed25519PublicKey
    since: str
    until: str

    def check(self, payload: bytes) -> None:
        """Raises VerificationError where a statement was not made in this period."""
        if not self.since and not self.until:
            return
        earliest, latest = _span_of(payload)
        if latest < self.since:
            raise VerificationError(problem="the signing key was not yet valid at that time")
        if self.until and self.until < earliest:
            raise VerificationError(problem="the signing key was no longer valid at that time")


@dataclass(frozen=True, slots=True)
class KeyHistory:
    """The key that one was given, and those before and after it.

    Args:
        pinned: The key that is trusted for itself.
        use: What it signs.
        changes: All changes of that use, oldest first.

    Raises:
        VerificationError: The changes are no unbroken chain, or it does not hold the pinned key.
    """

    pinned: Ed25519PublicKey
    use: str
    changes: tuple[KeyChange, ...] = ()
    periods: tuple[Period, ...] = field(init=False, repr=False, compare=False)
    """Every key, oldest first."""
    _names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """Key ids of the periods."""

    def __post_init__(self) -> None:
        for place, change in enumerate(self.changes, start=1):
            if change.use != self.use or change.number != place:
                raise VerificationError(problem=f"change {place} of the key for {self.use} is missing")
        for older, newer in pairwise(self.changes):
            if newer.previous != older.key or newer.time < older.time:
                raise VerificationError(problem=f"change {newer.number} of the key breaks the chain")
        first = self.changes[0].previous if self.changes else self.pinned
        keys = (first, *[change.key for change in self.changes])
        turns = ("", *[change.time for change in self.changes], "")
        object.__setattr__(self, "periods", tuple(map(Period, keys, turns, turns[1:])))
        object.__setattr__(self, "_names", tuple(map(dsse.key_id, keys)))
        if len({*self._names}) != len(keys):
            raise VerificationError(problem="a key appears twice in the key history")
        if self.pinned not in keys:
            raise VerificationError(problem="the key history does not lead to the key that you hold")

    def followed(self, envelopes: Iterable[bytes]) -> "KeyHistory":
        """Extend the history by these changes if they go further; changes of another use are left out.

        Raises:
            VerificationError: A change is not right, or one of the two does not continue the other.
        """
        changes = tuple(change for change in map(key_change_of, envelopes) if change.use == self.use)
        if any(mine != theirs for mine, theirs in zip(self.changes, changes, strict=False)):
            raise VerificationError(
                problem="the key history was forked: it contained another key before"
            )
        return KeyHistory(self.pinned, self.use, max(self.changes, changes, key=len))

    def continued_by(self, envelopes: Iterable[bytes]) -> "KeyHistory":
        """The history that these changes tell, which must hold all of this one.

        Raises:
            VerificationError: As ``followed``, or they tell less than was known.
        """
        extended = KeyHistory(self.pinned, self.use).followed(envelopes)
        if len(extended.changes) < len(self.changes):
            raise VerificationError(problem="the key history was shortened")
        return self.followed(envelopes)

    def knows_signer(self, envelope: bytes) -> bool:
        """Whether a key of this history is named in an envelope; raises VerificationError."""
        _, signatures = dsse.opened(envelope)
        return not signatures.keys().isdisjoint(self._names)

    def payload_of(
        self, envelope: bytes, before: Sequence[Ed25519PublicKey] = (), *, unknown: int = 0
    ) -> bytes:
        """The payload of an envelope that one of the keys signed, in the period of that key.

        Args:
            before: Keys of all others, who signed it before, in their order.
            unknown: Number of others whose keys are not known here; see ``dsse.verify``.

        Raises:
            VerificationError: None did, a signature is wrong, there are others, or the statement is of
                another time.
        """
        payload, signatures = dsse.opened(envelope)
        period = self.periods[-1]
        for name, other in zip(self._names, self.periods, strict=True):
            if name in signatures:
                period = other
        dsse.check_signatures(payload, signatures, [*before, period.key], unknown=unknown)
        period.check(payload)
        return payload


def changes_file(envelopes: Iterable[bytes]) -> bytes:
    """Changes of keys as one canonical document, to be kept."""
    return json_bytes({LINKS: [document_of(envelope, "change") for envelope in envelopes]})


def changes_in(content: bytes) -> list[bytes]:
    """The envelopes in such a document, not verified.

    Raises:
        VerificationError: It is no such document.
    """
    try:
        envelopes = [json_bytes(envelope) for envelope in document_of(content, "keys")[LINKS]]
        if changes_file(envelopes) == content:
            return envelopes
    except (KeyError, TypeError, AttributeError, InvalidInputError):
        pass
    raise VerificationError(problem="the document contains no key changes in canonical form")


def _span_of(payload: bytes) -> tuple[str, str]:
    """Times between which a statement was signed: those of an offer and its end, or one moment.

    A card bears the time of its offer, and is signed at any time until the offer ends.
    """
    try:
        facts = document_of(payload, "statement")["predicate"]
        names = ("offered", "expires") if "offered" in facts else ("time", "time")
        earliest, latest = (time_text_of(facts[name]) for name in names)
    except (KeyError, TypeError, ValueError, InvalidInputError):
        raise VerificationError(problem="the statement has no time") from None
    return earliest, latest
