"""Audits as callers see them: begun, listed, reported.

Every attempt is counted before it runs. The verdict is that of all comparable tries of the black box's
family together (``cards.book``), and a family that was once found to leak stays found, for that
Phi and what is inside it, in every later audit. A verdict is one bit about records, so it has a price.
"""

import json
import secrets
import shutil
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Connection

from gencard.controller.base.disk import JOURNALS, StateFiles, write_whole
from gencard.controller.boxes import Boxes
from gencard.controller.cards.book import CardAudits, CardBook, is_audited, rows_of_run
from gencard.controller.operations import Operations
from gencard.controller.policy.statistics import why_protected
from gencard.controller.records.catalogue import dataset_of
from gencard.controller.state import requests, results
from gencard.controller.state.cards import in_force, offer_of, signed_card
from gencard.controller.state.database import Database
from gencard.controller.state.ledger import Ledger
from gencard.controller.state.requests import UNFINISHED, OperationRow, OperationState, Request
from gencard.controller.state.results import AuditRow
from gencard.core.audit.moves import basis_of
from gencard.core.audit.plan import AuditPlan
from gencard.core.card.budget import Price
from gencard.core.card.card import AUDITABLE, CardRecord, CardState
from gencard.core.coding import Coding, zeros_inside
from gencard.core.errors import (
    GeneratorChangedError,
    InvalidInputError,
    NotFoundError,
    RecordsProtectedError,
    StorageError,
    TooManyAuditsError,
    WorkerError,
)
from gencard.core.statistics.linear import statistics_of
from gencard.wire.keys import Identity, Role

# Workers of the cluster that gave a wrong answer: not used again until an operator admits them.
#
# Each refused worker is a file of the state, so that it stays refused after a restart, and for every
# controller that shares the state. The log records who was refused and admitted.


_FOLDER, _ENDING = "workers", ".refused"


@dataclass(frozen=True, slots=True)
class RefusedWorkers:
    """Names of the workers that no audit may use."""

    files: StateFiles

    def names(self) -> frozenset[str]:
        if self.files.shared:
            # copies in the folder may be of a worker that another controller has admitted
            stored = self.files.stored(f"{_FOLDER}/")
        else:
            stored = tuple(path.name for path in (self.files.folder / _FOLDER).glob(f"*{_ENDING}"))
        return frozenset(name.removeprefix(f"{_FOLDER}/").removesuffix(_ENDING) for name in stored)

    def trusted(self, workers: Mapping[str, str]) -> dict[str, str]:
        names = self.names()
        return {name: address for name, address in workers.items() if name not in names}

    def refuse(self, error: WorkerError, operation: str) -> str:
        """Refuse the worker that an error names; return its name."""
        name = error.fields["worker"]
        path = self.files.folder / _file_name(name)
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = {"operation": operation, "problem": error.fields["problem"]}
        write_whole(path, [json.dumps(facts).encode()])
        self.files.put(_file_name(name))
        return name

    def admit(self, name: str) -> None:
        if name not in self.names():
            raise NotFoundError(what="refused worker")
        self.files.forget(_file_name(name))
        try:
            (self.files.folder / _file_name(name)).unlink(missing_ok=True)
            return
        except OSError:
            pass
        raise StorageError


def _file_name(name: str) -> str:
    """Name of the state's file: with an ending, so that no worker's file begins like another's."""
    return f"{_FOLDER}/{name}{_ENDING}"


# A cancelled audit is resumed: the same attempt and seeds, with the runs that had finished.
#
# Cancelling reveals nothing, since progress depends on no record; so resuming is not a second attempt.

KIND = "audit"


@dataclass(frozen=True, slots=True)
class Journals:
    """One folder for each audit, readable by the service alone.

    What lies there was made from records. It is gone once the audit has a verdict or has failed, and
    waits if the audit was stopped or cancelled.
    """

    files: StateFiles

    def open(self, audit: str) -> Path:
        """Return the folder of an audit's runs, made if it is missing; raises StorageError."""
        path = self._path(audit)
        with suppress(OSError):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.is_dir():
            raise StorageError
        for name in self.files.stored(f"{self._name(audit)}/"):
            self.files.path(name)
        return path

    def store(self, audit: str) -> None:
        """Have the runs that ended in the state, so that another controller can go on with them."""
        if not self.files.shared:
            return
        stored_names = set(self.files.stored(f"{self._name(audit)}/"))
        for path in sorted(self._path(audit).glob("[!.]*")):
            if (name := f"{self._name(audit)}/{path.name}") not in stored_names:
                self.files.put(name)

    def forget(self, audit: str, tx: Connection | None = None) -> None:
        """Delete the audit's runs, in transaction ``tx`` if given."""
        shutil.rmtree(self._path(audit), ignore_errors=True)
        self.files.forget(f"{self._name(audit)}/", tx)

    def forget_since(self, audit: str, time: float) -> None:
        """Delete the runs that ended after a time, in seconds since 1970."""
        with suppress(OSError):
            for path in self._path(audit).iterdir():
                if path.stat().st_mtime > time:
                    path.unlink()
                    self.files.forget(f"{self._name(audit)}/{path.name}")
        self.store(audit)

    def keep(self, audits: Collection[str]) -> None:
        """Throw away the runs of all others."""
        folders = {self._path(audit).name for audit in audits}
        there = {path.name for path in (self.files.folder / JOURNALS).glob("*")}
        there |= {name.split("/")[1] for name in self.files.stored(f"{JOURNALS}/")}
        for audit in there - folders:
            self.forget(audit)

    def _path(self, audit: str) -> Path:
        return self.files.folder / self._name(audit)

    def _name(self, audit: str) -> str:
        return f"{JOURNALS}/{audit.rpartition('/')[2]}"


def resumed(
    tx: Connection, who: Identity, card: str, name: str, *, boxes: Boxes, black_box: str, seed: int
) -> dict[str, Any]:
    """Return the request of a cancelled audit, to be made again with its seeds.

    Args:
        name: Name of its operation.
        black_box: Empty, or the name of the same black box.
        seed: 0: the seeds are those of the cancelled audit.
    """
    known = {row.name: row for row in requests.operations_of_kind(tx, KIND, card)}
    row = known.get(name)
    if row is None or row.owner != who.uri:
        raise NotFoundError(what="operation")
    if row.state is not OperationState.CANCELLED:
        raise InvalidInputError(field="resume", problem="names an audit that was not cancelled")
    if any(_request(other).get("resumes") == name for other in known.values()):
        raise InvalidInputError(field="resume", problem="names an audit that was already resumed")
    request = _request(row)
    if seed:
        raise InvalidInputError(field="seed", problem="must be omitted: a resumed audit keeps its seed")
    if black_box not in ("", request["box"]):
        raise InvalidInputError(field="black_box", problem="differs from that of the audit to resume")
    if results.get_audit(tx, request["audit"]).box_digest != boxes.digest(request["box"]):
        raise GeneratorChangedError
    return request | {"resumes": name}


def tidy(tx: Connection, cards: CardBook, journals: Journals) -> None:
    """Delete the runs of audits that have ended or cannot be resumed."""
    resumable = (*UNFINISHED, OperationState.CANCELLED)
    rows = [row for row in requests.operations_of_kind(tx, KIND) if row.state in resumable]
    audits = [results.get_audit(tx, _request(row)["audit"]) for row in rows]
    unfinished = [audit for audit in audits if audit.verdict is None]
    journals.keep([one.name for one in unfinished if cards.card(tx, one.card).state in AUDITABLE])


def _request(row: OperationRow) -> dict[str, Any]:
    request: dict[str, Any] = json.loads(row.request)
    return request


MOST_ROWS = 50_000
"""Rows asked in one run of a box that makes no rows for the card; more would tell little."""


@dataclass(frozen=True, slots=True)
class Audits:
    """Audits on the records, and their verdicts; a submitter has so many attempts on one dataset."""

    database: Database
    card_audits: CardAudits
    ledger: Ledger
    operations: Operations
    journals: Journals
    most_attempts: int = 20

    @property
    def cards(self) -> CardBook:
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
            # an audit that cannot run is refused before it is counted and paid
            if request.answer(tx, who) is None:
                readable = self.at_records(tx, who, card)
                coding = self.cards.entry_of(readable).schema.coding
                domain = coding.domain.covered_by(offer_of(readable).terms.cliques)
                basis_of(domain, plan_of(readable, coding, seed=0, attempt=1))

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
            payers, audit, now = (who.project, who.uri), description["audit"], self.cards.clock()
            price = Price(statistics=1)  # a verdict says at most one bit about the records
            description["line"] = self.ledger.reserve(
                tx, dataset_of(card), *payers, resource=audit, kind=KIND, price=price, now=now
            )
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
        """Return a card that ``who`` may see and that is in force, or waits for an audit."""
        seen_card = self.cards.seen(tx, who, card)
        return seen_card if seen_card.state is CardState.AUDITING else in_force(seen_card)

    def at_records(self, tx: Connection, who: Identity, card: str) -> CardRecord:
        """Return a card under which an audit may read the records: with exact psi, as counted."""
        card_in_force = self.agreed(tx, who, card)
        self._check_unprotected(card_in_force)
        return card_in_force

    def _check_unprotected(self, card: CardRecord) -> None:
        policy = self.cards.catalogue.named(dataset_of(card.name)).policy
        why = why_protected(signed_card(card), policy)
        if why is not None:
            raise RecordsProtectedError(what="An audit", why=why)

    def _begin(self, tx: Connection, who: Identity, name: str, box: str) -> int:
        card = name.partition("/audits/")[0]
        digest = self.card_audits.boxes.digest(box)
        author, now = self.card_audits.boxes.author(box), self.cards.clock()
        attempt = results.begin_audit(
            tx,
            dataset=dataset_of(card),
            submitter=who.uri,
            now=now,
            name=name,
            black_box=box,
            box_digest=digest,
            author=author,
        )
        if attempt > self.most_attempts:
            raise TooManyAuditsError(limit=self.most_attempts)
        facts = {"black_box": box, "box_digest": digest, "attempt": str(attempt)}
        self.cards.note(tx, "audit", name, facts, who.uri)
        return attempt

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
