"""Settings that are read again while the service runs: all of them are in order, or nothing changes.

Caps, policies and new datasets take effect at once. What running calls and jobs rely on (records, schema
and format of a dataset that is served, limits, addresses, keys, black boxes, a dataset taken away) waits
for a restart, and is said. People need no reload: each call looks at their files.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from gencard.controller.controller_state import ControllerState, caps_of
from gencard.controller.policy.rules import RuleLog, rules_of
from gencard.controller.records.catalogue import PREFIX, Catalogue, DatasetEntry
from gencard.controller.records.records import check_rights, entry_of
from gencard.controller.records.schema_file import read_schema
from gencard.controller.settings.settings import DatasetTable, Settings
from gencard.controller.upkeep.readiness import check_catalogue
from gencard.core.errors import DatasetUnavailableError

_AT_ONCE = ("policy", "caps")
"""Keys of a dataset that is served already."""


@dataclass(frozen=True, slots=True)
class Reload:
    """What came of reading the settings again.

    Args:
        changed: Datasets with another policy, other caps, or new ones: in force from now on.
        waiting: Places in the settings that differ, and wait for a restart.
    """

    changed: tuple[str, ...]
    waiting: tuple[str, ...]


class Reloading:
    """The settings in force, and the change to newer ones.

    Args:
        controller_state: Of the running service; its catalogue and ledger are changed.
        unreviewed: New datasets need no review.
    """

    def __init__(
        self, controller_state: ControllerState, rule_log: RuleLog, *, unreviewed: bool = False
    ) -> None:
        self._state, self._rule_log, self._unreviewed = controller_state, rule_log, unreviewed
        self._settings = controller_state.settings

    def reload(self, settings: Settings) -> Reload:
        """Take over what can be; the log has it before it is in force.

        Raises:
            GencardError: The settings, or a schema that they name, are not in order; nothing changed.
        """
        merged_settings = self._settings.model_copy(update={"datasets": self._merged(settings)})
        entries = list(self._entries(merged_settings))
        check_catalogue(Catalogue(entries), self._state.boxes, unreviewed=self._unreviewed)
        waiting = tuple(self._waiting(settings))
        before = {entry.name: entry for entry in self._settings.datasets}
        changed_names = [
            entry.name for entry in merged_settings.datasets if before.get(entry.name) != entry
        ]
        if changed_names:
            self._take_over(merged_settings, entries)
        return Reload(tuple(f"{PREFIX}{name}" for name in changed_names), waiting)

    def _take_over(self, settings: Settings, entries: list[DatasetEntry]) -> None:
        caps = caps_of(settings)
        cards = replace(self._state.cards, catalogue=Catalogue(entries))
        new_state = replace(self._state, settings=settings, cards=cards)
        self._rule_log.datasets_are_read(rules_of(new_state, {}))
        self._state.ledger.set_caps(caps)  # before the catalogue: no dataset is offered without caps
        self._state.cards.catalogue.set(entries)
        self._settings = settings

    def _merged(self, settings: Settings) -> tuple[DatasetTable, ...]:
        """Datasets that are served, with new policies and caps, and new datasets."""
        tables = {entry.name: entry for entry in settings.datasets}
        served = []
        for entry in self._settings.datasets:
            newer = tables.pop(entry.name, entry)
            served.append(entry.model_copy(update={name: getattr(newer, name) for name in _AT_ONCE}))
        return (*served, *tables.values())

    def _entries(self, settings: Settings) -> Iterator[DatasetEntry]:
        served = {entry.name: entry for entry in self._state.cards.catalogue}
        for table in settings.datasets:
            entry = served.get(f"{PREFIX}{table.name}")
            if entry is None:
                check_rights(table, settings.datasets)
                yield entry_of(table, self._state.salt)
            else:
                with suppress(DatasetUnavailableError):  # caps can be lowered while a database is away
                    check_rights(table, settings.datasets)
                yield replace(entry, policy=table.policy.policy())

    def _waiting(self, settings: Settings) -> Iterator[str]:
        """Places that differ and were not taken over."""
        for name in Settings.model_fields:
            if name != "datasets" and getattr(settings, name) != getattr(self._settings, name):
                yield name
        tables = {entry.name: entry for entry in settings.datasets}
        for entry in self._settings.datasets:
            newer = tables.get(entry.name)
            served = self._state.cards.catalogue.named(f"{PREFIX}{entry.name}")
            if newer is None:
                yield f"{served.name}: removed"
                continue
            if newer != entry.model_copy(update={name: getattr(newer, name) for name in _AT_ONCE}):
                yield f"{served.name}: records"
            if read_schema(newer.schema_file) != served.schema:
                yield f"{served.name}: schema"


class SettingsWatch:
    """Says when the settings file, or a schema file that the settings name, is another.

    A file that still changes from look to look is not reported yet: somebody may be writing it.
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
        """Whether the files differ from when this was last true, and have been left alone since."""
        before, self._latest = self._latest, {file: _stamp_of(file) for file in self._known}
        if self._latest != before or self._latest == self._known:
            return False
        self._known = self._latest
        return True


_Stamp = tuple[int, int, int] | None


def _stamp_of(file: Path) -> _Stamp:
    with suppress(OSError):
        status = file.stat()
        return status.st_mtime_ns, status.st_size, status.st_ino
    return None
