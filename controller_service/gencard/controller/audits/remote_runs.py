"""Runs of lent black boxes on datasets that callers made up: no record is read, nothing is spent."""

import logging
import secrets
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gencard.controller.audits.audits import Audits
from gencard.controller.jobs import tasks
from gencard.controller.jobs.descriptions import Descriptions
from gencard.controller.jobs.executor import ProcessExecutor
from gencard.controller.jobs.rows_file import RowsFile
from gencard.controller.operations.run import scratch_folder
from gencard.controller.records.catalogue import DatasetEntry
from gencard.controller.sandbox.recipes import Recipe
from gencard.controller.state.cards import offer_of
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import (
    BoxNotLentError,
    DomainMismatchError,
    GencardError,
    InvalidNumberError,
    TooLargeError,
)
from gencard.core.statistics.linear import statistics_of
from gencard.wire.signatures.identity import Identity

logger = logging.getLogger(__name__)

CHECKED_SECONDS = 1.0
"""For which a comparison of a box's environment serves later runs; the job compares it again."""

OnEnd = Callable[[Callable[[], None]], bool]
"""Registers a function to be called when the caller goes away; False if the caller has gone already."""


@dataclass(frozen=True, slots=True)
class RemoteRuns:
    """Runs of black boxes on made-up data of callers. No record is read and no budget is spent.

    Args:
        lent: Names of the black boxes and generators that the settings lend.
        most_rows: Bound on rows in and out, in records.
        work: Folder for work in progress.
    """

    audits: Audits
    jobs: Descriptions
    executor: ProcessExecutor
    work: Path
    most_rows: int
    lent: frozenset[str]

    def open(self, who: Identity, card: str, black_box: str, rows: int) -> "RemoteRun":
        """Look before an upload is read: card, box and bounds.

        Raises:
            InvalidNumberError, TooLargeError: ``rows`` is out of bounds.
            CardStateError, NotFoundError: There is no such agreed card, or no such box.
            BoxNotLentError: The settings do not lend this box.
            DatasetChangedError: The dataset has another schema than the card names.
        """
        if rows < 1:
            raise InvalidNumberError(field="rows", expected="1 or more")
        if rows > self.most_rows:
            raise TooLargeError(
                what="The number of rows",
                limit=self.most_rows,
                advice=f"Request at most {self.most_rows:,} rows.",
            )
        with self.audits.database.reading() as tx:
            card_in_force = self.audits.agreed(tx, who, card)
        terms, dataset_entry = offer_of(card_in_force).terms, self.audits.cards.entry_of(card_in_force)
        linear = statistics_of(terms.moments, dataset_entry.schema.coding)
        name = black_box or terms.generator
        if name in self.audits.card_audits.boxes.names - self.lent:
            raise BoxNotLentError(name=name)
        recipe = self.audits.card_audits.boxes.recipe(
            name, [*terms.marginals, *linear], within=CHECKED_SECONDS
        )
        domain = dataset_entry.domain.covered_by(terms.cliques)
        return RemoteRun(self, who.uri, dataset_entry, domain, name, recipe, rows)


@dataclass(frozen=True, slots=True)
class RemoteRun:
    """A run that passed all checks."""

    remote_runs: RemoteRuns
    caller: str
    dataset_entry: DatasetEntry
    domain: Domain
    name: str
    recipe: Recipe
    rows: int

    def run(
        self, dataset: Dataset, *, seed: int, on_end: OnEnd, on_errors: Callable[[str], None]
    ) -> Dataset:
        """Run the black box on a made-up dataset and return its rows in canonical form.

        Args:
            on_end: Called with a function that stops the job when the caller goes away.
            on_errors: Called with the standard error of a program that fails, if it wrote any.

        Raises:
            DomainMismatchError: The dataset is not over the card's attributes.
        """
        if dataset.domain != self.domain:
            raise DomainMismatchError(problem="the dataset is not over the attributes of the card")
        with scratch_folder(self.remote_runs.work, f"visit-{secrets.token_hex(8)}") as folder:
            RowsFile(folder / "in").write(dataset, lasting=False)
            job = self.remote_runs.jobs.run_black_box(
                self.dataset_entry,
                self.recipe,
                rows=self.rows,
                seed=seed,
                upload=folder / "in",
                rows_file=folder / "out",
            )
            # of this caller with this recipe alone: another caller's runs have a process of their own
            series = f"{self.caller} {self.recipe}"
            running = self.remote_runs.executor.submit(
                tasks.RUN_BLACK_BOX, job, owner=self.caller, series=series
            )
            if not on_end(lambda: _stop(running)):
                _stop(running)
            try:
                running.result()
            except GencardError as error:
                # the name and the reason: a text of the program never reaches the log
                extra = {"place": f"black_boxes/{self.name}", "kind": error.reason}
                logger.warning("lent run failed", extra=extra)
                if job.errors_file.exists():
                    on_errors(job.errors_file.read_text(encoding="utf-8"))
                raise
            finally:
                self.remote_runs.executor.await_end(running)
            return RowsFile(folder / "out").dataset()


def _stop(running: Future[Any]) -> None:
    running.cancel()
