"""The rules in force: settings, schemas, black boxes and people as short texts, for the log of changes.

Paths, commands and secrets are never shown: they appear as keyed digests, from which nobody can guess
them and which still differ where they differ.
"""

import hmac
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from gencard.controller.desk import Desk
from gencard.controller.people.identities import Enrolled
from gencard.controller.records.holdings import Holding
from gencard.core.generators.registry import GENERATORS
from gencard.wire.signatures.canonical import json_bytes, sha256
from gencard.wire.signatures.dsse import key_id

Fields = Mapping[str, str]
Rules = Mapping[str, Fields]
"""Fields and their texts, by resource: ``datasets/survey``, ``settings/limits``, ``people/...``."""

PEOPLE = "people/"
_LISTS = ("datasets", "black_boxes")
_PRIVATE_FIELDS = frozenset({"command"})


@dataclass(frozen=True, slots=True)
class RuleChange:
    """One difference between two sets of rules.

    Args:
        action: ``add`` or ``remove`` a resource, or ``change`` one of its fields.
        field: Empty where a whole resource was added or removed.
        before, after: Texts of the field; of a whole resource the digest of its fields.
    """

    action: str
    resource: str
    field: str = ""
    before: str = ""
    after: str = ""


def rules_of(desk: Desk, people: Mapping[str, Enrolled]) -> Rules:
    """All rules by which a controller decides, as it has read them."""
    tables = desk.settings.model_dump()
    rules = {
        f"settings/{name}": _fields(table, desk.salt)
        for name, table in tables.items()
        if name not in _LISTS
    }
    for entry in tables["datasets"]:
        holding = desk.cards.holdings.named(f"datasets/{entry['name']}")
        rules[holding.name] = _fields(entry, desk.salt) | _versions(holding)
    for entry in tables["black_boxes"]:
        name = entry["name"]
        rules[f"black_boxes/{name}"] = _fields(entry, desk.salt) | {"digest": desk.boxes.digest(name)}
    for name in GENERATORS:
        rules[f"generators/{name}"] = {"digest": desk.boxes.facts(name).digest}
    return rules | people_rules(people)


def people_rules(people: Mapping[str, Enrolled]) -> dict[str, Fields]:
    """Everybody enrolled: who, in which role, with which signing key."""
    return {
        PEOPLE + uri.removeprefix("spiffe://"): {
            "signing_key": key_id(person.signing_key),
            "earlier_keys": ", ".join(map(key_id, person.earlier)),
        }
        for uri, person in people.items()
    }


def rules_digest(rules: Rules) -> str:
    """SHA-256, in hex, of all rules; what is private is in it as keyed digests alone."""
    return sha256(json_bytes({resource: dict(fields) for resource, fields in rules.items()}))


def rule_changes(before: Rules, after: Rules) -> list[RuleChange]:
    """What differs, by resource and field.

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


def _versions(holding: Holding) -> dict[str, str]:
    """Digests of schema and records; those of records are salted."""
    versions = {"schema_digest": holding.coding_digest, "version": holding.version}
    return versions | ({"holdout_version": holding.holdout.version} if holding.holdout else {})


def _fields(table: Any, key: bytes) -> dict[str, str]:
    """The texts of a table of the settings, by dotted name."""
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
        return _public(value)
    message = f"gencard.rules.v1\0{name}\0{value}".encode()
    return f"not shown, keyed digest {hmac.new(key, message, 'sha256').hexdigest()[:32]}"


def _public(value: Any) -> str:
    if value is None or value == {}:
        return "none"
    if isinstance(value, tuple | list | frozenset):
        return json.dumps(value, default=str, ensure_ascii=True)
    return str(value).lower() if isinstance(value, bool) else str(value)
