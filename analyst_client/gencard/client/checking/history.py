"""The controller's log: each answer must continue what was verified before.

The newest verified checkpoint is kept beside the certificate, so that a forked or shortened log is
refused.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from gencard.client.common.arguments import LARGEST_WORD, checked_number
from gencard.client.common.files.folder import appearing
from gencard.client.connection.keys import Checkpoint
from gencard.core.errors import VerificationError
from gencard.files import DOCUMENT_LIMIT, read_file
from gencard.v1 import ledger_pb2 as pb
from gencard.wire.documents import Receipt, SignedAnswer
from gencard.wire.log import (
    LogEntry,
    check_answer_entry,
    check_consistency,
    check_in_log,
    check_inclusion,
    check_release_entry,
)

if TYPE_CHECKING:
    from gencard.client.connection.connection import Connection


LOG_SEEN = "log_seen.json"
"""File of the newest verified checkpoint, beside the certificate."""


class LogWatch:
    """The controller's log; keeps the last verified checkpoint to notice a fork or rollback."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    def checkpoint(self) -> Checkpoint:
        """The newest checkpoint, proved to continue the one kept before.

        Raises:
            VerificationError: Not signed, or the log was shortened, forked or rewritten.
        """
        # before the request: another program of the user may store a newer one meanwhile
        stored_checkpoint = self._seen()
        answer = self._connection.call(self._connection.log.GetCheckpoint, pb.GetCheckpointRequest())
        new = self._connection.keys.checkpoint_of(answer.checkpoint)
        if stored_checkpoint is not None:
            self._check_continues(stored_checkpoint, new)
        newest = self._seen(stored_checkpoint)
        if newest is None or newest.size <= new.size:
            with appearing(self._file, "log") as part:
                part.write_bytes(new.envelope)
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
