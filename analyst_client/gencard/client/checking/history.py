"""The controller's signing keys and its log: each answer must continue what was verified before.

The newest verified key changes and checkpoint are kept beside the certificate, so that a forked or
shortened history is refused.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gencard.client.arguments import LARGEST_WORD, checked_number
from gencard.client.connection.credentials import Credentials
from gencard.client.files.folder import appearing
from gencard.core.errors import VerificationError
from gencard.files import DOCUMENT_LIMIT, LIST_LIMIT, read_file
from gencard.v1 import ledger_pb2 as pb
from gencard.wire.documents.answer_document import SignedAnswer
from gencard.wire.documents.key_history import CARDS, LOG, KeyHistory, changes_file, changes_in
from gencard.wire.documents.receipt import Receipt
from gencard.wire.log.log_entry import (
    LogEntry,
    check_answer_entry,
    check_in_log,
    check_release_entry,
)
from gencard.wire.log.merkle import check_consistency, check_inclusion
from gencard.wire.signatures.dsse import CHECKPOINT, predicate_of

if TYPE_CHECKING:
    from gencard.client.connection.connection import Connection

KEYS_SEEN = "keys_seen.json"
"""File of the longest verified history of keys, beside the certificate."""


class KeyWatch:
    """The controller's keys; fetches key changes once, and again where a signature is by an unknown key.

    Verified changes are kept, so that a later history that contradicts or shortens them is refused.
    """

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        self._histories: dict[str, KeyHistory] = {}
        self._checkpoint: Checkpoint | None = None
        """The checkpoint that was verified last with these keys."""

    def cards(self, *envelopes: bytes) -> KeyHistory:
        """Keys that sign cards, receipts, verdicts and revocations.

        Args:
            envelopes: What is to be verified.

        Raises:
            VerificationError: The controller's key history does not continue the known one.
        """
        return self._history(CARDS, envelopes)

    def log(self, *envelopes: bytes) -> KeyHistory:
        """Keys that sign checkpoints; as ``cards``."""
        return self._history(LOG, envelopes)

    def checkpoint_of(self, envelope: bytes) -> "Checkpoint":
        """The checkpoint in an envelope, whose signature is checked unless these very bytes were.

        Raises:
            VerificationError: It is not a checkpoint signed with a key of the log.
        """
        known = self._checkpoint
        if known is None or known.envelope != envelope:
            self._checkpoint = known = checkpoint_of(envelope, self.log(envelope))
        return known

    def changes(self) -> bytes | None:
        """All verified changes, as a document to keep; None where there were none."""
        envelopes = _kept_changes(self._connection.credentials)
        return changes_file(envelopes) if envelopes else None

    def _history(self, use: str, envelopes: tuple[bytes, ...]) -> KeyHistory:
        known = self._histories.get(use)
        if known is None or not all(map(known.knows_signer, envelopes)):
            self._fetch()
        return self._histories[use]

    def _fetch(self) -> None:
        connection = self._connection
        answer = connection.call(connection.log.GetKeyHistory, pb.GetKeyHistoryRequest())
        changes = list(answer.changes)
        known = (known_history(connection.credentials, use) for use in (CARDS, LOG))
        histories = {history.use: history.continued_by(changes) for history in known}
        _keep_changes(connection.credentials, changes)
        self._histories, self._checkpoint = histories, None


def known_history(credentials: Credentials, use: str) -> KeyHistory:
    """Keys of one use: the key of the connection folder, and those that followed it.

    Raises:
        InvalidInputError: A file cannot be read.
        VerificationError: The kept changes do not lead to the keys of the connection folder.
    """
    pinned = {CARDS: credentials.public_controller_key, LOG: credentials.public_log_key}
    return KeyHistory(pinned[use](), use).followed(_kept_changes(credentials))


def _kept_changes(credentials: Credentials) -> list[bytes]:
    file = _keys_file(credentials)
    return changes_in(read_file(file, "keys", LIST_LIMIT)) if file.exists() else []


def _keep_changes(credentials: Credentials, envelopes: list[bytes]) -> None:
    if envelopes and len(envelopes) > len(_kept_changes(credentials)):
        with appearing(_keys_file(credentials), "keys") as part:
            part.write_bytes(changes_file(envelopes))


def _keys_file(credentials: Credentials) -> Path:
    return credentials.folder / KEYS_SEEN


LOG_SEEN = "log_seen.json"
"""File of the newest verified checkpoint, beside the certificate."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The log's signed state: ``size`` entries whose Merkle root is ``root`` (hex)."""

    size: int
    root: str
    time: str
    envelope: bytes

    def lines(self) -> list[tuple[str, str]]:
        return [("Entries", f"{self.size:,}"), ("Root", self.root), ("Signed", self.time)]


def checkpoint_of(envelope: bytes, keys: KeyHistory) -> Checkpoint:
    """Raises VerificationError where this is not a checkpoint signed with a key of the log."""
    facts = predicate_of(keys.payload_of(envelope), CHECKPOINT)
    try:
        root = bytes.fromhex(facts["root"])
        return Checkpoint(int(facts["size"]), root.hex(), str(facts["time"]), envelope)
    except (KeyError, TypeError, ValueError):
        raise VerificationError(problem="the document is not a checkpoint") from None


class LogWatch:
    """The controller's log; keeps the last verified checkpoint to notice a fork or rollback."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    def checkpoint(self) -> Checkpoint:
        """The newest checkpoint, proved to continue the one kept before.

        Raises:
            VerificationError: Not signed, or the log was shortened, forked or rewritten.
        """
        stored_checkpoint = (
            self._seen()
        )  # before the request: another program of the user may store a newer one meanwhile
        answer = self._connection.call(self._connection.log.GetCheckpoint, pb.GetCheckpointRequest())
        new = self._connection.keys.checkpoint_of(answer.checkpoint)
        if stored_checkpoint is not None:
            self._check_continues(stored_checkpoint, new)
        self._remember(new, stored_checkpoint)
        return new

    def check_entry(self, index: int, checkpoint: Checkpoint) -> str:
        """The leaf hash, in hex, of the entry at ``index``, proved to be in the log.

        Raises:
            InvalidNumberError: The index is not a possible position in a log.
            VerificationError: The proof does not hold.
        """
        index = checked_number("entry", index, 0, LARGEST_WORD)
        request = pb.GetInclusionProofRequest(index=index, size=checkpoint.size)
        proof = self._connection.call(self._connection.log.GetInclusionProof, request)
        root = bytes.fromhex(checkpoint.root)
        check_inclusion(proof.leaf, index, checkpoint.size, proof.path, root)
        return proof.leaf.hex()

    def release_entry(
        self, body: bytes, receipt: Receipt, controller: str
    ) -> tuple[LogEntry, Checkpoint]:
        """The log entry of a release, proved to be in the newest checkpoint, and that checkpoint.

        Args:
            body: The entry as the controller sent it.
            controller: Its URI, as the card names it.

        Raises:
            VerificationError: The entry is not the receipt's, or not in the log.
        """
        check_release_entry(body, receipt, controller)
        return self.proved(body, receipt.log_index)

    def answer_entry(self, body: bytes, answer: SignedAnswer) -> tuple[LogEntry, Checkpoint]:
        """The same of a signed answer; raises as ``release_entry`` does."""
        check_answer_entry(body, answer)
        return self.proved(body, answer.log_index)

    def proved(self, body: bytes, index: int) -> tuple[LogEntry, Checkpoint]:
        """An entry with its proof that it is in the newest checkpoint, and that checkpoint.

        Raises:
            VerificationError: The log does not hold these bytes at ``index``.
        """
        checkpoint = self.checkpoint()
        request = pb.GetInclusionProofRequest(index=index, size=checkpoint.size)
        proof = self._connection.call(self._connection.log.GetInclusionProof, request)
        entry = LogEntry(body, checkpoint.size, tuple(proof.path))
        check_in_log(entry, index, bytes.fromhex(checkpoint.root))
        return entry, checkpoint

    @property
    def _file(self) -> Path:
        return self._connection.credentials.folder / LOG_SEEN

    def _seen(self, verified: Checkpoint | None = None) -> Checkpoint | None:
        """The kept checkpoint; its signature is checked unless these very bytes were verified."""
        if not self._file.exists():
            return None
        envelope = read_file(self._file, "log", DOCUMENT_LIMIT)
        if verified and verified.envelope == envelope:
            return verified
        return self._connection.keys.checkpoint_of(envelope)

    def _check_continues(self, seen: Checkpoint, new: Checkpoint) -> None:
        if new.size < seen.size:
            raise VerificationError(
                problem=f"the log has fewer than the {seen.size} entries it had before"
            )
        path: list[bytes] = []
        if 0 < seen.size < new.size:
            request = pb.GetConsistencyProofRequest(old_size=seen.size, new_size=new.size)
            proof = self._connection.call(self._connection.log.GetConsistencyProof, request)
            path = list(proof.path)
        if seen.size:
            roots = bytes.fromhex(seen.root), bytes.fromhex(new.root)
            check_consistency(seen.size, new.size, path, *roots)

    def _remember(self, checkpoint: Checkpoint, verified: Checkpoint | None) -> None:
        newest = self._seen(verified)
        if newest is not None and newest.size > checkpoint.size:
            return
        with appearing(self._file, "log") as part:
            part.write_bytes(checkpoint.envelope)
