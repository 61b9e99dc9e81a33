"""Ledger, failures, audits and signing keys at the desk."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from gencard.controller.operations.failures import Refusals, Refused
from gencard.controller.people.signing_keys import KeyRotation
from gencard.controller.records.catalogue import dataset_of
from gencard.controller.state import results
from gencard.controller.state.ledger import Ledger
from gencard.controller.state.log import EventLog
from gencard.controller.stewards.actions import Applied, Demands, InTheState, argument, refuse_others
from gencard.core.errors import InvalidInputError, NotFoundError
from gencard.core.output_rules import OUTPUT_RULES
from gencard.wire.canonical import Document, digest_of
from gencard.wire.documents import price_document
from gencard.wire.dsse import key_id
from gencard.wire.steward import Action, Failure, Kind

LINE, KEY = "ledger/", "keys/"
ROTATION = "rotation"


@dataclass(frozen=True, slots=True)
class LineEffect(InTheState):
    """Reservations that a crash left: they stay spent, or nothing was released for them."""

    ledger: Ledger
    log: EventLog
    clock: Callable[[], datetime]

    def shown(self, tx: Connection, resource: str, arguments: Mapping[str, Any]) -> Document:  # noqa: ARG002
        line = self.ledger.line(tx, _number(resource))
        price, name = price_document(line.price), f"{LINE}{line.line}"
        return {"line": name, "state": str(line.state), "price": price, "resource": line.resource}

    def demands(self, tx: Connection, action: Action) -> Demands:
        """Raises InvalidInputError if the line pays for an answer that is still undecided."""
        line = self.ledger.line(tx, _number(action.resource))
        run = results.undecided_run(tx, line.line)
        if run is not None:
            raise InvalidInputError(
                field="line",
                problem="pays for an answer that is still undecided",
                advice=f"Release or refuse the answer, which ends the line: {run.name}",
            )
        return Demands(line.dataset, action.kind is Kind.VOID, subject=line.analyst)

    def apply(self, tx: Connection, by: str, action: Action) -> Applied:
        """Raises InvalidInputError if the line is no longer reserved."""
        refuse_others(action.arguments)
        line, now = _number(action.resource), self.clock()
        resource = self.ledger.line(tx, line).resource
        end = self.ledger.void if action.kind is Kind.VOID else self.ledger.settle
        end(tx, line, now)
        details = {"line": str(line)}
        self.log.append(
            tx, action=str(action.kind), actor=by, resource=resource, details=details, now=now
        )
        return Applied(details)


@dataclass(frozen=True, slots=True)
class RefusalEffect(InTheState):
    """Work that failed or was refused because of the records; it counts until it is dismissed."""

    refusals: Refusals
    log: EventLog
    clock: Callable[[], datetime]

    def shown(self, tx: Connection, resource: str, arguments: Mapping[str, Any]) -> Document:  # noqa: ARG002
        return _failure_document(self._counting(tx, resource))

    def demands(self, tx: Connection, action: Action) -> Demands:
        row = self._counting(tx, action.resource)
        return Demands(dataset_of(row.resource), gives=True, subject=row.owner)

    def views(self, tx: Connection) -> tuple[Failure, ...]:
        """Return all that count, oldest first."""
        return tuple(
            Failure(
                row.name,
                row.owner,
                row.kind,
                row.resource,
                row.reason,
                row.time,
                digest_of(_failure_document(row)),
            )
            for row in self.refusals.reviewable(tx)
        )

    def _counting(self, tx: Connection, operation: str) -> Refused:
        """Raises NotFoundError if no such operation or run counts."""
        for row in self.refusals.reviewable(tx):
            if row.name == operation:
                return row
        raise NotFoundError(what="operation")

    def apply(self, tx: Connection, by: str, action: Action) -> Applied:
        """Raises NotFoundError if no such operation counts."""
        refuse_others(action.arguments)
        row = self.refusals.look_at(tx, action.resource)
        self.log.append(
            tx,
            action="look",
            actor=by,
            resource=row.resource,
            details={"operation": row.name, "reason": _public_reason(row)},
            now=self.clock(),
        )
        return Applied({"operation": row.name})


@dataclass(frozen=True, slots=True)
class AuditEffect(InTheState):
    """Evidence of audits: cleared, no ended audit of a black box on a dataset counts any more.

    Cards whose audit failed stay failed. Audits that still run, and audits of the same bytes under
    another name, keep counting.
    """

    log: EventLog
    clock: Callable[[], datetime]

    def shown(self, tx: Connection, resource: str, arguments: Mapping[str, Any]) -> Document:
        box = argument(arguments, "black_box", str, "")
        rows = [
            row for row in results.counting_audits(tx) if (row.dataset, row.black_box) == (resource, box)
        ]
        return {"dataset": resource, "audits": [[row.name, str(row.verdict)] for row in rows]}

    def demands(self, tx: Connection, action: Action) -> Demands:  # noqa: ARG002
        return Demands(action.resource, gives=True)

    def apply(self, tx: Connection, by: str, action: Action) -> Applied:
        """Raises NotFoundError if no ended audit of this black box counts on the dataset."""
        refuse_others(action.arguments, "black_box")
        box, now = argument(action.arguments, "black_box", str, ""), self.clock()
        cleared = results.clear_audits(tx, action.resource, box, now)
        if not cleared:
            raise NotFoundError
        self.log.append(
            tx,
            action="clear-audits",
            actor=by,
            resource=action.resource,
            details={"black_box": box, "remark": action.reason, "tries": str(cleared)},
            now=now,
        )
        return Applied({"tries": str(cleared)})


@dataclass(frozen=True, slots=True)
class KeyEffect(InTheState):
    """The controller's signing keys: a new one signs from now on."""

    rotation: KeyRotation

    def shown(self, tx: Connection, resource: str, arguments: Mapping[str, Any]) -> Document:  # noqa: ARG002
        current = self.rotation.key(_use(resource)).current(tx)
        return {"use": resource, "key": key_id(current.public_key())}

    def demands(self, tx: Connection, action: Action) -> Demands:  # noqa: ARG002
        return Demands(under=frozenset({ROTATION}))

    def apply(self, tx: Connection, by: str, action: Action) -> Applied:
        """Raises StorageError if state or files cannot be written; the old key stays in force."""
        refuse_others(action.arguments)
        use = _use(action.resource)
        change = self.rotation.rotate(tx, use, by)
        result = {"key": key_id(change.key), "previous_key": key_id(change.previous)}
        return Applied(result, lambda: self.rotation.settle(use))


def _failure_document(row: Refused) -> Document:
    return {"operation": row.name, "reason": row.reason, "resource": row.resource}


def _public_reason(row: Refused) -> str:
    """Return the reason as the log says it, which analysts may read: no rule of a refused run."""
    return OUTPUT_RULES if row.signed else row.reason


def _number(resource: str) -> int:
    text = resource.removeprefix(LINE)
    if resource == text or not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise NotFoundError(what="ledger line")
    return int(text)


def _use(resource: str) -> str:
    return resource.removeprefix(KEY)
