"""A backup of the state, made while the service runs.

First the database, as it is at one moment; then the files that it names. Rows lie in their place before
the database names them and are never changed, so all that it names is there; what black boxes left may
be of a later moment, which spares a second run after a restore.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection

from gencard.controller.controller_state import ControllerState
from gencard.controller.settings.private_files import check_new, whole_folder, write_whole
from gencard.controller.settings.settings import State
from gencard.controller.state.database import Database
from gencard.controller.state.releases import ReleaseStore
from gencard.core.errors import InvalidInputError, StorageError
from gencard.wire.signatures.canonical import (
    document_of,
    integer_of,
    json_bytes,
    text_of,
    time_text,
    time_text_of,
)

FILE = "backup.json"
"""Lies in a backup, and in a state that was restored from one until all of it was found in order."""

DATABASE = "state.sqlite"
_KIND = "gencard.backup.v1"
_NAME = re.compile(r"(state\.sqlite|releases/[\w.-]+|kept/[\w-]+/\w+)")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class BackupList:
    """The list of a backup.

    Args:
        files: SHA-256, in hex, by path inside the backup.
        entries: Of the log in it.
        made: UTC, as text.
    """

    files: Mapping[str, str]
    entries: int
    made: str

    def encoded(self) -> bytes:
        document = {"kind": _KIND, "entries": str(self.entries), "files": dict(self.files)}
        return json_bytes(document | {"made": self.made})


def list_of(folder: Path) -> BackupList:
    """The list in a folder.

    Raises:
        InvalidInputError: There is none that can be read, or it names what no backup holds.
    """
    with suppress(OSError, KeyError, TypeError, ValueError):
        document = document_of((folder / FILE).read_bytes(), FILE)
        files = {text_of(name): text_of(digest) for name, digest in document["files"].items()}
        if document["kind"] == _KIND and all(map(_NAME.fullmatch, files)):
            made = time_text_of(document["made"])
            return BackupList(files, integer_of(document["entries"]), made)
    raise InvalidInputError(field="backup", problem=f"has no {FILE}, so it is not a complete backup")


def copied(source: Path, target: Path) -> str:
    """Copy a file to where none is, readable by the service alone and on the disk; its SHA-256, in hex.

    Raises:
        FileNotFoundError: It is not there.
        StorageError: It cannot be read or written.
    """
    hasher = hashlib.sha256()
    try:
        with source.open("rb") as given:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                while chunk := given.read(_CHUNK):
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
        made = _logged(tx, controller_state, steward)
    controller_state.database.copy_to(draft / DATABASE)
    copy = Database(f"sqlite:///{draft / DATABASE}")
    try:
        with copy.reading() as tx:
            entries = controller_state.log.size(tx)
            names = [release.file_name for release in ReleaseStore().all(tx)]
    finally:
        copy.close()
    state = controller_state.settings.state
    files = {DATABASE: digest_of_file(draft / DATABASE)}
    files |= dict(_copies(draft, "releases", state.releases, names))
    files |= dict(_kept(draft, state))
    contents = BackupList(files, entries, made)
    write_whole(draft / FILE, [contents.encoded()])
    return contents


def _logged(tx: Connection, controller_state: ControllerState, steward: str) -> str:
    """The time of the entry; a checkpoint covers it."""
    now = controller_state.cards.clock()
    event = controller_state.log.append(
        tx, action="backup", actor=steward, resource="state", details={}, now=now
    )
    controller_state.log.checkpoint(tx, now)
    return time_text(event.time)


def _copies(draft: Path, place: str, folder: Path, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        yield f"{place}/{name}", copied(folder / name, draft / place / name)


def _kept(draft: Path, state: State) -> Iterator[tuple[str, str]]:
    """What the runs of black boxes left; a file that is gone meanwhile is not wanted any more."""
    for path in sorted(state.kept.glob("*/[!.]*")):
        with suppress(FileNotFoundError):
            yield from _copies(draft, f"kept/{path.parent.name}", path.parent, [path.name])
