"""One run of evaluations of a card: rows that nobody chose, a look at the records, kept documents.

The rows are as many as there are records: psi, which is exact where measures are offered, says how many.
Whoever may read a measure may read psi too, so their number tells nothing new. Neither the seed of the
rows nor that of the measures' own draws is told or kept.
"""

import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from gencard.controller.audits.card_audits import is_audited
from gencard.controller.evaluation.evaluations import Evaluations
from gencard.controller.jobs import tasks
from gencard.controller.jobs.descriptions import Descriptions
from gencard.controller.operations.failures import refund
from gencard.controller.operations.run import Run, scratch_folder
from gencard.controller.policy.evaluation import price_of_measures
from gencard.controller.records.catalogue import DatasetEntry
from gencard.controller.releases.black_boxes import BoxRelease
from gencard.controller.state.cards import offer_of, signed_card
from gencard.controller.state.operations import OperationRow
from gencard.controller.state.releases import EvaluationRow
from gencard.core.card.card import Card
from gencard.core.errors import GencardError, OperationCancelledError
from gencard.core.evaluation.registry import evaluation_named
from gencard.core.statistics.psi import Psi
from gencard.wire.documents.psi_document import psi_of_document
from gencard.wire.signatures.identity import Identity

FORMAT = "gencard.measures.v2"


@dataclass(frozen=True, slots=True)
class EvaluationRun:
    """Carries measures out.

    Args:
        jobs: Describes jobs: where records, salt and limits are.
        work: Folder for work in progress.
        black_boxes: Draws rows of what the black box of a card left.
        response: Encodes a card and names of evaluations as the operation's response.
    """

    evaluations: Evaluations
    jobs: Descriptions
    work: Path
    black_boxes: BoxRelease
    response: Callable[[str, Sequence[str]], bytes]

    def __call__(self, run: Run) -> None:
        """Take the measures that the card does not have yet, and keep what was found."""
        if "card" not in run.request:  # of an earlier version, which measured releases
            raise OperationCancelledError
        findings: list[dict[str, Any]] = []
        with self.evaluations.database.reading() as tx:
            card = self.evaluations.card_of(tx, Identity.of(run.row.owner), run.row.resource)
            psi = self.evaluations.psis.get(tx, card.name).document
        if run.request["measures"]:
            with scratch_folder(self.work, run.row.name) as scratch:
                findings = self._found(run, card, psi, scratch / "rows")
        self._keep(run, card, findings)

    def undo(self, tx: Connection, row: OperationRow, error: GencardError) -> None:
        """Give the price back, where there was one and nothing was learnt."""
        number = json.loads(row.request)["line"]
        if number is not None:
            line = self.evaluations.ledger.line(tx, number)
            refund(tx, line, error, ledger=self.evaluations.ledger, cards=self.evaluations.cards)

    def _found(self, run: Run, card: Card, psi: bytes, rows: Path) -> list[dict[str, Any]]:
        dataset_entry = self.evaluations.cards.entry_of(card)
        self._draw(run, card, dataset_entry, psi, rows)
        described = {
            "rows_file": str(rows),
            "psi": psi.decode(),
            "cliques": [list(clique) for clique in offer_of(card).terms.marginals],
            "seed": secrets.randbits(63),
        }
        chosen = [evaluation_named(name) for name in run.request["measures"]]
        job = self.jobs.compare(dataset_entry, signed_card(card).version, chosen, described)
        measured: list[dict[str, Any]] = run.job(tasks.COMPARE, job)["measures"]
        return measured

    def _draw(
        self, run: Run, card: Card, dataset_entry: DatasetEntry, psi: bytes, rows_file: Path
    ) -> None:
        """Rows of the card's generator into a file, as many as there are records."""
        rows = records_in(psi_of_document(psi))
        if is_audited(card):
            self.black_boxes.draw(run, card, dataset_entry, rows_file, rows=rows)
            return
        job = self.jobs.synthesise(
            dataset_entry,
            psi=psi,
            generator=offer_of(card).terms.generator,
            rows=rows,
            seed=secrets.randbits(63),
            rows_file=rows_file,
        )
        run.job(tasks.SYNTHESISE, job)

    def _keep(self, run: Run, card: Card, findings: list[dict[str, Any]]) -> None:
        """Findings, ledger and the operation's end: true together, or not at all."""
        evaluations, request = self.evaluations, run.request
        with evaluations.database.transaction() as tx:
            evaluations.card_of(tx, Identity.of(run.row.owner), card.name)  # it may have ended meanwhile
            for one in findings:
                evaluations.store.insert(tx, self._row(run, card, one))
            if request["line"] is not None:
                evaluations.ledger.settle(tx, request["line"], evaluations.cards.clock())
            response = self.response(card.name, request["asked"])
            evaluations.operations.finish(tx, run.row.name, response)

    def _row(self, run: Run, card: Card, finding: dict[str, Any]) -> EvaluationRow:
        dataset_entry, terms = self.evaluations.cards.entry_of(card), offer_of(card).terms
        name = finding["name"]
        document = {
            "format": FORMAT,
            "card": card.name,
            "measure": name,
            "found": finding["found"],
        }
        return EvaluationRow(
            name=f"{card.name}/measures/{name}",
            card=card.name,
            measure=name,
            submitter=run.row.owner,
            statistics=price_of_measures([evaluation_named(name)], dataset_entry, terms).statistics,
            document=json.dumps(document).encode(),
            created=self.evaluations.cards.clock(),
        )


def records_in(psi: Psi) -> int:
    """How many records psi counts, at least 1; with noise, how many it seems to count."""
    first = psi.measurements[0].values.sum() if psi.measurements else psi.linear[0].values[0]
    return max(1, round(float(first)))
