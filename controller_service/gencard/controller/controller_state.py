"""State and cards as the settings say: what a steward works at, with or without a running service."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from gencard.controller.answers.decisions import Decisions
from gencard.controller.base.disk import StateFiles
from gencard.controller.boxes import Boxes
from gencard.controller.cards.book import CardBook
from gencard.controller.failures import Refusals
from gencard.controller.operations import Operations
from gencard.controller.people.enrolment import Roster
from gencard.controller.people.keys import KeyRotation, SigningKey, certificate_ends
from gencard.controller.settings import Settings
from gencard.controller.state.database import Database
from gencard.controller.state.ledger import Ledger
from gencard.controller.state.log import Clock, EventLog
from gencard.controller.state.sharing import SharedFiles
from gencard.controller.state.stewards import Passkeys
from gencard.controller.stewards.archive import LogReader
from gencard.controller.stewards.cards import CardEffect, Risks
from gencard.controller.stewards.desk import DecisionChannel, Desk, Effects
from gencard.controller.stewards.effects import (
    AnswerEffect,
    AuditEffect,
    KeyEffect,
    LineEffect,
    PersonEffect,
    RefusalEffect,
)
from gencard.core.card.card import USABLE
from gencard.core.errors import NotFoundError
from gencard.core.generators.model_file import KeptFits

HEALTH = Path("health", "certificate.pem")
"""Certificate of the health check, below the folder of the identities."""


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
            StorageError: The state cannot be read. Fits of cards that were checked before are dropped.
        """
        if names := self.fits.cards:
            with self.database.reading() as tx:
                for name in names:
                    state = None
                    with suppress(NotFoundError):
                        state = self.cards.card(tx, name).state
                    if state not in USABLE:
                        self.fits.drop(name)

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
        channel: DecisionChannel = DecisionChannel(),  # noqa: B008  # frozen
        authority_key: Path | None = None,
        operations: Operations | None = None,
    ) -> Desk:
        """Return the stewards' desk."""
        log, clock, settings = self.log, self.cards.clock, self.settings
        identities = settings.signing.identities
        service = settings.identity.trust_domain, settings.server.address
        people = PersonEffect(
            identities.parent, *service, log, self.passkeys, self.machine, authority_key
        )
        effects = Effects(
            CardEffect(self.cards),
            AnswerEffect(self.decisions),
            LineEffect(self.ledger, log, clock),
            RefusalEffect(self.refusals, log, clock),
            AuditEffect(log, clock),
            people,
            KeyEffect(KeyRotation(self.database, log, self.keys, clock)),
        )
        return Desk(
            self.database,
            log,
            effects,
            Roster(identities).person,
            clock,
            self.ledger,
            LogReader(log),
            Risks(self.database, self.cards, operations),
            self._service_certificates,
            frozenset(settings.stewards.two),
            channel,
        )

    def _service_certificates(self) -> Iterator[tuple[str, datetime]]:
        """Yield name and end of the certificates of the service, its authority and its health check."""
        server = self.settings.server
        files = {"health.certificate": self.settings.signing.identities.parent / HEALTH}
        if not server.insecure_dev:
            files |= {"server.certificate": server.certificate, "server.authority": server.authority}
        for name, file in files.items():
            yield from ((name, end) for _, end in certificate_ends(file))
