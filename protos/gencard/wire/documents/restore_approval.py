"""Approval of a restore: a steward's signed word that one backup may take the place of the state.

A restore happens while the service is stopped, so two stewards cannot decide at the desk. Each signs the
digest of the backup's list, which holds the digest of every file, wherever a copy of the list is.
"""

from dataclasses import dataclass
from datetime import timedelta

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from gencard.core.errors import InvalidInputError, VerificationError
from gencard.core.types import Time
from gencard.wire.signatures import dsse
from gencard.wire.signatures.canonical import (
    document_of,
    integer_of,
    json_bytes,
    sha256,
    text_of,
    time_text_of,
)
from gencard.wire.signatures.dsse import DOCUMENT, RESTORE_APPROVAL, predicate_of, statement

BACKUP = "gencard.backup.v1"
"""Kind of a backup's list."""

LIFE = timedelta(days=14)
"""Time for which an approval counts, as for any first decision."""

LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class BackupFacts:
    """Facts of a backup that a steward sees.

    Args:
        digest: SHA-256, in hex, of the list's canonical JSON.
        entries: Of the log in it.
        files: How many it has.
        made: UTC, as text.
    """

    digest: str
    entries: int
    files: int
    made: str


@dataclass(frozen=True, slots=True)
class RestoreApproval:
    """One steward's word.

    Args:
        backup: Digest of the backup's list.
        complete: Nothing was decided after the backup, so the budgets are free again.
        reason: Why; for the log.
        steward: URI.
        time: UTC, as text.
    """

    backup: str
    complete: bool
    reason: str
    steward: str
    time: Time

    def signed(self, key: Ed25519PrivateKey) -> bytes:
        """Sign the approval in a DSSE envelope."""
        return dsse.sign(statement(RESTORE_APPROVAL, "state", DOCUMENT.write(self), self.backup), [key])


def backup_facts(content: bytes) -> BackupFacts:
    """Read the facts in the list of a backup; raise InvalidInputError if the content is no such list."""
    try:
        document = document_of(content, "backup")
        if document["kind"] != BACKUP:
            raise ValueError
        entries, time = integer_of(document["entries"]), time_text_of(document["made"])
        names = [text_of(name) for name in document["files"]]
        return BackupFacts(sha256(json_bytes(document)), entries, len(names), time)
    except (KeyError, TypeError, ValueError, InvalidInputError):
        pass
    raise InvalidInputError(field="backup", problem="is not the list of a backup, backup.json")


def approval_of(envelope: bytes, key: Ed25519PublicKey) -> RestoreApproval | None:
    """The approval in an envelope that a key signed; None where it is none."""
    try:
        facts = predicate_of(dsse.verify(envelope, [key]), RESTORE_APPROVAL)
        return DOCUMENT.read(RestoreApproval, facts, field="approval")
    except (VerificationError, InvalidInputError, KeyError, TypeError, ValueError):
        return None
