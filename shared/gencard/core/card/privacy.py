"""Privacy of counts: the mechanisms, and their noise with parameters, price, scale, stddev and draw.

A new mechanism is one more class, in ``NOISES``, with its name in ``Mechanism`` and its sampler in
``Noise``, which ``controller/noise.py`` draws from; the protocol has its name once more. What its law is
in simulations, ``analysis/answers/noisy_margins.py`` says.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from math import exp, expm1, sqrt
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from gencard.core.card.budget import (
    FREE,
    Neighbouring,
    Price,
    above,
    check_most_records,
    decimal_of,
    decimal_text,
    delta_of,
    most_records_of,
    neighbouring_of,
    person_words,
    root_above,
)
from gencard.core.errors import InvalidInputError, InvalidNumberError
from gencard.core.json_codecs import written
from gencard.core.types import IntArray

CURRENCIES = {"epsilon": 1, "rho": 2}
"""Currencies that noise spends, fields of ``Price``, and the power of k that ``for_person`` grows by."""

_LEAST_STDDEV = 1e-9
"""Noise too small to be seen is noise all the same: a stddev of 0 would say that counts are exact."""


class Mechanism(StrEnum):
    """Names of the ways to measure, on cards and in policies.

    ``GENERATOR`` stands on cards of tier private: no count is measured, and the noise is inside the
    generator, which the controller ships.
    """

    EXACT = "exact"
    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"
    GENERATOR = "generator"


class Noise(Protocol):
    """Draws exact discrete noise from a cryptographic source; ``controller/noise.py`` has the one."""

    def laplace(self, counts: IntArray, scale: float) -> IntArray:
        r"""Add to each count k with probability proportional to :math:`e^{-|k| / scale}`."""

    def gaussian(self, counts: IntArray, scale: float) -> IntArray:
        r"""Add to each count k with probability proportional to :math:`e^{-k^2 / (2\, scale^2)}`."""

    def choose(self, scores: IntArray, scale: float) -> int:
        r"""The position i with probability proportional to :math:`e^{scores_i / scale}`."""


@dataclass(frozen=True, slots=True)
class AddedNoise(ABC):
    """Noise on every count, which spends one budget over all statistics of a card together.

    Args:
        neighbouring: Difference between neighbours: one record or, with ``most_records``, one person.
        most_records: The noise protects a person of whom at most so many records count, with all of
            them; None where it protects one record.
    """

    mechanism: ClassVar[Mechanism]
    noisy: ClassVar = True
    terms: ClassVar = frozenset({"weights", "histograms", "sums"})
    currency: ClassVar[str]
    """One of ``CURRENCIES``, in which budgets add up in the ledger, and a field of this class."""

    norm: ClassVar[int]
    """1 where noise follows from the L1 sensitivity, 2 where from the square of the L2 one."""

    neighbouring: Neighbouring
    most_records: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        decimal_of(str(self.budget), f"privacy.{self.currency}")
        if self.most_records is not None:
            check_most_records(self.most_records)

    @property
    def budget(self) -> Decimal:
        """Budget that all statistics spend together, in ``currency``."""
        amount: Decimal = getattr(self, self.currency)
        return amount

    @property
    def price(self) -> Price:
        amounts: dict[str, Any] = {self.currency: self.budget}
        return Price(**amounts)

    @property
    def delta(self) -> Decimal | None:
        """At which delta the card also states an epsilon, where it names one."""
        return None

    @property
    def parameters(self) -> dict[str, str]:
        """The fields as text, as documents and messages hold them; those that are None are left out."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: decimal_text(value) if isinstance(value, Decimal) else str(value)
            for name, value in values.items()
            if value is not None
        }

    def within(self, most: Price) -> Self:
        """Return the noise with a budget that one card may have; unchanged if none may."""
        largest: Decimal = getattr(most, self.currency)
        amounts: dict[str, Any] = {self.currency: min(self.budget, largest)} if largest else {}
        return replace(self, **amounts)

    def parts(self, weights: Sequence[int]) -> list[Fraction]:
        """The budget divided by weights."""
        return [Fraction(weight, sum(weights)) * Fraction(self.budget) for weight in weights]

    @property
    def moved(self) -> Fraction:
        r"""The L1 sensitivity of a marginal (``norm`` 1), or the square of the L2 one.

        A record more or less moves one count by 1; a record replaced moves two. A person with
        :math:`j \le k` records moves the counts by a vector :math:`v \ge 0` with :math:`\sum v = j`, so
        :math:`L_1 = j \le k` and :math:`L_2^2 = \sum v^2 \le (\sum v)^2 \le k^2`, reached where all k
        records lie in one cell. One person replaced by another moves them by :math:`v - w`: at most
        :math:`2 k`, and since :math:`v, w \ge 0`, :math:`|v - w|_2^2 \le |v|_2^2 + |w|_2^2 \le 2 k^2`,
        reached by two persons each with k records in one cell, not the same.
        """
        pair = 2 if self.neighbouring is Neighbouring.REPLACE_ONE else 1
        return Fraction(pair * (self.most_records or 1) ** self.norm)

    def for_person(self, most_records: int) -> Self:
        r"""Return the guarantee for a person with k records, of noise that protects one record.

        A person's records come or go one by one: pure :math:`\epsilon` becomes :math:`k \epsilon` [1]_,
        zCDP of :math:`\rho` becomes :math:`k^2 \rho` [2]_.

        References:
            .. [1] C. Dwork, A. Roth, "The Algorithmic Foundations of Differential Privacy", 2014,
               Theorem 2.2.
            .. [2] M. Bun, T. Steinke, "Concentrated Differential Privacy", TCC 2016, Prop. 1.9.
        """
        # The currency decides, not the norm: Laplace noise that spends rho would grow by k^2, too.
        growth = most_records ** CURRENCIES[self.currency]
        grown: dict[str, Any] = {self.currency: self.budget * growth}
        return replace(self, **grown, most_records=most_records)

    @classmethod
    @abstractmethod
    def scale(cls, moved: Fraction, budget: Fraction) -> float:
        """The parameter of noise that spends ``budget``, rounded up; ``moved`` is as ``norm`` says."""

    @classmethod
    @abstractmethod
    def choice_scale(cls, sensitivity: Fraction, budget: Fraction) -> float:
        r"""The parameter of a choice by the exponential mechanism, in units of its scores, rounded up.

        The probabilities' ratios for two neighbours lie within a range of :math:`2 \Delta / b` on the
        log scale.

        Args:
            sensitivity: :math:`\Delta`, the most that any score moves between neighbours.
        """

    @classmethod
    @abstractmethod
    def stddev(cls, scale: float) -> float:
        """Standard deviation of one draw, in records; never 0."""

    @classmethod
    @abstractmethod
    def draw(cls, noise: Noise, counts: IntArray, scale: float) -> IntArray:
        """The counts with noise of this scale."""

    def __str__(self) -> str:
        """In words, for people.

        >>> str(laplace("0.50", neighbouring="add-remove"))
        'laplace, epsilon 0.5, add-remove'
        """
        return words_of(self.mechanism, self.parameters)


@dataclass(frozen=True, slots=True)
class Laplace(AddedNoise):
    r"""Discrete Laplace noise: scale :math:`b = L_1 / \epsilon` spends :math:`\epsilon` [1]_.

    References:
        .. [1] A. Ghosh, T. Roughgarden, M. Sundararajan, "Universally Utility-maximizing Privacy
           Mechanisms", STOC 2009 (the discrete mechanism).
        .. [2] F. McSherry, K. Talwar, "Mechanism Design via Differential Privacy", FOCS 2007, Theorem 6.
    """

    mechanism: ClassVar = Mechanism.LAPLACE
    currency: ClassVar = "epsilon"
    norm: ClassVar = 1

    epsilon: Decimal

    @classmethod
    def scale(cls, moved: Fraction, budget: Fraction) -> float:
        # Rounded up, not to the nearest float: a smaller scale would spend more than the budget.
        return above(moved / budget)

    @classmethod
    def choice_scale(cls, sensitivity: Fraction, budget: Fraction) -> float:
        r""":math:`2 \Delta / \epsilon` [2]_."""
        return above(2 * sensitivity / budget)

    @classmethod
    def stddev(cls, scale: float) -> float:
        r""":math:`\sqrt{2 q} / (1 - q)` with :math:`q = e^{-1/b}`."""
        # expm1: for a large scale q is near 1, and 1 - q would lose most of its digits.
        return max(sqrt(2 * exp(-1 / scale)) / -expm1(-1 / scale), _LEAST_STDDEV)

    @classmethod
    def draw(cls, noise: Noise, counts: IntArray, scale: float) -> IntArray:
        return noise.laplace(counts, scale)


@dataclass(frozen=True, slots=True)
class Gaussian(AddedNoise):
    r"""Discrete Gaussian noise: :math:`\sigma^2 = L_2^2 / (2 \rho)` spends :math:`\rho` of zCDP [1]_.

    Args:
        delta: At which the card also states an epsilon. It changes no noise.

    References:
        .. [1] C. Canonne, G. Kamath, T. Steinke, "The Discrete Gaussian for Differential Privacy",
           NeurIPS 2020, Theorem 14.
        .. [2] M. Cesar, R. Rogers, "Bounding, Concentrating, and Truncating", ALT 2021, Corollary 8.
    """

    mechanism: ClassVar = Mechanism.GAUSSIAN
    currency: ClassVar = "rho"
    norm: ClassVar = 2

    rho: Decimal
    delta: Decimal | None = None

    def __post_init__(self) -> None:
        AddedNoise.__post_init__(self)
        if self.delta is not None:
            delta_of(str(self.delta))

    @classmethod
    def scale(cls, moved: Fraction, budget: Fraction) -> float:
        return root_above(moved / (2 * budget))

    @classmethod
    def choice_scale(cls, sensitivity: Fraction, budget: Fraction) -> float:
        r""":math:`\Delta / \sqrt{2 \rho}`: a range \eta costs \eta^2 / 8 [2]_."""
        return root_above(sensitivity**2 / (2 * budget))

    @classmethod
    def stddev(cls, scale: float) -> float:
        r"""From :math:`\sigma = 4` on the parameter, to more digits than a float has; below, the sum."""
        if scale >= 4:
            return scale
        # From sigma = 4 on, the discrete law's variance differs from sigma^2 by terms of order exp(-2
        # pi^2 sigma^2), below 1e-130. For smaller sigma, 199 steps reach 49 standard deviations.
        steps = np.arange(1.0, 200.0)
        with np.errstate(over="ignore", under="ignore"):
            weights = np.exp(-((steps / scale) ** 2) / 2)
        stddev = sqrt(2 * float(steps**2 @ weights) / (1 + 2 * float(weights.sum())))
        return max(stddev, _LEAST_STDDEV)

    @classmethod
    def draw(cls, noise: Noise, counts: IntArray, scale: float) -> IntArray:
        return noise.gaussian(counts, scale)


NOISES: tuple[type[AddedNoise], ...] = (Laplace, Gaussian)
"""Every noise on counts; of those with one currency the first is the usual one."""


def usual_noise(currency: str, offered: Collection[Mechanism] = ()) -> Mechanism:
    """The noise that is meant where a budget in this currency is all that is given.

    Args:
        offered: Mechanisms of a policy: if several noises spend this currency, one of these is meant.
    """
    spenders = [noise.mechanism for noise in NOISES if noise.currency == currency]
    return next((mechanism for mechanism in spenders if mechanism in offered), spenders[0])


def noise_names(currency: str) -> str:
    """Name the noises that spend a currency, for people.

    >>> noise_names("rho")
    'Gaussian'
    """
    return " or ".join(one.mechanism.capitalize() for one in NOISES if one.currency == currency)


def laplace(epsilon: Decimal | int | str, *, neighbouring: Neighbouring | str) -> Laplace:
    """Discrete Laplace noise that spends ``epsilon`` over all marginals of a card.

    Raises:
        InvalidInputError, InvalidNumberError: No such relation, or epsilon is out of range.
    """
    return Laplace(neighbouring_of(neighbouring), decimal_of(str(epsilon), "privacy.epsilon"))


def gaussian(
    rho: Decimal | int | str, *, neighbouring: Neighbouring | str, delta: Decimal | str | None = None
) -> Gaussian:
    """Discrete Gaussian noise that spends ``rho`` (zCDP) over all marginals of a card.

    Raises:
        InvalidInputError, InvalidNumberError: No such relation, or a number is out of range.
    """
    relation, budget = neighbouring_of(neighbouring), decimal_of(str(rho), "privacy.rho")
    return Gaussian(relation, budget, None if delta is None else delta_of(str(delta)))


def words_of(mechanism: Mechanism, parameters: Mapping[str, str]) -> str:
    """The name, then each number with its name, then the relation."""
    apart = {"neighbouring", "most_records"}
    numbers = [f"{name} {text}" for name, text in parameters.items() if name not in apart]
    person = [person_words(int(parameters["most_records"]))] if "most_records" in parameters else []
    return ", ".join([mechanism, *numbers, parameters["neighbouring"], *person])


# Ways to measure counts: exactly or transformed, with noise, or by a generator that adds the noise.


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
        currency = next((name for name in reversed(CURRENCIES) if name in given), next(iter(CURRENCIES)))
        return InsideGenerator(noise_with(usual_noise(currency), given))
    return noise_with(mechanism, given)


def noise_with(mechanism: Mechanism, given: Mapping[str, str]) -> AddedNoise:
    """Return what ``privacy_with`` returns, for a mechanism that adds noise; raises the same."""
    noise = next(noise for noise in NOISES if noise.mechanism is mechanism)
    _check_parameters(given, noise)
    values: dict[str, Any] = {
        name: _PARAMETERS[name][0](text, f"privacy.{name}") for name, text in given.items()
    }
    return noise(**values)


_BUDGET = "is required for {}, and allowed for no other mechanism"
_PARAMETERS: Mapping[str, tuple[Callable[[str, str], object], str]] = {
    **dict.fromkeys(CURRENCIES, (decimal_of, _BUDGET)),
    "neighbouring": (neighbouring_of, "is required with noise, and allowed only with noise"),
    "delta": (delta_of, "is allowed for {} only"),
    "most_records": (most_records_of, "is allowed for {} only"),
}
"""Reader of each parameter, and the problem if it is missing or does not belong."""


def _check_parameters(given: Mapping[str, str], kind: type[AddedNoise] | None) -> None:
    required = {} if kind is None else _names(kind)
    for name, (_, problem) in _PARAMETERS.items():
        if required.get(name, False) > (name in given) or (name in given and name not in required):
            owners = [str(noise.mechanism) for noise in NOISES if name in _names(noise)]
            wrong = problem.format(" or ".join(owners))
            budgets = " or ".join(f"{one} ({noise_names(one)} noise)" for one in CURRENCIES)
            advice = f"Give {budgets} together with neighbouring; for exact counts, give none of them."
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
        for name in (one.name for one in fields(self) if one.name != "zeros"):
            lowest = 1 if name == "rounding" else 0
            most = 100 if name.endswith("percent") else _LARGEST
            if not lowest <= getattr(self, name) <= most:
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
    threshold=10, freedom=10, dominance_count=2, dominance_percent=90, remainder_percent=10, rounding=5
)
"""Limits that statistical offices usually set for a table before its release (SACRO's defaults)."""
