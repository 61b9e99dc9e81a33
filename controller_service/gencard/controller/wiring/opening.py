"""Open the state, datasets and cards that the settings name, log the rules in force, apply changes."""

import hashlib
import hmac
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from sqlalchemy import Connection

from gencard.controller.base.disk import IN_FORCE, write_whole
from gencard.controller.base.files import secret_bytes
from gencard.controller.boxes import Boxes
from gencard.controller.cards.book import CardBook
from gencard.controller.controller_state import ControllerState, utc_now
from gencard.controller.people.enrolment import Enrolled
from gencard.controller.people.keys import SigningKey
from gencard.controller.policy.judgement import ProposalLimits
from gencard.controller.records.catalogue import PREFIX, Catalogue, DatasetEntry
from gencard.controller.records.records import check_rights, entry_of
from gencard.controller.records.schema_file import read_schema
from gencard.controller.settings import DatasetTable, Settings
from gencard.controller.state.cards import Quotas
from gencard.controller.state.database import Database, Fence
from gencard.controller.state.ledger import Caps, Ledger
from gencard.controller.state.log import (
    LONGEST_DETAIL,
    Clock,
    EventLog,
    LogClock,
    keep_rules,
    kept_rules,
)
from gencard.controller.wiring.readiness import check_catalogue
from gencard.core.errors import DatasetUnavailableError, GencardError
from gencard.core.generators.model_file import KeptFits
from gencard.core.generators.registry import GENERATORS
from gencard.wire.canonical import json_bytes, sha256
from gencard.wire.dsse import key_id
from gencard.wire.keys import CARDS, LOG

# Rules in force as short texts, and the log of their changes and of starts of the service.
#
# Paths, commands and secrets appear as keyed digests only, which show changes but do not allow guesses.
# The service does not know who edited a file: an entry names the service itself, or the steward whose
# command first read the new rules.

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
        before, after: Texts of the field; of a whole resource the digest of its fields.
    """

    action: str
    resource: str
    field: str = ""
    before: str = ""
    after: str = ""


def rules_of(state: ControllerState, people: Mapping[str, Enrolled]) -> Rules:
    """Return all rules by which a controller decides, as it has read them."""
    tables = state.settings.model_dump()
    rules = {
        f"settings/{name}": _fields(table, state.salt)
        for name, table in tables.items()
        if name not in _LISTS
    }
    for entry in tables["datasets"]:
        dataset_entry = state.cards.catalogue.named(f"datasets/{entry['name']}")
        rules[dataset_entry.name] = _fields(entry, state.salt) | dataset_entry.versions
    for entry in tables["black_boxes"]:
        name = entry["name"]
        rules[f"black_boxes/{name}"] = _fields(entry, state.salt) | {"digest": state.boxes.digest(name)}
    for name in GENERATORS:
        rules[f"generators/{name}"] = {"digest": state.boxes.facts(name).digest}
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
            old, new = before[resource], after[resource]
            changes += [
                RuleChange("change", resource, name, old.get(name, "none"), new.get(name, "none"))
                for name in sorted(old.keys() | new.keys())
                if old.get(name, "none") != new.get(name, "none")
            ]
    return changes


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


@dataclass(frozen=True, slots=True)
class RuleLog:
    """Compares rules with those that the log has, and logs the difference in the name of ``actor``."""

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
            self._append(tx, "start" if first else "restart", "service", details)

    def rules_are_read(self, rules: Rules, prefix: str = "") -> None:
        """Log the changes, if there are any; with a prefix, of resources that begin with it alone."""
        with self.database.reading() as tx:
            logged = kept_rules(tx)
        rules = {name: rule for name, rule in rules.items() if name.startswith(prefix)}
        rules |= {name: rule for name, rule in logged.items() if not name.startswith(prefix)}
        if logged != rules:
            with self.database.transaction() as tx:
                self._record(tx, rules)

    def people_are_read(self, people: Mapping[str, Enrolled]) -> None:
        """Log changes of people alone; all other rules stay as the log has them."""
        self.rules_are_read(people_rules(people), PEOPLE)

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
            tx, action=action, actor=self.actor, resource=resource, details=details, now=self.clock()
        )


def _short(text: str) -> str:
    line = text if text.isprintable() else ascii(text)
    if len(line) <= LONGEST_DETAIL:
        return line
    end = f"... (SHA-256 of all: {sha256(text.encode())[:32]})"
    return line[: LONGEST_DETAIL - len(end)] + end


def open_controller_state(
    settings: Settings,
    clock: Clock = utc_now,
    fence: Fence | None = None,
    read: Collection[DatasetEntry] = (),
) -> ControllerState:
    """Open the database, the datasets and the cards, and return them as one state.

    Args:
        fence: The leadership of a service, if several controllers share the database.
        read: Datasets of these settings that were read during standby; unchanged ones are kept.
    """
    salt = secret_bytes(settings.signing.version_salt, "signing.version_salt")
    keys = {
        CARDS: SigningKey(CARDS, settings.signing.card_key, "signing.card_key"),
        LOG: SigningKey(LOG, settings.signing.log_key, "signing.log_key"),
    }
    database = Database(settings.state.database_url, fence)
    database.migrate()
    with database.reading() as tx:
        for key in keys.values():
            key.check(tx)
        rules = kept_rules(tx) if read else {}
    catalogue = Catalogue(_entries(settings, salt, rules, read))
    bounds = settings.limits
    boxes = Boxes(
        settings.black_boxes, bounds.model_cells, settings.cell, settings.state.work, bounds.memory_mib
    )
    log = EventLog(keys[LOG].current, clock)

    def end(tx: Connection, card: str) -> None:
        # a card ends only after this function, so ``opened``, which itself needs the cards, is set then
        opened.decisions.end_with_cards(tx, card)
        opened.fits.drop(card)

    names = (field.name for field in fields(ProposalLimits))
    cards = CardBook(
        database=database,
        log=log,
        catalogue=catalogue,
        limits=ProposalLimits(**{name: getattr(bounds, name) for name in names}),
        quotas=quotas_of(settings),
        facts=boxes.facts,
        controller=settings.identity.uri,
        signing_key=keys[CARDS].current,
        clock=LogClock(clock, database, log),
        on_end=end,
    )
    ledger = Ledger(caps_of(settings))
    opened = ControllerState(settings, database, ledger, cards, boxes, keys, salt, KeptFits(), clock)
    return opened


def _entries(
    settings: Settings, salt: bytes, rules: Rules, read: Collection[DatasetEntry]
) -> Iterator[DatasetEntry]:
    """Yield all datasets; one in ``read`` is kept if its versions are those that were served last.

    They may have changed since, as under a running service: each measurement looks at their version.
    """
    served = {one.name: one for one in read if one.versions.items() <= rules.get(one.name, {}).items()}
    for table in settings.datasets:
        yield served.get(f"{PREFIX}{table.name}") or entry_of(table, salt)


def caps_of(settings: Settings) -> dict[str, Caps]:
    return {f"{PREFIX}{entry.name}": entry.caps for entry in settings.datasets}


def quotas_of(settings: Settings) -> Quotas:
    """Return the bounds on what one analyst may store, and the reserve of disk space."""
    limits = settings.limits
    cards = limits.open_proposals, limits.cards, limits.card_mib
    releases = limits.releases, limits.release_mib
    return Quotas(*cards, *releases, limits.reserve_mib, settings.state.folder)


# Reloading: settings are read again while the service runs; those of each dataset are applied if valid.
#
# Caps, policies and new datasets take effect at once. Settings on which running calls and jobs rely
# (records, schema and format of a served dataset, limits, addresses, keys, black boxes, a removed
# dataset) wait for a restart. A mistake in one dataset does not keep another dataset's lowered cap from
# taking effect; of a dataset whose settings are refused, lowered caps are taken over all the same. After
# each reading the service states in a file what it enforces, so that commands can report it. People need
# no reload: each call reads their files.

_AT_ONCE = ("policy", "caps")
"""Keys of a served dataset that take effect without a restart."""


@dataclass(frozen=True, slots=True)
class RefusedDataset:
    place: str
    error: GencardError

    @property
    def text(self) -> str:
        """Place and cause in one line; many errors name the place themselves."""
        text = str(self.error)
        return text if text.startswith(self.place) else f"{self.place}: {text}"


@dataclass(frozen=True, slots=True)
class Reload:
    """Outcome of reading the settings again.

    Args:
        changed: Datasets with another policy, other caps, or new ones: in force from now on.
        waiting: Places in the settings that differ, and wait for a restart.
        refused: Datasets with invalid settings; the earlier settings stay in force, except for lowered
            caps.
    """

    changed: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    refused: tuple[RefusedDataset, ...] = ()


_Served = tuple[DatasetTable, DatasetEntry]
"""A dataset as the settings declare it, and as the catalogue offers it."""


class Reloading:
    """The settings in force, and the change to newer ones, in catalogue and ledger of the state.

    Args:
        unreviewed: Whether drafted schemas may be served that no steward has reviewed.
    """

    def __init__(
        self, controller_state: ControllerState, rule_log: RuleLog, *, unreviewed: bool = False
    ) -> None:
        self._state, self._rule_log, self._unreviewed = controller_state, rule_log, unreviewed
        self._settings = controller_state.settings

    def reload(self, settings: Settings) -> Reload:
        """Apply the valid settings of each dataset; they are logged before they are in force.

        Raises:
            GencardError: The state cannot be written; nothing changed.
        """
        served, refused = self._judged(settings)
        waiting, unreadable = self._waiting(settings)
        before = {table.name: table for table in self._settings.datasets}
        changed = [table.name for table, _ in served if before.get(table.name) != table]
        tables, entries = tuple(table for table, _ in served), [entry for _, entry in served]
        new_settings = self._settings.model_copy(update={"datasets": tables})
        cards = replace(self._state.cards, catalogue=Catalogue(entries))
        new_state = replace(self._state, settings=new_settings, cards=cards)
        # also if nothing changed: a command may have logged rules of the files that are not in force
        self._rule_log.rules_are_read(rules_of(new_state, {}), PREFIX)
        self._state.ledger.caps = caps_of(new_settings)  # first: no dataset is offered without caps
        self._state.cards.catalogue.set(entries)
        self._settings = new_settings
        return Reload(tuple(f"{PREFIX}{name}" for name in changed), waiting, (*refused, *unreadable))

    def enforced(self) -> dict[str, dict[str, str]]:
        """Return the caps in force, in words, by dataset and by the holder of the cap."""
        return {name: caps.in_words() for name, caps in self._state.ledger.caps.items()}

    def _judged(self, settings: Settings) -> tuple[list[_Served], list[RefusedDataset]]:
        """Return each dataset as it is to be served, and the datasets whose settings are refused."""
        tables = {table.name: table for table in settings.datasets}
        served = [
            (table, self._state.cards.catalogue.named(f"{PREFIX}{table.name}"))
            for table in self._settings.datasets
        ]
        refused: list[RefusedDataset] = []
        for place, (table, entry) in enumerate(served):
            newer = tables.pop(table.name, table)
            update = {name: getattr(newer, name) for name in _AT_ONCE}
            changed = table.model_copy(update=update), replace(entry, policy=newer.policy)
            try:
                with suppress(DatasetUnavailableError):  # caps can be lowered while a database is away
                    check_rights(changed[0], settings.datasets)
                self._check([*served[:place], changed, *served[place + 1 :]])
                served[place] = changed
            except GencardError as error:
                refused.append(RefusedDataset(entry.name, error))
                # a cap that is lowered protects records, whatever else is wrong with the dataset's table
                lowered = table.caps.lowered_to(newer.caps)
                served[place] = table.model_copy(update={"caps": lowered}), entry
        for table in tables.values():
            try:
                check_rights(table, settings.datasets)
                added = [*served, (table, entry_of(table, self._state.salt))]
                self._check(added)
                served = added
            except GencardError as error:
                refused.append(RefusedDataset(f"{PREFIX}{table.name}", error))
        return served, refused

    def _check(self, served: Sequence[_Served]) -> None:
        catalogue = Catalogue([entry for _, entry in served])
        check_catalogue(catalogue, self._state.boxes, unreviewed=self._unreviewed)

    def _waiting(self, settings: Settings) -> tuple[tuple[str, ...], list[RefusedDataset]]:
        """Return the places that differ but wait for a restart, and schemas that cannot be read."""
        names = [name for name in Settings.model_fields if name != "datasets"]
        places = [name for name in names if getattr(settings, name) != getattr(self._settings, name)]
        unreadable: list[RefusedDataset] = []
        tables = {table.name: table for table in settings.datasets}
        for table in self._settings.datasets:
            newer = tables.get(table.name)
            served = self._state.cards.catalogue.named(f"{PREFIX}{table.name}")
            if newer is None:
                places.append(f"{served.name}: removed")
                continue
            places += (
                f"{served.name}: {field_info.alias or name}"  # as the settings file names the key
                for name, field_info in DatasetTable.model_fields.items()
                if name not in _AT_ONCE and getattr(table, name) != getattr(newer, name)
            )
            try:
                if read_schema(newer.schema_file) != served.schema:
                    places.append(f"{served.name}: schema")
            except GencardError as error:
                unreadable.append(RefusedDataset(served.name, error))
        return tuple(dict.fromkeys(places)), unreadable


@dataclass(frozen=True, slots=True)
class InForce:
    """Statement of a running service about the settings that it enforces, in a file of the state.

    Args:
        caps: Caps in words, by dataset and by the holder of the cap.
        refused: One line for each dataset, or file, that was refused.
        digest: Digest of the settings and schema files that were read, as ``digest_of``; empty if the
            service does not watch them.
    """

    caps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    waiting: Sequence[str] = ()
    refused: Sequence[str] = ()
    digest: str = ""

    def write(self, folder: Path) -> None:
        """Write the statement to the state's folder; raises StorageError."""
        write_whole(folder / IN_FORCE, [json.dumps(asdict(self)).encode()])

    @classmethod
    def read(cls, folder: Path) -> "InForce":
        """Return the statement in the state's folder; an empty one if there is none."""
        with suppress(OSError, ValueError, TypeError):
            fields: Any = json.loads((folder / IN_FORCE).read_text(encoding="utf-8"))
            return cls(**fields)
        return cls()

    @property
    def objections(self) -> list[str]:
        """One line for each setting of the files that is not in force."""
        refused = [f"Not in force: {text}" for text in self.refused]
        return refused + [f"Needs a restart: {place}" for place in self.waiting]


def digest_of(config: Path, settings: Settings | None) -> str:
    """Return a digest of the settings file and of the schema files that it names."""
    schemas = [] if settings is None else [table.schema_file for table in settings.datasets]
    digests: list[bytes] = []
    for file in (config.absolute(), *schemas):
        content = b""  # of a file that cannot be read
        with suppress(OSError):
            content = file.read_bytes()
        digests.append(hashlib.sha256(content).digest())
    return hashlib.sha256(b"".join(digests)).hexdigest()


class SettingsWatch:
    """Detects changes of the settings file, and of the schema files that the settings name.

    A file that still changes between two checks is not reported yet: it may be being written.
    """

    def __init__(self, file: Path, settings: Settings) -> None:
        self._known: dict[Path, _Stamp] = {file: _stamp_of(file)}
        self.follow(settings)
        self._latest = self._known

    def follow(self, settings: Settings) -> None:
        """Watch the schema files of these settings, too."""
        for entry in settings.datasets:
            self._known.setdefault(entry.schema_file, _stamp_of(entry.schema_file))

    def changed(self) -> bool:
        """Whether files changed since this last returned True, but not since the previous call."""
        before, self._latest = self._latest, {file: _stamp_of(file) for file in self._known}
        if self._latest != before or self._latest == self._known:
            return False
        self._known = self._latest
        return True


_Stamp = tuple[int, int, int] | None
"""Time of the last change in ns, size in bytes, and inode of a file; None if it cannot be read."""


def _stamp_of(file: Path) -> _Stamp:
    with suppress(OSError):
        status = file.stat()
        return status.st_mtime_ns, status.st_size, status.st_ino
    return None
