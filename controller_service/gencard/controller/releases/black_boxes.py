"""Releases under cards with a black box: one run on the records, from which all rows are drawn.

A second run would spend the box's claimed budget again, and would show how its runs differ. Therefore
its fit is kept, or without a fit the rows of the run, as many as the card allows; every release is drawn
from that. The kept files are made from records, and only the service can read them. A run that failed is
not repeated either: many observations of whether and how it fails would disclose records.
"""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection

from gencard.controller.base.disk import KEPT, StateFiles, write_whole
from gencard.controller.cards.audit_state import CardAudits, is_audited, rows_of_run
from gencard.controller.jobs import tasks
from gencard.controller.jobs.descriptions import Descriptions
from gencard.controller.operations.failures import NOTHING_LEARNT
from gencard.controller.operations.run import Run
from gencard.controller.records.catalogue import DatasetEntry
from gencard.controller.sandbox.recipes import Recipe
from gencard.controller.state import results
from gencard.controller.state.cards import in_force, offer_of, signed_card
from gencard.controller.state.database import Database
from gencard.core.card.card import CardRecord
from gencard.core.errors import (
    BoxRunFailedError,
    GencardError,
    OperationCancelledError,
    ServiceUnavailableError,
    StorageError,
)
from gencard.core.statistics.linear import statistics_of
from gencard.wire.documents.receipt import AuditedBox

_FAILED = "failed"
"""File in a card's folder that marks a failed run of its black box."""
_LEFT = (_FAILED, tasks.KEPT_FIT, tasks.KEPT_ROWS)


@dataclass(frozen=True, slots=True)
class BoxRelease:
    """Makes rows for cards whose generator is a black box.

    Args:
        jobs: Describes jobs.
        files: The state's files; one folder for each card is among them.
    """

    database: Database
    card_audits: CardAudits
    jobs: Descriptions
    files: StateFiles

    def audited(self, tx: Connection, card: CardRecord) -> AuditedBox | None:
        """Return the audit that speaks for the card's black box; None if the card's tier asks for none.

        Raises:
            CardStateError, CardExpiredError, AuditRequiredError, BoxNotReviewedError,
            GeneratorChangedError: Nothing does.
        """
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
            self._log(tx, card, self.audited(tx, usable))
        signed = signed_card(card)
        job = self.jobs.keep(
            dataset_entry,
            signed.version,
            self._recipe(card, dataset_entry),
            rows=rows_of_run(signed.terms.rows),
            folder=folder,
        )
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
            _throw_away(failed.parent)
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
        job = self.jobs.draw(
            self._recipe(card, dataset_entry),
            dataset_entry,
            card=signed_card(card),
            rows=rows,
            folder=self._folder(card),
            rows_file=rows_file,
        )
        return run.job(tasks.DRAW, job).digest

    def _recipe(self, card: CardRecord, dataset_entry: DatasetEntry) -> Recipe:
        """Raises GeneratorChangedError if it would build another box than the card's."""
        boxes, terms = self.card_audits.boxes, offer_of(card).terms
        boxes.check_unchanged(signed_card(card))
        linear = statistics_of(terms.moments, dataset_entry.schema.coding)
        return boxes.recipe(terms.generator, [*terms.marginals, *linear])

    def _folder(self, card: CardRecord) -> Path:
        """Return the card's folder, with what there is of it; raises StorageError."""
        short = card.name.rpartition("/")[2]
        path = self.files.folder / KEPT / short
        with suppress(OSError):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.is_dir():
            raise StorageError
        for name in _LEFT:
            self.files.path(f"{KEPT}/{short}/{name}")
        return path

    def _log(self, tx: Connection, card: CardRecord, audited: AuditedBox | None) -> None:
        cards, details = self.card_audits.cards, {"box_digest": signed_card(card).generator_digest}
        if audited is not None:
            details["verdict_digest"] = audited.verdict_digest
        cards.log.append(
            tx,
            action="run",
            actor=cards.controller,
            resource=card.name,
            details=details,
            now=cards.clock(),
        )


def _throw_away(folder: Path) -> None:
    with suppress(OSError):
        for name in (tasks.KEPT_FIT, tasks.KEPT_ROWS):
            (folder / name).unlink(missing_ok=True)
