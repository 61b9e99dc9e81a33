"""The controller's signing keys, and the checkpoints that they sign.

The newest verified key changes are kept beside the certificate, so that a shortened history is refused.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gencard.client.common.files.folder import appearing
from gencard.client.connection.credentials import Credentials
from gencard.core.errors import VerificationError
from gencard.files import LIST_LIMIT, read_file
from gencard.wire.dsse import CHECKPOINT, predicate_of
from gencard.wire.keys import CARDS, LOG, KeyHistory, changes_file, changes_in

KEYS_SEEN = "keys_seen.json"
"""File of the longest verified history of keys, beside the certificate."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Signed state of the controller's log.

    Args:
        size: Number of entries.
        root: Merkle root of the entries, in hex.
        time: Time at which it was signed, as text.
        envelope: Signed document (DSSE) that states it.
    """

    size: int
    root: str
    time: str
    envelope: bytes

    def lines(self) -> list[tuple[str, str]]:
        return [("Entries", f"{self.size:,}"), ("Root", self.root), ("Signed", self.time)]


def checkpoint_of(envelope: bytes, keys: KeyHistory) -> Checkpoint:
    """Read a checkpoint; raises VerificationError if it is not signed with a key of the log."""
    facts = predicate_of(keys.payload_of(envelope), CHECKPOINT)
    try:
        root = bytes.fromhex(facts["root"])
        return Checkpoint(int(facts["size"]), root.hex(), str(facts["time"]), envelope)
    except (KeyError, TypeError, ValueError):
        raise VerificationError(problem="the document is not a checkpoint") from None


class KeyWatch:
    """The controller's keys; fetches key changes once, and again if a signature is by an unknown key.

    Verified changes are kept, so that a later history that contradicts or shortens them is refused.

    Args:
        fetch: Returns all signed key changes of the controller, oldest first.
    """

    def __init__(self, credentials: Credentials, fetch: Callable[[], Sequence[bytes]]) -> None:
        self._credentials, self._fetch_changes = credentials, fetch
        self._histories: dict[str, KeyHistory] = {}
        self._checkpoint: Checkpoint | None = None
        """The checkpoint that was verified last with these keys."""

    def cards(self, *envelopes: bytes) -> KeyHistory:
        """Keys that sign cards, receipts, verdicts and revocations.

        Args:
            envelopes: Signed documents that the caller is about to verify.

        Raises:
            VerificationError: The controller's key history does not continue the known one.
        """
        return self._history(CARDS, envelopes)

    def log(self, *envelopes: bytes) -> KeyHistory:
        """Keys that sign checkpoints; arguments and errors are those of ``cards``."""
        return self._history(LOG, envelopes)

    def checkpoint_of(self, envelope: bytes) -> "Checkpoint":
        """Return the checkpoint in an envelope; bytes that were verified last are not verified again.

        Raises:
            VerificationError: It is not a checkpoint signed with a key of the log.
        """
        known = self._checkpoint
        if known is None or known.envelope != envelope:
            self._checkpoint = known = checkpoint_of(envelope, self.log(envelope))
        return known

    def changes(self) -> bytes | None:
        """Return all verified key changes as one document; None if there are none."""
        envelopes = _kept_changes(self._credentials)
        return changes_file(envelopes) if envelopes else None

    def _history(self, use: str, envelopes: tuple[bytes, ...]) -> KeyHistory:
        known = self._histories.get(use)
        if known is None or not all(map(known.knows_signer, envelopes)):
            self._fetch()
        return self._histories[use]

    def _fetch(self) -> None:
        changes, credentials = list(self._fetch_changes()), self._credentials
        known = (known_history(credentials, use) for use in (CARDS, LOG))
        histories = {history.use: history.continued_by(changes) for history in known}
        if changes and len(changes) > len(_kept_changes(credentials)):
            with appearing(_keys_file(credentials), "keys") as part:
                part.write_bytes(changes_file(changes))
        self._histories, self._checkpoint = histories, None


def known_history(credentials: Credentials, use: str) -> KeyHistory:
    """Return the keys of one use: the key of the connection folder, and the keys that replaced it.

    Args:
        use: ``CARDS`` or ``LOG``.

    Raises:
        InvalidInputError: A file cannot be read.
        VerificationError: The kept changes do not lead to the keys of the connection folder.
    """
    pinned = {CARDS: credentials.public_controller_key, LOG: credentials.public_log_key}
    return KeyHistory(pinned[use](), use).followed(_kept_changes(credentials))


def _kept_changes(credentials: Credentials) -> list[bytes]:
    file = _keys_file(credentials)
    return changes_in(read_file(file, "keys", LIST_LIMIT)) if file.exists() else []


def _keys_file(credentials: Credentials) -> Path:
    return credentials.folder / KEYS_SEEN
