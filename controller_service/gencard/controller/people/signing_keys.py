"""The controller's signing keys: the one in force for each use, and its rotation.

A rotation takes effect once it is committed to the state, together with its entry in the log; only then
the file of the new key replaces the old file. Each signature looks up the newest change in its own
transaction. A running service therefore uses the new key for the next statement, and can sign even if a
crash happens between the two steps.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from sqlalchemy import Connection

from gencard.controller.base.disk import flush_folder, write_whole
from gencard.controller.base.files import signing_key
from gencard.controller.people.certificates import private_pem, public_pem
from gencard.controller.state.database import Database
from gencard.controller.state.log import EventLog, add_change, all_changes, newest_change
from gencard.core.errors import InvalidInputError, NotFoundError, StorageError
from gencard.wire.canonical import time_text
from gencard.wire.dsse import key_id
from gencard.wire.keys import KeyChange, KeyHistory, key_change_of


@dataclass(slots=True)
class SigningKey:
    """Finds the private key that is in force.

    Args:
        use: Use of the key, such as cards or the log.
        file: File of the key, PEM; the public half is beside it, as ``.pub``.
        setting: Name of the setting that names the file.

    Raises:
        InvalidInputError: The file cannot be used.
    """

    use: str
    file: Path
    setting: str
    _held: Ed25519PrivateKey = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._held = signing_key(self.file, self.setting)

    @property
    def next_file(self) -> Path:
        """File of a new key until its change is committed."""
        return self.file.with_suffix(".next.pem")

    def current(self, tx: Connection) -> Ed25519PrivateKey:
        """Return the key to sign with, in the transaction that makes the statement true.

        Raises:
            StorageError: No file holds the key that the newest change names.
        """
        envelope = newest_change(tx, self.use)
        logged_key = None if envelope is None else key_change_of(envelope).key
        key = self._held
        if logged_key is not None and logged_key != key.public_key():
            key = self._held = self._read_key(logged_key)
        return key

    def check(self, tx: Connection) -> None:
        """Raise InvalidInputError if no file holds the key that the newest change names."""
        with suppress(StorageError):
            self.current(tx)
            return
        raise InvalidInputError(field=self.setting, problem="is not the key that the last rotation made")

    def prepare(self, key: Ed25519PrivateKey) -> None:
        """Have a new key on the disk, before the state says that it is in force.

        Raises:
            StorageError: The file cannot be written.
        """
        write_whole(self.next_file, [private_pem(key)])
        with suppress(OSError):
            flush_folder(self.next_file.parent)
            return
        raise StorageError

    def settle(self, tx: Connection) -> None:
        """Move the new key to its place after a rotation; call it inside a write transaction.

        Raises:
            StorageError: The file cannot be moved; the key works from its present file.
        """
        key, aside = self.current(tx).public_key(), self._in(self.next_file)
        if aside is None or aside.public_key() != key:
            return
        public = self.file.with_suffix(".pub")
        write_whole(public, [public_pem(key)])
        with suppress(OSError):
            public.chmod(0o644)
            self.next_file.replace(self.file)
            return
        raise StorageError

    def _read_key(self, wanted: Ed25519PublicKey) -> Ed25519PrivateKey:
        for file in (self.next_file, self.file):  # in this order one that is moved meanwhile is seen
            key = self._in(file)
            if key is not None and key.public_key() == wanted:
                return key
        raise StorageError

    def _in(self, file: Path) -> Ed25519PrivateKey | None:
        """Return the key in a file; None if there is no usable key."""
        with suppress(InvalidInputError):
            return signing_key(file, self.setting)
        return None


@dataclass(frozen=True, slots=True)
class KeyRotation:
    """New signing keys for the controller.

    Args:
        keys: The controller's keys, by use.
    """

    database: Database
    log: EventLog
    keys: Mapping[str, SigningKey]
    clock: Callable[[], datetime]

    def key(self, use: str) -> SigningKey:
        """Return the key of a use; raises NotFoundError if there is no such use."""
        if use not in self.keys:
            raise NotFoundError(what="signing key")
        return self.keys[use]

    def rotate(self, tx: Connection, use: str, by: str) -> KeyChange:
        """Make a new key for one use, which signs once the transaction is committed; then ``settle``.

        Args:
            by: URI of the person who decides; written into the log.

        Raises:
            StorageError: The state or the files cannot be written; the old key stays in force.
        """
        key = self.key(use)
        key.settle(tx)  # what lies aside is written over
        old, new = key.current(tx), Ed25519PrivateKey.generate()
        key.prepare(new)
        event = self.log.append(
            tx,
            action="rotate",
            actor=by,
            resource=f"keys/{key.use}",
            details={"key": key_id(new.public_key())},
            now=self.clock(),
        )
        time, number = time_text(event.time), _number(tx, key.use)  # of the log: it never goes back
        change = KeyChange(key.use, number, old.public_key(), new.public_key(), time)
        add_change(tx, key.use, change.number, change.signed(old, new))
        return change

    def settle(self, use: str) -> None:
        """Put the new key in its place: the old private key is gone."""
        with suppress(StorageError), self.database.transaction() as tx:
            self.key(use).settle(tx)  # where it cannot be, the key is found aside


def key_history(tx: Connection, key: SigningKey) -> KeyHistory:
    """Return all keys of one use, checked; raises VerificationError."""
    current = key.current(tx).public_key()
    return KeyHistory(current, key.use).followed(all_changes(tx))


def _number(tx: Connection, use: str) -> int:
    """Return the number of the next key change."""
    newest = newest_change(tx, use)
    return 1 if newest is None else key_change_of(newest).number + 1
