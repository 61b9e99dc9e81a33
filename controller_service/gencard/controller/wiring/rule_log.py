"""The rules in force as short texts, and the log of their changes and of starts of the service.

Paths, commands and secrets appear as keyed digests only, which show changes but do not allow guesses.
The service does not know who edited a file: an entry names the service itself, or the steward whose
command first read the new rules.
"""

import hmac
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from sqlalchemy import Connection

from gencard.controller.controller_state import ControllerState
from gencard.controller.people.enrolment import Enrolled
from gencard.controller.records.catalogue import PREFIX
from gencard.controller.state.database import Database
from gencard.controller.state.log import LONGEST_DETAIL, EventLog, keep_rules, kept_rules
from gencard.core.generators.registry import GENERATORS
from gencard.wire.canonical import json_bytes, sha256
from gencard.wire.dsse import key_id

Fields = Mapping[str, str]
Rules = Mapping[str, Fields]
"""Fields and their texts, by resource: ``datasets/survey``, ``settings/limits``, ``people/...``."""

PEOPLE = "people/"
"""Prefix of the resources of people."""
_LISTS = ("datasets", "black_boxes")
_PRIVATE_FIELDS = frozenset({"command", "sender", "to", "user"})
"""Last names of fields that appear as keyed digests, beside all paths and secrets."""


@dataclass(frozen=True, slots=True)
class RuleChange:
    """One difference between two sets of rules.

    Args:
        action: ``add`` or ``remove`` a resource, or ``change`` one of its fields.
        field: Name of the field; empty if a whole resource was added or removed.
        before, after: Texts of the field; of a whole resource the digest of its fields.
    """

    action: str
    resource: str
    field: str = ""
    before: str = ""
    after: str = ""


def rules_of(controller_state: ControllerState, people: Mapping[str, Enrolled]) -> Rules:
    """Return all rules by which a controller decides, as it has read them."""
    tables = controller_state.settings.model_dump()
    rules = {
        f"settings/{name}": _fields(table, controller_state.salt)
        for name, table in tables.items()
        if name not in _LISTS
    }
    for entry in tables["datasets"]:
        dataset_entry = controller_state.cards.catalogue.named(f"datasets/{entry['name']}")
        rules[dataset_entry.name] = _fields(entry, controller_state.salt) | dataset_entry.versions
    for entry in tables["black_boxes"]:
        name = entry["name"]
        rules[f"black_boxes/{name}"] = _fields(entry, controller_state.salt) | {
            "digest": controller_state.boxes.digest(name)
        }
    for name in GENERATORS:
        rules[f"generators/{name}"] = {"digest": controller_state.boxes.facts(name).digest}
    return rules | people_rules(people)


def people_rules(people: Mapping[str, Enrolled]) -> dict[str, Fields]:
    """Return the rules of enrolled people: identity, role and signing key."""
    return {
        PEOPLE + uri.removeprefix("spiffe://"): {
            "signing_key": key_id(person.signing_key),
            "earlier_keys": ", ".join(map(key_id, person.earlier)),
        }
        | ({"tls_keys": ", ".join(person.tls_keys)} if person.tls_keys else {})
        | ({"disabled": "true"} if person.disabled else {})
        for uri, person in people.items()
    }


def rules_digest(rules: Rules) -> str:
    """Return the SHA-256, in hex, of all rules, with private values as keyed digests."""
    return sha256(json_bytes({resource: dict(fields) for resource, fields in rules.items()}))


def rule_changes(before: Rules, after: Rules) -> list[RuleChange]:
    """Return the differences between two sets of rules, by resource and field.

    >>> rule_changes({"a": {"x": "1"}}, {"a": {"x": "2"}, "b": {}})[0]
    RuleChange(action='change', resource='a', field='x', before='1', after='2')
    """
    changes: list[RuleChange] = []
    for resource in sorted(before.keys() | after.keys()):
        if resource not in before:
            changes.append(RuleChange("add", resource, after=_digest(after[resource])))
        elif resource not in after:
            changes.append(RuleChange("remove", resource, before=_digest(before[resource])))
        else:
            changes += _field_changes(resource, before[resource], after[resource])
    return changes


def _field_changes(resource: str, before: Fields, after: Fields) -> Iterator[RuleChange]:
    for field in sorted(before.keys() | after.keys()):
        old, new = before.get(field, "none"), after.get(field, "none")
        if old != new:
            yield RuleChange("change", resource, field, old, new)


def _digest(fields: Fields) -> str:
    return sha256(json_bytes(dict(fields)))


def _fields(table: Any, key: bytes) -> dict[str, str]:
    """Return the texts of a table of the settings, by dotted name.

    Args:
        key: Secret key of the digests: without it, a value cannot be guessed from its digest.
    """
    if not isinstance(table, Mapping):
        return {"value": _text("value", table, key)}
    return {name: _text(name, value, key) for name, value in _leaves(table)}


def _leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _text(name: str, value: Any, key: bytes) -> str:
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    elif not isinstance(value, Path) and name.rpartition(".")[2] not in _PRIVATE_FIELDS:
        if value is None or value == {}:
            return "none"
        if isinstance(value, tuple | list | frozenset):
            return json.dumps(value, default=str, ensure_ascii=True)
        return str(value).lower() if isinstance(value, bool) else str(value)
    message = f"gencard.rules.v1\0{name}\0{value}".encode()
    return f"not shown, keyed digest {hmac.new(key, message, 'sha256').hexdigest()[:32]}"


SERVICE = "service"
"""The resource of an entry about a start."""


@dataclass(frozen=True, slots=True)
class RuleLog:
    """Compares rules with those that the log has, and logs the difference.

    Args:
        actor: URI of the controller, or of the steward, that noticed the change.
    """

    database: Database
    log: EventLog
    clock: Callable[[], datetime]
    actor: str

    def service_starts(self, rules: Rules) -> None:
        """Log the changes since the last run, then the start itself; call it before serving."""
        with self.database.transaction() as tx:
            first = not kept_rules(tx)
            self._record(tx, rules)
            details = {"settings": rules_digest(rules), "software": version("gencard")}
            self._append(tx, "start" if first else "restart", SERVICE, details)

    def rules_are_read(self, rules: Rules) -> None:
        """Log the changes, if there are any."""
        with self.database.reading() as tx:
            if kept_rules(tx) == rules:
                return
        with self.database.transaction() as tx:
            self._record(tx, rules)

    def people_are_read(self, people: Mapping[str, Enrolled]) -> None:
        """Log changes of people alone; all other rules stay as the log has them."""
        self.rules_are_read(self._logged_outside(PEOPLE) | people_rules(people))

    def datasets_are_read(self, rules: Rules) -> None:
        """Log changes of datasets alone; other resources in ``rules`` are ignored."""
        datasets = {resource: rules[resource] for resource in rules if resource.startswith(PREFIX)}
        self.rules_are_read(self._logged_outside(PREFIX) | datasets)

    def _logged_outside(self, prefix: str) -> dict[str, Fields]:
        """Return the rules in the log of all resources without this prefix."""
        with self.database.reading() as tx:
            logged_rules = kept_rules(tx)
        return {name: rule for name, rule in logged_rules.items() if not name.startswith(prefix)}

    def _record(self, tx: Connection, rules: Rules) -> None:
        before = kept_rules(tx)
        digests = {"settings_before": rules_digest(before), "settings": rules_digest(rules)}
        for change in rule_changes(before, rules):
            texts = {"field": change.field, "before": change.before, "after": change.after}
            details = {name: _short(text) for name, text in texts.items() if text}
            self._append(tx, change.action, change.resource, details | digests)
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


def _short(text: str) -> str:
    """Return a printable line for the log: a long text is cut, with the digest of all of it."""
    line = text if text.isprintable() else ascii(text)
    if len(line) <= LONGEST_DETAIL:
        return line
    end = f"... (SHA-256 of all: {sha256(text.encode())[:32]})"
    return line[: LONGEST_DETAIL - len(end)] + end
