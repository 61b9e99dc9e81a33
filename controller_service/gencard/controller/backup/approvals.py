"""Approval of a restore by two stewards, if the settings require it; they sign the backup's list.

The owner of the machine can put files in place by hand; the log then lacks the names of the two
stewards.
"""

import getpass
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path

from gencard.controller.backup.backup import BackupList, list_of
from gencard.controller.people.identities import Enrolled, read_identities
from gencard.controller.settings.settings import Alone, Settings
from gencard.core.errors import InvalidInputError, SecondStewardError
from gencard.wire.documents.restore_approval import LIFE, RestoreApproval, approval_of
from gencard.wire.signatures.canonical import sha256, time_of
from gencard.wire.signatures.identity import Role

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
