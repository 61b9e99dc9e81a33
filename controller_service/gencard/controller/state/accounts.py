"""The three accounts that every release is paid from, and their caps, in whole units."""

from collections.abc import Iterator, Mapping
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
    """Budgets: the most that may ever be spent on the dataset.

    Each card is charged to the budgets of the dataset, of its project and of its analyst.

    Args:
        dataset: Budget of everybody together.
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
            if cap.statistics > MOST_STATISTICS:
                raise InvalidNumberError(field=f"caps.{scope}.statistics", expected="at most 10^18")

    def of(self, account: Account) -> Price:
        """The cap of an account; the holder of an analyst's is a URI that ends in the name."""
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
        """Return the caps of both that allow less, for everybody and for each named holder."""
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
