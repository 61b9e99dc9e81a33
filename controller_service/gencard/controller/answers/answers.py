"""Answers as callers see them: asked for, judged, priced, listed, read.

judged      kind, attributes and number of runs, before any record is read and any budget is spent
ledger      the price is RESERVED
job         reads the records once; output rules judge every number
decision    signed, logged and settled in one transaction; no number is visible before
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from gencard.controller.answers.decisions import Decisions
from gencard.controller.cards.book import CardBook
from gencard.controller.cards.released import rules_of
from gencard.controller.operations.operations import Operations
from gencard.controller.records.catalogue import DatasetEntry, dataset_of
from gencard.controller.records.source import NOT_COVERED
from gencard.controller.state import requests, results
from gencard.controller.state.cards import offer_of, signed_card
from gencard.controller.state.database import Page
from gencard.controller.state.log import LONGEST_DETAIL
from gencard.controller.state.requests import OperationRow, Request
from gencard.controller.state.results import RunRow, RunTier
from gencard.core.card.budget import Price
from gencard.core.card.card import CardRecord
from gencard.core.errors import (
    DatasetChangedError,
    InvalidInputError,
    NotFoundError,
    RecordsProtectedError,
    TooLargeError,
)
from gencard.core.output_rules import RULES_VERSION
from gencard.wire.documents.answer_document import Question
from gencard.wire.signatures.canonical import json_bytes
from gencard.wire.signatures.dsse import DOCUMENT
from gencard.wire.signatures.identity import Identity

KIND = "run"
PROGRAM = "program"
"""The kind of a question that a program of the analyst's answers, and of its operation."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Runs on the records under cards, and their answers."""

    decisions: Decisions
    operations: Operations

    @property
    def cards(self) -> CardBook:
        """All cards."""
        return self.decisions.cards

    def start(self, who: Identity, card: str, question: Question, request: Request) -> OperationRow:
        """Begin a checked run; a question that was asked before has its answer already, for nothing.

        One whose condition chose other records then, or that counted levels then, is run again.

        Raises:
            NotFoundError: No such card of the caller's.
            CardStateError, CardExpiredError: The card is not in force.
            DatasetChangedError: The records or their schema are others than the card names.
            InvalidInputError, InvalidFormulaError, UnknownAttributeError: The card does not grant the
                kind, or formula, condition or options cannot be read.
            RecordsProtectedError: The policy keeps the attributes apart.
            TooLargeError: The card has had all its runs, or the condition has too many cells.
            BudgetExceededError: The price is not covered.
        """

        def make(tx: Connection) -> bytes:
            usable = self.cards.usable(tx, who, card)
            known = self._asked_before(tx, usable, question)
            if known is not None:
                return self.operation_of(tx, known).encode()
            price = offer_of(usable).terms.analyses.run_price
            return self.created(tx, who, usable, question, price, {}).encode()

        self.end_with_cards()  # which frees budget
        with self.cards.database.reading() as tx:
            usable = None if request.answer(tx, who) else self.cards.usable(tx, who, card)
            is_new = usable is not None and self._asked_before(tx, usable, question) is None
        if usable is not None and is_new:  # outside the transaction: others may write meanwhile
            check_question(question, usable, self.entry_of(usable))
        with self.cards.database.transaction() as tx:
            name = request.once(tx, who, self.cards.clock(), lambda: make(tx))
        return self.operations.begin(name.decode())

    def _asked_before(self, tx: Connection, card: CardRecord, question: Question) -> RunRow | None:
        """Return the run of the question under a card; raises DatasetChangedError as ``entry_of``."""
        entry = self.entry_of(card)
        known = results.earlier_run(tx, card.name, question.digest)
        if known is None or (rules := rules_of(known)) in ("", RULES_VERSION):
            return known
        from gencard.controller.questions.run_question import means_another  # noqa: PLC0415 - loads pandas

        permitted = entry.policy.analyses.stored and not offer_of(card).terms.analyses.privacy.noisy
        another = means_another(question, entry.schema.coding, rules, permitted=permitted)
        return None if another else known

    def get(self, who: Identity, name: str) -> tuple[RunRow, bytes]:
        """Return an answer and the log's entry of its decision; the entry is empty if there is none yet.

        Raises:
            NotFoundError: No such answer, or another's.
            CardStateError: The card was revoked, which gives its analyst nothing more.
        """
        self.end_with_cards()
        with self.cards.database.reading() as tx:
            row = results.get_run(tx, name)
            self.cards.readable(tx, who, row.card, what="answer")
            return row, b"" if row.log_index is None else self.cards.log.entry(tx, row.log_index)

    def page(self, who: Identity, card: str, before: str, limit: int) -> Page[RunRow]:
        """Return the answers of a card, newest first."""
        self.end_with_cards()
        with self.cards.database.reading() as tx:
            self.cards.seen(tx, who, card)
            return results.list_runs(tx, card=card, before=before, limit=limit)

    def end_with_cards(self) -> None:
        """Refuse all answers that wait under cards that have ended, as expired ones have unnoticed."""
        with self.cards.database.reading() as tx:
            waiting_in_vain = self.decisions.waiting_in_vain(tx)
        if waiting_in_vain:
            with self.cards.database.transaction() as tx:
                self.decisions.end_with_cards(tx)

    def entry_of(self, card: CardRecord) -> DatasetEntry:
        """Return the dataset; raises DatasetChangedError if it is not what the card names."""
        dataset_entry = self.cards.entry_of(card)
        if signed_card(card).version != dataset_entry.version:
            raise DatasetChangedError
        return dataset_entry

    def operation_of(self, tx: Connection, row: RunRow) -> str:
        """Return the operation of a run."""
        for operation in reversed(requests.operations_of_kind(tx, kind_of(row.tier), row.card)):
            if json.loads(operation.request)["run"] == row.name:
                return operation.name
        raise NotFoundError(what="operation")

    def created(
        self,
        tx: Connection,
        who: Identity,
        card: CardRecord,
        question: Question,
        price: Price,
        more: Mapping[str, Any],
    ) -> str:
        """Return the name of a new operation, with its price held and its run in the state.

        Args:
            price: Most that the run may cost.
            more: Facts for the operation, besides the run.

        Raises:
            TooLargeError: The card has had all its runs.
            BudgetExceededError: The price is not covered.
        """
        name = f"{card.name}/answers/{secrets.token_hex(8)}"
        tier = RunTier.REVIEWED if question.kind == PROGRAM else RunTier.CHECKED
        analyses = offer_of(card).terms.analyses
        self._check_room(tx, card, tier)
        line = self.decisions.ledger.reserve(
            tx,
            dataset=dataset_of(card.name),
            project=who.project,
            analyst=who.uri,
            resource=name,
            kind=KIND,
            price=price,
            now=self.cards.clock(),
        )
        row = RunRow(
            name=name,
            card=card.name,
            dataset=dataset_of(card.name),
            version=signed_card(card).version,
            submitter=who.uri,
            tier=tier,
            question=question.digest,
            request=json_bytes(DOCUMENT.write(question)),
            created=self.cards.clock(),
            line=line,
        )
        results.insert_run(tx, row)
        operation = self.operations.create(tx, who, kind_of(tier), card.name, {"run": name, **more})
        names = analyses.columns if tier is RunTier.REVIEWED else ()
        columns = {"columns": _short(names)} if names else {}
        self.cards.log.append(
            tx,
            action="run",
            actor=who.uri,
            resource=name,
            details={"operation": operation, "kind": question.kind, "line": str(line), **columns},
            now=self.cards.clock(),
        )
        return operation

    def _check_room(self, tx: Connection, card: CardRecord, tier: RunTier) -> None:
        """Raise TooLargeError if the card has had all its runs of a tier."""
        analyses = offer_of(card).terms.analyses
        most = analyses.checked_runs if tier is RunTier.CHECKED else analyses.reviewed_runs
        if results.count_runs(tx, card.name, tier) >= most:
            limit, advice = f"{most} on the card; propose another card", "Propose a card with more runs."
            raise TooLargeError(what=f"The number of {tier} runs", limit=limit, advice=advice)


def _short(names: Sequence[str]) -> str:
    """Return names in a line of the log, or their number if there is no room for them."""
    text = ", ".join(names)
    return text if len(text) <= LONGEST_DETAIL and text.isprintable() else f"{len(names)} attributes"


def kind_of(tier: RunTier) -> str:
    """Return the kind of operation that carries a run out."""
    return PROGRAM if tier is RunTier.REVIEWED else KIND


def check_numbers(dataset_entry: DatasetEntry, what: str) -> None:
    """Raise RecordsProtectedError if the version of the records does not cover their numbers."""
    if not dataset_entry.covers_values:
        raise RecordsProtectedError(what=what, why=NOT_COVERED)


def check_question(question: Question, card: CardRecord, dataset_entry: DatasetEntry) -> None:
    """Refuse, by public facts alone, a question that the card does not grant or that has no answer.

    A question of before that today's checks would refuse has its answer, and does not come here.

    Raises:
        InvalidInputError, InvalidFormulaError, UnknownAttributeError, RecordsProtectedError,
        TooLargeError: As ``Answers.start`` says.
    """
    analyses = offer_of(card).terms.analyses
    kinds = analyses.kinds
    if question.kind not in kinds:
        granted = ", ".join(kinds) or "none"
        raise InvalidInputError(
            field="kind", problem=f"is not granted by the card; granted kinds: {granted}"
        )
    from gencard.controller.questions.run_question import (  # noqa: PLC0415 - loads formulaic and pandas
        NoisyRun,
        RunQuestion,
    )

    policy, coding = dataset_entry.policy, dataset_entry.schema.coding
    permitted = policy.analyses.stored
    run = RunQuestion.new(question, coding, permitted=permitted)
    if analyses.privacy.noisy:
        NoisyRun.of(question, coding, permitted=permitted)
    elif not dataset_entry.covers(run.stored):
        raise RecordsProtectedError(what='response="stored"', why=NOT_COVERED)
    if run.stored and not permitted:
        why = "the policy keeps runs to levels (analyses.stored)"
        raise RecordsProtectedError(what='response="stored"', why=why)
    if (apart := policy.kept_apart(run.attributes)) is not None:
        why = f"the policy does not allow {' and '.join(apart)} together"
        raise RecordsProtectedError(what="The analysis", why=why)
    most = policy.measuring(noisy=analyses.privacy.noisy).largest_order
    if run.widest > most:
        why = (
            f"it uses tables of {run.widest} attributes, including those of 'where', and the "
            f"policy allows {most}"
        )
        raise RecordsProtectedError(what="The analysis", why=why)
