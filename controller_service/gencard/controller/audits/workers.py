"""Workers of the cluster that gave a wrong answer: not used again until an operator admits them.

Each refused worker is a file of the state, so that it stays refused after a restart, and for every
controller that shares the state. The log records who was refused and admitted.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from gencard.controller.base.disk import StateFiles, write_whole
from gencard.controller.state.log import EventLog
from gencard.core.errors import NotFoundError, StorageError, WorkerError

_FOLDER, _ENDING = "workers", ".refused"


@dataclass(frozen=True, slots=True)
class RefusedWorkers:
    """Names of the workers that no audit may use."""

    files: StateFiles

    def names(self) -> frozenset[str]:
        """Names of all refused workers."""
        if self.files.shared:
            # copies in the folder may be of a worker that another controller has admitted
            stored = self.files.stored(f"{_FOLDER}/")
        else:
            stored = tuple(path.name for path in (self.files.folder / _FOLDER).glob(f"*{_ENDING}"))
        return frozenset(name.removeprefix(f"{_FOLDER}/").removesuffix(_ENDING) for name in stored)

    def trusted(self, workers: Mapping[str, str]) -> dict[str, str]:
        """Return the workers that are not refused, with their addresses."""
        names = self.names()
        return {name: address for name, address in workers.items() if name not in names}

    def refuse(self, error: WorkerError, operation: str) -> str:
        """Refuse the worker that an error names; return its name.

        Raises:
            StorageError: The refusal cannot be stored.
        """
        name = error.fields["worker"]
        path = self.files.folder / _file_name(name)
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = {"operation": operation, "problem": error.fields["problem"]}
        write_whole(path, [json.dumps(facts).encode()])
        self.files.put(_file_name(name))
        return name

    def admit(self, name: str) -> None:
        """Let audits use a worker again.

        Raises:
            NotFoundError: No such worker is refused.
            StorageError: The refusal cannot be removed.
        """
        if name not in self.names():
            raise NotFoundError(what="refused worker")
        self.files.forget(_file_name(name))
        try:
            (self.files.folder / _file_name(name)).unlink(missing_ok=True)
            return
        except OSError:
            pass
        raise StorageError


def _file_name(name: str) -> str:
    """Name of the state's file: with an ending, so that no worker's file begins like another's."""
    return f"{_FOLDER}/{name}{_ENDING}"


def log_worker(
    tx: Connection, log: EventLog, action: str, actor: str, name: str, now: datetime, **details: str
) -> None:
    """Record in the log that a worker was refused or admitted."""
    resource = f"workers/{name}"
    log.append(tx, action=action, actor=actor, resource=resource, details=details, now=now)
