"""The risk of psi at the desk: evaluated in a job, kept for stewards alone, dropped with its card.

The kept results are numbers about records. No analyst and no auditor receives any of them, and the log
says who viewed the risk of which card, without a number. Only people decide by them.
If a person has several records, each record counts.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from gencard.controller.cards.book import CardBook
from gencard.controller.cards.released import released_before
from gencard.controller.jobs import tasks
from gencard.controller.jobs.descriptions import Descriptions
from gencard.controller.jobs.tasks import NOTHING_BEFORE, Before, RiskJob
from gencard.controller.operations.failures import error_of_document
from gencard.controller.operations.operations import Operations, Run
from gencard.controller.records.catalogue import DatasetEntry, dataset_of
from gencard.controller.state import requests
from gencard.controller.state.cards import ENDED
from gencard.controller.state.database import Database
from gencard.controller.state.requests import UNFINISHED, OperationRow, Request
from gencard.controller.state.tables import risks
from gencard.controller.stewards.cards import CardEffect
from gencard.core.card.card import CardRecord
from gencard.core.card.terms import Proposal
from gencard.core.coding import Coding
from gencard.core.domain import Clique
from gencard.core.errors import (
    CardStateError,
    GencardError,
    InvalidInputError,
    OperationCancelledError,
    PermissionDeniedError,
    ServiceUnavailableError,
)
from gencard.core.typed_json import PLAIN
from gencard.measures.psi_risk.risk import PsiRisk
from gencard.wire.canonical import Document, digest_of, sha256
from gencard.wire.documents import transform_document
from gencard.wire.keys import Identity, Role
from gencard.wire.steward import CertainKey, RiskReview, RiskState

KIND, LOOK = "risk", "look-at-risk"
NO_COUNTS = "neither this card nor one granted before releases exact counts"
BOUNDED = "There is nothing to examine: the budget of statistics with noise bounds what they reveal."


@dataclass(frozen=True, slots=True)
class ExactTables:
    """All exact counts that would be released together: of a card, and of earlier cards.

    Args:
        cards: Names of the other cards.
        own: Terms of the card itself, if they are exact.
        before: Earlier disclosures, with which the card's sums are judged.
        with_step: Attributes with a step that any of the terms names.
        influence: Largest influence of a record that the policy permits; None for any.
    """

    cliques: tuple[Clique, ...]
    cards: tuple[str, ...]
    version: str
    own: Proposal | None = None
    histograms: Clique = ()
    before: Before = NOTHING_BEFORE
    with_step: Clique = ()
    influence: float | None = None

    @property
    def digest(self) -> str:
        """Two looks at the same tables of the same records have the same."""
        cliques = sorted({tuple(sorted(clique)) for clique in self.cliques})
        tables: Document = {"cliques": [list(clique) for clique in cliques], "version": self.version}
        own = self.own
        if own is not None and own.transform.checks and own.marginals:
            tables["own"] = sorted(sorted(clique) for clique in own.marginals)
            tables["transform"] = transform_document(own.transform)
        if self.histograms:
            tables["histograms"] = list(self.histograms)
        if own is not None and own.numbers:
            tables["numbers"] = [*map(str, own.numbers)]
            tables["before"] = sha256(repr(self.before).encode())
        if self.with_step and self.influence is not None:
            tables["influence"] = [*self.with_step, repr(self.influence)]
        return digest_of(tables)

    def job(self, jobs: Descriptions, dataset_entry: DatasetEntry) -> RiskJob:
        """Describe the look."""
        return jobs.look(
            dataset_entry,
            self.cliques,
            self.own,
            histograms=self.histograms,
            before=self.before,
            with_step=self.with_step,
        )


def worst_of(report: PsiRisk, coding: Coding) -> tuple[CertainKey, ...]:
    """Keys that make most records certain, by the names of levels."""

    def level(name: str, code: int) -> str:
        return f"{name} = {coding.attribute(name).coding.level_names[code]}"

    return tuple(
        CertainKey(
            ", ".join(map(level, one.keys, one.levels)), level(one.target, one.level), one.records
        )
        for one in report.worst
    )


@dataclass(frozen=True, slots=True)
class Risks:
    """Looks at the risk of cards.

    Args:
        operations: Operations of the running service; None in a local shell, which has none.
    """

    database: Database
    cards: CardBook
    operations: Operations | None = None

    def start(self, who: Identity, name: str, request_id: str) -> OperationRow:
        """Begin to look at a card, or join a look that is under way; the log says who.

        Raises:
            PermissionDeniedError: ``who`` is no steward.
            NotFoundError: No such card.
            CardStateError: The card has ended.
            InvalidInputError: There are no exact counts to look at.
            ServiceUnavailableError: No service runs here.
        """
        _check(who)
        if self.operations is None:
            raise ServiceUnavailableError
        operations = self.operations
        request = Request("RunRisk", request_id, sha256(name.encode()))

        def make(tx: Connection) -> bytes:
            card = self.cards.card(tx, name)
            if card.state in ENDED:
                raise CardStateError(state=card.state)
            self.tables(tx, card)
            self.log(tx, who.uri, name)
            for row in requests.operations_of_kind(tx, KIND, name):
                if row.state in UNFINISHED:
                    return row.name.encode()
            return operations.create(tx, who, KIND, name, {}).encode()

        with self.database.transaction() as tx:
            operation = request.once(tx, who, self.cards.clock(), lambda: make(tx))
        return operations.begin(operation.decode())

    def view(self, who: Identity, name: str) -> RiskReview:
        """Return progress or result of an evaluation; the log says who saw a report for the first time.

        Raises:
            PermissionDeniedError: ``who`` is no steward.
            NotFoundError: No such card.
        """
        _check(who)
        with self.database.transaction() as tx:
            card = self.cards.card(tx, name)
            if card.state in ENDED:
                forget(tx, name)
            row = tx.execute(select(risks).where(risks.c.card == name)).mappings().one_or_none()
            newest = requests.operations_of_kind(tx, KIND, name)[-1:] if self.operations else ()
            if row is not None and who.uri not in (known_readers := json.loads(row["seen"])):
                self.log(tx, who.uri, name)
                readers = json.dumps([*known_readers, who.uri])
                tx.execute(update(risks).where(risks.c.card == name).values(seen=readers))
            try:
                digest = self.tables(tx, card).digest
            except InvalidInputError:
                digest = ""
        return self._view(name, row, newest[0] if newest else None, digest)

    def tables(self, tx: Connection, card: CardRecord) -> ExactTables:
        """Raises InvalidInputError if there are no exact counts."""
        dataset_entry = self.cards.catalogue.named(dataset_of(card.name))
        granted = self.cards.grants.exact(tx, dataset_entry)
        others = {other: terms for other, terms in granted.items() if other != card.name}
        # Approving would offer these terms; the policy may grant less than is proposed.
        would_be, _ = CardEffect(self.cards).offer(tx, card)
        offer = card.offer if would_be is None else would_be
        terms = card.proposed if offer is None else offer.terms
        own = None if terms.privacy.noisy else terms
        exact, coding = [*others.values(), *([own] if own else [])], dataset_entry.schema.coding
        cliques = tuple(clique for one in exact for clique in one.counted(coding))
        if not cliques:
            raise InvalidInputError(field="card", problem=NO_COUNTS, advice=BOUNDED)
        version, names = dataset_entry.version, tuple(sorted(others))
        histograms = tuple(sorted({name for one in exact for name in one.histograms}))
        before = NOTHING_BEFORE
        if own is not None and own.sums:
            dataset = dataset_entry.name
            before = released_before(tx, self.cards, dataset=dataset, version=version, but=card.name)
        named = {
            name for one in exact for clique in (*one.cliques, *one.number_cliques) for name in clique
        }
        with_step = tuple(name for name in coding.with_step if name in named)
        limit = dataset_entry.run_rules.influence
        return ExactTables(cliques, names, version, own, histograms, before, with_step, limit)

    def examined(self, who: Identity, name: str) -> PsiRisk | None:
        """Return the report on a card, if its tables are still those that were examined."""
        view = self.view(who, name)
        return view.report if view.state is RiskState.READY else None

    def log(self, tx: Connection, actor: str, name: str) -> None:
        """Log that a steward views the risk."""
        now = self.cards.clock()
        self.cards.log.append(tx, action=LOOK, actor=actor, resource=name, details={}, now=now)

    def keep(self, tx: Connection, card: CardRecord, seen: ExactTables, report: PsiRisk) -> None:
        """Keep what a look gave, in place of what was kept.

        Raises:
            OperationCancelledError: The card has ended meanwhile.
        """
        if self.cards.card(tx, card.name).state in ENDED:
            raise OperationCancelledError
        forget(tx, card.name)
        tx.execute(
            insert(risks).values(
                card=card.name,
                tables=seen.digest,
                report=json.dumps(report.json()).encode(),
                cards=json.dumps(seen.cards),
                seen="[]",
                created=self.cards.clock(),
            )
        )

    def tidy(self) -> None:
        """Drop what is kept of cards whose time has run out meanwhile."""
        with self.database.transaction() as tx:
            for name in tx.execute(select(risks.c.card)).scalars().all():
                if self.cards.card(tx, name).state in ENDED:
                    forget(tx, name)

    def _view(
        self, name: str, row: Mapping[Any, Any] | None, newest: OperationRow | None, digest: str
    ) -> RiskReview:
        coding = self.cards.catalogue.named(dataset_of(name)).schema.coding
        state, problem = RiskState.NONE, ""
        if row is not None:
            state = RiskState.READY if row["tables"] == digest else RiskState.OUTDATED
        if newest is not None and newest.state in UNFINISHED:
            state = RiskState.RUNNING
        elif newest is not None and newest.error is not None and row is None:
            state, problem = RiskState.FAILED, error_of_document(newest.error).message
        how_far = ("", "", 0) if newest is None else (newest.name, newest.stage, newest.permille)
        if row is None:
            return RiskReview(name, state, *how_far, problem)
        report = PLAIN.read(PsiRisk, json.loads(row["report"]), field="risk")
        others, worst = tuple(json.loads(row["cards"])), worst_of(report, coding)
        return RiskReview(name, state, *how_far, problem, report, worst, others, row["created"])


@dataclass(frozen=True, slots=True)
class RiskRun:
    """Carries a look out, in a job that reads the records."""

    risks: Risks
    operations: Operations
    jobs: Descriptions

    def __call__(self, run: Run) -> None:
        """Keep the report; the operation's response holds nothing of it."""
        name = run.row.resource
        with self.risks.database.reading() as tx:
            card = self.risks.cards.card(tx, name)
            tables = self.risks.tables(tx, card)
        dataset_entry = self.risks.cards.catalogue.named(dataset_of(name))
        report = run.job(tasks.LOOK, tables.job(self.jobs, dataset_entry)).risk
        with self.risks.database.transaction() as tx:
            self.risks.keep(tx, card, tables, report)
            self.operations.finish(tx, run.row.name, b"")

    def undo(self, tx: Connection, row: OperationRow, error: GencardError) -> None:
        """Do nothing: no budget was held."""


def forget(tx: Connection, card: str) -> None:
    """Drop what is kept of a card."""
    tx.execute(delete(risks).where(risks.c.card == card))


def _check(who: Identity) -> None:
    if who.role is not Role.STEWARD:
        raise PermissionDeniedError
