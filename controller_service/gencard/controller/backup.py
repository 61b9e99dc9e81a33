"""Backups of the state, made while it is served, and their restoration after stewards approved it.

In: the state. Out: a folder with digests; a restored state whose budgets stay spent.

The database is copied first, as it is at one moment; then the files that it names. Rows are written
before the database names them and are never changed, so all named files exist. Files of black boxes may
be of a later moment, which saves a second run after a restore.
"""

import fcntl
import getpass
import hashlib
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path

from sqlalchemy import Connection, select

from gencard.controller.audits import KIND as AUDIT
from gencard.controller.base.disk import (
    IN_FORCE,
    ROWS,
    check_new,
    flush_folder,
    whole_folder,
    write_whole,
)
from gencard.controller.cards.book import CardAudits
from gencard.controller.controller_state import ControllerState
from gencard.controller.jobs.synthesis import RowsFile
from gencard.controller.people.enrolment import Enrolled, read_identities
from gencard.controller.people.keys import key_history
from gencard.controller.settings import Alone, Settings, State
from gencard.controller.state import requests, results, stewards
from gencard.controller.state.database import Database
from gencard.controller.state.ledger import accounts_of, columns_of
from gencard.controller.state.log import checkpoint_of
from gencard.controller.state.log import verify as verify_log
from gencard.controller.state.requests import OperationState
from gencard.controller.state.sharing import Leadership
from gencard.controller.state.tables import CURRENCIES, balances
from gencard.core.card.budget import Spend, SpendState
from gencard.core.errors import InvalidInputError, SecondStewardError, StorageError, VerificationError
from gencard.files import LIST_LIMIT, open_file, read_file
from gencard.wire.canonical import (
    document_of,
    integer_of,
    json_bytes,
    sha256,
    text_of,
    time_of,
    time_text,
    time_text_of,
)
from gencard.wire.documents import receipt_of_document
from gencard.wire.dsse import RECEIPT, predicate_of
from gencard.wire.keys import BACKUP, CARDS, LIFE, LOG, Identity, RestoreApproval, Role, approval_of


def check_state(controller_state: ControllerState, tx: Connection, known: Iterable[bytes] = ()) -> int:
    """Check the whole state; return the number of entries that the log is known to have had.

    ``known`` are checkpoints that others keep: one of a longer log shows that the log's end is lost.
    """
    keys, size = key_history(tx, controller_state.keys[LOG]), controller_state.log.size(tx)
    sizes = {envelope: checkpoint_of(envelope, keys).size for envelope in known}
    within = [envelope for envelope in sizes if sizes[envelope] <= size]
    verify_log(controller_state.log.entries(tx), [*controller_state.log.checkpoints(tx), *within], keys)
    sums: Counter[tuple[str, ...]] = Counter()
    for line in controller_state.ledger.all(tx):
        if line.state is not SpendState.VOIDED:
            for account in accounts_of(line.dataset, line.project, line.analyst):
                for name, units in columns_of(line.price).items():
                    sums[*asdict(account).values(), name] += units
    stored_totals: Counter[tuple[str, ...]] = Counter()
    for row in tx.execute(select(balances)).mappings():
        for name in CURRENCIES:
            stored_totals[row["scope"], row["dataset"], row["holder"], name] = row[name]
    if +sums != +stored_totals:
        raise VerificationError(problem="the ledger's balances are not the sums of its lines")
    card_keys, files = key_history(tx, controller_state.keys[CARDS]), controller_state.files
    for release in results.all_releases(tx):
        signed = predicate_of(card_keys.payload_of(release.receipt), RECEIPT)
        digests = {release.digest, receipt_of_document(signed).rows_digest}
        if digests != {RowsFile(files.path(f"{ROWS}/{release.file_name}")).dataset().digest()}:
            raise VerificationError(problem=f"the rows of {release.name} are not those that were signed")
    return max([size, *sizes.values()])


PATIENCE = 2.0
"""Seconds that a service which was killed may take until all its threads are gone."""


@contextmanager
def state_lock(folder: Path) -> Iterator[None]:
    """Hold the state's folder alone, at most until the process dies; raises InvalidInputError."""
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
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
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
    """The list of a backup: SHA-256, in hex, by path inside it, and when it was made, in UTC as text."""

    files: Mapping[str, str]
    entries: int
    made: str

    def encoded(self) -> bytes:
        document = {"kind": BACKUP, "entries": str(self.entries), "files": dict(self.files)}
        return json_bytes(document | {"made": self.made})


def list_of(folder: Path) -> BackupList:
    with suppress(InvalidInputError, KeyError, TypeError, ValueError):
        document = document_of(read_file(folder / FILE, FILE, LIST_LIMIT), FILE)
        files = {text_of(name): text_of(digest) for name, digest in document["files"].items()}
        if document["kind"] == BACKUP and all(map(_NAME.fullmatch, files)):
            time = time_text_of(document["made"])
            return BackupList(files, integer_of(document["entries"]), time)
    raise InvalidInputError(field="backup", problem=f"has no {FILE}, so it is not a complete backup")


def copied(source: Path, target: Path) -> str:
    """Copy a file to a new path, for the service alone, and sync it; return its SHA-256 in hex."""
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
    """Put a backup of SQLite into a new folder, all or nothing; InvalidInputError or StorageError."""
    check_new(folder)
    with suppress(OSError), whole_folder(folder) as draft:
        with controller_state.database.transaction() as tx:
            now = controller_state.cards.clock()
            entry = {"action": "backup", "actor": steward, "resource": "state"}
            event = controller_state.log.append(tx, **entry, details={}, now=now)
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
    raise StorageError


# Restoration, and the treatment of everything that happened since the backup.
#
# Releases after the backup are known to their receivers and not to the restored ledger. A restore
# therefore frees no budget:
#
# * the rest of each budget is held, in a line that only a steward can void, once the events are known;
# * reservations are settled, since they may have been used;
# * unfinished work is cancelled, since it may have been done;
# * passkeys and first decisions are removed, since they may be a thief's that were removed later.
#
# The state continues unchanged only if the steward says that nothing came after the backup, and no
# checkpoint shows otherwise.
#
# Approval of a restore by two stewards, if the settings require it; they sign the backup's list.
#
# The owner of the machine can put files in place by hand; the log then lacks the names of the two
# stewards.


MOST_NAMED = 3
"""Number of names that fit into one detail of the log."""
SKEW = timedelta(minutes=5)
"""Time by which a steward's clock may be ahead of the controller's."""

_ADVICE = "Two stewards run `gencard steward approve-restore`; name both files with --approval."


def agreed_on(
    settings: Settings,
    folder: Path | None,
    approvals: Sequence[bytes],
    *,
    complete: bool,
    emergency: bool,
) -> dict[str, str]:
    """Return the details that the log records about a backup and the stewards who approved it.

    In an emergency one steward restores alone although two are required. Raises InvalidInputError
    for an approval or backup that does not count, SecondStewardError for fewer than two stewards.
    """
    backup_list = None if folder is None else list_of(folder)
    agreement = {} if backup_list is None else {"digest": sha256(backup_list.encoded())}
    if Alone.RESTORE not in settings.stewards.two:
        return agreement
    agreement["account"] = getpass.getuser()
    if emergency:
        return agreement | {"emergency": "one steward decided alone"}
    if backup_list is None:
        problem = "is required, because two stewards approve the digest of its list"
        raise InvalidInputError(field="FOLDER", problem=problem)
    people, now = read_identities(settings.signing.identities), datetime.now(UTC)
    names = approved_by(backup_list, approvals, people, complete=complete, now=now)
    return agreement | {"approved": ", ".join(names[:MOST_NAMED])}


def approved_by(
    backup_list: BackupList,
    approvals: Sequence[bytes],
    people: Mapping[str, Enrolled],
    *,
    complete: bool,
    now: datetime,
) -> tuple[str, ...]:
    """Return the names of the stewards who approved this restore, at least two with different keys."""
    stewards = [one for one in people.values() if one.identity.role is Role.STEWARD and not one.disabled]
    digest, approved = sha256(backup_list.encoded()), {}
    for number, envelope in enumerate(approvals, 1):
        steward, approval = _signed(envelope, stewards)
        problem = ""
        if approval.backup != digest:
            problem = "is for another backup"
        elif approval.complete != complete:
            problem = f"is for a restore with{'' if approval.complete else 'out'} --complete"
        elif not -SKEW <= now - time_of(approval.time) <= LIFE:
            problem = f"is older than {LIFE.days} days, or dated in the future"
        if problem:
            raise InvalidInputError(field=f"--approval, number {number}", problem=problem)
        approved[steward.identity.name] = steward.keys
    pairs = combinations(approved.values(), 2)
    if len(approved) < 2 or any(one & other for one, other in pairs):
        raise SecondStewardError(why="a restore needs the approvals of two stewards", advice=_ADVICE)
    return tuple(approved)


def _signed(envelope: bytes, stewards: Sequence[Enrolled]) -> tuple[Enrolled, RestoreApproval]:
    """Return an approval and its steward. A replaced key may have been stolen and does not count."""
    for steward in stewards:
        approval = approval_of(envelope, steward.signing_key)
        if approval is not None and approval.steward == steward.identity.uri:
            return steward, approval
    problem = "was not signed by an enrolled steward with their current key"
    raise InvalidInputError(field="--approval", problem=problem)


HELD = "restore"
"""Kind of the ledger's line that holds the rest of a budget."""


@dataclass(frozen=True, slots=True)
class Restored:
    """Result of a restore: what was counted and what was changed.

    Args:
        known: Number of entries that the log is known to have had.
        held: Lines of the ledger that hold the rest of each dataset's budget.
    """

    entries: int
    known: int
    held: tuple[Spend, ...]
    settled: int
    ended: int


_OF_SERVICE = ("lock", IN_FORCE)
"""Files that a service leaves in its state's folder and that are no part of the state."""


def check_restored(state: State) -> None:
    """Raise InvalidInputError for a backup in place of the state that no steward has restored."""
    if (state.folder / FILE).exists():
        problem = "holds a backup; restore it with `gencard-controller restore`"
        raise InvalidInputError(field="state.folder", problem=problem)


def place(backup: Path, state: State) -> BackupList:
    """Copy a backup to the place of the state; its list is written first, and removed last.

    Nothing stays after InvalidInputError (another place), VerificationError or StorageError.
    """
    if state.url is not None:
        problem = "names a database that must be restored with its own tools"
        raise InvalidInputError(field="state.url", problem=problem)
    if any(path.name not in _OF_SERVICE for path in state.folder.glob("*")):
        problem = "is not empty, and no file is overwritten; name an empty state.folder"
        raise InvalidInputError(field="state.folder", problem=problem)
    backup_list = list_of(backup)
    try:
        copied(backup / FILE, state.folder / FILE)
        for name, digest in backup_list.files.items():
            if copied(backup / name, state.folder / name) != digest:
                raise VerificationError(problem=f"{name} of the backup was changed")
        return backup_list
    except FileNotFoundError:
        clear(state)
    except BaseException:
        clear(state)
        raise
    raise StorageError


def clear(state: State) -> None:
    """Delete the files that ``place`` copied."""
    for path in state.folder.glob("*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif path.name not in _OF_SERVICE:
            path.unlink(missing_ok=True)


@contextmanager
def alone(state: State) -> Iterator[Leadership | None]:
    """Lead a shared database during the block; raises InvalidInputError if a service leads."""
    if not state.shared:
        yield None
        return
    leadership = Leadership(state.database_url, state.folder)
    try:
        if not leadership.try_lead():
            problem = "is in use by another service; stop it first"
            raise InvalidInputError(field="state.url", problem=problem)
        yield leadership
    finally:
        leadership.close()


def take_over(
    controller_state: ControllerState,
    steward: str,
    known: Sequence[bytes],
    *,
    complete: bool,
    agreed: Mapping[str, str] | None = None,
) -> Restored:
    """Check the restored state, and record what happened to everything since the backup.

    With ``complete``, nothing was decided after the backup, and the state continues unchanged,
    unless one of the ``known`` checkpoints shows otherwise: InvalidInputError. Raises
    VerificationError or StorageError for a state that is not whole.
    """
    with controller_state.database.transaction() as tx:
        entries, most = controller_state.log.size(tx), check_state(controller_state, tx, known)
        if complete and most > entries:
            problem = f"a checkpoint covers {most} entries of the log, and the backup has {entries}"
            raise InvalidInputError(field="complete", problem=problem)
        restored = Restored(entries, most, (), 0, 0)
        if not complete:
            restored = _close(controller_state, tx, entries, most)
            # a passkey that was stolen may have been removed since, and a first decision voided
            controller_state.passkeys.forget_all(tx, steward)
            stewards.forget_all_first_decisions(tx)
        entry = {"action": "restore", "actor": steward, "resource": "state"}
        details = {"reason": "complete" if complete else "older", **(agreed or {})}
        details |= {"entries": str(entries), "known_entries": str(most)}
        now = controller_state.cards.clock()
        controller_state.log.append(tx, **entry, details=details, now=now)
    folder = controller_state.settings.state.folder
    with suppress(OSError):
        if (folder / FILE).exists():  # without it, the state may be served
            os.unlink(folder / FILE)
            flush_folder(folder)
        return restored
    raise StorageError


def _close(controller_state: ControllerState, tx: Connection, entries: int, known: int) -> Restored:
    """Cancel unfinished operations, settle reservations and hold the rest of each budget."""
    cards, ledger = controller_state.cards, controller_state.ledger
    waiting = requests.unfinished_operations(tx)  # they may have ended after the backup
    audits = CardAudits(cards, controller_state.boxes)
    for operation in waiting:
        requests.move_operation(tx, operation.name, OperationState.CANCELLED, cards.clock())
        if operation.kind == AUDIT:
            audits.give_up(tx, operation.resource, ())
    # Open reservations count as spent, but not what earlier restores held.
    lines = [line for line in ledger.all(tx) if line.state is SpendState.RESERVED and line.kind != HELD]
    for line in lines:
        ledger.settle(tx, line.line, cards.clock())
    facts = {"project": Identity.of(cards.controller).project, "holder": cards.controller, "kind": HELD}
    held = [ledger.hold_rest(tx, name, **facts, now=cards.clock()) for name in ledger.caps]
    return Restored(entries, known, tuple(filter(None, held)), len(lines), len(waiting))
