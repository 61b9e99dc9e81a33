"""Open the state, the datasets and the cards that the settings name."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields

from sqlalchemy import Connection

from gencard.controller.base.files import secret_bytes
from gencard.controller.boxes.boxes import Boxes
from gencard.controller.cards.book import CardBook
from gencard.controller.controller_state import ControllerState, utc_now
from gencard.controller.people.signing_keys import SigningKey
from gencard.controller.policy.judgement import ProposalLimits
from gencard.controller.records.catalogue import PREFIX, Catalogue, DatasetEntry
from gencard.controller.records.records import entry_of
from gencard.controller.settings.settings import Settings
from gencard.controller.state.database import Database, Fence
from gencard.controller.state.ledger import Caps, Ledger
from gencard.controller.state.log import Clock, EventLog, LogClock, kept_rules
from gencard.controller.state.quotas import Quotas
from gencard.core.generators.model_file import KeptFits
from gencard.wire.keys import CARDS, LOG


def open_controller_state(
    settings: Settings,
    clock: Clock = utc_now,
    fence: Fence | None = None,
    read: Collection[DatasetEntry] = (),
) -> ControllerState:
    """Open the database, the datasets and the cards, and return them as one state.

    Args:
        clock: Returns the time, for cards and log.
        fence: The leadership of a service, if several controllers share the database.
        read: Datasets of these settings that were read during standby; unchanged ones are kept.

    Raises:
        InvalidInputError, StorageError, DatasetError: Settings, state or records cannot be used.
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
        settings.black_boxes,
        bounds.model_cells,
        settings.cell,
        settings.state.work,
        bounds.memory_mib,
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
    settings: Settings,
    salt: bytes,
    rules: Mapping[str, Mapping[str, str]],
    read: Collection[DatasetEntry],
) -> Iterator[DatasetEntry]:
    """Yield all datasets; one in ``read`` is kept if its versions are those that were served last.

    They may have changed since, as under a running service: each measurement looks at their version.

    Args:
        rules: Rules in the log, by resource; empty if no dataset was read before.
    """
    served = {one.name: one for one in read if one.versions.items() <= rules.get(one.name, {}).items()}
    for table in settings.datasets:
        yield served.get(f"{PREFIX}{table.name}") or entry_of(table, salt)


def caps_of(settings: Settings) -> dict[str, Caps]:
    """Return the caps of all datasets, by name."""
    return {f"{PREFIX}{entry.name}": entry.caps for entry in settings.datasets}


def quotas_of(settings: Settings) -> Quotas:
    """Return the bounds on what one analyst may store, and the reserve of disk space."""
    limits = settings.limits
    return Quotas(
        limits.open_proposals,
        limits.cards,
        limits.card_mib,
        limits.releases,
        limits.release_mib,
        limits.reserve_mib,
        settings.state.folder,
    )
