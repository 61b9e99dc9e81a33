"""A backup of the state, made while the service runs; whether a state is whole, and its lock.

The database is copied first, as it is at one moment; then the files that it names. Rows are written
before the database names them and are never changed, so all named files exist. Files of black boxes may
be of a later moment, which saves a second run after a restore.
"""

import fcntl
import hashlib
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, select

from gencard.controller.base.disk import ROWS, check_new, whole_folder, write_whole
from gencard.controller.controller_state import ControllerState
from gencard.controller.jobs.rows_file import RowsFile
from gencard.controller.people.signing_keys import key_history
from gencard.controller.state import results
from gencard.controller.state.database import Database
from gencard.controller.state.ledger import accounts_of, columns_of
from gencard.controller.state.log import checkpoint_of
from gencard.controller.state.log import verify as verify_log
from gencard.controller.state.tables import CURRENCIES, balances
from gencard.core.card.budget import SpendState
from gencard.core.errors import InvalidInputError, StorageError, VerificationError
from gencard.files import LIST_LIMIT, open_file, read_file
from gencard.wire.canonical import (
    document_of,
    integer_of,
    json_bytes,
    text_of,
    time_text,
    time_text_of,
)
from gencard.wire.documents import receipt_of_document
from gencard.wire.dsse import RECEIPT, predicate_of
from gencard.wire.keys import BACKUP, CARDS, LOG


def check_state(controller_state: ControllerState, tx: Connection, known: Iterable[bytes] = ()) -> int:
    """Check the whole state; return the number of entries that the log is known to have had.

    Args:
        known: Checkpoints that others keep. A checkpoint of a longer log shows that the log's end is
            lost.

    Raises:
        VerificationError: Something is wrong; the error names the first problem.
        StorageError: Rows of a release are missing.
    """
    keys, size = key_history(tx, controller_state.keys[LOG]), controller_state.log.size(tx)
    sizes = {envelope: checkpoint_of(envelope, keys).size for envelope in known}
    within = [envelope for envelope in sizes if sizes[envelope] <= size]
    verify_log(controller_state.log.entries(tx), [*controller_state.log.checkpoints(tx), *within], keys)
    _check_ledger(controller_state, tx)
    _check_releases(controller_state, tx)
    return max([size, *sizes.values()])


def _check_ledger(controller_state: ControllerState, tx: Connection) -> None:
    """Check that balances are the sums of lines."""
    sums: Counter[tuple[str, ...]] = Counter()
    for line in controller_state.ledger.all(tx):
        if line.state is not SpendState.VOIDED:
            for account in accounts_of(line.dataset, line.project, line.analyst):
                for name, units in columns_of(line.price).items():
                    sums[*account.columns().values(), name] += units
    stored_totals: Counter[tuple[str, ...]] = Counter()
    for row in tx.execute(select(balances)).mappings():
        for name in CURRENCIES:
            stored_totals[row["scope"], row["dataset"], row["holder"], name] = row[name]
    if +sums != +stored_totals:
        raise VerificationError(problem="the ledger's balances are not the sums of its lines")


def _check_releases(controller_state: ControllerState, tx: Connection) -> None:
    """Check that the rows of every release are the signed rows."""
    keys, files = key_history(tx, controller_state.keys[CARDS]), controller_state.files
    for release in results.all_releases(tx):
        signed = predicate_of(keys.payload_of(release.receipt), RECEIPT)
        digests = {release.digest, receipt_of_document(signed).rows_digest}
        if digests != {RowsFile(files.path(f"{ROWS}/{release.file_name}")).dataset().digest()}:
            raise VerificationError(problem=f"the rows of {release.name} are not those that were signed")


PATIENCE = 2.0
"""Seconds that a service which was killed may take until all its threads are gone."""


@contextmanager
def state_lock(folder: Path) -> Iterator[None]:
    """Hold the state's folder alone; the system lets go of it too when the process dies.

    Raises:
        InvalidInputError: Another service holds it.
        StorageError: The folder cannot be written.
    """
    lock = _opened(folder / "lock")
    try:
        end = time.monotonic() + PATIENCE
        while not (is_taken := _took(lock)) and time.monotonic() < end:
            time.sleep(0.05)
        if not is_taken:
            problem = "is in use by another service; stop it first, or name another folder"
            raise InvalidInputError(field="state.folder", problem=problem)
        yield
    finally:
        os.close(lock)


def is_served(folder: Path) -> bool:
    """Whether a service on this machine holds the state's folder now."""
    if not (folder / "lock").exists():
        return False
    lock = _opened(folder / "lock")
    try:
        return not _took(lock)
    finally:
        os.close(lock)


def _opened(path: Path) -> int:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        pass
    raise StorageError


def _took(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


FILE = "backup.json"
"""Name of the backup's list; a restored state keeps the file until its check has passed."""

DATABASE = "state.sqlite"
_NAME = re.compile(r"(state\.sqlite|releases/[\w.-]+|kept/[\w-]+/\w+)")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class BackupList:
    """The list of a backup.

    Args:
        files: SHA-256, in hex, by path inside the backup.
        entries: Number of entries of its log.
        made: UTC, as text.
    """

    files: Mapping[str, str]
    entries: int
    made: str

    def encoded(self) -> bytes:
        document = {"kind": BACKUP, "entries": str(self.entries), "files": dict(self.files)}
        return json_bytes(document | {"made": self.made})


def list_of(folder: Path) -> BackupList:
    """Read the list of a backup from its folder.

    Raises:
        InvalidInputError: The list is missing or unreadable, or names a file that no backup holds.
    """
    with suppress(InvalidInputError, KeyError, TypeError, ValueError):
        document = document_of(read_file(folder / FILE, FILE, LIST_LIMIT), FILE)
        files = {text_of(name): text_of(digest) for name, digest in document["files"].items()}
        if document["kind"] == BACKUP and all(map(_NAME.fullmatch, files)):
            time = time_text_of(document["made"])
            return BackupList(files, integer_of(document["entries"]), time)
    raise InvalidInputError(field="backup", problem=f"has no {FILE}, so it is not a complete backup")


def copied(source: Path, target: Path) -> str:
    """Copy a file to a new path, readable by the service alone, and sync it; return its SHA-256 in hex.

    Raises:
        FileNotFoundError: The source does not exist.
        StorageError: A file cannot be read or written.
    """
    hasher = hashlib.sha256()
    try:
        if not source.exists():
            raise FileNotFoundError
        with open_file(source, "backup") as stream:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                while chunk := stream.read(_CHUNK):
                    hasher.update(chunk)
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
        return hasher.hexdigest()
    except FileNotFoundError:
        raise
    except OSError:
        pass
    raise StorageError


def digest_of_file(path: Path) -> str:
    """SHA-256, in hex; raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def back_up(controller_state: ControllerState, folder: Path, steward: str) -> BackupList:
    """Put a backup into a new folder: all of it, or nothing.

    Raises:
        InvalidInputError: The folder holds something already, or the database is not SQLite.
        StorageError: Something cannot be read or written.
    """
    check_new(folder)
    with suppress(OSError), whole_folder(folder) as draft:
        return _filled(controller_state, draft, steward)
    raise StorageError


def _filled(controller_state: ControllerState, draft: Path, steward: str) -> BackupList:
    with controller_state.database.transaction() as tx:
        now = controller_state.cards.clock()
        event = controller_state.log.append(
            tx, action="backup", actor=steward, resource="state", details={}, now=now
        )
        controller_state.log.checkpoint(tx, now)
        made = time_text(event.time)  # of an entry that a checkpoint covers
    controller_state.database.copy_to(draft / DATABASE)
    copy = Database(f"sqlite:///{draft / DATABASE}")
    try:
        with copy.reading() as tx:
            entries = controller_state.log.size(tx)
            names = [release.file_name for release in results.all_releases(tx)]
    finally:
        copy.close()
    state = controller_state.settings.state
    files = {DATABASE: digest_of_file(draft / DATABASE)}
    for name in names:
        files[f"releases/{name}"] = copied(state.releases / name, draft / "releases" / name)
    for path in sorted(state.kept.glob("*/[!.]*")):  # files that runs of black boxes left
        with suppress(FileNotFoundError):  # deleted meanwhile
            name = f"kept/{path.parent.name}/{path.name}"
            files[name] = copied(path, draft / name)
    contents = BackupList(files, entries, made)
    write_whole(draft / FILE, [contents.encoded()])
    return contents
