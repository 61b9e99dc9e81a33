"""Restore of a state from a backup, and the treatment of everything that happened since.

Releases after the backup are known to their receivers and not to the restored ledger. A restore
therefore frees no budget:

* the rest of each budget is held, in a line that only a steward can void, once the events are known;
* reservations are settled, since they may have been used;
* unfinished work is cancelled, since it may have been done;
* passkeys and first decisions are removed, since they may be a thief's that were removed later.

The state continues unchanged only if the steward says that nothing came after the backup, and no
checkpoint shows otherwise.
"""

import getpass
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path

from sqlalchemy import Connection

from gencard.controller.audits.audits import KIND as AUDIT
from gencard.controller.backup.backup import FILE, BackupList, check_state, copied, list_of
from gencard.controller.base.disk import IN_FORCE, flush_folder
from gencard.controller.cards.audit_state import CardAudits
from gencard.controller.controller_state import ControllerState
from gencard.controller.people.enrolment import Enrolled, read_identities
from gencard.controller.settings.settings import Alone, Settings, State
from gencard.controller.state import requests, stewards
from gencard.controller.state.leadership import Leadership
from gencard.core.card.budget import Spend, SpendState
from gencard.core.errors import (
    InvalidInputError,
    SecondStewardError,
    StorageError,
    VerificationError,
)
from gencard.wire.canonical import sha256, time_of
from gencard.wire.keys import LIFE, Identity, RestoreApproval, Role, approval_of

# Approval of a restore by two stewards, if the settings require it; they sign the backup's list.
#
# The owner of the machine can put files in place by hand; the log then lacks the names of the two
# stewards.


TWO = 2
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
    """Return the details that the log records about a backup and about the stewards who approved it.

    Args:
        folder: Folder of the backup; None if the state is in its place already.
        approvals: Signed envelopes of the stewards.
        emergency: Whether one steward restores alone although two are required.

    Raises:
        InvalidInputError: One of the approvals does not count, or the folder is missing or no backup.
        SecondStewardError: Fewer than two stewards approved.
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
    """Return the names of the stewards who approved this restore, at least two with different keys.

    Raises:
        InvalidInputError: One of the approvals does not count.
        SecondStewardError: Fewer than two stewards approved.
    """
    stewards = [one for one in people.values() if one.identity.role is Role.STEWARD and not one.disabled]
    expected, approved = (sha256(backup_list.encoded()), complete), {}
    for number, envelope in enumerate(approvals, 1):
        steward, approval = _signed(envelope, stewards)
        if problem := _problem(approval, expected, now):
            raise InvalidInputError(field=f"--approval, number {number}", problem=problem)
        approved[steward.identity.name] = steward.keys
    pairs = combinations(approved.values(), 2)
    if len(approved) < TWO or any(one & other for one, other in pairs):
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


def _problem(approval: RestoreApproval, wanted: tuple[str, bool], now: datetime) -> str:
    """Return the reason why an approval does not count; empty if it counts."""
    if approval.backup != wanted[0]:
        return "is for another backup"
    if approval.complete != wanted[1]:
        return f"is for a restore with{'' if approval.complete else 'out'} --complete"
    if not -SKEW <= now - time_of(approval.time) <= LIFE:
        return f"is older than {LIFE.days} days, or dated in the future"
    return ""


HELD = "restore"
"""Kind of the ledger's line that holds the rest of a budget."""


@dataclass(frozen=True, slots=True)
class Restored:
    """Result of a restore: what was counted and what was changed.

    Args:
        entries: Number of entries of the restored log.
        known: Number of entries that the log is known to have had.
        held: Lines of the ledger that hold the rest of each dataset's budget.
        settled: Number of reservations that were settled.
        ended: Number of operations that were cancelled.
    """

    entries: int
    known: int
    held: tuple[Spend, ...]
    settled: int
    ended: int


_OF_SERVICE = ("lock", IN_FORCE)
"""Files that a service leaves in its state's folder and that are no part of the state."""


def check_restored(state: State) -> None:
    """Refuse to serve a backup before a steward restored it and said what happened since.

    Raises:
        InvalidInputError: The folder holds a backup that was copied there and not restored.
    """
    if (state.folder / FILE).exists():
        problem = "holds a backup; restore it with `gencard-controller restore`"
        raise InvalidInputError(field="state.folder", problem=problem)


def place(backup: Path, state: State) -> BackupList:
    """Copy a backup to the place of the state; its list is written first, and removed last.

    Raises:
        InvalidInputError: The place is not empty, or the settings name another database.
        VerificationError: A file differs from the file that was backed up.
        StorageError: A file cannot be read or written; nothing stays.
    """
    if state.url is not None:
        raise InvalidInputError(
            field="state.url", problem="names a database that must be restored with its own tools"
        )
    if any(path.name not in _OF_SERVICE for path in state.folder.glob("*")):
        raise InvalidInputError(
            field="state.folder",
            problem="is not empty, and no file is overwritten; name an empty state.folder",
        )
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
    """Hold the leadership during the block if controllers share the database.

    Raises:
        InvalidInputError: A service leads.
        StorageError: The database cannot be reached.
    """
    if not state.shared:
        yield None
        return
    leadership = Leadership(state.database_url, state.folder)
    try:
        if not leadership.try_lead():
            raise InvalidInputError(
                field="state.url", problem="is in use by another service; stop it first"
            )
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

    Args:
        known: Checkpoints of the log that others keep.
        complete: Whether nothing was decided after the backup: the state continues unchanged.
        agreed: Details of the approval for the log.

    Raises:
        InvalidInputError: A checkpoint shows that the backup is not complete.
        VerificationError, StorageError: The state is not whole.
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
        reason = "complete" if complete else "older"
        details = {"reason": reason, **(agreed or {}), "entries": str(entries)}
        controller_state.log.append(
            tx,
            action="restore",
            actor=steward,
            resource="state",
            details={**details, "known_entries": str(most)},
            now=controller_state.cards.clock(),
        )
    _forget_list(controller_state.settings.state)
    return restored


def _close(controller_state: ControllerState, tx: Connection, entries: int, known: int) -> Restored:
    """Cancel unfinished operations, settle reservations and hold the rest of each budget."""
    cards, ledger = controller_state.cards, controller_state.ledger
    waiting = requests.unfinished_operations(tx)  # they may have ended after the backup
    audits = CardAudits(cards, controller_state.boxes)
    for operation in waiting:
        requests.cancel_operation(tx, operation.name, cards.clock())
        if operation.kind == AUDIT:
            audits.give_up(tx, operation.resource, ())
    # Open reservations count as spent, but not what earlier restores held.
    lines = [line for line in ledger.all(tx) if line.state is SpendState.RESERVED and line.kind != HELD]
    for line in lines:
        ledger.settle(tx, line.line, cards.clock())
    facts = {"project": Identity.of(cards.controller).project, "holder": cards.controller, "kind": HELD}
    held = [ledger.hold_rest(tx, name, **facts, now=cards.clock()) for name in ledger.datasets]
    return Restored(entries, known, tuple(filter(None, held)), len(lines), len(waiting))


def _forget_list(state: State) -> None:
    """From now on the state may be served; raises StorageError."""
    try:
        if (state.folder / FILE).exists():
            os.unlink(state.folder / FILE)
            flush_folder(state.folder)
        return
    except OSError:
        pass
    raise StorageError
