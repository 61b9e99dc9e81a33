"""Releases as callers see them: begun, listed, sent.

    ledger      the price is RESERVED before any record is read
    vault       records -> psi, in a job of its own, once for a card
    ledger      psi stored and reservation settled, in one transaction
    generators  psi -> model -> rows, in another job that sees no record
    log         the release is logged before its rows can be fetched

``run.py`` holds the work; this file holds the steps before and after it.
"""

import json
from dataclasses import dataclass, field
from functools import lru_cache

from sqlalchemy import Connection

from gencard.controller.base.disk import ROWS, StateFiles
from gencard.controller.cards.audit_state import CardAudits, is_audited, is_private
from gencard.controller.cards.book import CardBook
from gencard.controller.cards.grants import same_noisy_psi
from gencard.controller.failures import check_not_attempted
from gencard.controller.jobs.synthesis import RowsFile
from gencard.controller.operations import Operations
from gencard.controller.records.catalogue import dataset_of
from gencard.controller.state import requests, results
from gencard.controller.state.cards import offer_of, signed_card
from gencard.controller.state.database import Database, Page
from gencard.controller.state.ledger import FIT, Ledger
from gencard.controller.state.requests import OperationRow, Request
from gencard.controller.state.results import PsiRow, ReleaseRow
from gencard.core.card.budget import FREE, Price
from gencard.core.card.card import CardRecord, CardState
from gencard.core.dataset import row_bytes
from gencard.core.errors import (
    CardStateError,
    DatasetChangedError,
    InvalidInputError,
    InvalidNumberError,
    NoPsiError,
    TooLargeError,
)
from gencard.core.generators.model_file import KeptFits
from gencard.wire.documents import receipt_of_document
from gencard.wire.dsse import RECEIPT, opened, predicate_of
from gencard.wire.keys import Identity

KIND = "release"
SPENT_ON = "psi"
"""Kind of the ledger's line that pays for measuring."""


@dataclass(frozen=True, slots=True)
class Releases:
    """Releases so far, and the start of the next one.

    Args:
        most: Largest number of releases of one card.
        most_mib: Largest size of all releases of one card, in MiB.
        fits: Fits of cards in force, for further releases.
    """

    database: Database
    cards: CardBook
    ledger: Ledger
    operations: Operations
    files: StateFiles
    card_audits: CardAudits
    most: int = 1_000
    most_mib: int = 16_384
    fits: KeptFits = field(default_factory=KeptFits)

    def start(self, who: Identity, card: str, *, rows: int, seed: int, request: Request) -> OperationRow:
        """Begin a release under the caller's own agreed card.

        Raises:
            InvalidNumberError, TooLargeError: Rows are out of bounds.
            CardStateError, CardExpiredError: The card does not allow it.
            AuditRequiredError, BoxNotReviewedError, GeneratorChangedError: The card's black box has no
                passed audit, no review, or another digest.
            InvalidInputError: A seed is given although records decide about the rows.
            UniqueFreeFailedError, ServiceBusyError: The single try of a card without replicated uniques
                failed, or still runs.
            QuotaExceededError: The caller has as many or as large releases as one certificate may have.
            DatasetChangedError: The dataset has another schema than the card names.
            BudgetExceededError: psi is not measured yet, or the private black box not fitted, and the
                price is not covered.
        """
        if rows < 1:
            raise InvalidNumberError(field="rows", expected="1 or more")
        with self.database.transaction() as tx:
            name = request.once(
                tx, who, self.cards.clock(), lambda: self._created(tx, who, card, rows, seed).encode()
            )
        return self.operations.begin(name.decode())

    def _created(self, tx: Connection, who: Identity, card: str, rows: int, seed: int) -> str:
        usable = self.cards.usable(tx, who, card)
        self._check(tx, usable, rows, seed)
        size = rows * self._bytes_of_row(usable)
        number, bytes_held = results.released_to(tx, who.uri)
        unfinished = self.operations.unfinished(tx, who.uri, KIND)
        to_come = sum(int(json.loads(row.request).get("bytes", 0)) for row in unfinished)
        self.cards.quotas.check_release(number + len(unfinished), bytes_held + to_come + size)
        self.hold(tx, who, card)
        facts = {"card": card, "rows": rows, "seed": seed, "bytes": size}
        name = self.operations.create(tx, who, KIND, card, facts)
        self.cards.note(tx, "generate", card, {"operation": name}, who.uri)
        return name

    def _check(self, tx: Connection, card: CardRecord, rows: int, seed: int) -> None:
        self.cards.entry_of(card)
        terms = offer_of(card).terms
        if is_audited(card):
            self.card_audits.passed(tx, card)
            _refuse_seed(seed)
        if is_private(card):
            self.card_audits.boxes.check_unchanged(signed_card(card))
            _refuse_seed(seed)
        if terms.without_uniques:
            _refuse_seed(seed)
            self.check_first(tx, card)
            check_not_attempted(requests.operations_of_kind(tx, KIND, card.name))
        if rows > terms.rows:
            raise TooLargeError(
                what="The number of rows",
                limit=f"{terms.rows} on the card",
                advice=f"Request at most {terms.rows:,} rows at a time, each time with another seed, or "
                "propose a card with more rows.",
            )
        self._check_room(tx, card, rows)

    def _check_room(self, tx: Connection, card: CardRecord, rows: int) -> None:
        number, rows_held = results.released_under(tx, card.name)
        for row in self.operations.unfinished(tx, card.analyst, KIND):
            if row.resource == card.name:
                number, rows_held = number + 1, rows_held + int(json.loads(row.request)["rows"])
        if number >= self.most:
            limit = f"{self.most} (limits.card_releases); propose another card"
            raise TooLargeError(
                what="The number of releases of this card",
                limit=limit,
                advice="Use the card's releases, or propose another card.",
            )
        if (rows_held + rows) * self._bytes_of_row(card) > self.most_mib * 2**20:
            limit = f"{self.most_mib} MiB (limits.card_release_mib); propose another card"
            raise TooLargeError(
                what="The size of this card's releases",
                limit=limit,
                advice="Use the card's releases, or propose another card.",
            )

    def _bytes_of_row(self, card: CardRecord) -> int:
        domain = self.cards.entry_of(card).domain
        return row_bytes(domain.covered_by(offer_of(card).terms.cliques))

    def get(self, who: Identity, name: str) -> tuple[ReleaseRow, bytes]:
        with self.database.reading() as tx:
            row = self._seen(tx, who, name)
            entry = self.cards.log.entry(tx, _log_index(row.receipt))
        return row, entry

    def page(self, who: Identity, card: str, before: str, limit: int) -> Page[ReleaseRow]:
        with self.database.reading() as tx:
            self.cards.seen(tx, who, card)
            return results.list_releases(tx, card=card, before=before, limit=limit)

    def psi(self, who: Identity, card: str) -> bytes:
        """Psi's document.

        Raises:
            NoPsiError: The card is of tier private.
            CardStateError: psi is not measured yet, or the card was revoked.
        """
        with self.database.reading() as tx:
            readable_card = self.cards.readable(tx, who, card)
            if readable_card.offer is not None and is_private(readable_card):
                raise NoPsiError
            row = results.find_psi(tx, card)
        if row is None:
            raise CardStateError(state=readable_card.state)
        return row.document

    def rows(self, who: Identity, name: str) -> tuple[RowsFile, str]:
        """Return the file with the rows of a release, and their digest."""
        with self.database.reading() as tx:
            row = self._seen(tx, who, name)
        return RowsFile(self.files.path(f"{ROWS}/{row.file_name}")), row.digest

    def check_first(self, tx: Connection, card: CardRecord) -> None:
        """Refuse a second release without replicated uniques: gaps common to several say more."""
        if (
            offer_of(card).terms.without_uniques
            and results.list_releases(tx, card=card.name, limit=1).rows
        ):
            raise CardStateError(state=card.state)

    def hold(self, tx: Connection, who: Identity, card: str) -> None:
        """Reserve the price of psi or a private fit, once for a card; a crash keeps the reservation."""
        kind = FIT if is_private(self.cards.card(tx, card)) else SPENT_ON
        paid_line = results.find_psi(tx, card) or self.ledger.settled(tx, resource=card, kind=FIT)
        if paid_line or self.ledger.held(tx, resource=card, kind=kind):
            return
        if self.same_psi(tx, card) is not None:
            return
        self.ledger.reserve(
            tx,
            dataset=dataset_of(card),
            project=who.project,
            analyst=who.uri,
            resource=card,
            kind=kind,
            price=self._price(tx, self.cards.usable(tx, who, card)),
            now=self.cards.clock(),
        )

    def same_psi(self, tx: Connection, card: str) -> PsiRow | None:
        """Psi with the very noise that a card asks for, of another card of its analyst."""
        agreed_card = signed_card(self.cards.card(tx, card))
        dataset_entry = self.cards.catalogue.named(agreed_card.terms.dataset)
        if agreed_card.version != dataset_entry.version:  # psi of other records is not this card's
            return None
        source = same_noisy_psi(
            agreed_card.terms, self.cards.held(tx, agreed_card.analyst, dataset_entry)
        )
        return None if source is None else results.get_psi(tx, source.name)

    def _price(self, tx: Connection, card: CardRecord) -> Price:
        """Return the offered price, or less if the analyst holds some of the statistics by now."""
        signed, dataset_entry = signed_card(card), self.cards.entry_of(card)
        if signed.version != dataset_entry.version:
            raise DatasetChangedError
        if signed.terms.privacy.noisy and signed.price == FREE:
            raise CardStateError(state=CardState.REVOKED)
        price = self.cards.charge(tx, card.analyst, dataset_entry, signed.terms).price
        return price if price.fits(signed.price) else signed.price

    def _seen(self, tx: Connection, who: Identity, name: str) -> ReleaseRow:
        row = results.get_release(tx, name)
        self.cards.readable(tx, who, row.card, what="release")
        return row


def _refuse_seed(seed: int) -> None:
    """Raise InvalidInputError for a seed: a person who knows it could find out what the rows hide."""
    if seed:
        raise InvalidInputError(
            field="seed", problem="cannot be chosen, because the rows do not follow from psi alone"
        )


@lru_cache(maxsize=1_000)  # every view of a release needs it, and receipts do not change
def _log_index(receipt: bytes) -> int:
    payload, _ = opened(receipt)
    return receipt_of_document(predicate_of(payload, RECEIPT)).log_index
