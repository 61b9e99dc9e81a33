"""Archive for stewards: releases, audits, the log, and the budget: spent so far, by day, and to come."""

import json
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import accumulate

from sqlalchemy import Connection, func, select

from gencard.controller.cards.book import CardBook
from gencard.controller.people.keys import SigningKey, key_history
from gencard.controller.state import results
from gencard.controller.state.cards import offer_of
from gencard.controller.state.database import Page, number_of_token
from gencard.controller.state.ledger import Account, Ledger, Scope, accounts_of, price_of
from gencard.controller.state.log import Event, EventLog, checkpoint_of, event_of
from gencard.controller.state.results import AuditRow, ReleaseRow, RunRow
from gencard.controller.state.tables import CURRENCIES, balances, events, lines
from gencard.core.audit.report import AuditReport, Verdict
from gencard.core.audit.wording import report_of_json_object
from gencard.core.card.budget import ZERO, Price, Spend, SpendState
from gencard.core.card.card import CardRecord
from gencard.core.errors import GencardError, InvalidInputError, VerificationError
from gencard.wire import dsse
from gencard.wire.documents import Receipt, receipt_of_document
from gencard.wire.dsse import RECEIPT, predicate_of
from gencard.wire.keys import CARDS, LOG, KeyHistory
from gencard.wire.log import LogEntry, check_in_log, leaf_hash
from gencard.wire.steward import BudgetAccount

# Reading of the log by stewards: search by words and fields, and single entries with their proof.


FIELDS = ("action", "who", "resource", "since", "until")
LONGEST_QUERY = 200
MOST_READ = 20_000
"""Entries that one page reads at most: a search for what is rare goes on from there."""

_PAGE = 100


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Conditions on the entries of the log that are shown.

    Args:
        words: In lower case; each must stand somewhere in the entry.
        fields: "action", "who" and "resource", and the text in lower case that each must contain.
        since, until: Days (UTC), both included.

    >>> LogQuery.of("ana action:approve since:2026-01-01").fields
    {'action': 'approve'}
    """

    words: tuple[str, ...] = ()
    fields: Mapping[str, str] = field(default_factory=dict)
    since: date | None = None
    until: date | None = None

    @classmethod
    def of(cls, text: str) -> "LogQuery":
        """Parse the query of a person: words, and ``field:text`` for a field of ``FIELDS``.

        Raises:
            InvalidInputError: The query is too long, or a day is not written YYYY-MM-DD.
        """
        if len(text) > LONGEST_QUERY:
            problem = f"must have at most {LONGEST_QUERY} characters"
            raise InvalidInputError(field="query", problem=problem)
        words, fields, days = [], {}, {}
        for part in text.lower().split():
            name, colon, value = part.partition(":")
            if colon and value and name in ("since", "until"):
                try:
                    days[name] = datetime.strptime(value, "%Y-%m-%d").replace(tzinfo=UTC).date()
                except ValueError:
                    problem = "is not a day written YYYY-MM-DD"
                    raise InvalidInputError(field=name, problem=problem) from None
            elif colon and value and name in FIELDS:
                fields[name] = value
            else:
                words.append(part)
        return cls(tuple(words), fields, days.get("since"), days.get("until"))

    def matches(self, event: Event) -> bool:
        day = event.time.astimezone(UTC).date()
        if (self.since and day < self.since) or (self.until and day > self.until):
            return False
        # by name alone: "ana" is in the URI of every analyst
        name = event.actor.rpartition("/")[2]
        who = f"{name}\n{event.actor}" if "/" in self.fields.get("who", "") else name
        fields = {"action": event.action, "who": who, "resource": event.resource}
        if any(text not in fields[field].lower() for field, text in self.fields.items()):
            return False
        parts = (*fields.values(), *event.details, *event.details.values())
        whole = "\n".join((str(event.index), *parts)).lower()
        return all(word in whole for word in self.words)


def search(tx: Connection, query: LogQuery, token: str = "", limit: int = _PAGE) -> Page[Event]:
    """Return entries that match, newest first.

    Returns:
        At most ``limit`` entries; fewer, with a token to continue, if ``MOST_READ`` were read.
    """
    rows = select(events.c.body).order_by(events.c.index.desc()).limit(MOST_READ)
    if token:
        rows = rows.where(events.c.index < number_of_token(token))
    entries: list[Event] = []
    event = None
    for number, body in enumerate(tx.execute(rows, execution_options={"yield_per": 500}).scalars(), 1):
        event = event_of(bytes(body))
        if query.since and event.time.astimezone(UTC).date() < query.since:
            return Page(tuple(entries), "")  # no older entry can match
        if query.matches(event):
            entries.append(event)
        if len(entries) == limit or number == MOST_READ:
            break
    more = event is not None and event.index > 0 and (len(entries) == limit or number == MOST_READ)
    return Page(tuple(entries), str(event.index) if more and event is not None else "")


@dataclass(frozen=True, slots=True)
class ProvenEntry:
    """One entry, with all data to verify it independently: bytes, path and signed checkpoint.

    Args:
        leaf: Leaf hash that the log stores.
        checkpoint: The signed root of the log that the path leads to: a DSSE envelope.
        next_previous: Hash of this entry in the next entry; None for the newest.
    """

    entry: LogEntry
    leaf: bytes
    checkpoint: bytes
    next_previous: bytes | None

    @property
    def event(self) -> Event:
        return event_of(self.entry.body)


@dataclass(frozen=True, slots=True)
class ProofStep:
    """One step of a proof: the value, its result in hex or in words, and whether it is right."""

    what: str
    result: str
    holds: bool


def proven(tx: Connection, log: EventLog, index: int, now: datetime) -> ProvenEntry:
    """Return an entry with its proof; signs a checkpoint if the log has grown since the last."""
    body = log.entry(tx, index)
    checkpoint, size = log.checkpoint(tx, now), log.size(tx)
    leaf, path = log.inclusion(tx, index, size)
    behind = event_of(log.entry(tx, index + 1)).previous if index + 1 < size else None
    return ProvenEntry(LogEntry(body, size, tuple(path)), leaf, checkpoint, behind)


def steps(proof: ProvenEntry, keys: KeyHistory) -> Iterator[ProofStep]:
    """Recompute an entry's proof from its bytes, step by step, with the keys of the log."""
    entry, leaf = proof.entry, leaf_hash(proof.entry.body)
    yield ProofStep("Leaf: SHA-256 of a zero byte and the entry's bytes", leaf.hex(), leaf == proof.leaf)
    if proof.next_previous is not None:
        chained = proof.next_previous == leaf
        yield ProofStep("Chain: the next entry names this leaf", proof.next_previous.hex(), chained)
    checkpoint = None
    with suppress(VerificationError):
        checkpoint = checkpoint_of(proof.checkpoint, keys)
    signer = ", ".join(key[:16] for key in dsse.opened(proof.checkpoint)[1])
    yield ProofStep("Signature of the checkpoint, by the log's key", signer, checkpoint is not None)
    if checkpoint is not None:
        place = f"entry {proof.event.index} of {entry.size}, root {checkpoint.root.hex()}"
        what = f"Path: {len(entry.path)} hashes from the leaf to the signed root"
        is_placed = False
        with suppress(VerificationError):
            check_in_log(proof.entry, proof.event.index, checkpoint.root)
            is_placed = checkpoint.size == entry.size
        yield ProofStep(what, place, is_placed)


class LogReader:
    """Last activity of people, and answers that hold until the log grows; entries are read once."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._read = 0
        self._seen: dict[str, datetime] = {}
        self._certified: dict[str, datetime] = {}
        self._known: tuple[int, dict[str, bool]] = 0, {}
        self._lock = threading.Lock()

    def known(self, tx: Connection, question: str, answer: Callable[[], bool]) -> bool:
        """Return the answer to a question, cached until the log grows: every change is logged first."""
        size = self._log.size(tx)
        with self._lock:
            if self._known[0] != size:
                self._known = size, {}
            answers = self._known[1]
        if question not in answers:
            answers[question] = answer()
        return answers[question]

    def times(self, tx: Connection) -> tuple[Mapping[str, datetime], Mapping[str, datetime]]:
        """Return the time of each URI's last action, and of each name's last certificate."""
        with self._lock:
            query = select(events.c.body).where(events.c.index >= self._read).order_by(events.c.index)
            for body in tx.execute(query, execution_options={"yield_per": 500}).scalars():
                event = event_of(bytes(body))
                self._seen[event.actor] = event.time
                if event.action == "enrol":
                    self._certified[event.resource.removeprefix("people/")] = event.time
                self._read = event.index + 1
            return dict(self._seen), dict(self._certified)


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
    drawn: list[Course] = []
    for amount in account:
        daily = [(day, by_currency(price)[amount.currency]) for day, price in sorted(days.items())]
        spending = [(day, value) for day, value in daily if value]
        sums = accumulate(value for _, value in spending)
        totals = tuple(zip((day for day, _ in spending), sums, strict=True))
        drawn.append(Course(amount, totals, forecast(amount, spending, now), _is_young(spending, now)))
    return tuple(drawn)


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
    views = []
    for name in ledger.caps if dataset is None else (dataset,):
        rows = tx.execute(select(balances).where(balances.c.dataset == name)).mappings()
        holders = {(Scope(row["scope"]), row["holder"]) for row in rows} | {(Scope.DATASET, "")}
        reserved: dict[Account, Counter[str]] = defaultdict(Counter)
        is_reserved = lines.c.state == SpendState.RESERVED
        query = select(lines).where(lines.c.dataset == name, is_reserved)
        for row in tx.execute(query).mappings():
            for account in accounts_of(name, row["project"], row["analyst"]):
                reserved[account].update({unit: row[unit] for unit in CURRENCIES})
        for scope, holder in sorted(holders, key=lambda one: (list(Scope).index(one[0]), one[1])):
            account = Account(scope, name, holder)
            cap, spent = ledger.cap(account), ledger.spent(tx, account)
            views.append(BudgetAccount(name, scope, holder, cap, spent, price_of(reserved[account])))
    return tuple(views)


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
    agreements = {
        "the name": receipt.name == row.name,
        "the rows' digest": receipt.rows_digest == row.digest,
        "the number of rows": receipt.rows == row.rows,
        "the card": receipt.card_digest == offer_of(card).digest,
    }
    wrong = ", ".join(what for what, agrees in agreements.items() if not agrees)
    differing = f"receipt and state differ in {wrong}" if wrong else ""
    return ReleaseView(row, receipt, card, _signature_problem(row.receipt, keys) or differing)


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

    def releases(self, dataset: str | None = None, token: str = "") -> Page[ReleaseView]:
        with self.cards.database.reading() as tx:
            keys = key_history(tx, self.keys[CARDS])
            page = results.list_releases(tx, dataset=dataset, before=token, limit=PAGE)
            return Page(tuple(_release(tx, row, self.cards, keys) for row in page.rows), page.next_token)

    def release(self, name: str) -> ReleaseView:
        with self.cards.database.reading() as tx:
            keys = key_history(tx, self.keys[CARDS])
            return _release(tx, results.get_release(tx, name), self.cards, keys)

    def audits(self, dataset: str | None = None, token: str = "") -> Page[AuditRow]:
        """Audits that have ended, newest first; raises as ``releases``."""
        with self.cards.database.reading() as tx:
            return results.list_audits(tx, dataset=dataset, before=token, limit=PAGE)

    def audit(self, name: str) -> AuditView:
        """Return an audit; raises NotFoundError if none of this name has ended."""
        with self.cards.database.reading() as tx:
            keys, row = key_history(tx, self.keys[CARDS]), results.get_audit(tx, name)
        report = None  # of a version that this one cannot read
        with suppress(GencardError, ValueError):
            report = report_of_json_object(json.loads(row.report or b"{}"))
        return AuditView(row, report, _signature_problem(row.attestation or b"", keys))

    def evidence(self) -> tuple[BoxEvidence, ...]:
        with self.cards.database.reading() as tx:
            return evidence(results.counting_audits(tx))

    def decided_answers(self) -> tuple[RunRow, ...]:
        """Return the newest answers that were released or refused."""
        with self.cards.database.reading() as tx:
            return results.list_runs(tx, signed=True, limit=PAGE).rows

    def proof(self, index: int) -> ProvenEntry:
        """Return an entry of the log with its proof; signs a checkpoint if the log has grown."""
        with self.cards.database.transaction() as tx:
            return proven(tx, self.cards.log, index, self.cards.clock())

    def steps(self, proof: ProvenEntry) -> tuple[ProofStep, ...]:
        with self.cards.database.reading() as tx:
            return tuple(steps(proof, key_history(tx, self.keys[LOG])))
