"""Parts of a budget: claims of boxes, prices, lines of the ledger, whom they protect; exact decimals."""

from dataclasses import astuple, dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from fractions import Fraction
from math import inf, isqrt, nextafter
from operator import add

from gencard.core.errors import InvalidInputError, InvalidNumberError

ZERO = Decimal(0)
_FINEST = Decimal("1e-9")
_LARGEST = Decimal("1e6")
_LARGEST_SUM = Decimal("1e9")
_FINEST_DELTA = Decimal("1e-18")
_FINE = 2**40

MOST_RECORDS = 1_000
"""Records of one person that may count: noise grows with their number."""


class Neighbouring(StrEnum):
    """Meaning of "one record more or less". Always chosen, never a default."""

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


def decimal_text(number: Decimal) -> str:
    """Plain digits, no exponent, no trailing zeros."""
    text = f"{abs(number) if number == 0 else number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def neighbouring_of(text: str, field: str = "privacy.neighbouring") -> Neighbouring:
    """Raises InvalidInputError where there is no such relation."""
    if text not in set(Neighbouring):
        expected = " or ".join(Neighbouring)
        advice = (
            'Noise needs a relation: write neighbouring="add-remove" to hide whether a record is there, '
            'or neighbouring="replace-one" to hide its values while the number of records is public.'
        )
        raise InvalidInputError(field=field, problem=f"must be {expected}", advice=advice)
    return Neighbouring(text)


@dataclass(frozen=True, slots=True)
class Price:
    """Amounts in the three currencies of the ledger: a price, or a budget; 0 is nothing.

    Args:
        statistics: Exact statistics: independent counts (the dimension of the span of Phi), and other
            numbers about the records, without noise.
        epsilon: Budget of Laplace noise and of black boxes with a pure guarantee, up to 1e9 in steps of
            1e-9.
        rho: Budget of Gaussian noise and of black boxes with an approximate guarantee, up to 1e9 in
            steps of 1e-9.

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
            # Finite decimals with at most nine places: never floats.
            if (
                not (isinstance(amount, Decimal) and amount.is_finite())
                or not 0 <= amount <= _LARGEST_SUM
                or amount != amount.quantize(_FINEST)
            ):
                raise InvalidNumberError(field=f"price.{field}", expected="a decimal, zero or more")

    def __add__(self, other: "Price") -> "Price":
        return Price(*map(add, astuple(self), astuple(other)))

    def lowered_to(self, other: "Price") -> "Price":
        """Return the smaller amount in each currency."""
        return Price(*map(min, astuple(self), astuple(other)))

    def fits(self, cap: "Price") -> bool:
        """Whether no currency goes over the cap."""
        return self.statistics <= cap.statistics and self.epsilon <= cap.epsilon and self.rho <= cap.rho

    def __repr__(self) -> str:
        return f"<Price: {self}>"

    def _repr_html_(self) -> str:
        amounts = (("exact statistics", self.statistics), ("epsilon", self.epsilon), ("rho", self.rho))
        spent = ((name, decimal_text(Decimal(amount))) for name, amount in amounts if amount)
        rows = [f"<tr><th>{name}</th><td>{text}</td></tr>" for name, text in spent]
        return f"<table>{''.join(rows) or '<tr><td>nothing</td></tr>'}</table>"

    def __str__(self) -> str:
        """In words, for people.

        >>> str(Price(12, rho=Decimal("0.50")))
        '12 exact statistics, rho 0.5'
        """
        amounts = (("epsilon", self.epsilon), ("rho", self.rho))
        parts = [f"{self.statistics:,} exact statistics"] if self.statistics else []
        parts += [f"{name} {decimal_text(amount)}" for name, amount in amounts if amount]
        return ", ".join(parts) or "nothing"


FREE = Price()
"""Price of zero in every currency."""


class SpendState(StrEnum):
    """State of a line of the ledger. A reserved line counts as spent."""

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
        resource: Name of the card or audit that the line pays for.
        kind: Kind of release, such as "psi" or "audit".
        created: Time at which the price was reserved, in UTC.
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

    def __repr__(self) -> str:
        return f"<Spend {self.line}: {self.kind}, {self.price}, {self.state}; {self.resource}>"


@dataclass(frozen=True, slots=True)
class Claim:
    """A promise about one fit: every sample of the fitted model is covered by it.

    Args:
        sentence: The promise and its reason, for people; says so if nothing is promised.
        epsilon: Epsilon of one run, from 1e-9 to 1,000,000; none if nothing is promised.
        delta: Delta of one run, from 1e-18 to below 1; 0 for pure differential privacy.
        neighbouring: Neighbouring relation: ``add-remove`` or ``replace-one``.
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


def above(number: Fraction) -> float:
    """The smallest float that is not below an exact number."""
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else nextafter(nearest, inf)


def root_above(number: Fraction) -> float:
    """A float not below the square root of an exact number, and hardly above."""
    fine = _FINE**2
    root = isqrt(number.numerator * fine // number.denominator) + 1
    return above(Fraction(root, _FINE))


def check_most_records(number: int) -> None:
    """Raises InvalidNumberError where a person may not have so many records."""
    if not 1 <= number <= MOST_RECORDS:
        raise InvalidNumberError(field="most_records", expected=f"from 1 to {MOST_RECORDS}")


def most_records_of(text: str, field: str = "privacy.most_records") -> int:
    """The most records of a person, from text; raises InvalidNumberError where it is no such number."""
    if text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= MOST_RECORDS:
        return int(text)
    raise InvalidNumberError(field=field, expected=f"a whole number from 1 to {MOST_RECORDS}")


def person_words(most_records: int) -> str:
    """Describe the person whom a claim about persons protects."""
    return f"a person with at most {most_records} record{'s' if most_records > 1 else ''}"


def counted(most_records: int) -> str:
    """Records that count, and whom noise on them protects, for people."""
    if not most_records:
        return "individually"
    return f"of {person_words(most_records)}: no more of them count, and noise protects the person"
