"""The ledger: what was spent, on what, by whom; and the caps that nothing gets past.

Reserve, run, settle. A reserved line counts as spent until it is settled, or voided by a steward; so a
crash at any moment loses budget at worst, and never frees any.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from decimal import ROUND_CEILING, Decimal
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, and_, insert, select, update

from gencard.controller.state.database import Page, find_one, insert_if_absent, only, page_of
from gencard.controller.state.tables import balances, lines
from gencard.core.card.budget import Price, Spend, SpendState
from gencard.core.errors import BudgetExceededError, InvalidInputError, InvalidNumberError, NotFoundError


class Scope(StrEnum):
    """Kinds of owners of a budget."""

    DATASET = "dataset"
    PROJECT = "project"
    ANALYST = "analyst"


@dataclass(frozen=True, slots=True)
class Account:
    """A budget on one dataset: of all analysts together, of one project, or of one analyst."""

    scope: Scope
    dataset: str
    holder: str = ""


def accounts_of(dataset: str, project: str, analyst: str) -> tuple[Account, Account, Account]:
    """Return the accounts that a release is paid from, widest first."""
    return (
        Account(Scope.DATASET, dataset),
        Account(Scope.PROJECT, dataset, project),
        Account(Scope.ANALYST, dataset, analyst),
    )


@dataclass(frozen=True, slots=True)
class Caps:
    """Budgets: the most that may ever be spent on the dataset.

    Each card is charged to the budgets of the dataset, of its project and of its analyst.

    Args:
        dataset: Budget of all analysts together.
        project: Budget of each project.
        analyst: Budget of each analyst.
        projects: Budgets of single projects, by name, in place of ``project``.
        analysts: Budgets of single analysts, by name, in place of ``analyst``.

    Raises:
        InvalidNumberError: A cap is above 10^18 statistics.
    """

    dataset: Price
    project: Price
    analyst: Price
    projects: Mapping[str, Price] = field(default_factory=dict)
    analysts: Mapping[str, Price] = field(default_factory=dict)

    def __post_init__(self) -> None:
        usual = [(scope, self.of(Account(scope, ""))) for scope in Scope]
        for scope, cap in (*usual, *((scope, cap) for scope, _, cap in self._single)):
            # sums of two stay inside the 63 bits of the database's integers
            if cap.statistics > 10**18:
                raise InvalidNumberError(field=f"caps.{scope}.statistics", expected="at most 10^18")

    def of(self, account: Account) -> Price:
        """Return the cap of an account; the holder of an analyst's is a URI that ends in the name."""
        name = account.holder.rpartition("/")[2]
        if account.scope is Scope.PROJECT:
            return self.projects.get(name, self.project)
        return self.dataset if account.scope is Scope.DATASET else self.analysts.get(name, self.analyst)

    @property
    def _single(self) -> Iterator[tuple[Scope, str, Price]]:
        """Scope, name and cap of each holder that has one of its own."""
        yield from ((Scope.PROJECT, name, cap) for name, cap in self.projects.items())
        yield from ((Scope.ANALYST, name, cap) for name, cap in self.analysts.items())

    def lowered_to(self, other: "Caps") -> "Caps":
        """Return the lower caps of both, for all analysts together and for each named holder."""
        projects, analysts = (
            {
                name: own.get(name, usual).lowered_to(others.get(name, other_usual))
                for name in {**own, **others}
            }
            for own, usual, others, other_usual in (
                (self.projects, self.project, other.projects, other.project),
                (self.analysts, self.analyst, other.analysts, other.analyst),
            )
        )
        return Caps(
            self.dataset.lowered_to(other.dataset),
            self.project.lowered_to(other.project),
            self.analyst.lowered_to(other.analyst),
            projects,
            analysts,
        )

    def in_words(self) -> dict[str, str]:
        """Amounts in words, by whose they are."""
        amounts = {"all": self.dataset, "each project": self.project, "each analyst": self.analyst}
        amounts |= {f"{scope} {name}": cap for scope, name, cap in self._single}
        return {holder: str(cap) for holder, cap in amounts.items()}


def columns_of(price: Price) -> dict[str, int]:
    """Return a price in whole units; nano-epsilon and nano-rho are rounded up."""
    # rounded up: rounding down would give away budget with every small charge
    nano_epsilon, nano_rho = (
        int(amount.scaleb(9).to_integral_value(rounding=ROUND_CEILING))
        for amount in (price.epsilon, price.rho)
    )
    return {"statistics": price.statistics, "nano_epsilon": nano_epsilon, "nano_rho": nano_rho}


def price_of(row: Mapping[Any, Any]) -> Price:
    """Return the price that the columns of a row hold, exactly."""
    epsilon, rho = (Decimal(row[name]).scaleb(-9).normalize() for name in ("nano_epsilon", "nano_rho"))
    return Price(row["statistics"], epsilon, rho)


FIT = "fit"
"""Kind of the line that pays for the one fit of a card of tier private."""


class Ledger:
    """Reserves and settles under the caps of each dataset.

    Args:
        caps: Caps by dataset name, ``datasets/{dataset}``. Others may be put in their place, and are in
            force from the next reservation on; what was spent stays spent.
    """

    def __init__(self, caps: Mapping[str, Caps]) -> None:
        self.caps = caps

    def reserve(
        self,
        tx: Connection,
        dataset: str,
        project: str,
        analyst: str,
        *,
        resource: str,
        kind: str,
        price: Price,
        now: datetime,
    ) -> int:
        """Hold the price in all three accounts before work begins; the number of the new line.

        Raises BudgetExceededError and changes nothing, or NotFoundError for a dataset without caps.
        """
        # a savepoint: where the third account refuses, the first two must not stay charged
        with tx.begin_nested():
            for account in accounts_of(dataset, project, analyst):
                _take(tx, account, price, self.cap(account))
            facts = {"dataset": dataset, "project": project, "analyst": analyst}
            return _reserved(tx, now, columns_of(price), resource=resource, kind=kind, **facts)

    def hold_rest(
        self, tx: Connection, dataset: str, *, project: str, holder: str, kind: str, now: datetime
    ) -> Spend | None:
        """Hold all that is left of a dataset's budget in one line; None if nothing is left.

        No caller is of ``project`` or is ``holder``: the caps of their accounts are not asked.
        Raises NotFoundError for a dataset without caps.
        """
        wide, *others = accounts_of(dataset, project, holder)
        cap, spent = (columns_of(price) for price in (self.cap(wide), self.spent(tx, wide)))
        # a lowered cap may lie below what was spent; a negative rest would free budget
        rest = {name: max(cap[name] - spent[name], 0) for name in cap}
        if not any(rest.values()):
            return None
        for account in (wide, *others):
            # whatever its cap
            insert_if_absent(tx, balances, asdict(account) | columns_of(Price()))
            more = {name: balances.c[name] + amount for name, amount in rest.items()}
            tx.execute(update(balances).where(_is(account)).values(more))
        facts = {"dataset": dataset, "project": project, "analyst": holder}
        return self.line(tx, _reserved(tx, now, rest, resource=dataset, kind=kind, **facts))

    def settle(self, tx: Connection, line: int, now: datetime) -> None:
        """Settle a line: the release happened, and the line stays spent for good.

        Raises NotFoundError, or InvalidInputError for a line that a steward voided meanwhile: what
        it was to pay for must not be released.
        """
        _end(tx, line, SpendState.SETTLED, now)

    def settle_at(self, tx: Connection, line: int, price: Price, now: datetime) -> None:
        """Settle a line at what it came to; what was held beyond that is given back.

        Raises:
            InvalidInputError, NotFoundError: As ``settle`` does; or the line holds less than the price.
        """
        ended_line = _end(tx, line, SpendState.SETTLED, now)
        if not price.fits(ended_line.price):
            raise InvalidInputError(field="line", problem="reserves less than the price")
        before, units = columns_of(ended_line.price), columns_of(price)
        tx.execute(update(lines).where(lines.c.number == line).values(units))
        for account in accounts_of(ended_line.dataset, ended_line.project, ended_line.analyst):
            less = {name: balances.c[name] - (before[name] - units[name]) for name in units}
            tx.execute(update(balances).where(_is(account)).values(less))

    def void(self, tx: Connection, line: int, now: datetime) -> None:
        """Give a reservation back, once a steward knows of no release for it; raises as ``settle``."""
        spend = _end(tx, line, SpendState.VOIDED, now)
        for account in accounts_of(spend.dataset, spend.project, spend.analyst):
            less = {name: balances.c[name] - units for name, units in columns_of(spend.price).items()}
            tx.execute(update(balances).where(_is(account)).values(less))

    def cap(self, account: Account) -> Price:
        """Return the most that may ever be spent in an account; raises NotFoundError without caps."""
        if account.dataset not in self.caps:
            raise NotFoundError(what=f"dataset '{account.dataset.removeprefix('datasets/')}'")
        return self.caps[account.dataset].of(account)

    def spent(self, tx: Connection, account: Account) -> Price:
        """Spent or reserved so far."""
        row = tx.execute(select(balances).where(_is(account))).mappings().one_or_none()
        return Price() if row is None else price_of(row)

    def over_cap(self, tx: Connection) -> Iterator[tuple[Account, Price, Price]]:
        """Accounts that spent more than their cap allows now, each with what it spent and its cap.

        Caps of datasets that are no longer on offer are not known, and their accounts are left out.
        """
        for row in tx.execute(select(balances)).mappings():
            account = Account(Scope(row["scope"]), row["dataset"], row["holder"])
            spent = price_of(row)
            if account.dataset in self.caps and not spent.fits(self.cap(account)):
                yield account, spent, self.cap(account)

    def epsilons(self, tx: Connection, dataset: str) -> list[Decimal]:
        """Return epsilon of each release with Laplace noise on a dataset, spent or reserved."""
        query = select(lines).where(
            lines.c.dataset == dataset, lines.c.nano_epsilon > 0, lines.c.state != SpendState.VOIDED
        )
        return [price_of(row).epsilon for row in tx.execute(query).mappings()]

    def all(self, tx: Connection) -> Iterator[Spend]:
        """Yield every line, oldest first."""
        return map(_spend_of, tx.execute(select(lines).order_by(lines.c.number)).mappings().all())

    @staticmethod
    def line(tx: Connection, line: int) -> Spend:
        """Raises NotFoundError if there is no such line."""
        # the database's overflow error would differ from "not found"
        query = select(lines).where(lines.c.number == line)
        spend = find_one(tx, query, _spend_of) if 0 < line < 2**63 else None
        if spend is None:
            raise NotFoundError(what="ledger line")
        return spend

    def held(
        self, tx: Connection, *, resource: str, kind: str, state: SpendState = SpendState.RESERVED
    ) -> Spend | None:
        """Return the newest line reserved for a release, or in another state; None if there is none."""
        conditions = (lines.c.resource == resource, lines.c.kind == kind, lines.c.state == state)
        newest = select(lines).where(*conditions).order_by(lines.c.number.desc()).limit(1)
        return find_one(tx, newest, _spend_of)

    def lines(
        self,
        tx: Connection,
        *,
        analyst: str | None = None,
        dataset: str | None = None,
        before: str = "",
        limit: int = 50,
    ) -> Page[Spend]:
        """Lines, newest first, of one analyst, of one dataset, or all."""
        query = only(select(lines), (lines.c.analyst, analyst), (lines.c.dataset, dataset))
        return page_of(tx, query, lines.c.number, _spend_of, before=before, limit=limit)


def _reserved(tx: Connection, now: datetime, units: Mapping[str, int], **facts: str) -> int:
    line = insert(lines).values(state=SpendState.RESERVED, created=now, **facts, **units)
    return int(tx.execute(line.returning(lines.c.number)).scalar_one())


def _take(tx: Connection, account: Account, price: Price, cap: Price) -> None:
    """Add the price to a balance by **one conditional UPDATE**: no reading before, no race.

    A price over the cap is refused before it meets the database, whose integers have 63 bits. A balance
    over a cap that was lowered stops only what costs something in its currency.
    """
    if not price.fits(cap):
        raise BudgetExceededError(scope=account.scope)
    # sum and comparison happen inside the UPDATE: two writers cannot both see the old balance
    insert_if_absent(tx, balances, asdict(account) | columns_of(Price()))
    more = {name: balances.c[name] + amount for name, amount in columns_of(price).items()}
    limits, units = columns_of(cap), columns_of(price)
    within = [more[name] <= limits[name] for name in units if units[name]]
    if tx.execute(update(balances).where(_is(account), *within).values(more)).rowcount != 1:
        raise BudgetExceededError(scope=account.scope)


def _end(tx: Connection, line: int, state: SpendState, now: datetime) -> Spend:
    """End a reserved line by one conditional UPDATE; the line as it was."""
    spend = Ledger.line(tx, line)
    # the state is part of the condition: a line voided meanwhile must not be settled as well
    reserved = (lines.c.number == line, lines.c.state == SpendState.RESERVED)
    if tx.execute(update(lines).where(*reserved).values(state=state, ended=now)).rowcount != 1:
        raise InvalidInputError(
            field="line",
            problem=f"is {spend.state}, but only a reserved line can be settled or released",
        )
    return spend


def _spend_of(row: Mapping[Any, Any]) -> Spend:
    names = ("dataset", "project", "analyst", "resource", "kind", "created")
    values = {name: row[name] for name in names}
    return Spend(row["number"], price=price_of(row), state=SpendState(row["state"]), **values)


def _is(account: Account) -> Any:
    return and_(*(balances.c[name] == value for name, value in asdict(account).items()))
