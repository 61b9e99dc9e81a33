"""The budget as stewards watch it: what is spent of each cap, how it grew, when it will be gone."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import accumulate

from sqlalchemy import Connection, func, select

from gencard.controller.state.ledger import Account, Ledger, Scope, accounts_of, price_of
from gencard.controller.state.tables import CURRENCIES, balances, lines
from gencard.core.card.budget import ZERO, Price, Spend, SpendState
from gencard.wire.steward import BudgetAccount

WINDOW = timedelta(days=28)
"""The present rate is that of the last four weeks: weekdays weigh alike in it."""

LEAST_DAYS = 3
"""Days of spending, the present one included, before a rate is stated: one morning is no rate."""

_FARTHEST = timedelta(days=3650)
"""A forecast beyond ten years says nothing."""


@dataclass(frozen=True, slots=True)
class Amount:
    """One currency of an account.

    Args:
        currency: "exact statistics", "epsilon" or "rho".
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
        amount: Present amount.
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
    return {
        "exact statistics": Decimal(price.statistics),
        "epsilon": price.epsilon,
        "rho": price.rho,
    }


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
    """Return the spending of each currency of an account, and its forecast.

    Args:
        days: Amount that was spent on each day.
    """
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

    Args:
        days: Amount that was spent on each day, oldest first.

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
    return Forecast(daily, _end(amount, daily, now))


def _end(amount: Amount, daily: Decimal, now: datetime) -> datetime | None:
    if amount.cap is None:
        return None
    left = max(amount.cap - amount.spent, ZERO)
    days = left / daily
    return now + timedelta(days=float(days)) if days <= _FARTHEST.days else None


@dataclass(frozen=True, slots=True)
class LineView:
    """A line of the ledger, with the digest for decisions on it."""

    line: Spend
    shown: str


def accounts(tx: Connection, ledger: Ledger, dataset: str | None) -> tuple[BudgetAccount, ...]:
    """Return the accounts of all datasets on offer, or of one: widest first, then by holder."""
    names = ledger.datasets if dataset is None else (dataset,)
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
    """Return the reserved amounts, by scope and holder."""
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
