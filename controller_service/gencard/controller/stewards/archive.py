"""Archive for stewards: releases, audits, the log, and the budget: spent so far, by day, and to come."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import accumulate

from sqlalchemy import Connection, func, select

from gencard.controller.cards.book import CardBook
from gencard.controller.people.keys import SigningKey, key_history
from gencard.controller.state import results
from gencard.controller.state.cards import offer_of
from gencard.controller.state.database import Page
from gencard.controller.state.ledger import Account, Ledger, Scope, accounts_of, price_of
from gencard.controller.state.results import SIGNED, AuditRow, ReleaseRow, RunRow
from gencard.controller.state.tables import CURRENCIES, balances, lines
from gencard.controller.stewards.log_reading import ProofStep, ProvenEntry, proven, steps
from gencard.core.audit.report import AuditReport, Verdict
from gencard.core.audit.wording import report_of_json_object
from gencard.core.card.budget import ZERO, Price, Spend, SpendState
from gencard.core.card.card import CardRecord
from gencard.core.errors import GencardError, VerificationError
from gencard.wire import dsse
from gencard.wire.documents import Receipt, receipt_of_document
from gencard.wire.dsse import RECEIPT, predicate_of
from gencard.wire.keys import CARDS, LOG, KeyHistory
from gencard.wire.steward import BudgetAccount

# The budget as stewards watch it: what is spent of each cap, how it grew, when it will be gone.

WINDOW = timedelta(days=28)
"""The present rate is that of the last four weeks: weekdays weigh alike in it."""

LEAST_DAYS = 3
"""Days of spending, the present one included, before a rate is stated: one morning is no rate."""

_FARTHEST = timedelta(days=3650)
"""A forecast beyond ten years says nothing."""


@dataclass(frozen=True, slots=True)
class Amount:
    """One currency of an account: "exact statistics", "epsilon" or "rho".

    Args:
        spent: Amount that is spent for good, or held.
        reserved: The part of it that is held for work that has not ended.
        cap: The most that may be spent; None if it is not known any more.
    """

    currency: str
    spent: Decimal
    reserved: Decimal
    cap: Decimal | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """Forecast of the spending if it goes on at the present rate.

    Args:
        daily: The rate: the mean of the last four weeks, or of as many days as there were.
        ends: Time when the cap is reached; None if that is not within ten years.
    """

    daily: Decimal
    ends: datetime | None


@dataclass(frozen=True, slots=True)
class Course:
    """Spending of one currency of an account.

    Args:
        days: Spent by the end of each day on which anything was, oldest first.
        forecast: None if nothing was spent in the last four weeks, or spending began too late.
        young: Whether spending began fewer than ``LEAST_DAYS`` days ago, so that there is no rate yet.
    """

    amount: Amount
    days: tuple[tuple[date, Decimal], ...]
    forecast: Forecast | None
    young: bool = False


def by_currency(price: Price) -> dict[str, Decimal]:
    """Amounts under the names that people read.

    >>> by_currency(Price(12))["exact statistics"]
    Decimal('12')
    """
    return {"exact statistics": Decimal(price.statistics), "epsilon": price.epsilon, "rho": price.rho}


def amounts(spent: Price, reserved: Price, cap: Price | None) -> tuple[Amount, ...]:
    """Return the currencies of an account that have a cap or were spent."""
    caps = {} if cap is None else by_currency(cap)
    reserved_amounts = by_currency(reserved)
    return tuple(
        Amount(currency, value, reserved_amounts[currency], caps.get(currency))
        for currency, value in by_currency(spent).items()
        if value or caps.get(currency)
    )


def days_of(tx: Connection, dataset: str) -> Mapping[Account, Mapping[date, Price]]:
    """Return what was spent or reserved from each account by day (UTC), without voided lines."""
    day = func.substr(lines.c.created, 1, 10).label("day")
    units = [func.sum(lines.c[name]).label(name) for name in CURRENCIES]
    query = select(day, lines.c.project, lines.c.analyst, *units).where(
        lines.c.dataset == dataset, lines.c.state != SpendState.VOIDED
    )
    days: dict[Account, dict[date, Price]] = defaultdict(lambda: defaultdict(Price))
    for row in tx.execute(query.group_by(day, lines.c.project, lines.c.analyst)).mappings():
        # PostgreSQL sums big integers to decimals
        price = price_of({name: int(row[name]) for name in CURRENCIES})
        for account in accounts_of(dataset, row["project"], row["analyst"]):
            days[account][date.fromisoformat(row["day"])] += price
    return days


def courses(
    account: tuple[Amount, ...], days: Mapping[date, Price], now: datetime
) -> tuple[Course, ...]:
    return tuple(_course(amount, days, now) for amount in account)


def _course(amount: Amount, days: Mapping[date, Price], now: datetime) -> Course:
    daily = [(day, by_currency(price)[amount.currency]) for day, price in sorted(days.items())]
    spending = [(day, value) for day, value in daily if value]
    sums = accumulate(value for _, value in spending)
    totals = tuple(zip((day for day, _ in spending), sums, strict=True))
    return Course(amount, totals, forecast(amount, spending, now), _is_young(spending, now))


def _is_young(days: list[tuple[date, Decimal]], now: datetime) -> bool:
    return bool(days) and (now.astimezone(UTC).date() - days[0][0]).days + 1 < LEAST_DAYS


def forecast(amount: Amount, days: list[tuple[date, Decimal]], now: datetime) -> Forecast | None:
    """Return when a cap is reached at the present rate; None without spending in four weeks.

    None too in the first days of spending: the rate of a morning says nothing about a month.

    >>> week = [(date(2026, 1, day), Decimal(10)) for day in range(1, 8)]
    >>> now = datetime(2026, 1, 7, 12, tzinfo=UTC)
    >>> forecast(Amount("epsilon", Decimal(70), ZERO, Decimal(100)), week, now).ends.day
    10
    """
    since = now.astimezone(UTC).date() - WINDOW
    recent = [(day, value) for day, value in days if day > since]
    total = sum((value for _, value in recent), ZERO)
    if not total or _is_young(days, now):
        return None
    # a first day's spending is not extrapolated over weeks that have not passed
    first = min(day for day, _ in days)
    length = min(WINDOW.days, (now.astimezone(UTC).date() - first).days + 1)
    daily = total / length
    if amount.cap is None:
        return Forecast(daily, None)
    left = max(amount.cap - amount.spent, ZERO) / daily
    return Forecast(daily, now + timedelta(days=float(left)) if left <= _FARTHEST.days else None)


@dataclass(frozen=True, slots=True)
class LineView:
    """A line of the ledger, with the digest for decisions on it."""

    line: Spend
    shown: str


def accounts(tx: Connection, ledger: Ledger, dataset: str | None) -> tuple[BudgetAccount, ...]:
    """Return the accounts of all datasets on offer, or of one: widest first, then by holder."""
    names = ledger.caps if dataset is None else (dataset,)
    views = []
    for name in names:
        rows = tx.execute(select(balances).where(balances.c.dataset == name)).mappings()
        holders = {(Scope(row["scope"]), row["holder"]) for row in rows} | {(Scope.DATASET, "")}
        reserved = _reserved(tx, name)
        for scope, holder in sorted(holders, key=lambda one: (list(Scope).index(one[0]), one[1])):
            account = Account(scope, name, holder)
            reserved_price = reserved.get((scope, holder), Price())
            spent = ledger.spent(tx, account)
            cap = ledger.cap(account)
            views.append(BudgetAccount(name, scope, holder, cap, spent, reserved_price))
    return tuple(views)


def _reserved(tx: Connection, dataset: str) -> dict[tuple[Scope, str], Price]:
    units_of = (lines.c.statistics, lines.c.nano_epsilon, lines.c.nano_rho)
    is_reserved = lines.c.state == SpendState.RESERVED
    query = select(lines.c.project, lines.c.analyst, *units_of).where(
        lines.c.dataset == dataset, is_reserved
    )
    totals: dict[tuple[Scope, str], list[int]] = {}
    for project, analyst, *units in tx.execute(query):
        for key in ((Scope.DATASET, ""), (Scope.PROJECT, project), (Scope.ANALYST, analyst)):
            total = totals.setdefault(key, [0, 0, 0])
            total[:] = (have + more for have, more in zip(total, units, strict=True))
    return {
        key: price_of(dict(zip(("statistics", "nano_epsilon", "nano_rho"), total, strict=True)))
        for key, total in totals.items()
    }


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
    """Result of all audits of a black box on a dataset that count; ``leakage`` of them found a leak."""

    dataset: str
    black_box: str
    author: str
    tries: int
    leakage: int
    newest: AuditRow


@dataclass(frozen=True, slots=True)
class AuditView:
    """An audit that has ended, for stewards alone: the report's numbers depend on records.

    The report is None if this version cannot read it; ``problem`` says what is wrong with the verdict.
    """

    row: AuditRow
    report: AuditReport | None
    problem: str


def evidence(rows: Sequence[AuditRow]) -> tuple[BoxEvidence, ...]:
    """Return the audits that count, by dataset, black box and author; rows in order of ends."""
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


PAGE = 50


@dataclass(frozen=True, slots=True)
class Archive:
    """Looks, and changes nothing; ``Desk.archive`` gives it to stewards alone."""

    cards: CardBook
    keys: Mapping[str, SigningKey]

    @property
    def datasets(self) -> tuple[str, ...]:
        return tuple(entry.name for entry in self.cards.catalogue)

    def days(self, dataset: str) -> Mapping[Account, Mapping[date, Price]]:
        with self.cards.database.reading() as tx:
            return days_of(tx, dataset)

    def releases(
        self, dataset: str | None = None, token: str = "", limit: int = PAGE
    ) -> Page[ReleaseView]:
        with self.cards.database.reading() as tx:
            keys = key_history(tx, self.keys[CARDS])
            page = results.list_releases(tx, dataset=dataset, before=token, limit=limit)
            return Page(tuple(_release(tx, row, self.cards, keys) for row in page.rows), page.next_token)

    def release(self, name: str) -> ReleaseView:
        with self.cards.database.reading() as tx:
            keys = key_history(tx, self.keys[CARDS])
            return _release(tx, results.get_release(tx, name), self.cards, keys)

    def audits(self, dataset: str | None = None, token: str = "", limit: int = PAGE) -> Page[AuditRow]:
        """Audits that have ended, newest first; raises as ``releases``."""
        with self.cards.database.reading() as tx:
            return results.list_audits(tx, dataset=dataset, before=token, limit=limit)

    def audit(self, name: str) -> AuditView:
        """Return an audit; raises NotFoundError if none of this name has ended."""
        with self.cards.database.reading() as tx:
            keys, row = key_history(tx, self.keys[CARDS]), results.get_audit(tx, name)
        report = None  # of a version that this one cannot read
        with suppress(GencardError, ValueError):
            report = report_of_json_object(json.loads(row.report or b"{}"))
        return AuditView(row, report, _signature_problem(row.attestation or b"", keys))

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
        """Return an entry of the log with its proof; signs a checkpoint if the log has grown."""
        with self.cards.database.transaction() as tx:
            return proven(tx, self.cards.log, index, self.cards.clock())

    def steps(self, proof: ProvenEntry) -> tuple[ProofStep, ...]:
        with self.cards.database.reading() as tx:
            return steps(proof, key_history(tx, self.keys[LOG]))
