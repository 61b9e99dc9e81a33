"""steward approve-restore: one of the two words that a restore needs, signed without the service."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from gencard.client.common.files.folder import write_bytes
from gencard.client.connection.credentials import Credentials
from gencard.client.shell.deciding import Reason, Shown, Yes, confirmed
from gencard.client.shell.terminal import HERE, AsJson, Folder, say, say_json
from gencard.client.stewards.registers import Preview
from gencard.core.errors import InvalidInputError, PermissionDeniedError
from gencard.files import LIST_LIMIT, read_file
from gencard.wire.documents.restore_approval import (
    LIFE,
    LONGEST_REASON,
    RestoreApproval,
    backup_facts,
)
from gencard.wire.signatures.canonical import time_text
from gencard.wire.signatures.identity import Role


def approve_restore(
    backup: Annotated[Path, typer.Argument(help="The backup's list, backup.json, or a copy of it.")],
    complete: Annotated[
        bool,
        typer.Option(
            "--complete",
            help="Confirm that nothing was decided after the backup, and release the budgets.",
        ),
    ] = False,
    output: Annotated[
        Path | None, typer.Option(help="File for the approval. Default: NAME-approves.json.")
    ] = None,
    shown: Shown = None,
    reason: Reason = None,
    yes: Yes = False,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Approve a restore: sign that a backup may replace the state. The service may be stopped.

    The list holds the digest of every file of the backup. Two stewards sign, and the operator of
    the controller passes both files to `gencard-controller restore --approval`.
    """
    credentials = Credentials.of_folder(connection)
    who, key = credentials.identity(), credentials.private_signing_key()
    if who.role is not Role.STEWARD:
        raise PermissionDeniedError(advice="Only stewards approve a restore.")
    preview = _preview(read_file(backup, "backup", LIST_LIMIT), complete)
    digest, why = confirmed("Approve", lambda _: preview, str(backup), shown, reason, yes)
    if digest != preview.shown:
        raise InvalidInputError(field="--shown", problem="is not the digest of this backup's list")
    if not why.isprintable() or not 0 < len(why.strip()) <= LONGEST_REASON:
        problem = f"must be one printable line of 1 to {LONGEST_REASON} characters"
        raise InvalidInputError(field="reason", problem=problem)
    approval = RestoreApproval(digest, complete, why, who.uri, time_text(datetime.now(UTC)))
    file = output or Path(f"{who.name}-approves.json")
    write_bytes(file, approval.signed(key))
    if as_json:
        say_json({"file": str(file), "backup": digest, "complete": complete, "by": who.uri})
        return
    say(f"Written: {file}. It is valid for {LIFE.days} days. With the approval of another steward, run:")
    say(f"gencard-controller restore FOLDER --approval {file.name} --approval OTHER")


def _preview(content: bytes, complete: bool) -> Preview:
    """Make the preview of the backup that the steward sees."""
    facts = backup_facts(content)
    backup = {
        "made": facts.made,
        "log_entries": facts.entries,
        "files": facts.files,
        "budgets": "released: nothing was decided since" if complete else "blocked until checked",
    }
    return Preview("restore", "state", {"complete": complete}, backup, True, facts.digest)
