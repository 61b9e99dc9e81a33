"""Follows the controller's signing keys, from those that we were handed to those that sign now."""

from pathlib import Path
from typing import TYPE_CHECKING

from gencard.client.connection.credentials import Credentials
from gencard.client.files.folder import appearing
from gencard.core.errors import InvalidInputError
from gencard.v1 import ledger_pb2 as pb
from gencard.wire.documents.key_history import CARDS, LOG, KeyHistory, changes_file, changes_in

if TYPE_CHECKING:
    from gencard.client.connection.connection import Connection

SEEN = "keys_seen.json"
"""The longest history of keys that was believed, beside the certificate."""


class KeyWatch:
    """Asks for changes of keys once, and again where a signature is by a key that it does not know.

    What was believed is kept, so that a history that says something else later, or less, is refused.
    """

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        self._found: dict[str, KeyHistory] = {}

    def cards(self, *envelopes: bytes) -> KeyHistory:
        """Keys that sign cards, receipts, verdicts and revocations.

        Args:
            envelopes: What is to be verified.

        Raises:
            VerificationError: The controller's history of keys is not one that we can follow.
        """
        return self._history(CARDS, envelopes)

    def log(self, *envelopes: bytes) -> KeyHistory:
        """Keys that sign checkpoints; as ``cards``."""
        return self._history(LOG, envelopes)

    def changes(self) -> bytes | None:
        """All changes that were believed, as a document to keep; None where there were none."""
        envelopes = _seen(self._connection.credentials)
        return changes_file(envelopes) if envelopes else None

    def _history(self, use: str, envelopes: tuple[bytes, ...]) -> KeyHistory:
        known = self._found.get(use)
        if known is None or not all(map(known.knows_signer, envelopes)):
            self._fetch()
        return self._found[use]

    def _fetch(self) -> None:
        connection = self._connection
        answer = connection.call(connection.log.GetKeyHistory, pb.GetKeyHistoryRequest())
        told = list(answer.changes)
        known = (known_history(connection.credentials, use) for use in (CARDS, LOG))
        found = {history.use: history.continued_by(told) for history in known}
        _remember(connection.credentials, told)
        self._found = found


def known_history(credentials: Credentials, use: str) -> KeyHistory:
    """Keys of one use: that which we were handed, and all that we heard of.

    Raises:
        InvalidInputError: A file cannot be read.
        VerificationError: What was kept does not lead to the keys that we were handed.
    """
    handed = {CARDS: credentials.public_controller_key, LOG: credentials.public_log_key}
    return KeyHistory(handed[use](), use).followed(_seen(credentials))


def _seen(credentials: Credentials) -> list[bytes]:
    file = _file(credentials)
    try:
        return changes_in(file.read_bytes())
    except FileNotFoundError:
        return []
    except OSError:
        raise InvalidInputError(field="keys", problem=f"cannot read {file}") from None


def _remember(credentials: Credentials, envelopes: list[bytes]) -> None:
    if envelopes and len(envelopes) > len(_seen(credentials)):
        with appearing(_file(credentials), "keys") as part:
            part.write_bytes(changes_file(envelopes))


def _file(credentials: Credentials) -> Path:
    return credentials.folder / SEEN
