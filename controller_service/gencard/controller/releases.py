"""Releases: begun, listed and sent as callers see them, and the job behind them.

ledger      the price is RESERVED before any record is read
vault       records -> psi, in a job of its own, once for a card
ledger      psi stored and reservation settled, in one transaction
generators  psi -> model -> rows, in another job that sees no record
log         the release is logged before its rows can be fetched
"""

import json
import os
import secrets
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from sqlalchemy import Connection

from gencard.controller.base.disk import KEPT, ROWS, StateFiles, flush_folder, write_whole
from gencard.controller.cards.book import (
    CardAudits,
    CardBook,
    is_audited,
    is_private,
    released_before,
    rows_of_run,
)
from gencard.controller.cards.grants import held_cards, same_noisy_psi
from gencard.controller.failures import NOTHING_LEARNT, check_not_attempted, refund, single_attempt
from gencard.controller.jobs import tasks
from gencard.controller.jobs.descriptions import Descriptions
from gencard.controller.jobs.synthesis import RowsFile
from gencard.controller.jobs.tasks import NOTHING_BEFORE, Before
from gencard.controller.operations import VERSIONS, Operations, Run, scratch_folder
from gencard.controller.records.catalogue import DatasetEntry, dataset_of
from gencard.controller.sandbox.boxes import Recipe
from gencard.controller.state import requests, results
from gencard.controller.state.cards import in_force, offer_of, signed_card
from gencard.controller.state.database import Database, Page
from gencard.controller.state.ledger import FIT, Ledger
from gencard.controller.state.requests import OperationRow, Request
from gencard.controller.state.results import PsiRow, ReleaseRow
from gencard.core.card.budget import FREE, SpendState
from gencard.core.card.card import USABLE, CardRecord, CardState
from gencard.core.card.terms import CardTerms
from gencard.core.dataset import row_bytes
from gencard.core.derived_cells import computed_for
from gencard.core.errors import (
    BoxRunFailedError,
    CardStateError,
    DatasetChangedError,
    GencardError,
    InvalidInputError,
    InvalidNumberError,
    NoPsiError,
    OperationCancelledError,
    ServiceUnavailableError,
    StorageError,
    TooLargeError,
)
from gencard.core.generators.model_file import KeptFits
from gencard.core.statistics.linear import statistics_of
from gencard.wire.canonical import sha256, time_text
from gencard.wire.documents import AuditedBox, Receipt, receipt_of_document, receipt_statement
from gencard.wire.dsse import RECEIPT, opened, predicate_of, sign
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
        advice = "Use the card's releases, or propose another card."
        number, rows_held = results.released_under(tx, card.name)
        for row in self.operations.unfinished(tx, card.analyst, KIND):
            if row.resource == card.name:
                number, rows_held = number + 1, rows_held + int(json.loads(row.request)["rows"])
        if number >= self.most:
            limit = f"{self.most} (limits.card_releases); propose another card"
            raise TooLargeError(what="The number of releases of this card", limit=limit, advice=advice)
        if (rows_held + rows) * self._bytes_of_row(card) > self.most_mib * 2**20:
            limit = f"{self.most_mib} MiB (limits.card_release_mib); propose another card"
            raise TooLargeError(what="The size of this card's releases", limit=limit, advice=advice)

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
        paid_line = results.find_psi(tx, card) or self.ledger.held(
            tx, resource=card, kind=FIT, state=SpendState.SETTLED
        )
        if paid_line or self.ledger.held(tx, resource=card, kind=kind):
            return
        if self.same_psi(tx, card) is not None:
            return
        usable = self.cards.usable(tx, who, card)
        signed, dataset_entry = signed_card(usable), self.cards.entry_of(usable)
        if signed.version != dataset_entry.version:
            raise DatasetChangedError
        if signed.terms.privacy.noisy and signed.price == FREE:
            raise CardStateError(state=CardState.REVOKED)
        # the offered price, or less if the analyst holds some of the statistics by now
        price = self.cards.charge(tx, usable.analyst, dataset_entry, signed.terms).price
        price = price if price.fits(signed.price) else signed.price
        dataset, now = dataset_of(card), self.cards.clock()
        self.ledger.reserve(
            tx, dataset, who.project, who.uri, resource=card, kind=kind, price=price, now=now
        )

    def same_psi(self, tx: Connection, card: str) -> PsiRow | None:
        """Psi with the very noise that a card asks for, of another card of its analyst."""
        agreed_card = signed_card(self.cards.card(tx, card))
        dataset_entry = self.cards.catalogue.named(agreed_card.terms.dataset)
        if agreed_card.version != dataset_entry.version:  # psi of other records is not this card's
            return None
        source = same_noisy_psi(agreed_card.terms, held_cards(tx, agreed_card.analyst, dataset_entry))
        return None if source is None else results.get_psi(tx, source.name)

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


# The main job: records -> psi, once for a card; psi -> rows, signed.
#
# Each step stores the input of the next step in the state, so that a run after a crash starts where the
# last run stopped. A measurement of exact counts that fails after the records were opened costs one
# statistic, because the failure may depend on the records; one with noise keeps its reservation.


# Releases under cards with a black box: one run on the records, from which all rows are drawn.
#
# A second run would spend the box's claimed budget again, and would show how its runs differ. Therefore
# its fit is kept, or without a fit the rows of the run, as many as the card allows; every release is
# drawn from that. The kept files are made from records, and only the service can read them. A run that
# failed is not repeated either: many observations of whether and how it fails would disclose records.

_FAILED = "failed"
"""File in a card's folder that marks a failed run of its black box."""
_LEFT = (_FAILED, tasks.KEPT_FIT, tasks.KEPT_ROWS)


@dataclass(frozen=True, slots=True)
class BoxRelease:
    """Makes rows for cards whose generator is a black box; each card has a folder of the state."""

    database: Database
    card_audits: CardAudits
    jobs: Descriptions
    files: StateFiles

    def audited(self, tx: Connection, card: CardRecord) -> AuditedBox | None:
        """Return the audit that speaks for the card's black box; None if its tier asks for none."""
        return self.card_audits.passed(tx, card) if is_audited(card) else None

    def keep(self, run: Run, card: CardRecord, dataset_entry: DatasetEntry) -> None:
        """Run the black box on the records, if that was not done yet.

        Raises:
            StorageError: The result is gone, although rows of it were released: the box runs only once.
            BoxRunFailedError: The run failed, now or earlier.
        """
        folder = self._folder(card)
        if (folder / _FAILED).exists():
            raise BoxRunFailedError
        if any((folder / name).exists() for name in (tasks.KEPT_FIT, tasks.KEPT_ROWS)):
            return
        with self.database.transaction() as tx:
            if results.list_releases(tx, card=card.name, limit=1).rows:
                raise StorageError
            usable = in_force(self.card_audits.cards.card(tx, card.name))
            details = {"box_digest": signed_card(card).generator_digest}
            if (audited := self.audited(tx, usable)) is not None:
                details["verdict_digest"] = audited.verdict_digest
            self.card_audits.cards.note(tx, "run", card.name, details)
        signed = signed_card(card)
        recipe = self.jobs.whole(self._recipe(card, dataset_entry), dataset_entry)
        records = self.jobs.records(dataset_entry, signed.version)
        job = tasks.KeepJob(records, recipe, rows_of_run(signed.terms.rows), folder)
        self._run_once(run, job, folder / _FAILED)

    def _run_once(self, run: Run, job: tasks.KeepJob, failed: Path) -> None:
        """Raise one error for all failures that may depend on a record, and prevent another run.

        Of a run that was cancelled nothing stays, or the next one's time would tell how far it was.
        """
        try:
            run.job(tasks.KEEP, job)
            self._store(failed.parent)
            return
        except OperationCancelledError:
            with suppress(OSError):
                for name in (tasks.KEPT_FIT, tasks.KEPT_ROWS):
                    (failed.parent / name).unlink(missing_ok=True)
            raise
        except (*NOTHING_LEARNT, ServiceUnavailableError):
            raise
        except GencardError:
            write_whole(failed, [])
            self._store(failed.parent)
        raise BoxRunFailedError

    def _store(self, folder: Path) -> None:
        for name in _LEFT:
            if (folder / name).exists():
                self.files.put(f"{KEPT}/{folder.name}/{name}")

    def draw(
        self, run: Run, card: CardRecord, dataset_entry: DatasetEntry, rows_file: Path, *, rows: int
    ) -> str:
        """Rows of what the run left, in a file; their digest.

        There are fewer rows if the run left fewer than requested.
        """
        recipe = self.jobs.whole(self._recipe(card, dataset_entry), dataset_entry)
        signed, folder = signed_card(card), self._folder(card)
        domain = dataset_entry.domain.covered_by(signed.terms.cliques)
        computed = computed_for(signed, dataset_entry.schema.coding)
        job = tasks.DrawJob(recipe, domain, computed, rows, folder, rows_file)
        return run.job(tasks.DRAW, job).digest

    def _recipe(self, card: CardRecord, dataset_entry: DatasetEntry) -> Recipe:
        """Raises GeneratorChangedError if it would build another box than the card's."""
        boxes, terms = self.card_audits.boxes, offer_of(card).terms
        boxes.check_unchanged(signed_card(card))
        linear = statistics_of(terms.moments, dataset_entry.schema.coding)
        return boxes.recipe(terms.generator, [*terms.marginals, *linear])

    def _folder(self, card: CardRecord) -> Path:
        short = card.name.rpartition("/")[2]
        path = self.files.folder / KEPT / short
        with suppress(OSError):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.is_dir():
            raise StorageError
        for name in _LEFT:
            self.files.path(f"{KEPT}/{short}/{name}")
        return path


SPARE = 1_000
"""Rows to draw in addition to twice the requested number, if replicated uniques are removed."""


@dataclass(frozen=True, slots=True)
class ReleaseRun:
    """Runner of releases; ``response`` encodes a release as the operation's response."""

    releases: Releases
    jobs: Descriptions
    work: Path
    black_boxes: BoxRelease
    response: Callable[[ReleaseRow], bytes]
    _measuring: dict[str, threading.Lock] = field(default_factory=lambda: defaultdict(threading.Lock))

    @property
    def cards(self) -> CardBook:
        return self.releases.cards

    def __call__(self, run: Run) -> None:
        with self.releases.database.reading() as tx:
            card = self.cards.usable(tx, Identity.of(run.row.owner), run.row.resource)
            self.black_boxes.audited(tx, card)
        dataset_entry = self.cards.entry_of(card)
        with self._measuring[card.name]:
            psi = self._prepared(run, card, dataset_entry)
        with scratch_folder(self.work, run.row.name) as scratch:
            rows = scratch / "rows"
            if is_audited(card) or is_private(card):
                many = run.request["rows"]
                digest = self.black_boxes.draw(run, card, dataset_entry, rows, rows=many)
            elif offer_of(card).terms.without_uniques:
                self._publish_unique_free(run, card, dataset_entry, psi, rows)
                return
            else:
                many, seed = run.request["rows"], run.request["seed"]
                digest = self._synthesised(run, card, dataset_entry, psi, rows, rows=many, seed=seed)
            self._publish(run, card, digest, rows)

    def _prepared(self, run: Run, card: CardRecord, dataset_entry: DatasetEntry) -> bytes:
        """Return psi, and keep the result of a black box's single run; tier private has no psi."""
        if is_private(card):
            self._fit_private(run, card, dataset_entry)
            return b""
        with self.releases.database.reading() as tx:
            row = results.find_psi(tx, card.name)
        stored = None if row is None else row.document
        psi = stored or self._shared(run, card) or self._measured(run, card, dataset_entry)
        if is_audited(card):
            self.black_boxes.keep(run, card, dataset_entry)
        return psi

    def undo(self, tx: Connection, row: OperationRow, error: GencardError) -> None:
        """End the reservation, unless another release of the card waits for it; see ``refund``."""
        releases = self.releases
        lines = (releases.ledger.held(tx, resource=row.resource, kind=kind) for kind in (SPENT_ON, FIT))
        line = next(filter(None, lines), None)
        if line is not None and not releases.operations.others(tx, row):
            before = releases.operations.failures(tx, row, line.created)
            refund(tx, line, error, ledger=releases.ledger, cards=self.cards, before=before)

    def _publish_unique_free(
        self, run: Run, card: CardRecord, dataset_entry: DatasetEntry, psi: bytes, rows_file: Path
    ) -> None:
        """Draw spare rows, by a secret seed, and publish rows without replicated uniques."""
        drawn_file, rows = rows_file.with_name("drawn"), run.request["rows"]
        many, seed = SPARE + 2 * rows, secrets.randbits(63)
        self._synthesised(run, card, dataset_entry, psi, drawn_file, rows=many, seed=seed)
        records = self.jobs.records(dataset_entry, signed_card(card).version)
        job = tasks.ThinOutJob(records, drawn_file, rows, rows_file)
        with single_attempt():
            self._publish(run, card, run.job(tasks.THIN_OUT, job).digest, rows_file)

    def _synthesised(
        self,
        run: Run,
        card: CardRecord,
        entry: DatasetEntry,
        psi: bytes,
        file: Path,
        *,
        rows: int,
        seed: int,
    ) -> str:
        """Psi -> rows in a file; their digest. The first release of a card leaves its fit in memory."""
        signed, fits = signed_card(card), self.releases.fits
        key = f"{sha256(psi)} {signed.coding_digest} {signed.generator_digest}"
        fit = fits.fit(card.name, key)
        job = self.jobs.synthesise(
            entry, psi=psi, card=signed, rows=rows, seed=seed, rows_file=file, fit=fit, keep=not fit
        )
        made = run.job(tasks.SYNTHESISE, job)
        if made.fit:
            with self.releases.database.transaction() as tx:  # in which the card does not end
                if self.cards.card(tx, card.name).state in USABLE:
                    fits.keep(card.name, key, made.fit)
        return made.digest

    def _shared(self, run: Run, card: CardRecord) -> bytes | None:
        """Psi that the analyst holds already under another card, with the very noise: drawn once."""
        with self.releases.database.transaction() as tx:
            self.releases.operations.check(tx, run.row)
            row = self.releases.same_psi(tx, card.name)
            if row is None:
                return None
            self.cards.note(tx, "measure", card.name, {"psi_digest": row.digest, "held_by": row.card})
            results.put_psi(tx, card.name, row.document, row.digest, self.cards.clock())
            line = self.releases.ledger.held(tx, resource=card.name, kind=SPENT_ON)
            if line is not None:  # held before another card of the analyst drew the same noise
                self.releases.ledger.void(tx, line.line, self.cards.clock())
                self.cards.note(tx, "void", card.name, {"line": str(line.line), "held_by": row.card})
        return row.document

    def _measured(self, run: Run, card: CardRecord, dataset_entry: DatasetEntry) -> bytes:
        """Return psi, stored and paid in one transaction; its price is reserved before the job."""
        with self.releases.database.transaction() as tx:
            self.releases.operations.check(tx, run.row)
            self.releases.hold(tx, Identity.of(run.row.owner), card.name)
        agreed_card = signed_card(card)
        with self.releases.database.reading() as tx:
            before = self._beside(tx, agreed_card)
        while True:
            job = self.jobs.measure(dataset_entry, agreed_card.version, agreed_card.terms, before)
            psi = run.job(tasks.MEASURE, job).psi
            with self.releases.database.transaction() as tx:
                beside = self._beside(tx, agreed_card)
                if beside == before:
                    self._keep_psi(tx, run, card, psi)
                    return psi
            before = beside  # sums are judged beside all others, also those released meanwhile

    def _beside(self, tx: Connection, card: CardTerms) -> Before:
        """Return earlier disclosures, with which exact sums are judged; empty without exact sums."""
        if not card.terms.sums or card.terms.privacy.noisy:
            return NOTHING_BEFORE
        dataset, version = card.terms.dataset, card.version
        return released_before(tx, self.cards, dataset=dataset, version=version, but=card.name)

    def _keep_psi(self, tx: Connection, run: Run, card: CardRecord, psi: bytes) -> None:
        now = self.cards.clock()
        line = self.releases.ledger.held(tx, resource=card.name, kind=SPENT_ON)
        if line is None:  # taken back meanwhile
            raise OperationCancelledError
        self.cards.usable(tx, Identity.of(run.row.owner), card.name)
        self.cards.note(tx, "measure", card.name, {"psi_digest": sha256(psi)})
        results.put_psi(tx, card.name, psi, sha256(psi), now)
        self.releases.ledger.settle(tx, line.line, now)

    def _fit_private(self, run: Run, card: CardRecord, dataset_entry: DatasetEntry) -> None:
        """Fit a private black box, once for a card; its price is held before records are opened."""
        releases = self.releases
        with releases.database.transaction() as tx:
            releases.operations.check(tx, run.row)
            releases.hold(tx, Identity.of(run.row.owner), card.name)
        self.black_boxes.keep(run, card, dataset_entry)
        with releases.database.transaction() as tx:
            line = releases.ledger.held(tx, resource=card.name, kind=FIT)
            if line is not None:
                releases.ledger.settle(tx, line.line, self.cards.clock())
                return
            if not releases.ledger.held(tx, resource=card.name, kind=FIT, state=SpendState.SETTLED):
                raise OperationCancelledError  # taken back meanwhile

    def _publish(self, run: Run, card: CardRecord, digest: str, made: Path) -> None:
        """Write log, receipt, rows and the operation's end in one transaction.

        The file is named for the operation, so an operation that begins again after a crash overwrites
        its own rows.
        """
        short = run.row.name.rpartition("/")[2]
        target = self.releases.files.folder / f"{ROWS}/{short}.rows"
        try:
            _move(made, target)
            self._record(run, card, digest, f"{card.name}/releases/{short}", target.name)
        except BaseException:
            with suppress(OSError):
                target.unlink()
            raise

    def _record(self, run: Run, card: CardRecord, digest: str, name: str, file_name: str) -> None:
        stored = self.releases.files.send(f"{ROWS}/{file_name}")
        with self.releases.database.transaction() as tx:
            self.releases.files.keep(tx, stored)
            now = self.cards.clock()
            usable = in_force(self.cards.card(tx, card.name))
            audited = self.black_boxes.audited(tx, usable)
            self.releases.check_first(tx, usable)
            without, private = offer_of(card).terms.without_uniques, is_private(card)
            psi_digest = "" if private else results.get_psi(tx, card.name).digest
            details = {"data_digest": digest} | ({} if private else {"psi_digest": psi_digest})
            entry = self.cards.note(tx, "release", name, details)
            dataset_entry = self.cards.entry_of(card)
            same = dataset_entry.version == signed_card(card).version
            kind = dataset_entry.version_kind if same else None  # another by now
            receipt = Receipt(
                name=name,
                card_digest=offer_of(card).digest,
                psi_digest=psi_digest,
                rows_digest=digest,
                rows=run.request["rows"],
                seed=None if audited or private or without else run.request["seed"],
                versions=VERSIONS,
                log_index=entry,
                time=time_text(now),
                audited=audited,
                without_uniques=without,
                private_box=signed_card(card).generator_digest if private else "",
                most_records=signed_card(card).most_records,
                version_kind=kind,
            )
            signed = sign(receipt_statement(receipt), [self.cards.signing_key(tx)])
            row = ReleaseRow(
                name=name,
                card=run.row.resource,
                rows=receipt.rows,
                size=int(run.request.get("bytes", 0)),
                seed=run.request["seed"],
                digest=digest,
                psi_digest=psi_digest,
                receipt=signed,
                file_name=file_name,
                created=now,
            )
            results.insert_result(tx, row)
            self.cards.attest(tx, usable, CardState.RELEASED, "release", signed)
            self.releases.operations.finish(tx, run.row.name, self.response(row))


def _move(source: Path, target: Path) -> None:
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.replace(source, target)
        flush_folder(target.parent)
        return
    except OSError:
        pass
    raise StorageError
