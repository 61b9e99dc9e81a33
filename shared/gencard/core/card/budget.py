"""Privacy that a card requests or a box claims, what measuring costs, and prices in exact decimals."""

from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum

from gencard.core.errors import InvalidInputError, InvalidNumberError

ZERO = Decimal(0)
_FINEST = Decimal("1e-9")
_LARGEST = Decimal("1e6")
_LARGEST_SUM = Decimal("1e9")
_FINEST_DELTA = Decimal("1e-18")


class Mechanism(StrEnum):
    """How counts are measured.

    ``GENERATOR`` stands on cards of tier private: no count is measured, and the noise is inside the
    generator, which the controller ships.
    """

    EXACT = "exact"
    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"
    GENERATOR = "generator"


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
    return _between(_FINEST, _LARGEST, text, refusal)


def delta_of(text: str, field: str = "privacy.delta") -> Decimal:
    """A delta from its decimal string.

    Raises:
        InvalidNumberError: Not a number, finer than 1e-18, or not between 0 and 1.
    """
    refusal = InvalidNumberError(field=field, expected="a decimal from 1e-18 to below 1")
    return _between(_FINEST_DELTA, 1 - _FINEST_DELTA, text, refusal)


def _between(finest: Decimal, largest: Decimal, text: str, refusal: InvalidNumberError) -> Decimal:
    """A whole number of ``finest``, from one of them to ``largest``."""
    if len(text) > 32:
        raise refusal
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise refusal from None
    if not number.is_finite() or not finest <= number <= largest:
        raise refusal
    if number != number.quantize(finest):
        raise refusal
    return number


@dataclass(frozen=True, slots=True)
class Privacy:
    """The mechanism and what it is given.

    Args:
        epsilon: Laplace: spent by all marginals of the card together.
        rho: Gaussian: zero-concentrated differential privacy, spent by all marginals together.
        delta: Beside rho: at which delta the card also states an epsilon. It changes no noise.

    A generator's own noise has one of epsilon and rho: what one fit spends.

    Raises:
        InvalidInputError: A parameter is missing or does not belong to the mechanism.
        InvalidNumberError: A budget is outside its range.
    """

    mechanism: Mechanism = Mechanism.EXACT
    neighbouring: Neighbouring | None = None
    epsilon: Decimal | None = None
    rho: Decimal | None = None
    delta: Decimal | None = None

    def __post_init__(self) -> None:
        own = self.mechanism is Mechanism.GENERATOR
        wants_rho = self.mechanism is Mechanism.GAUSSIAN or (own and self.rho is not None)
        wants_epsilon = self.mechanism is Mechanism.LAPLACE or (own and not wants_rho)
        noisy = wants_epsilon or wants_rho
        if (self.epsilon is not None) != wants_epsilon:
            raise InvalidInputError(
                field="privacy.epsilon", problem="must be given for laplace, and for no other mechanism"
            )
        if (self.rho is not None) != wants_rho:
            raise InvalidInputError(
                field="privacy.rho", problem="must be given for gaussian, and for no other mechanism"
            )
        if (self.neighbouring is not None) != noisy:
            raise InvalidInputError(
                field="privacy.neighbouring", problem="must be given with noise, and only with noise"
            )
        if self.delta is not None and not wants_rho:
            raise InvalidInputError(field="privacy.delta", problem="is allowed for gaussian only")
        for field, number in (("privacy.epsilon", self.epsilon), ("privacy.rho", self.rho)):
            if number is not None:
                decimal_of(str(number), field)
        if self.delta is not None:
            delta_of(str(self.delta))

    @property
    def noisy(self) -> bool:
        return self.mechanism is not Mechanism.EXACT

    def __str__(self) -> str:
        """In words, for people.

        >>> str(laplace("0.50", neighbouring="add-remove"))
        'laplace, epsilon 0.5, add-remove'
        """
        amounts = (("epsilon", self.epsilon), ("rho", self.rho), ("delta", self.delta))
        amounts_text = [
            f"{name} {amount.normalize():f}" for name, amount in amounts if amount is not None
        ]
        return ", ".join([self.mechanism, *amounts_text, *filter(None, [self.neighbouring])])


def laplace(epsilon: Decimal | int | str, *, neighbouring: Neighbouring | str) -> Privacy:
    """Discrete Laplace noise that spends ``epsilon`` over all marginals of a card.

    Raises:
        InvalidInputError, InvalidNumberError: No such relation, or epsilon is out of range.
    """
    amount = decimal_of(str(epsilon), "privacy.epsilon")
    return Privacy(Mechanism.LAPLACE, neighbouring_of(neighbouring), epsilon=amount)


def gaussian(
    rho: Decimal | int | str,
    *,
    neighbouring: Neighbouring | str,
    delta: Decimal | str | None = None,
) -> Privacy:
    """Discrete Gaussian noise that spends ``rho`` (zCDP) over all marginals of a card.

    Raises:
        InvalidInputError, InvalidNumberError: No such relation, or a number is out of range.
    """
    return Privacy(
        Mechanism.GAUSSIAN,
        neighbouring_of(neighbouring),
        rho=decimal_of(str(rho), "privacy.rho"),
        delta=None if delta is None else delta_of(str(delta)),
    )


def inside_generator(privacy: Privacy) -> Privacy:
    """The same guarantee, kept by the noise that a generator adds by itself while it is fitted."""
    return replace(privacy, mechanism=Mechanism.GENERATOR)


def neighbouring_of(text: str) -> Neighbouring:
    """Raises InvalidInputError where there is no such relation."""
    if text not in set(Neighbouring):
        expected = " or ".join(Neighbouring)
        raise InvalidInputError(field="privacy.neighbouring", problem=f"must be {expected}")
    return Neighbouring(text)


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

    def __str__(self) -> str:
        """In words, for people.

        >>> str(Price(12, rho=Decimal("0.50")))
        '12 exact statistics, rho 0.5'
        """
        amounts = (("epsilon", self.epsilon), ("rho", self.rho))
        parts = [f"{self.statistics:,} exact statistics"] if self.statistics else []
        parts += [f"{name} {amount.normalize():f}" for name, amount in amounts if amount]
        return ", ".join(parts) or "nothing"


EXACT = Privacy()
"""Counts as they are."""


def _is_amount(amount: object) -> bool:
    """Whether this is a finite decimal from 0 to 1e9 with at most nine places: never a float."""
    if not isinstance(amount, Decimal) or not amount.is_finite():
        return False
    return 0 <= amount <= _LARGEST_SUM and amount == amount.quantize(_FINEST)


FREE = Price()
"""Nothing, in any currency."""


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


@dataclass(frozen=True, slots=True)
class Claim:
    """A promise about one fit: every sample of the fitted model is covered by it.

    Args:
        sentence: What holds and why, for people; where nothing is promised, that.
        epsilon: None where nothing is promised.
        delta: 0 for pure differential privacy.
        neighbouring: Which records may differ; it belongs to epsilon.
    """

    sentence: str
    epsilon: Decimal | None = None
    delta: Decimal = Decimal(0)
    neighbouring: Neighbouring | None = None

    def __str__(self) -> str:
        """The sentence, behind what it comes to where anything is promised."""
        if self.epsilon is None:
            return self.sentence
        delta = f", delta {self.delta}" if self.delta else ""
        relation = f" ({self.neighbouring})" if self.neighbouring else ""
        return f"epsilon {self.epsilon}{delta}{relation}. {self.sentence}"


NO_CLAIM = Claim("No formal privacy is promised.")
