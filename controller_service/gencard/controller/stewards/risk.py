"""The risk of psi at the desk: looked at in a job, kept for stewards alone, dropped with its card.

What is kept are numbers about records. No analyst and no auditor is given any of them, and the log
says who looked at the risk of which card and no number. Nothing is decided by them but by people.
Persons, where a person has several records, count as records.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import chain
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from gencard.controller.cards.book import CardBook
from gencard.controller.jobs import tasks
from gencard.controller.jobs.descriptions import Descriptions
from gencard.controller.operations.failures import error_of_document
from gencard.controller.operations.operations import Operations
from gencard.controller.operations.run import Run
from gencard.controller.records.catalogue import DatasetEntry, dataset_of
from gencard.controller.state.cards import ENDED
from gencard.controller.state.database import Database
from gencard.controller.state.requests import UNFINISHED, OperationRow, Request
from gencard.controller.state.tables import risks
from gencard.controller.stewards.cards import CardEffect
from gencard.core.card.card import Card
from gencard.core.card.mechanism import AS_COUNTED, Transform
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
from gencard.core.psi_risk.facts import Combination
from gencard.core.psi_risk.risk import FailingTable, PsiRisk
from gencard.core.typed_json import PLAIN
from gencard.wire.documents.card_document import transform_document
from gencard.wire.signatures.canonical import Document, digest_of, sha256
from gencard.wire.signatures.identity import Identity, Role

KIND, LOOK = "risk", "look-at-risk"
NO_COUNTS = "neither this card nor one granted before releases exact counts"
BOUNDED = "There is nothing to examine: the budget of statistics with noise bounds what they reveal."


class RiskState(StrEnum):
    """NONE: nobody had it looked at. OUTDATED: the card, the records or other cards changed since."""

    NONE = "none"
    RUNNING = "running"
    READY = "ready"
    OUTDATED = "outdated"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ExactTables:
    """All exact counts that would be out together: of a card, and of those granted before.

    Args:
        cards: Names of the other cards.
        own: Tables of the card itself.
        transform: Checks and rounding of the card's own tables.
    """

    cliques: tuple[Clique, ...]
    cards: tuple[str, ...]
    version: str
    own: tuple[Clique, ...] = ()
    transform: Transform = AS_COUNTED

    @property
    def digest(self) -> str:
        """Two looks at the same tables of the same records have the same."""
        cliques = sorted({tuple(sorted(clique)) for clique in self.cliques})
        tables: Document = {"cliques": [list(clique) for clique in cliques], "version": self.version}
        if self.transform.checks and self.own:
            tables["own"] = sorted(sorted(clique) for clique in self.own)
            tables["transform"] = transform_document(self.transform)
        return digest_of(tables)


@dataclass(frozen=True, slots=True)
class RiskView:
    """What a steward sees of the risk of a card.

    Args:
        operation: The newest look, whether or not it has ended; empty where there was none.
        stage, permille: How far it is.
        error: Of a look that failed.
        report: Of the newest look that ended well; there too where it is outdated.
        coding: Names of attributes' levels.
        cards: Other cards whose tables were taken together with this card's.
        time: Of the report.
    """

    card: str
    state: RiskState
    coding: Coding
    operation: str = ""
    stage: str = ""
    permille: int = 0
    error: GencardError | None = None
    report: PsiRisk | None = None
    cards: tuple[str, ...] = ()
    time: datetime | None = None

    def words(self, one: Combination) -> tuple[str, str]:
        """What is known and what is then certain, by the names of levels."""
        known = (self._level(*pair) for pair in zip(one.keys, one.levels, strict=True))
        return ", ".join(known), self._level(one.target, one.level)

    def _level(self, name: str, code: int) -> str:
        return f"{name} = {self.coding.attribute(name).coding.level_names[code]}"


@dataclass(frozen=True, slots=True)
class Risks:
    """Looks at the risk of cards.

    Args:
        operations: Of the running service; None at a local shell, which has none.
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
            self.tables(tx, self._standing(tx, name))
            self.log(tx, who.uri, name)
            for row in operations.of_kind(tx, KIND, name):
                if row.state in UNFINISHED:
                    return row.name.encode()
            return operations.create(tx, who, KIND, name, {}).encode()

        with self.database.transaction() as tx:
            operation = request.once(tx, who, self.cards.clock(), lambda: make(tx))
        return operations.begin(operation.decode())

    def view(self, who: Identity, name: str) -> RiskView:
        """How far a look is, and what it gave; the log says who saw a report for the first time.

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
            newest = self.operations.of_kind(tx, KIND, name)[-1:] if self.operations else ()
            if row is not None and who.uri not in (known_readers := json.loads(row["seen"])):
                self.log(tx, who.uri, name)
                readers = json.dumps([*known_readers, who.uri])
                tx.execute(update(risks).where(risks.c.card == name).values(seen=readers))
            digest = self._digest(tx, card)
        return self._view(name, row, newest[0] if newest else None, digest)

    def tables(self, tx: Connection, card: Card) -> ExactTables:
        """Raises InvalidInputError where there are no exact counts."""
        dataset_entry = self._entry(card)
        granted = self.cards.grants.tables(tx, dataset_entry, exact=True)
        others = {other: cliques for other, cliques in granted.items() if other != card.name}
        terms = self._terms(tx, card)
        own = () if terms.privacy.noisy else terms.marginals
        cliques = (*own, *chain.from_iterable(others.values()))
        if not cliques:
            raise InvalidInputError(field="card", problem=NO_COUNTS, advice=BOUNDED)
        transform = terms.transform if own else AS_COUNTED
        return ExactTables(cliques, tuple(sorted(others)), dataset_entry.version, tuple(own), transform)

    def failing(self, who: Identity, name: str) -> tuple[FailingTable, ...]:
        """Tables of a card that fail its checks, as far as the present tables were examined."""
        view = self.view(who, name)
        examined = view.state is RiskState.READY and view.report is not None
        return view.report.failing if examined and view.report is not None else ()

    def _terms(self, tx: Connection, card: Card) -> Proposal:
        """Of a proposal that waits, what approving would offer: the policy may grant less."""
        would_be, _ = CardEffect(self.cards).offer(tx, card)
        offer = card.offer if would_be is None else would_be
        return card.proposed if offer is None else offer.terms

    def log(self, tx: Connection, actor: str, name: str) -> None:
        """Write down that somebody looks."""
        now = self.cards.clock()
        self.cards.log.append(tx, action=LOOK, actor=actor, resource=name, details={}, now=now)

    def keep(self, tx: Connection, card: Card, seen: ExactTables, report: PsiRisk) -> None:
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
    ) -> RiskView:
        coding = self.cards.catalogue.named(dataset_of(name)).schema.coding
        state, error = RiskState.NONE, None
        if row is not None:
            state = RiskState.READY if row["tables"] == digest else RiskState.OUTDATED
        if newest is not None and newest.state in UNFINISHED:
            state = RiskState.RUNNING
        elif newest is not None and newest.error is not None and row is None:
            state, error = RiskState.FAILED, error_of_document(newest.error)
        how_far = ("", "", 0) if newest is None else (newest.name, newest.stage, newest.permille)
        if row is None:
            return RiskView(name, state, coding, *how_far, error)
        report = PLAIN.read(PsiRisk, json.loads(row["report"]), field="risk")
        others = tuple(json.loads(row["cards"]))
        return RiskView(name, state, coding, *how_far, error, report, others, row["created"])

    def _standing(self, tx: Connection, name: str) -> Card:
        card = self.cards.card(tx, name)
        if card.state in ENDED:
            raise CardStateError(state=card.state)
        return card

    def _entry(self, card: Card) -> DatasetEntry:
        return self.cards.catalogue.named(dataset_of(card.name))

    def _digest(self, tx: Connection, card: Card) -> str:
        """Of the tables as they are now; empty where there are none any more."""
        try:
            return self.tables(tx, card).digest
        except InvalidInputError:
            return ""


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
        job = self.jobs.look(dataset_entry, tables.cliques, tables.own, tables.transform)
        report = run.job(tasks.LOOK, job).risk
        with self.risks.database.transaction() as tx:
            self.risks.keep(tx, card, tables, report)
            self.operations.finish(tx, run.row.name, b"")

    def undo(self, tx: Connection, row: OperationRow, error: GencardError) -> None:
        """Nothing was held."""


def forget(tx: Connection, card: str) -> None:
    """Drop what is kept of a card."""
    tx.execute(delete(risks).where(risks.c.card == card))


def _check(who: Identity) -> None:
    if who.role is not Role.STEWARD:
        raise PermissionDeniedError
