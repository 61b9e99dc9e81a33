"""Audits as callers see them: begun, listed, reported.

Every attempt is counted before it runs. The verdict is that of all comparable tries of the black box's
family together (``card_audits``), and a family that was once found to leak stays found, for that Phi and
what is inside it, in every later audit. A verdict is one bit about records, so it has a price.
"""

import secrets
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection

from gencard.controller.audits.resumption import KIND, Journals, resumed
from gencard.controller.audits.workers import RefusedWorkers
from gencard.controller.cards.audit_state import CardAudits, is_audited, rows_of_run
from gencard.controller.cards.book import CardBook
from gencard.controller.operations.operations import Operations
from gencard.controller.policy.evaluation import check_unprotected
from gencard.controller.records.catalogue import dataset_of
from gencard.controller.state import results
from gencard.controller.state.cards import auditable, offer_of, signed_card
from gencard.controller.state.database import Database
from gencard.controller.state.ledger import Ledger
from gencard.controller.state.requests import OperationRow, Request
from gencard.controller.state.results import Audited, AuditRow
from gencard.core.audit.pairs.blocks import basis_of
from gencard.core.audit.plan import AuditPlan
from gencard.core.card.budget import Price
from gencard.core.card.card import CardRecord
from gencard.core.coding import Coding, zeros_inside
from gencard.core.errors import NotFoundError, TooManyAuditsError
from gencard.core.statistics.linear import statistics_of
from gencard.wire.signatures.identity import Identity, Role

VERDICT_PRICE = Price(statistics=1)
"""A verdict says at most one bit about the records."""

MOST_ROWS = 50_000
"""Rows asked in one run of a box that makes no rows for the card; more would tell little."""


@dataclass(frozen=True, slots=True)
class Audits:
    """Audits on the records, and their verdicts.

    Args:
        card_audits: Effects of audits on cards.
        most_attempts: Largest number of attempts of one submitter on one dataset.
    """

    database: Database
    card_audits: CardAudits
    ledger: Ledger
    operations: Operations
    journals: Journals
    most_attempts: int = 20

    @property
    def cards(self) -> CardBook:
        """All cards."""
        return self.card_audits.cards

    @property
    def refused_workers(self) -> RefusedWorkers:
        """Workers of the cluster that gave a wrong answer."""
        return RefusedWorkers(self.journals.files)

    def start(
        self, who: Identity, card: str, *, black_box: str, seed: int, resume: str = "", request: Request
    ) -> OperationRow:
        """Begin an audit around the real records, or carry on one that was cancelled.

        Args:
            seed: One of two parts; the other is drawn here, and in the full report both are one.
            resume: A cancelled audit's operation; empty for a new audit.

        Raises:
            CardStateError, CardExpiredError: The card is not in force.
            RecordsProtectedError: The card has noise, rounding, checks or no psi.
            GeneratorChangedError: The present black box is not that of the card or of the first part.
            NotFoundError: No such card, black box or cancelled audit.
            InvalidInputError: The audit to resume was not cancelled, or was resumed before.
            DatasetChangedError: The dataset has another schema than the card names.
            NoExtremalPairError: Phi determines everything, and nothing could be tested.
            TooLargeError: More blocks than an audit may hold.
            BudgetExceededError: The price of a verdict is not covered.
            TooManyAuditsError: The submitter has begun as many as may be.
        """
        with self.database.reading() as tx:
            if request.answer(tx, who) is None:
                self._check_bounds(self.at_records(tx, who, card))

        def make(tx: Connection) -> bytes:
            card_in_force = self.at_records(tx, who, card)
            box = black_box or offer_of(card_in_force).terms.generator
            if resume:
                description = resumed(
                    tx, who, card, resume, boxes=self.card_audits.boxes, black_box=black_box, seed=seed
                )
                box = description["box"]
            else:
                name = f"{card}/audits/{secrets.token_hex(8)}"
                description = {"audit": name, "card": card, "box": box, "seed": _drawn(seed)}
                description["attempt"] = self._begin(tx, who, name, box)
            self.card_audits.begin(tx, card_in_force, box)
            description["line"] = self._reserve(tx, who, description["audit"])
            return self.operations.create(tx, who, KIND, card, description).encode()

        with self.database.transaction() as tx:
            name = request.once(tx, who, self.cards.clock(), lambda: make(tx))
        return self.operations.begin(name.decode())

    def get(self, who: Identity, name: str) -> AuditRow:
        """Return an ended audit; raises NotFoundError if ``who`` may not see it."""
        with self.database.reading() as tx:
            return self._seen(tx, who, name)

    def page(self, who: Identity, card: str, before: str, limit: int) -> tuple[list[AuditRow], str]:
        """Ended audits of a card that ``who`` may see, newest first, and the next page's token."""
        with self.database.reading() as tx:
            self.cards.seen(tx, who, card)
            page = results.list_audits(tx, card=card, before=before, limit=limit)
        return [row for row in page.rows if _may_see(who, row)], page.next_token

    def report(self, who: Identity, name: str) -> bytes:
        """Return the full report. The access table refuses analysts: its numbers depend on records.

        Raises:
            NotFoundError: No such audit.
            RecordsProtectedError: The audit is of an earlier version, which audited such cards on the
                records.
        """
        with self.database.reading() as tx:
            row = self._seen(tx, who, name)
            self._check_unprotected(self.cards.seen(tx, who, row.card))
        return row.report or b""

    def agreed(self, tx: Connection, who: Identity, card: str) -> CardRecord:
        """Return a card that ``who`` may see and that is in force, or waits for an audit.

        Raises:
            CardStateError, CardExpiredError: The card is still negotiated, or has ended.
        """
        return auditable(self.cards.seen(tx, who, card))

    def at_records(self, tx: Connection, who: Identity, card: str) -> CardRecord:
        """Return a card under which an audit may read the records.

        Raises:
            CardStateError, CardExpiredError: The card is still negotiated, or has ended.
            RecordsProtectedError: The card has noise, rounding, checks or no psi.
        """
        card_in_force = self.agreed(tx, who, card)
        self._check_unprotected(card_in_force)
        return card_in_force

    def _check_unprotected(self, card: CardRecord) -> None:
        policy = self.cards.catalogue.named(dataset_of(card.name)).policy
        check_unprotected(signed_card(card), policy, "An audit")

    def _check_bounds(self, card: CardRecord) -> None:
        """Refuse an audit that cannot run, before it is counted and paid."""
        coding = self.cards.entry_of(card).schema.coding
        domain = coding.domain.covered_by(offer_of(card).terms.cliques)
        basis_of(domain, plan_of(card, coding, seed=0, attempt=1))

    def _begin(self, tx: Connection, who: Identity, name: str, box: str) -> int:
        """Store the attempt before it runs; return its number."""
        card = name.partition("/audits/")[0]
        digest = self.card_audits.boxes.digest(box)
        attempt = results.begin_audit(
            tx,
            name=name,
            card=card,
            dataset=dataset_of(card),
            submitter=who.uri,
            box=Audited(box, digest, self.card_audits.boxes.author(box)),
            now=self.cards.clock(),
        )
        if attempt > self.most_attempts:
            raise TooManyAuditsError(limit=self.most_attempts)
        self.cards.log.append(
            tx,
            action="audit",
            actor=who.uri,
            resource=name,
            details={"black_box": box, "box_digest": digest, "attempt": str(attempt)},
            now=self.cards.clock(),
        )
        return attempt

    def _reserve(self, tx: Connection, who: Identity, audit: str) -> int:
        return self.ledger.reserve(
            tx,
            dataset=dataset_of(audit),
            project=who.project,
            analyst=who.uri,
            resource=audit,
            kind=KIND,
            price=VERDICT_PRICE,
            now=self.cards.clock(),
        )

    def _seen(self, tx: Connection, who: Identity, name: str) -> AuditRow:
        row = results.get_audit(tx, name)
        if row.verdict is None or not _may_see(who, row):
            raise NotFoundError(what="audit")
        return row


def plan_of(card: CardRecord, coding: Coding, seed: int, attempt: int) -> AuditPlan:
    """Return the plan that the card's terms fix, for one attempt."""
    terms = offer_of(card).terms
    return AuditPlan(
        cliques=terms.marginals,
        rows=rows_of_run(terms.rows) if is_audited(card) else rows_of_run(min(terms.rows, MOST_ROWS)),
        seed=seed,
        terms=terms.audit.sufficient,
        attempt=attempt,
        linear=statistics_of(terms.moments, coding),
        structural_zeros=zeros_inside(coding.structural_zeros, coding.domain.covered_by(terms.cliques)),
    )


def _drawn(seed: int) -> int:
    """Return a secret seed: a box could be made to be honest for known seeds."""
    words = np.random.SeedSequence([seed, secrets.randbits(128)]).generate_state(1, np.uint64)
    return int(words[0])


def _may_see(who: Identity, row: AuditRow) -> bool:
    return who.role is not Role.ANALYST or row.submitter == who.uri
