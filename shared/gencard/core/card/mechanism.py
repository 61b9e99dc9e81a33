"""How counts are measured: exactly, with noise, or not at all where a generator adds the noise."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from decimal import Decimal
from typing import Any, ClassVar

from gencard.core.card.budget import FREE, Neighbouring, Price, decimal_of, delta_of, neighbouring_of
from gencard.core.card.noise import (
    CURRENCIES,
    NOISES,
    AddedNoise,
    Mechanism,
    most_records_of,
    usual_noise,
    words_of,
)
from gencard.core.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class Exact:
    """Counts as they are, or as a transform leaves them."""

    mechanism: ClassVar = Mechanism.EXACT
    noisy: ClassVar = False
    terms: ClassVar = frozenset({"transform", "measures", "without_uniques"})
    """Fields of a proposal that go with this way to measure, and with no other."""

    price: ClassVar = FREE
    """Of noise; what exact counts cost depends on which they are."""

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
        guarantee: What one fit spends, and for which neighbours.
    """

    guarantee: AddedNoise

    mechanism: ClassVar = Mechanism.GENERATOR
    noisy: ClassVar = True
    terms: ClassVar = AddedNoise.terms

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
"""How a card is measured."""

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


_BUDGET = "must be given for {}, and for no other mechanism"
_PARAMETERS: Mapping[str, tuple[Callable[[str, str], object], str]] = {
    **dict.fromkeys(CURRENCIES, (decimal_of, _BUDGET)),
    "neighbouring": (neighbouring_of, "must be given with noise, and only with noise"),
    "delta": (delta_of, "is allowed for {} only"),
    "most_records": (most_records_of, "is allowed for {} only"),
}
"""How each parameter is read from text, and what is wrong where it is missing or does not belong."""


def _noise_of(noise: type[AddedNoise], given: Mapping[str, str]) -> AddedNoise:
    _check_parameters(given, noise)
    values: dict[str, Any] = {
        name: _PARAMETERS[name][0](text, f"privacy.{name}") for name, text in given.items()
    }
    return noise(**values)


def _check_parameters(given: Mapping[str, str], kind: type[AddedNoise] | None) -> None:
    """Whether all that the noise requires is given, and nothing that belongs to another one."""
    required = {} if kind is None else _names(kind)
    for name, (_, problem) in _PARAMETERS.items():
        if required.get(name, False) > (name in given) or (name in given and name not in required):
            owners = [str(noise.mechanism) for noise in NOISES if name in _names(noise)]
            wrong = problem.format(" or ".join(owners))
            advice = (
                "Give epsilon (Laplace noise) or rho (Gaussian noise) together with neighbouring; for "
                "exact counts give none of them."
            )
            raise InvalidInputError(field=f"privacy.{name}", problem=wrong, advice=advice)


def _names(noise: type[AddedNoise]) -> dict[str, bool]:
    """Its parameters, and whether each must be given."""
    return {field.name: field.default is MISSING for field in fields(noise)}
