"""A cancelled audit, carried on: the same attempt, with the same seeds, and its finished runs.

To cancel tells nobody anything, for progress depends on no record; so to carry on is no second try.
"""

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from gencard.controller.audits.journals import Journals
from gencard.controller.boxes.boxes import Boxes
from gencard.controller.cards.cards import Cards
from gencard.controller.operations.operations import Operations
from gencard.controller.state.audits import AuditRow, AuditStore
from gencard.controller.state.operations import UNFINISHED, OperationRow, OperationState
from gencard.core.card.card import AUDITABLE
from gencard.core.errors import GeneratorChangedError, InvalidInputError, NotFoundError
from gencard.wire.signatures.identity import Identity

KIND = "audit"


@dataclass(frozen=True, slots=True)
class Resumption:
    """Finds what a cancelled audit was asked, and keeps its runs until then."""

    cards: Cards
    boxes: Boxes
    store: AuditStore
    operations: Operations
    journals: Journals

    def of(
        self, tx: Connection, who: Identity, card: str, name: str, *, black_box: str, seed: int
    ) -> dict[str, Any]:
        """The request of a cancelled audit, to be made again.

        Args:
            name: Its operation.
            black_box: Empty, or the same one.
            seed: 0: the seeds are those of the cancelled audit.

        Raises:
            NotFoundError: ``who`` began no such audit under the card.
            InvalidInputError: It was not cancelled, or was carried on before, or had another box.
            GeneratorChangedError: Another box goes by its name now.
        """
        asked = self._cancelled(tx, who, card, name)
        if seed:
            raise InvalidInputError(
                field="seed", problem="must be omitted: a resumed audit keeps its seed"
            )
        if black_box not in ("", asked["box"]):
            raise InvalidInputError(
                field="black_box", problem="differs from that of the audit to resume"
            )
        if self.store.get(tx, asked["audit"]).box_digest != self.boxes.digest(asked["box"]):
            raise GeneratorChangedError
        return asked | {"resumes": name}

    def tidy(self, tx: Connection) -> None:
        """Throw away the runs of audits that ended or that nobody can carry on."""
        rows = [row for row in self.operations.of_kind(tx, KIND) if _waits(row)]
        begun = [self.store.get(tx, _request(row)["audit"]) for row in rows]
        self.journals.keep([audit.name for audit in begun if self._can_go_on(tx, audit)])

    def _can_go_on(self, tx: Connection, audit: AuditRow) -> bool:
        return audit.verdict is None and self.cards.card(tx, audit.card).state in AUDITABLE

    def _cancelled(self, tx: Connection, who: Identity, card: str, name: str) -> dict[str, Any]:
        known = {row.name: row for row in self.operations.of_kind(tx, KIND, card)}
        row = known.get(name)
        if row is None or row.owner != who.uri:
            raise NotFoundError
        if row.state is not OperationState.CANCELLED:
            raise InvalidInputError(field="resume", problem="names an audit that was not cancelled")
        if any(_request(other).get("resumes") == name for other in known.values()):
            raise InvalidInputError(field="resume", problem="names an audit that was already resumed")
        return _request(row)


def _request(row: OperationRow) -> dict[str, Any]:
    asked: dict[str, Any] = json.loads(row.request)
    return asked


def _waits(row: OperationRow) -> bool:
    return row.state in (*UNFINISHED, OperationState.CANCELLED)
