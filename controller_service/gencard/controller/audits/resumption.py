"""A cancelled audit is resumed: the same attempt and seeds, with the runs that had finished.

Cancelling reveals nothing, since progress depends on no record; so resuming is not a second attempt.
"""

import json
import shutil
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from gencard.controller.base.disk import JOURNALS, StateFiles
from gencard.controller.boxes.boxes import Boxes
from gencard.controller.cards.book import CardBook
from gencard.controller.state import requests, results
from gencard.controller.state.requests import UNFINISHED, OperationRow, OperationState
from gencard.controller.state.results import AuditRow
from gencard.core.card.card import AUDITABLE
from gencard.core.errors import GeneratorChangedError, InvalidInputError, NotFoundError, StorageError
from gencard.wire.signatures.identity import Identity

KIND = "audit"


@dataclass(frozen=True, slots=True)
class Journals:
    """One folder for each audit, readable by the service alone.

    What lies there was made from records. It is gone once the audit has a verdict or has failed, and
    waits if the audit was stopped or cancelled.
    """

    files: StateFiles

    def open(self, audit: str) -> Path:
        """Return the folder of an audit's runs, made if it is missing; raises StorageError."""
        path = self._path(audit)
        with suppress(OSError):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.is_dir():
            raise StorageError
        for name in self.files.stored(f"{self._name(audit)}/"):
            self.files.path(name)
        return path

    def store(self, audit: str) -> None:
        """Have the runs that ended in the state, so that another controller can go on with them."""
        if not self.files.shared:
            return
        stored_names = set(self.files.stored(f"{self._name(audit)}/"))
        for path in sorted(self._path(audit).glob("[!.]*")):
            if (name := f"{self._name(audit)}/{path.name}") not in stored_names:
                self.files.put(name)

    def forget(self, audit: str, tx: Connection | None = None) -> None:
        """Delete the audit's runs, in transaction ``tx`` if given."""
        shutil.rmtree(self._path(audit), ignore_errors=True)
        self.files.forget(f"{self._name(audit)}/", tx)

    def forget_since(self, audit: str, time: float) -> None:
        """Delete the runs that ended after a time, in seconds since 1970."""
        with suppress(OSError):
            for path in self._path(audit).iterdir():
                if path.stat().st_mtime > time:
                    path.unlink()
                    self.files.forget(f"{self._name(audit)}/{path.name}")
        self.store(audit)

    def keep(self, audits: Collection[str]) -> None:
        """Throw away the runs of all others."""
        folders = {self._path(audit).name for audit in audits}
        there = {path.name for path in (self.files.folder / JOURNALS).glob("*")}
        there |= {name.split("/")[1] for name in self.files.stored(f"{JOURNALS}/")}
        for audit in there - folders:
            self.forget(audit)

    def _path(self, audit: str) -> Path:
        return self.files.folder / self._name(audit)

    def _name(self, audit: str) -> str:
        return f"{JOURNALS}/{audit.rpartition('/')[2]}"


def resumed(
    tx: Connection,
    who: Identity,
    card: str,
    name: str,
    *,
    boxes: Boxes,
    black_box: str,
    seed: int,
) -> dict[str, Any]:
    """Return the request of a cancelled audit, to be made again.

    Args:
        name: Name of its operation.
        black_box: Empty, or the name of the same black box.
        seed: 0: the seeds are those of the cancelled audit.

    Raises:
        NotFoundError: ``who`` began no such audit under the card.
        InvalidInputError: The audit was not cancelled, was resumed before, or had another box.
        GeneratorChangedError: Another box goes by its name now.
    """
    request = _cancelled(tx, who, card, name)
    if seed:
        raise InvalidInputError(field="seed", problem="must be omitted: a resumed audit keeps its seed")
    if black_box not in ("", request["box"]):
        raise InvalidInputError(field="black_box", problem="differs from that of the audit to resume")
    if results.get_audit(tx, request["audit"]).box_digest != boxes.digest(request["box"]):
        raise GeneratorChangedError
    return request | {"resumes": name}


def tidy(tx: Connection, cards: CardBook, journals: Journals) -> None:
    """Delete the runs of audits that have ended or cannot be resumed."""
    rows = [row for row in requests.operations_of_kind(tx, KIND) if _waits(row)]
    unfinished = [results.get_audit(tx, _request(row)["audit"]) for row in rows]
    journals.keep([audit.name for audit in unfinished if _can_go_on(tx, cards, audit)])


def _can_go_on(tx: Connection, cards: CardBook, audit: AuditRow) -> bool:
    return audit.verdict is None and cards.card(tx, audit.card).state in AUDITABLE


def _cancelled(tx: Connection, who: Identity, card: str, name: str) -> dict[str, Any]:
    known = {row.name: row for row in requests.operations_of_kind(tx, KIND, card)}
    row = known.get(name)
    if row is None or row.owner != who.uri:
        raise NotFoundError(what="operation")
    if row.state is not OperationState.CANCELLED:
        raise InvalidInputError(field="resume", problem="names an audit that was not cancelled")
    if any(_request(other).get("resumes") == name for other in known.values()):
        raise InvalidInputError(field="resume", problem="names an audit that was already resumed")
    return _request(row)


def _request(row: OperationRow) -> dict[str, Any]:
    request: dict[str, Any] = json.loads(row.request)
    return request


def _waits(row: OperationRow) -> bool:
    return row.state in (*UNFINISHED, OperationState.CANCELLED)
