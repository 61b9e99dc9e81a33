"""Settings that are read again while the service runs: those of each dataset are applied if valid.

Caps, policies and new datasets take effect at once. Settings on which running calls and jobs rely
(records, schema and format of a served dataset, limits, addresses, keys, black boxes, a removed dataset)
wait for a restart. A mistake in one dataset does not keep another dataset's lowered cap from taking
effect; of a dataset whose settings are refused, lowered caps are taken over all the same. After each
reading the service states in a file what it enforces, so that commands can report it. People need no
reload: each call reads their files.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from gencard.controller.base.disk import IN_FORCE, write_whole
from gencard.controller.controller_state import ControllerState
from gencard.controller.records.catalogue import PREFIX, Catalogue, DatasetEntry
from gencard.controller.records.records import check_rights, entry_of
from gencard.controller.records.schema_file import read_schema
from gencard.controller.settings import DatasetTable, Settings
from gencard.controller.wiring.opening import caps_of
from gencard.controller.wiring.readiness import check_catalogue
from gencard.controller.wiring.rule_log import RuleLog, rules_of
from gencard.core.errors import DatasetUnavailableError, GencardError

_AT_ONCE = ("policy", "caps")
"""Keys of a served dataset that take effect without a restart."""


@dataclass(frozen=True, slots=True)
class RefusedDataset:
    """A dataset whose settings were not taken over, and the error that names the cause."""

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
    """The settings in force, and the change to newer ones.

    Args:
        controller_state: State of the running service; its catalogue and ledger are changed.
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
        self._take_over(served)
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

    def _take_over(self, served: Sequence[_Served]) -> None:
        tables, entries = tuple(table for table, _ in served), [entry for _, entry in served]
        settings = self._settings.model_copy(update={"datasets": tables})
        cards = replace(self._state.cards, catalogue=Catalogue(entries))
        new_state = replace(self._state, settings=settings, cards=cards)
        # also if nothing changed: a command may have logged rules of the files that are not in force
        self._rule_log.datasets_are_read(rules_of(new_state, {}))
        self._state.ledger.set_caps(caps_of(settings))  # first: no dataset is offered without caps
        self._state.cards.catalogue.set(entries)
        self._settings = settings

    def _waiting(self, settings: Settings) -> tuple[tuple[str, ...], list[RefusedDataset]]:
        """Return the places that differ but wait for a restart, and schemas that cannot be read."""
        places = [
            name
            for name in Settings.model_fields
            if name != "datasets" and getattr(settings, name) != getattr(self._settings, name)
        ]
        unreadable: list[RefusedDataset] = []
        tables = {table.name: table for table in settings.datasets}
        for table in self._settings.datasets:
            newer = tables.get(table.name)
            served = self._state.cards.catalogue.named(f"{PREFIX}{table.name}")
            if newer is None:
                places.append(f"{served.name}: removed")
                continue
            places += (f"{served.name}: {name}" for name in _differing(table, newer))
            try:
                if read_schema(newer.schema_file) != served.schema:
                    places.append(f"{served.name}: schema")
            except GencardError as error:
                unreadable.append(RefusedDataset(served.name, error))
        return tuple(dict.fromkeys(places)), unreadable


def _differing(table: DatasetTable, newer: DatasetTable) -> Iterator[str]:
    """Yield the keys, as the settings file names them, that differ and wait for a restart."""
    for name, field_info in DatasetTable.model_fields.items():
        if name not in _AT_ONCE and getattr(table, name) != getattr(newer, name):
            yield field_info.alias or name


@dataclass(frozen=True, slots=True)
class InForce:
    """Statement of a running service about the settings that it enforces, in a file of the state.

    Args:
        caps: Caps in words, by dataset and by the holder of the cap.
        waiting: Places in the settings that differ, and wait for a restart.
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
        digests.append(sha256(content).digest())
    return sha256(b"".join(digests)).hexdigest()


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
