"""What is written down for good, as stewards look at it: spending by day, releases, audits, the log."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime

from gencard.controller.cards.book import CardBook
from gencard.controller.people.signing_keys import SigningKey, key_history
from gencard.controller.state.accounts import Account
from gencard.controller.state.audits import AuditRow, AuditStore
from gencard.controller.state.database import Database, Page
from gencard.controller.state.runs import ENDED, RunRow, RunStore
from gencard.controller.stewards.budget import days_of
from gencard.controller.stewards.log_reading import ProvenEntry, Step, proven, steps
from gencard.controller.stewards.outcomes import (
    AuditView,
    BoxEvidence,
    ReleaseView,
    audit_view,
    evidence,
    release_view,
    release_views,
)
from gencard.core.card.budget import Price
from gencard.wire.documents.key_history import CARDS, LOG

PAGE = 50


@dataclass(frozen=True, slots=True)
class Archive:
    """Looks, and changes nothing; ``Desk.archive`` gives it to stewards alone.

    Args:
        keys: The controller's signing keys, by use.
    """

    database: Database
    cards: CardBook
    keys: Mapping[str, SigningKey]
    clock: Callable[[], datetime]

    @property
    def datasets(self) -> tuple[str, ...]:
        """Names of the datasets on offer."""
        return tuple(entry.name for entry in self.cards.catalogue)

    def days(self, dataset: str) -> Mapping[Account, Mapping[date, Price]]:
        """What was spent or reserved from each account by day (UTC), without voided lines."""
        with self.database.reading() as tx:
            return days_of(tx, dataset)

    def releases(
        self, dataset: str | None = None, token: str = "", limit: int = PAGE
    ) -> Page[ReleaseView]:
        """Releases with their receipts, newest first.

        Raises:
            InvalidInputError: The token was not given by this list.
        """
        with self.database.reading() as tx:
            keys = key_history(tx, self.keys[CARDS])
            return release_views(tx, self.cards, keys, dataset=dataset, before=token, limit=limit)

    def release(self, name: str) -> ReleaseView:
        """One release; raises NotFoundError where there is none of this name."""
        with self.database.reading() as tx:
            return release_view(tx, name, self.cards, key_history(tx, self.keys[CARDS]))

    def audits(self, dataset: str | None = None, token: str = "", limit: int = PAGE) -> Page[AuditRow]:
        """Audits that have ended, newest first; raises as ``releases``."""
        with self.database.reading() as tx:
            return AuditStore().list(tx, dataset=dataset, before=token, limit=limit)

    def audit(self, name: str) -> AuditView:
        """One audit; raises NotFoundError where none of this name has ended."""
        with self.database.reading() as tx:
            return audit_view(tx, name, key_history(tx, self.keys[CARDS]))

    def evidence(self) -> tuple[BoxEvidence, ...]:
        """What the audits that count come to, by dataset and black box."""
        with self.database.reading() as tx:
            return evidence(AuditStore().counting(tx))

    def decided_answers(self, limit: int = PAGE) -> tuple[RunRow, ...]:
        """The newest answers that were released or refused."""
        with self.database.reading() as tx:
            page = RunStore().list(tx, limit=limit)
        return tuple(row for row in page.rows if row.state in ENDED)

    def proof(self, index: int) -> ProvenEntry:
        """An entry of the log with its proof; signs a checkpoint where the log has grown.

        Raises:
            InvalidNumberError: The log has no such entry.
        """
        with self.database.transaction() as tx:
            return proven(tx, self.cards.log, index, self.clock())

    def steps(self, proof: ProvenEntry) -> tuple[Step, ...]:
        """Recompute an entry's proof from its bytes, step by step."""
        with self.database.reading() as tx:
            return steps(proof, key_history(tx, self.keys[LOG]))
