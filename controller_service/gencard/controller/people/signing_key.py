"""The controller's key for one use: the one that the newest change names, wherever its file stands.

A rotation is true once it is committed to the state, together with its entry in the log; only then does
the file of the new key take the place of the old one. Who signs looks at the newest change in the same
transaction: a running service goes on with the new key at the next statement, and a crash between the
two steps leaves no time in which nothing can be signed.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from sqlalchemy import Connection

from gencard.controller.people.certificates import private_pem, public_pem
from gencard.controller.people.keys import signing_key
from gencard.controller.settings.private_file import flush_folder, write_whole
from gencard.controller.state.key_changes import newest_change
from gencard.core.errors import InvalidInputError, StorageError
from gencard.wire.documents.key_history import key_change_of


@dataclass(slots=True)
class SigningKey:
    """Finds the private key that is in force.

    Args:
        use: What the key signs.
        file: Its file, PEM; the public half lies beside it, as ``.pub``.
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
        """Where a new key waits for its change to be committed."""
        return self.file.with_suffix(".next.pem")

    def current(self, tx: Connection) -> Ed25519PrivateKey:
        """The key to sign with, in the transaction that makes the statement true.

        Raises:
            StorageError: No file holds the key that the newest change names.
        """
        envelope = newest_change(tx, self.use)
        wanted = None if envelope is None else key_change_of(envelope).key
        held = self._held
        if wanted is not None and wanted != held.public_key():
            held = self._held = self._found(wanted)
        return held

    def check(self, tx: Connection) -> None:
        """Raises InvalidInputError where no file holds the key that the newest change names."""
        with suppress(StorageError):
            self.current(tx)
            return
        raise InvalidInputError(field=self.setting, problem="is not the key that the last rotation made")

    def prepare(self, key: Ed25519PrivateKey) -> None:
        """Have a new key on the disk, before the state says that it is in force.

        Raises:
            StorageError: It cannot be written.
        """
        write_whole(self.next_file, [private_pem(key)])
        with suppress(OSError):
            flush_folder(self.next_file.parent)
            return
        raise StorageError

    def settle(self, tx: Connection) -> None:
        """Put the key in force in its place, where a rotation left it aside; inside a writer's turn.

        Raises:
            StorageError: It cannot be moved; it is found where it is.
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

    def _found(self, wanted: Ed25519PublicKey) -> Ed25519PrivateKey:
        for file in (self.next_file, self.file):  # in this order one that is moved meanwhile is seen
            key = self._in(file)
            if key is not None and key.public_key() == wanted:
                return key
        raise StorageError

    def _in(self, file: Path) -> Ed25519PrivateKey | None:
        """The key in a file, if one is there that can be used."""
        with suppress(InvalidInputError):
            return signing_key(file, self.setting)
        return None
