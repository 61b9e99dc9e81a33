"""A new signing key takes over: the change is signed by both keys, and in the log before it counts."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import Connection

from gencard.controller.people.signing_key import SigningKey
from gencard.controller.state.database import Database
from gencard.controller.state.event_log import EventLog
from gencard.controller.state.key_changes import add_change, all_changes, newest_change
from gencard.core.errors import StorageError
from gencard.wire.documents.key_history import KeyChange, KeyHistory, key_change_of
from gencard.wire.signatures.canonical import time_text
from gencard.wire.signatures.dsse import key_id


@dataclass(frozen=True, slots=True)
class KeyRotation:
    """What a steward does with the controller's signing keys.

    Args:
        keys: The controller's keys, by use.
        steward: Who acts; written into the log.
    """

    database: Database
    log: EventLog
    keys: Mapping[str, SigningKey]
    clock: Callable[[], datetime]
    steward: str

    def rotate(self, use: str) -> KeyChange:
        """Make a new key for one use and have it sign from now on; the old private key is gone.

        Raises:
            StorageError: The state or the files cannot be written; the old key stays in force.
        """
        key = self.keys[use]
        with self.database.transaction() as tx:
            change = self._changed(tx, key)
        with suppress(StorageError), self.database.transaction() as tx:
            key.settle(tx)  # where it cannot be, the key is found aside
        return change

    def note_enrolment(self, name: str, facts: Mapping[str, str]) -> None:
        """Write into the log that a person is about to be enrolled, with fingerprints of the keys."""
        with self.database.transaction() as tx:
            self._log(tx, "enrol", f"people/{name}", facts)

    def _changed(self, tx: Connection, key: SigningKey) -> KeyChange:
        key.settle(tx)  # what lies aside is written over
        old, new = key.current(tx), Ed25519PrivateKey.generate()
        key.prepare(new)
        time = self._log(tx, "rotate", f"keys/{key.use}", {"key": key_id(new.public_key())})
        change = KeyChange(key.use, _number(tx, key.use), old.public_key(), new.public_key(), time)
        add_change(tx, key.use, change.number, change.signed(old, new))
        return change

    def _log(self, tx: Connection, action: str, resource: str, details: Mapping[str, str]) -> str:
        """The time of the new entry, which never goes back."""
        event = self.log.append(
            tx,
            action=action,
            actor=self.steward,
            resource=resource,
            details=details,
            now=self.clock(),
        )
        return time_text(event.time)


def key_history(tx: Connection, key: SigningKey) -> KeyHistory:
    """All keys of one use, checked; raises VerificationError."""
    current = key.current(tx).public_key()
    return KeyHistory(current, key.use).followed(all_changes(tx))


def _number(tx: Connection, use: str) -> int:
    """Of the change after the newest."""
    newest = newest_change(tx, use)
    return 1 if newest is None else key_change_of(newest).number + 1
