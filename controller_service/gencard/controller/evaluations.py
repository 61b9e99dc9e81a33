"""Evaluations of cards on the records: begun, run once for a card, listed, read.

An evaluation discloses a fact about records, and belongs to a card: it runs once, on rows that the
controller draws with a seed of its own, never on rows that a caller chose. The first caller pays one
statistic for each number, whatever the role, from the accounts of dataset, project and person. Later
readers read the stored result for free: auditors and stewards read all evaluations, analysts the
evaluations that their own cards name.

The number of rows equals the number of records, which psi states, because psi is exact if evaluations
are offered. Readers of an evaluation may read psi too, so this number discloses nothing new. The seeds
of the rows and of the evaluations' own draws are neither disclosed nor kept.
"""

import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection

from gencard.controller.cards.book import CardBook, is_audited, is_private
from gencard.controller.failures import refund
from gencard.controller.jobs import tasks
from gencard.controller.jobs.descriptions import Descriptions
from gencard.controller.operations import Operations, Run, scratch_folder
from gencard.controller.policy.statistics import price_of_measures, unavailable, why_withheld
from gencard.controller.records.catalogue import DatasetEntry, dataset_of
from gencard.controller.releases import BoxRelease
from gencard.controller.state import requests, results
from gencard.controller.state.cards import in_force, offer_of, signed_card
from gencard.controller.state.database import Page
from gencard.controller.state.ledger import Ledger
from gencard.controller.state.requests import UNFINISHED, OperationRow, Request
from gencard.controller.state.results import EvaluationRow
from gencard.core.card.card import CardRecord
from gencard.core.errors import (
    GencardError,
    InvalidInputError,
    NotFoundError,
    OperationCancelledError,
    PermissionDeniedError,
    RecordsProtectedError,
    ServiceBusyError,
)
from gencard.measures.evaluation.evaluation import Evaluation
from gencard.measures.evaluation.registry import EVALUATIONS, evaluation_named
from gencard.wire.keys import Identity, Role
from gencard.wire.psi import psi_of_document

KIND = "measures"


@dataclass(frozen=True, slots=True)
class Evaluations:
    """Evaluations of cards on the records, and their results."""

    cards: CardBook
    ledger: Ledger
    operations: Operations

    def start(self, who: Identity, card: str, names: Sequence[str], request: Request) -> OperationRow:
        """Begin evaluations of a card; earlier evaluations are free, and stay as they are.

        Args:
            names: Names of evaluations; empty for all that the card can have and that ``who`` may have.

        Raises:
            NotFoundError: No such card.
            PermissionDeniedError: An analyst's card does not name the evaluation, or names none.
            RecordsProtectedError: The card cannot have the evaluation; the error says why.
            InvalidInputError: A name is unknown or occurs twice, or the card has no release yet.
            CardStateError, CardExpiredError: An analyst's card is not in force.
            DatasetChangedError: The dataset has another schema than the card names.
            BudgetExceededError: The price is not covered.
            ServiceBusyError: Other evaluations of this card are running.
        """

        def make(tx: Connection) -> bytes:
            seen_card = self.card_of(tx, who, card)
            measures = self._chosen(who, seen_card, names)
            if not results.list_releases(tx, card=card, limit=1).rows:
                raise InvalidInputError(
                    field="card", problem="has no release yet; generate one, then try again"
                )
            if any(row.state in UNFINISHED for row in requests.operations_of_kind(tx, KIND, card)):
                raise ServiceBusyError(what="concurrent evaluations of one card")
            taken_names = results.evaluated_measures(tx, card)
            fresh = [measure for measure in measures if measure.name not in taken_names]
            line = self._reserve(tx, who, seen_card, fresh)
            description = {
                "card": card,
                "asked": [measure.name for measure in measures],
                "measures": [measure.name for measure in fresh],
                "line": line,
                "statistics": 0 if line is None else self.ledger.line(tx, line).price.statistics,
            }
            return self.operations.create(tx, who, KIND, card, description).encode()

        with self.cards.database.transaction() as tx:
            name = request.once(tx, who, self.cards.clock(), lambda: make(tx))
        return self.operations.begin(name.decode())

    def get(self, who: Identity, name: str) -> EvaluationRow:
        """Return a stored evaluation.

        Raises:
            NotFoundError: The evaluation does not exist, or the analyst's card does not name it.
            RecordsProtectedError: The card cannot have the evaluation any more.
            CardStateError: The card was revoked, so analysts receive nothing more from it.
        """
        with self.cards.database.reading() as tx:
            row = results.get_evaluation(tx, name)
            card = self.cards.readable(tx, who, row.card, what="evaluation")
            if row.measure not in allowed(who, card):
                raise NotFoundError(what="evaluation")
            dataset_entry = self.cards.catalogue.named(dataset_of(card.name))
            reason = why_withheld(evaluation_named(row.measure), signed_card(card), dataset_entry)
        if reason is not None:
            raise _refusal(row.measure, reason)
        return row

    def page(
        self, who: Identity, card: str, before: str, limit: int
    ) -> tuple[Page[EvaluationRow], dict[str, str]]:
        """Return a card's evaluations, newest first, and reasons for those that it cannot have."""
        with self.cards.database.reading() as tx:
            seen_card = self.cards.seen(tx, who, card)
            names = allowed(who, seen_card) if seen_card.offer is not None else ()
            page = results.list_evaluations(tx, card, among=names, before=before, limit=limit)
        if seen_card.offer is None:
            return page, {}
        dataset_entry = self.cards.catalogue.named(dataset_of(card))
        return page, unavailable(signed_card(seen_card), dataset_entry)

    def card_of(self, tx: Connection, who: Identity, card: str) -> CardRecord:
        seen_card = self.cards.seen(tx, who, card)
        return in_force(seen_card) if who.role is Role.ANALYST else seen_card

    def _chosen(self, who: Identity, card: CardRecord, names: Sequence[str]) -> list[Evaluation]:
        """Return the evaluations to run, in the order of a report; uses public facts alone."""
        may_have = allowed(who, card)
        requested = {evaluation_named(name).name for name in names} or set(may_have)
        if not requested or not requested <= set(may_have):
            raise PermissionDeniedError
        if names and len(names) != len(requested):
            raise InvalidInputError(field="measures", problem="must not repeat a name")
        missing = unavailable(signed_card(card), self.cards.entry_of(card))
        refused_names = [name for name in EVALUATIONS if name in requested and name in missing]
        if refused_names and (names or len(refused_names) == len(requested)):
            raise _refusal(refused_names[0], missing[refused_names[0]])
        requested.difference_update(refused_names)
        return [measure for name, measure in EVALUATIONS.items() if name in requested]

    def _reserve(
        self, tx: Connection, who: Identity, card: CardRecord, fresh: Sequence[Evaluation]
    ) -> int | None:
        """Log the evaluations and reserve their price; return the ledger's line, None if it is free."""
        if not fresh:
            return None
        resource = f"{card.name}/measures/{secrets.token_hex(8)}"
        price = price_of_measures(fresh, self.cards.entry_of(card), offer_of(card).terms)
        self.cards.note(tx, "compare", resource, {"statistics": str(price.statistics)}, who.uri)
        if not price.statistics:
            return None
        dataset, now = dataset_of(card.name), self.cards.clock()
        return self.ledger.reserve(
            tx, dataset, who.project, who.uri, resource=resource, kind=KIND, price=price, now=now
        )


def _refusal(measure: str, reason: str) -> RecordsProtectedError:
    return RecordsProtectedError(what=f"The evaluation '{measure}'", why=reason)


def allowed(who: Identity, card: CardRecord) -> tuple[str, ...]:
    """Return the names of a card's evaluations for a caller; none under a card of tier private."""
    if is_private(card):
        return ()
    return offer_of(card).terms.measures if who.role is Role.ANALYST else tuple(EVALUATIONS)


FORMAT = "gencard.measures.v2"


@dataclass(frozen=True, slots=True)
class EvaluationRun:
    """Runner of evaluations; ``response`` encodes a card and names as the operation's response."""

    evaluations: Evaluations
    jobs: Descriptions
    work: Path
    black_boxes: BoxRelease
    response: Callable[[str, Sequence[str]], bytes]

    def __call__(self, run: Run) -> None:
        if "card" not in run.request:  # of an earlier version, which measured releases
            raise OperationCancelledError
        findings: tuple[tasks.FindingDocument, ...] = ()
        with self.evaluations.cards.database.reading() as tx:
            card = self.evaluations.card_of(tx, Identity.of(run.row.owner), run.row.resource)
            psi = results.get_psi(tx, card.name).document
        if run.request["measures"]:
            with scratch_folder(self.work, run.row.name) as scratch:
                rows = scratch / "rows"
                dataset_entry = self.evaluations.cards.entry_of(card)
                self._draw(run, card, dataset_entry, psi, rows)
                measures = [evaluation_named(name) for name in run.request["measures"]]
                signed, seed = signed_card(card), secrets.randbits(63)
                job = self.jobs.compare(
                    dataset_entry, measures, rows_file=rows, psi=psi, card=signed, seed=seed
                )
                findings = run.job(tasks.COMPARE, job).findings
        self._keep(run, card, findings)

    def undo(self, tx: Connection, row: OperationRow, error: GencardError) -> None:
        """End the reservation, if there was one; see ``refund``."""
        number = json.loads(row.request)["line"]
        if number is not None:
            line = self.evaluations.ledger.line(tx, number)
            refund(tx, line, error, ledger=self.evaluations.ledger, cards=self.evaluations.cards)

    def _draw(
        self, run: Run, card: CardRecord, dataset_entry: DatasetEntry, psi: bytes, rows_file: Path
    ) -> None:
        # the number of records that psi counts, or seems to count with noise
        counted = psi_of_document(psi)
        values = (counted.measurements or counted.linear)[0].values
        rows = max(1, round(float(values.sum() if counted.measurements else values[0])))
        if is_audited(card):
            self.black_boxes.draw(run, card, dataset_entry, rows_file, rows=rows)
            return
        signed, seed = signed_card(card), secrets.randbits(63)
        job = self.jobs.synthesise(
            dataset_entry, psi=psi, card=signed, rows=rows, seed=seed, rows_file=rows_file
        )
        run.job(tasks.SYNTHESISE, job)

    def _keep(self, run: Run, card: CardRecord, findings: Sequence[tasks.FindingDocument]) -> None:
        """Findings, ledger and the operation's end: true together, or not at all."""
        evaluations, request = self.evaluations, run.request
        with evaluations.cards.database.transaction() as tx:
            evaluations.card_of(tx, Identity.of(run.row.owner), card.name)  # it may have ended meanwhile
            for one in findings:
                document = {"format": FORMAT, "card": card.name, "measure": one.name}
                price = price_of_measures(
                    [evaluation_named(one.name)], evaluations.cards.entry_of(card), offer_of(card).terms
                )
                row = EvaluationRow(
                    name=f"{card.name}/measures/{one.name}",
                    card=card.name,
                    measure=one.name,
                    submitter=run.row.owner,
                    statistics=price.statistics,
                    document=json.dumps(document | {"found": one.document}).encode(),
                    created=evaluations.cards.clock(),
                )
                results.insert_result(tx, row)
            if request["line"] is not None:
                evaluations.ledger.settle(tx, request["line"], evaluations.cards.clock())
            response = self.response(card.name, request["asked"])
            evaluations.operations.finish(tx, run.row.name, response)
