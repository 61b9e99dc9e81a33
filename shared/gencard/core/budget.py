"""What measuring costs: the privacy asked for, and prices in exact decimals."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum

from gencard.core.errors import InvalidInputError, InvalidNumberError

ZERO = Decimal(0)
_FINEST = Decimal("1e-9")
_LARGEST = Decimal("1e6")
_LARGEST_SUM = Decimal("1e9")


class Mechanism(StrEnum):
    """How counts are measured."""

    EXACT = "exact"
    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


class Neighbouring(StrEnum):
    """What "one record more or less" means. Always chosen, never a default."""

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"


def decimal_of(text: str, field: str) -> Decimal:
    """A positive budget from its decimal string.

    Raises:
        InvalidNumberError: Not a number, not finite, not positive, finer than 1e-9 or above 1e6.
    """
    refusal = InvalidNumberError(field=field, expected="a decimal from 0.000000001 to 1000000")
    if len(text) > 32:
        raise refusal
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise refusal from None
    if not number.is_finite() or not _FINEST <= number <= _LARGEST:
        raise refusal
    if number != number.quantize(_FINEST):
        raise refusal
    return number


@dataclass(frozen=True, slots=True)
class Privacy:
    """The mechanism and what it is given.

    Raises:
        InvalidInputError: A parameter is missing or does not belong to the mechanism.
        InvalidNumberError: A budget is outside its range.
    """

    mechanism: Mechanism = Mechanism.EXACT
    neighbouring: Neighbouring | None = None
    epsilon: Decimal | None = None
    rho: Decimal | None = None

    def __post_init__(self) -> None:
        wants_epsilon = self.mechanism is Mechanism.LAPLACE
        wants_rho = self.mechanism is Mechanism.GAUSSIAN
        noisy = wants_epsilon or wants_rho
        if (self.epsilon is not None) != wants_epsilon:
            raise InvalidInputError(
                field="privacy.epsilon", problem="belongs to laplace, and only there"
            )
        if (self.rho is not None) != wants_rho:
            raise InvalidInputError(field="privacy.rho", problem="belongs to gaussian, and only there")
        if (self.neighbouring is not None) != noisy:
            raise InvalidInputError(
                field="privacy.neighbouring", problem="belongs to noise, and must be chosen there"
            )
        for field, number in (("privacy.epsilon", self.epsilon), ("privacy.rho", self.rho)):
            if number is not None:
                decimal_of(str(number), field)


@dataclass(frozen=True, slots=True)
class Price:
    """A cost, or a cap, in each currency of the ledger.

    ``statistics`` counts exact independent counts released (the dimension of the span of Phi);
    ``epsilon`` and ``rho`` are spent by noise.

    Raises:
        InvalidNumberError: An amount is negative or not finite.
    """

    statistics: int = 0
    epsilon: Decimal = ZERO
    rho: Decimal = ZERO

    def __post_init__(self) -> None:
        if not isinstance(self.statistics, int) or self.statistics < 0:
            raise InvalidNumberError(field="price.statistics", expected="a whole number, zero or more")
        for field, amount in (("epsilon", self.epsilon), ("rho", self.rho)):
            if not _is_amount(amount):
                raise InvalidNumberError(field=f"price.{field}", expected="a decimal, zero or more")

    def __add__(self, other: "Price") -> "Price":
        return Price(
            self.statistics + other.statistics, self.epsilon + other.epsilon, self.rho + other.rho
        )

    def fits(self, cap: "Price") -> bool:
        """Whether no currency goes over the cap."""
        return self.statistics <= cap.statistics and self.epsilon <= cap.epsilon and self.rho <= cap.rho


EXACT = Privacy()
"""Counts as they are."""


def _is_amount(amount: object) -> bool:
    """Whether this is a finite decimal from 0 to 1e9 with at most nine places: never a float."""
    if not isinstance(amount, Decimal) or not amount.is_finite():
        return False
    return 0 <= amount <= _LARGEST_SUM and amount == amount.quantize(_FINEST)


class SpendState(StrEnum):
    """Where a line of the ledger stands. A reserved line counts as spent."""

    RESERVED = "reserved"
    SETTLED = "settled"
    VOIDED = "voided"


@dataclass(frozen=True, slots=True)
class Spend:
    """One line of the ledger. Lines are never deleted, and only voiding one gives its price back.

    Args:
        line: Number of the line, from 1.
        dataset: datasets/{dataset}.
        analyst: URI of the identity that spends.
        resource: For what: a card or an audit, by name.
        kind: What kind of release, such as "psi" or "audit".
        created: When it was reserved, in UTC.
    """

    line: int
    dataset: str
    project: str
    analyst: str
    resource: str
    kind: str
    price: Price
    state: SpendState
    created: datetime
