"""Changes of the rules and starts of the service, in the log before they count.

Who changed a file is not known to the service. An entry names who noticed the change: the service
itself, or the steward whose command was the first to read the new rules.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version

from sqlalchemy import Connection

from gencard.controller.people.identities import Enrolled
from gencard.controller.policy.rules import (
    PEOPLE,
    RuleChange,
    Rules,
    people_rules,
    rule_changes,
    rules_digest,
)
from gencard.controller.state.database import Database
from gencard.controller.state.event import LONGEST_DETAIL
from gencard.controller.state.event_log import EventLog
from gencard.controller.state.rules import keep_rules, kept_rules
from gencard.wire.signatures.canonical import sha256

SERVICE = "service"
"""The resource of an entry about a start."""


@dataclass(frozen=True, slots=True)
class RuleLog:
    """Compares rules with those of the last time, and logs the difference.

    Args:
        actor: URI of whoever noticed: the controller, or a steward.
    """

    database: Database
    log: EventLog
    clock: Callable[[], datetime]
    actor: str

    def service_starts(self, rules: Rules) -> None:
        """Log what changed since the last run, then the start itself; before anything is served."""
        with self.database.transaction() as tx:
            first = not kept_rules(tx)
            self._record(tx, rules)
            details = {"settings": rules_digest(rules), "software": version("gencard")}
            self._append(tx, "start" if first else "restart", SERVICE, details)

    def rules_are_read(self, rules: Rules) -> None:
        """Log what changed, where anything did."""
        with self.database.reading() as tx:
            if kept_rules(tx) == rules:
                return
        with self.database.transaction() as tx:
            self._record(tx, rules)

    def people_are_read(self, people: Mapping[str, Enrolled]) -> None:
        """The same of people alone: a running service has its other rules from its start."""
        with self.database.reading() as tx:
            kept = kept_rules(tx)
        others = {resource: kept[resource] for resource in kept if not resource.startswith(PEOPLE)}
        self.rules_are_read(others | people_rules(people))

    def _record(self, tx: Connection, rules: Rules) -> None:
        before = kept_rules(tx)
        digests = {"settings_before": rules_digest(before), "settings": rules_digest(rules)}
        for change in rule_changes(before, rules):
            self._append(tx, change.action, change.resource, _details(change) | digests)
        keep_rules(tx, rules)

    def _append(self, tx: Connection, action: str, resource: str, details: Mapping[str, str]) -> None:
        self.log.append(
            tx,
            action=action,
            actor=self.actor,
            resource=resource,
            details=details,
            now=self.clock(),
        )


def _details(change: RuleChange) -> dict[str, str]:
    texts = {"field": change.field, "before": change.before, "after": change.after}
    return {name: _short(text) for name, text in texts.items() if text}


def _short(text: str) -> str:
    """A printable line that the log takes; of a long text the beginning and the digest of all of it."""
    line = text if text.isprintable() else ascii(text)
    if len(line) <= LONGEST_DETAIL:
        return line
    end = f"... (SHA-256 of all: {sha256(text.encode())[:32]})"
    return line[: LONGEST_DETAIL - len(end)] + end
