"""Archive for stewards: spending by day, releases, audits, the log."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from sqlalchemy import Connection

from gencard.controller.cards.book import CardBook
from gencard.controller.people.signing_keys import SigningKey, key_history
from gencard.controller.state import results
from gencard.controller.state.cards import offer_of
from gencard.controller.state.database import Page
from gencard.controller.state.ledger import Account
from gencard.controller.state.results import SIGNED, AuditRow, ReleaseRow, RunRow
from gencard.controller.stewards.budget import days_of
from gencard.controller.stewards.log_reading import ProofStep, ProvenEntry, proven, steps
from gencard.core.audit.report import AuditReport, Verdict
from gencard.core.audit.wording import report_of_json_object
from gencard.core.card.budget import Price
from gencard.core.card.card import CardRecord
from gencard.core.errors import GencardError, VerificationError
from gencard.wire import dsse
from gencard.wire.documents import Receipt, receipt_of_document
from gencard.wire.dsse import RECEIPT, predicate_of
from gencard.wire.keys import CARDS, LOG, KeyHistory


@dataclass(frozen=True, slots=True)
class ReleaseView:
    """A release and its receipt.

    Args:
        problem: What is wrong with the receipt, where its signature, the card that it names or what the
            state says of the rows do not agree; empty if all do.
    """

    row: ReleaseRow
    receipt: Receipt
    card: CardRecord
    problem: str


@dataclass(frozen=True, slots=True)
class BoxEvidence:
    """Result of all audits of one black box on one dataset that count.

    Args:
        leakage: Number of these audits that found a leak.
    """

    dataset: str
    black_box: str
    author: str
    tries: int
    leakage: int
    newest: AuditRow


@dataclass(frozen=True, slots=True)
class AuditView:
    """An audit that has ended, for stewards alone: the report's numbers depend on records.

    Args:
        report: None if this version cannot read it.
        problem: What is wrong with the signed verdict; empty if nothing is.
    """

    row: AuditRow
    report: AuditReport | None
    problem: str


def release_views(
    tx: Connection, cards: CardBook, keys: KeyHistory, *, dataset: str | None, before: str, limit: int
) -> Page[ReleaseView]:
    """Releases of a dataset, or all, newest first.

    Args:
        keys: Keys that sign cards.

    Raises:
        InvalidInputError: The token ``before`` was not given by this list.
    """
    page = results.list_releases(tx, dataset=dataset, before=before, limit=limit)
    return Page(tuple(_release(tx, row, cards, keys) for row in page.rows), page.next_token)


def release_view(tx: Connection, name: str, cards: CardBook, keys: KeyHistory) -> ReleaseView:
    """Return a release; raises NotFoundError if there is none of this name."""
    return _release(tx, results.get_release(tx, name), cards, keys)


def audit_view(tx: Connection, name: str, keys: KeyHistory) -> AuditView:
    """Return an audit; raises NotFoundError if none of this name has ended."""
    row = results.get_audit(tx, name)
    return AuditView(row, _report(row), _signature_problem(row.attestation or b"", keys))


def evidence(rows: Sequence[AuditRow]) -> tuple[BoxEvidence, ...]:
    """Return the audits that count, by dataset, black box and author.

    Args:
        rows: In the order of their ends.
    """
    families: dict[tuple[str, str, str], list[AuditRow]] = {}
    for row in rows:
        families.setdefault((row.dataset, row.black_box, row.author or ""), []).append(row)
    return tuple(
        BoxEvidence(*family, len(tries), sum(row.verdict is Verdict.LEAKAGE for row in tries), tries[-1])
        for family, tries in sorted(families.items())
    )


def _release(tx: Connection, row: ReleaseRow, cards: CardBook, keys: KeyHistory) -> ReleaseView:
    card = cards.card(tx, row.card)
    payload, _ = dsse.opened(row.receipt)
    receipt = receipt_of_document(predicate_of(payload, RECEIPT))
    problem = _signature_problem(row.receipt, keys) or _disagreement(row, receipt, card)
    return ReleaseView(row, receipt, card, problem)


def _disagreement(row: ReleaseRow, receipt: Receipt, card: CardRecord) -> str:
    agreements = {
        "the name": receipt.name == row.name,
        "the rows' digest": receipt.rows_digest == row.digest,
        "the number of rows": receipt.rows == row.rows,
        "the card": receipt.card_digest == offer_of(card).digest,
    }
    wrong = [what for what, agrees in agreements.items() if not agrees]
    return f"receipt and state differ in {', '.join(wrong)}" if wrong else ""


def _signature_problem(envelope: bytes, keys: KeyHistory) -> str:
    try:
        keys.payload_of(envelope)
    except VerificationError as error:
        return error.message
    return ""


def _report(row: AuditRow) -> AuditReport | None:
    try:
        return report_of_json_object(json.loads(row.report or b"{}"))
    except (GencardError, ValueError):
        return None


PAGE = 50


@dataclass(frozen=True, slots=True)
class Archive:
    """Looks, and changes nothing; ``Desk.archive`` gives it to stewards alone.

    Args:
        keys: The controller's signing keys, by use.
    """

    cards: CardBook
    keys: Mapping[str, SigningKey]

    @property
    def datasets(self) -> tuple[str, ...]:
        """Names of the datasets on offer."""
        return tuple(entry.name for entry in self.cards.catalogue)

    def days(self, dataset: str) -> Mapping[Account, Mapping[date, Price]]:
        """Return what was spent or reserved from each account by day (UTC), without voided lines."""
        with self.cards.database.reading() as tx:
            return days_of(tx, dataset)

    def releases(
        self, dataset: str | None = None, token: str = "", limit: int = PAGE
    ) -> Page[ReleaseView]:
        """Releases with their receipts, newest first.

        Raises:
            InvalidInputError: The token was not given by this list.
        """
        with self.cards.database.reading() as tx:
            keys = key_history(tx, self.keys[CARDS])
            return release_views(tx, self.cards, keys, dataset=dataset, before=token, limit=limit)

    def release(self, name: str) -> ReleaseView:
        """Return a release; raises NotFoundError if there is none of this name."""
        with self.cards.database.reading() as tx:
            return release_view(tx, name, self.cards, key_history(tx, self.keys[CARDS]))

    def audits(self, dataset: str | None = None, token: str = "", limit: int = PAGE) -> Page[AuditRow]:
        """Audits that have ended, newest first; raises as ``releases``."""
        with self.cards.database.reading() as tx:
            return results.list_audits(tx, dataset=dataset, before=token, limit=limit)

    def audit(self, name: str) -> AuditView:
        """Return an audit; raises NotFoundError if none of this name has ended."""
        with self.cards.database.reading() as tx:
            return audit_view(tx, name, key_history(tx, self.keys[CARDS]))

    def evidence(self) -> tuple[BoxEvidence, ...]:
        """Return the results of the audits that count, by dataset and black box."""
        with self.cards.database.reading() as tx:
            return evidence(results.counting_audits(tx))

    def decided_answers(self, limit: int = PAGE) -> tuple[RunRow, ...]:
        """Return the newest answers that were released or refused."""
        with self.cards.database.reading() as tx:
            page = results.list_runs(tx, limit=limit)
        return tuple(row for row in page.rows if row.state in SIGNED)

    def proof(self, index: int) -> ProvenEntry:
        """Return an entry of the log with its proof; signs a checkpoint if the log has grown.

        Raises:
            InvalidNumberError: The log has no such entry.
        """
        with self.cards.database.transaction() as tx:
            return proven(tx, self.cards.log, index, self.cards.clock())

    def steps(self, proof: ProvenEntry) -> tuple[ProofStep, ...]:
        """Recompute an entry's proof from its bytes, step by step."""
        with self.cards.database.reading() as tx:
            return steps(proof, key_history(tx, self.keys[LOG]))
