"""One run of measures, from its rows to a document that is kept."""

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from gencard.controller.card_body import offer_of, signed_card
from gencard.controller.jobs import tasks
from gencard.controller.jobs.descriptions import Descriptions
from gencard.controller.measures import Measures, measures_message
from gencard.controller.refunds import refund
from gencard.controller.run import Run
from gencard.controller.state.measures import MeasuresRow
from gencard.controller.state.operations import OperationRow
from gencard.controller.state.releases import ReleaseRow
from gencard.core.errors import GencardError
from gencard.core.measures.registry import MEASURES, measure_named
from gencard.core.negotiation import Negotiation
from gencard.wire.identity import Identity

FORMAT = "gencard.measures.v1"


@dataclass(frozen=True, slots=True)
class MeasuresRun:
    """Carries measures out.

    Args:
        jobs: Describes jobs: where records, salt and limits are.
    """

    measures: Measures
    jobs: Descriptions

    def __call__(self, run: Run) -> None:
        """Measure one release and keep what was found."""
        with self.measures.database.reading() as tx:
            card = self.measures.card_of(tx, Identity.of(run.row.owner), run.row.resource)
            release = self.measures.releases.get(tx, run.row.resource)
            psi = self.measures.psis.get(tx, card.name).document
        holding = self.measures.cards.holding_of(card)
        chosen = [measure_named(name) for name in run.request["measures"]]
        described = self._described(card, release, psi)
        job = self.jobs.compare(holding, signed_card(card).version, chosen, described)
        found = run.job(tasks.COMPARE, job)["measures"]
        self._keep(run, release, json.dumps(_document(release, found, self._lacking(card))).encode())

    def undo(self, tx: Connection, row: OperationRow, error: GencardError) -> None:
        """Give the price back, where there was one and nothing was learnt."""
        number = json.loads(row.request)["line"]
        if number is not None:
            line = self.measures.ledger.line(tx, number)
            refund(tx, line, error, ledger=self.measures.ledger, cards=self.measures.cards)

    def _described(self, card: Negotiation, release: ReleaseRow, psi: bytes) -> dict[str, Any]:
        """What the job is told of the release; the seed follows from the rows."""
        return {
            "release": release.name,
            "rows_file": str(self.measures.folder / release.file_name),
            "psi": psi.decode(),
            "cliques": [list(clique) for clique in offer_of(card).terms.marginals],
            "seed": int(release.digest[:16], 16),
        }

    def _lacking(self, card: Negotiation) -> dict[str, list[str]]:
        """What the measures need that the dataset or the release does not have; all of it is public."""
        holding = self.measures.cards.holding_of(card)
        attributes = holding.domain.covered_by(offer_of(card).terms.cliques).attributes
        there = holding.holdout is not None
        lacking = {
            name: measure.lacks(attributes, holding.declared, holdout=there)
            for name, measure in MEASURES.items()
        }
        return {name: [str(need) for need in needs] for name, needs in lacking.items() if needs}

    def _keep(self, run: Run, release: ReleaseRow, document: bytes) -> None:
        """Findings, ledger and the operation's end: true together, or not at all."""
        measures, asked = self.measures, run.request
        with measures.database.transaction() as tx:
            measures.card_of(tx, Identity.of(run.row.owner), release.name)  # it may have ended meanwhile
            now = measures.cards.clock()
            row = MeasuresRow(
                name=asked["name"],
                card=release.card,
                release=release.name,
                submitter=run.row.owner,
                names=tuple(asked["measures"]),
                statistics=asked["statistics"],
                document=document,
                created=now,
            )
            measures.store.insert(tx, row)
            if asked["line"] is not None:
                measures.ledger.settle(tx, asked["line"], now)
            told = measures_message(row, whole=False)  # who may know is looked at when it is fetched
            measures.operations.finish(tx, run.row.name, told.SerializeToString())


def _document(
    release: ReleaseRow, found: list[dict[str, Any]], lacking: dict[str, list[str]]
) -> dict[str, Any]:
    """The form that docs/report.md describes."""
    return {
        "format": FORMAT,
        "release": release.name,
        "rows": release.rows,
        "measures": found,
        "lacking": lacking,
    }
