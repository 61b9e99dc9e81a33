"""State and cards as the settings say: what a steward works at, with or without a running service."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection

from gencard.controller.answers.decisions import Decisions
from gencard.controller.boxes.boxes import Boxes
from gencard.controller.cards.book import CardBook
from gencard.controller.operations.failures import Refusals
from gencard.controller.operations.operations import Operations
from gencard.controller.people.identities import Roster
from gencard.controller.people.passkeys import Passkeys
from gencard.controller.people.signing_keys import KeyRotation, SigningKey
from gencard.controller.policy.judgement import ProposalLimits
from gencard.controller.policy.quotas import quotas_of
from gencard.controller.records.catalogue import PREFIX, Catalogue, DatasetEntry
from gencard.controller.records.records import entry_of
from gencard.controller.releases.state_files import SharedFiles
from gencard.controller.settings.disk import StateFiles
from gencard.controller.settings.files import secret_bytes
from gencard.controller.settings.settings import Settings
from gencard.controller.state.database import Database, Fence
from gencard.controller.state.ledger import Caps, Ledger
from gencard.controller.state.log import Clock, EventLog, LogClock, kept_rules
from gencard.controller.stewards.answers import AnswerEffect
from gencard.controller.stewards.cards import CardEffect
from gencard.controller.stewards.deciding import Effects, Way
from gencard.controller.stewards.desk import Desk
from gencard.controller.stewards.people import PersonEffect
from gencard.controller.stewards.reading import LogReader
from gencard.controller.stewards.registers import AuditEffect, KeyEffect, LineEffect, RefusalEffect
from gencard.controller.stewards.risk import Risks
from gencard.core.card.card import USABLE
from gencard.core.errors import NotFoundError
from gencard.core.generators.model_file import KeptFits
from gencard.wire.documents.key_history import CARDS, LOG


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class ControllerState:
    """State and cards: all that a steward's shell needs; no server, no jobs."""

    settings: Settings
    database: Database
    ledger: Ledger
    cards: CardBook
    boxes: Boxes
    keys: Mapping[str, SigningKey]
    """The controller's signing keys, by use."""
    salt: bytes = field(repr=False)
    """Secret of the digests of records."""
    fits: KeptFits
    """Fits of cards in memory; each is dropped with its card."""
    machine: Clock = utc_now
    """Clock of this machine, by which certificates are issued; ``cards.clock`` judges what has ended."""

    @property
    def log(self) -> EventLog:
        return self.cards.log

    def drop_ended_fits(self) -> None:
        """Drop fits of cards that have ended without this process: expired, revoked in a shell, or gone.

        Raises:
            StorageError: The state cannot be read. Fits of cards that were looked at before are dropped.
        """
        if names := self.fits.cards:
            with self.database.reading() as tx:
                for name in names:
                    if not self._is_usable(tx, name):
                        self.fits.drop(name)

    def _is_usable(self, tx: Connection, name: str) -> bool:
        with suppress(NotFoundError):
            return self.cards.card(tx, name).state in USABLE
        return False

    @property
    def files(self) -> StateFiles:
        folder = self.settings.state.folder
        return SharedFiles(self.database, folder) if self.database.shared else StateFiles(folder)

    @property
    def refusals(self) -> Refusals:
        return Refusals(self.settings.limits.refusals)

    @property
    def decisions(self) -> Decisions:
        return Decisions(self.cards, self.ledger)

    @property
    def passkeys(self) -> Passkeys:
        return Passkeys(self.database, self.log, self.cards.clock)

    def desk(
        self,
        way: Way = Way(),  # noqa: B008  # frozen
        authority_key: Path | None = None,
        operations: Operations | None = None,
    ) -> Desk:
        """The stewards' desk.

        Args:
            way: How stewards come to it.
            authority_key: The authority's private key, where it is not in the controller's folder.
            operations: Of the running service, where there is one.
        """
        effects, identities = self._effects(authority_key), self.settings.signing.identities
        return Desk(
            self.database,
            self.log,
            effects,
            Roster(identities).person,
            self.cards.clock,
            frozenset(self.settings.stewards.two),
            way,
            ledger=self.ledger,
            reader=LogReader(self.log),
            risks=Risks(self.database, self.cards, operations),
        )

    def _effects(self, authority_key: Path | None) -> Effects:
        log, clock, settings = self.log, self.cards.clock, self.settings
        people = PersonEffect(
            settings.signing.identities.parent,
            settings.identity.trust_domain,
            settings.server.address,
            log,
            self.passkeys,
            self.machine,
            authority_key,
        )
        return Effects(
            CardEffect(self.cards),
            AnswerEffect(self.decisions),
            LineEffect(self.ledger, log, clock),
            RefusalEffect(self.refusals, log, clock),
            AuditEffect(log, clock),
            people,
            KeyEffect(KeyRotation(self.database, log, self.keys, clock)),
        )


def open_controller_state(
    settings: Settings,
    clock: Clock = utc_now,
    fence: Fence | None = None,
    read: Collection[DatasetEntry] = (),
) -> ControllerState:
    """The state and the cards.

    Args:
        fence: The leadership of a service, where several share the database.
        read: Datasets of these settings that were read before; see ``_entries``.

    Raises:
        InvalidInputError, StorageError, DatasetError: Settings, state or records cannot be used.
    """
    salt = secret_bytes(settings.signing.version_salt, "signing.version_salt")
    keys = _signing_keys(settings)
    database = Database(settings.state.database_url, fence)
    database.migrate()
    with database.reading() as tx:
        for key in keys.values():
            key.check(tx)
        rules = kept_rules(tx) if read else {}
    catalogue = Catalogue(_entries(settings, salt, rules, read))
    bounds = settings.limits
    boxes = Boxes(
        settings.black_boxes,
        bounds.model_cells,
        settings.cell,
        settings.state.work,
        bounds.memory_mib,
    )
    log = EventLog(keys[LOG].current, clock)

    def end(tx: Connection, card: str) -> None:
        opened.decisions.end_with_cards(tx, card)
        opened.fits.drop(card)

    cards = CardBook(
        database=database,
        log=log,
        catalogue=catalogue,
        limits=_limits(settings),
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
    settings: Settings,
    salt: bytes,
    rules: Mapping[str, Mapping[str, str]],
    read: Collection[DatasetEntry],
) -> Iterator[DatasetEntry]:
    """All datasets; records are not read again that are of the version which was served last.

    They may have changed since, as under a running service: each measurement looks at their version.

    Args:
        rules: The log's.
    """
    served = {one.name: one for one in read if one.versions.items() <= rules.get(one.name, {}).items()}
    for table in settings.datasets:
        yield served.get(f"{PREFIX}{table.name}") or entry_of(table, salt)


def _signing_keys(settings: Settings) -> Mapping[str, SigningKey]:
    files = settings.signing
    return {
        CARDS: SigningKey(CARDS, files.card_key, "signing.card_key"),
        LOG: SigningKey(LOG, files.log_key, "signing.log_key"),
    }


def _limits(settings: Settings) -> ProposalLimits:
    names = (field.name for field in fields(ProposalLimits))
    return ProposalLimits(**{name: getattr(settings.limits, name) for name in names})


def caps_of(settings: Settings) -> dict[str, Caps]:
    """The caps of all datasets, by name."""
    return {f"{PREFIX}{entry.name}": entry.caps for entry in settings.datasets}
