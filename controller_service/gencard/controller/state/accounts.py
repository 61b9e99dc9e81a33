"""The three accounts that every release is paid from, and their caps, in whole units."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from decimal import ROUND_CEILING, Decimal
from enum import StrEnum
from typing import Any

from gencard.core.card.budget import Price
from gencard.core.errors import InvalidNumberError

MOST_STATISTICS = 10**18
"""Largest cap: sums of two stay inside the 63 bits of the database's integers."""


class Scope(StrEnum):
    """Whose budget."""

    DATASET = "dataset"
    PROJECT = "project"
    ANALYST = "analyst"


@dataclass(frozen=True, slots=True)
class Account:
    """A budget on one dataset: everybody's together, one project's, or one analyst's."""

    scope: Scope
    dataset: str
    holder: str = ""

    def columns(self) -> dict[str, Any]:
        return asdict(self)


def accounts_of(dataset: str, project: str, analyst: str) -> tuple[Account, Account, Account]:
    """The accounts that a release is paid from, widest first."""
    return (
        Account(Scope.DATASET, dataset),
        Account(Scope.PROJECT, dataset, project),
        Account(Scope.ANALYST, dataset, analyst),
    )


@dataclass(frozen=True, slots=True)
class Caps:
    """The most that may ever be spent on one dataset: by all, by each project, by each analyst.

    Args:
        own: Caps of single projects and analysts, by name, in place of the one of all.

    Raises:
        InvalidNumberError: A cap is above 10^18 statistics.
    """

    dataset: Price
    project: Price
    analyst: Price
    own: Mapping[tuple[Scope, str], Price] = field(default_factory=dict)

    def __post_init__(self) -> None:
        usual = [(scope, self.of(Account(scope, ""))) for scope in Scope]
        for scope, cap in (*usual, *((scope, cap) for (scope, _), cap in self.own.items())):
            if cap.statistics > MOST_STATISTICS:
                raise InvalidNumberError(field=f"caps.{scope}.statistics", expected="at most 10^18")

    def of(self, account: Account) -> Price:
        """The cap of an account; the holder of an analyst's is a URI that ends in the name."""
        name = account.holder.rpartition("/")[2]
        usual = {Scope.DATASET: self.dataset, Scope.PROJECT: self.project}.get(
            account.scope, self.analyst
        )
        return self.own.get((account.scope, name), usual)

    def in_words(self) -> dict[str, str]:
        """Amounts in words, by whose they are."""
        amounts = {"all": self.dataset, "each project": self.project, "each analyst": self.analyst}
        amounts |= {f"{scope} {name}": cap for (scope, name), cap in self.own.items()}
        return {holder: str(cap) for holder, cap in amounts.items()}


def columns_of(price: Price) -> dict[str, int]:
    """A price in whole units; nano-epsilon and nano-rho are rounded up."""
    return {
        "statistics": price.statistics,
        "nano_epsilon": _nano(price.epsilon),
        "nano_rho": _nano(price.rho),
    }


def price_of(row: Mapping[Any, Any]) -> Price:
    """The price that the columns of a row hold, exactly."""
    epsilon, rho = (Decimal(row[name]).scaleb(-9).normalize() for name in ("nano_epsilon", "nano_rho"))
    return Price(row["statistics"], epsilon, rho)


def _nano(amount: Decimal) -> int:
    # rounded up: rounding down would give away budget with every small charge
    return int(amount.scaleb(9).to_integral_value(rounding=ROUND_CEILING))
