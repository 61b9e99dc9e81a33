"""Keeps an eye on the controller's log: what was seen once must stay in it for ever."""

from dataclasses import dataclass
from pathlib import Path

from gencard.client.connection.bounds import LARGEST_WORD, whole
from gencard.client.connection.connection import Connection
from gencard.client.files.folder import appearing
from gencard.core.errors import InvalidInputError, VerificationError
from gencard.v1 import ledger_pb2 as pb
from gencard.wire.documents.key_history import KeyHistory
from gencard.wire.documents.receipt import Receipt
from gencard.wire.documents.statements import CHECKPOINT, predicate_of
from gencard.wire.log.log_entry import LogEntry, check_in_log, check_release_entry
from gencard.wire.log.merkle import check_consistency, check_inclusion

SEEN = "log_seen.json"
"""The newest checkpoint that was believed, beside the certificate."""


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
    """Raises VerificationError where this is no checkpoint signed with a key of the log."""
    facts = predicate_of(keys.payload_of(envelope), CHECKPOINT)
    try:
        root = bytes.fromhex(facts["root"])
        return Checkpoint(int(facts["size"]), root.hex(), str(facts["time"]), envelope)
    except (KeyError, TypeError, ValueError):
        raise VerificationError(problem="the document is not a checkpoint") from None


class LogWatch:
    """Asks for checkpoints and remembers the last one, so that a fork or a rollback is noticed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def checkpoint(self) -> Checkpoint:
        """The newest checkpoint, proved to continue the one seen before.

        Raises:
            VerificationError: Not signed, or the log was shortened, forked or rewritten.
        """
        seen = self._seen()  # before the answer: what another program of ours sees meanwhile is newer
        answer = self._connection.call(self._connection.log.GetCheckpoint, pb.GetCheckpointRequest())
        new = self._checked(answer.checkpoint)
        if seen is not None:
            self._check_continues(seen, new)
        self._remember(new)
        return new

    def check_entry(self, index: int, checkpoint: Checkpoint) -> str:
        """The leaf hash, in hex, of the entry at ``index``, proved to be in the log.

        Raises:
            InvalidNumberError: No log has such an entry.
            VerificationError: The proof does not hold.
        """
        index = whole("entry", index, 0, LARGEST_WORD)
        request = pb.GetInclusionProofRequest(index=index, size=checkpoint.size)
        proof = self._connection.call(self._connection.log.GetInclusionProof, request)
        root = bytes.fromhex(checkpoint.root)
        check_inclusion(proof.leaf, index, checkpoint.size, proof.path, root)
        return proof.leaf.hex()

    def release_entry(
        self, body: bytes, receipt: Receipt, controller: str
    ) -> tuple[LogEntry, Checkpoint]:
        """A release's entry, proved to be in the log as its newest checkpoint signs it; and this one.

        Args:
            body: The entry, as the controller tells it.
            controller: Its URI, as the card names it.

        Raises:
            VerificationError: The entry is not the receipt's, or not in the log.
        """
        check_release_entry(body, receipt, controller)
        checkpoint = self.checkpoint()
        request = pb.GetInclusionProofRequest(index=receipt.log_index, size=checkpoint.size)
        proof = self._connection.call(self._connection.log.GetInclusionProof, request)
        entry = LogEntry(body, checkpoint.size, tuple(proof.path))
        check_in_log(entry, receipt.log_index, bytes.fromhex(checkpoint.root))
        return entry, checkpoint

    def _checked(self, envelope: bytes) -> Checkpoint:
        return checkpoint_of(envelope, self._connection.keys.log(envelope))

    @property
    def _file(self) -> Path:
        return self._connection.credentials.folder / SEEN

    def _seen(self) -> Checkpoint | None:
        try:
            envelope = self._file.read_bytes()
        except FileNotFoundError:
            return None
        except OSError:
            raise InvalidInputError(field="log", problem=f"cannot read {self._file}") from None
        return self._checked(envelope)

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

    def _remember(self, checkpoint: Checkpoint) -> None:
        newest = self._seen()
        if newest is not None and newest.size > checkpoint.size:
            return
        with appearing(self._file, "log") as part:
            part.write_bytes(checkpoint.envelope)
