"""A backup of the state, made while the service runs.

First the database, as it is at one moment; then the files that it names. Rows lie in their place before
the database names them and are never changed, so all that it names is there; what black boxes left may
be of a later moment, which spares a second run after a restore.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from sqlalchemy import Connection

from gencard.controller.desk import Desk
from gencard.controller.settings.private_file import check_new, whole_folder, write_whole
from gencard.controller.settings.settings_tables import State
from gencard.controller.state.database import Database
from gencard.controller.state.releases import ReleaseStore
from gencard.controller.upkeep.backup_list import DATABASE, FILE, BackupList, copied, digest_of_file
from gencard.core.errors import StorageError
from gencard.wire.signatures.canonical import time_text


def back_up(desk: Desk, folder: Path, steward: str) -> BackupList:
    """Put a backup into a new folder: all of it, or nothing.

    Raises:
        InvalidInputError: The folder holds something already, or the database is not SQLite.
        StorageError: Something cannot be read or written.
    """
    check_new(folder)
    with suppress(OSError), whole_folder(folder) as draft:
        return _filled(desk, draft, steward)
    raise StorageError


def _filled(desk: Desk, draft: Path, steward: str) -> BackupList:
    with desk.database.transaction() as tx:
        made = _logged(tx, desk, steward)
    desk.database.copy_to(draft / DATABASE)
    copy = Database(f"sqlite:///{draft / DATABASE}")
    try:
        with copy.reading() as tx:
            entries = desk.log.size(tx)
            names = [release.file_name for release in ReleaseStore().all(tx)]
    finally:
        copy.close()
    state = desk.settings.state
    files = {DATABASE: digest_of_file(draft / DATABASE)}
    files |= dict(_copies(draft, "releases", state.releases, names))
    files |= dict(_kept(draft, state))
    found = BackupList(files, entries, made)
    write_whole(draft / FILE, [found.encoded()])
    return found


def _logged(tx: Connection, desk: Desk, steward: str) -> str:
    """The time of the entry; a checkpoint covers it."""
    now = desk.cards.clock()
    event = desk.log.append(tx, action="backup", actor=steward, resource="state", details={}, now=now)
    desk.log.checkpoint(tx, now)
    return time_text(event.time)


def _copies(draft: Path, place: str, folder: Path, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        yield f"{place}/{name}", copied(folder / name, draft / place / name)


def _kept(draft: Path, state: State) -> Iterator[tuple[str, str]]:
    """What the runs of black boxes left; a file that is gone meanwhile is not wanted any more."""
    for path in sorted(state.kept.glob("*/[!.]*")):
        with suppress(FileNotFoundError):
            yield from _copies(draft, f"kept/{path.parent.name}", path.parent, [path.name])
