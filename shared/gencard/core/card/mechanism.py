"""Ways to measure counts: exactly or transformed, with noise, or by a generator that adds the noise."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from decimal import Decimal
from typing import Any, ClassVar

from gencard.core.card.budget import (
    FREE,
    Neighbouring,
    Price,
    decimal_of,
    delta_of,
    most_records_of,
    neighbouring_of,
)
from gencard.core.card.noise import CURRENCIES, NOISES, AddedNoise, Mechanism, usual_noise, words_of
from gencard.core.errors import InvalidInputError, InvalidNumberError
from gencard.core.json_codecs import written


@dataclass(frozen=True, slots=True)
class Exact:
    """Counts as they are, or as a transform leaves them."""

    mechanism: ClassVar = Mechanism.EXACT
    noisy: ClassVar = False
    terms: ClassVar = frozenset({"transform", "measures", "without_uniques", "histograms", "sums"})
    """Fields of a proposal that go with this way to measure, and with no other."""

    price: ClassVar = FREE
    """Price of the noise; the price of exact counts depends on the statistics."""

    neighbouring: ClassVar[None] = None
    delta: ClassVar[None] = None
    most_records: ClassVar[None] = None

    @property
    def parameters(self) -> dict[str, str]:
        return {}

    def __str__(self) -> str:
        return self.mechanism


@dataclass(frozen=True, slots=True)
class InsideGenerator:
    """The guarantee that a generator keeps by the noise that it adds by itself while it is fitted.

    Args:
        guarantee: Budget that one fit spends, and the neighbouring relation that it holds for.
    """

    guarantee: AddedNoise

    mechanism: ClassVar = Mechanism.GENERATOR
    noisy: ClassVar = True
    terms: ClassVar = frozenset({"weights"})

    @property
    def price(self) -> Price:
        return self.guarantee.price

    @property
    def neighbouring(self) -> Neighbouring:
        return self.guarantee.neighbouring

    @property
    def delta(self) -> Decimal | None:
        return self.guarantee.delta

    @property
    def most_records(self) -> int | None:
        return self.guarantee.most_records

    @property
    def parameters(self) -> dict[str, str]:
        return self.guarantee.parameters

    def __str__(self) -> str:
        return words_of(self.mechanism, self.parameters)


Privacy = Exact | AddedNoise | InsideGenerator
"""Way in which a card is measured."""

EXACT = Exact()
"""Counts as they are."""


def privacy_with(mechanism: Mechanism, given: Mapping[str, str]) -> Privacy:
    """A way to measure from its name and its parameters as text.

    Raises:
        InvalidInputError: A parameter is missing, or does not belong to the mechanism.
        InvalidNumberError: A number is outside its range.
    """
    if mechanism is Mechanism.EXACT:
        _check_parameters(given, None)
        return EXACT
    if mechanism is Mechanism.GENERATOR:
        currency = next((name for name in reversed(CURRENCIES) if name in given), CURRENCIES[0])
        return InsideGenerator(noise_with(usual_noise(currency), given))
    return noise_with(mechanism, given)


def noise_with(mechanism: Mechanism, given: Mapping[str, str]) -> AddedNoise:
    """The same where a policy or a reader knows that it is noise; raises the same."""
    return _noise_of(next(noise for noise in NOISES if noise.mechanism is mechanism), given)


_BUDGET = "is required for {}, and allowed for no other mechanism"
_PARAMETERS: Mapping[str, tuple[Callable[[str, str], object], str]] = {
    **dict.fromkeys(CURRENCIES, (decimal_of, _BUDGET)),
    "neighbouring": (neighbouring_of, "is required with noise, and allowed only with noise"),
    "delta": (delta_of, "is allowed for {} only"),
    "most_records": (most_records_of, "is allowed for {} only"),
}
"""Reader of each parameter, and the problem if it is missing or does not belong."""


def _noise_of(noise: type[AddedNoise], given: Mapping[str, str]) -> AddedNoise:
    _check_parameters(given, noise)
    values: dict[str, Any] = {
        name: _PARAMETERS[name][0](text, f"privacy.{name}") for name, text in given.items()
    }
    return noise(**values)


def _check_parameters(given: Mapping[str, str], kind: type[AddedNoise] | None) -> None:
    """Check that all parameters of the noise are given, and none that belongs to another noise."""
    required = {} if kind is None else _names(kind)
    for name, (_, problem) in _PARAMETERS.items():
        if required.get(name, False) > (name in given) or (name in given and name not in required):
            owners = [str(noise.mechanism) for noise in NOISES if name in _names(noise)]
            wrong = problem.format(" or ".join(owners))
            advice = (
                "Give epsilon (Laplace noise) or rho (Gaussian noise) together with "
                "neighbouring; for exact counts, give none of them."
            )
            raise InvalidInputError(field=f"privacy.{name}", problem=wrong, advice=advice)


def _names(noise: type[AddedNoise]) -> dict[str, bool]:
    """Return the parameters of a noise by name, True for those that must be given."""
    return {one.name: one.default is MISSING for one in fields(noise)}


_LARGEST = 1_000_000


@dataclass(frozen=True, slots=True)
class Transform:
    """Checks and rounding of exact counts. One cell that fails a check refuses the whole measurement.

    Each record contributes 1 to its cell. Numbers are at most 1,000,000, percentages at most 100.

    Args:
        threshold: Fewest records in a cell that is not empty; 0 for no check.
        freedom: Fewest degrees of freedom of a marginal, which are records minus cells; 0 for no check.
        dominance_count: The n of the (n, k) dominance rule; 0 for no check.
        dominance_percent: The k of the (n, k) dominance rule: largest share of a cell, in percent, that
            its n largest contributions may have.
        remainder_percent: The p of the p% rule: smallest size of a cell without its two largest
            contributions, in percent of the largest; 0 for no check.
        zeros: ``true`` refuses empty cells too, except structural zeros of the schema.
        rounding: Counts are rounded to multiples of this number; 1 for no rounding.

    Raises:
        InvalidNumberError: A number is out of its range.
    """

    threshold: int = 0
    freedom: int = 0
    dominance_count: int = 0
    dominance_percent: int = 0
    remainder_percent: int = 0
    zeros: bool = False
    rounding: int = field(default=1, metadata=written(unset=True))

    def __post_init__(self) -> None:
        for name, number, most in (
            ("threshold", self.threshold, _LARGEST),
            ("freedom", self.freedom, _LARGEST),
            ("dominance_count", self.dominance_count, _LARGEST),
            ("dominance_percent", self.dominance_percent, 100),
            ("remainder_percent", self.remainder_percent, 100),
            ("rounding", self.rounding, _LARGEST),
        ):
            lowest = 1 if name == "rounding" else 0
            if not lowest <= number <= most:
                expected = f"a whole number from {lowest} to {most}"
                raise InvalidNumberError(field=f"transform.{name}", expected=expected)

    @property
    def checks(self) -> bool:
        """Whether a measurement can be refused."""
        return self != Transform(rounding=self.rounding)

    def __str__(self) -> str:
        """In words, for people.

        >>> str(Transform(threshold=10, rounding=5))
        'threshold 10, rounding 5'
        """
        names = [name for name in self.__slots__ if getattr(self, name) != getattr(AS_COUNTED, name)]
        parts = [f"{name.replace('_', ' ')} {getattr(self, name)}" for name in names]
        return ", ".join(parts) or "as counted"


AS_COUNTED = Transform()
"""Counts as they are, whatever they are."""

USUAL_CHECKS = Transform(
    threshold=10,
    freedom=10,
    dominance_count=2,
    dominance_percent=90,
    remainder_percent=10,
    rounding=5,
)
"""Limits that statistical offices usually set for a table before its release (SACRO's defaults)."""
