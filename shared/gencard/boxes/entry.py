"""The entry of a built-in black box: description, parameters, claim, privacy, and how it is made."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from math import isfinite, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.blackbox import BlackBox
from gencard.core.card.budget import Claim, Neighbouring, decimal_of, delta_of, neighbouring_of
from gencard.core.card.privacy import AddedNoise, Gaussian, InsideGenerator, Noise, Privacy
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidInputError, InvalidNumberError
from gencard.core.statistics.marginals import count_all
from gencard.core.statistics.noise import noisy_marginal as with_noise
from gencard.core.statistics.noise import rho_of
from gencard.core.statistics.psi import Measurement
from gencard.core.types import FloatArray, IntArray

# The privacy budget of one fit: every noisy marginal and every private choice is paid from it.


GRID = 1 << 10
"""Scores are whole numbers of this part of a record, so that what a record does to them is exact."""

_FINE = 1 << 10
"""Weights of budgets are whole numbers of this part."""

StepProgress = Callable[[float], None]
"""Called with the share of a step that is done, 0 to 1; it may raise, as ``Progress`` may."""


class PrivacyBudget:
    """Budget of the steps of one fit, as exact fractions that add up to the total.

    Laplace: parts of epsilon, noise and choices of pure differential privacy. Gaussian: parts of rho.
    Each step's noise is sized so that it spends its part, rounded towards privacy.
    """

    def __init__(self, privacy: AddedNoise, noise: Noise) -> None:
        self._privacy, self._noise = privacy, noise
        (self.total,) = privacy.parts([1])
        self.remaining = self.total

    @property
    def l1_sensitivity(self) -> int:
        """L1 distance of the counts of a marginal between neighbours: 1, or 2 for replacing a record."""
        return int(self._privacy.moved)

    def stddev(self, part: Fraction) -> float:
        """Standard deviation of the noise on a count, in records, that is measured with this part."""
        return self._privacy.stddev(self._privacy.scale(self._privacy.moved, part))

    def noisy_marginal(self, clique: Clique, counts: NDArray[Any], part: Fraction) -> Measurement:
        """One marginal with noise on every count, zeros included."""
        self._spend(part)
        return with_noise(Measurement(clique, counts), self._privacy, self._noise, part)

    def noisy_marginals(
        self,
        dataset: Dataset,
        cliques: Sequence[Clique],
        part: Fraction,
        progress: StepProgress = lambda _done: None,
    ) -> list[Measurement]:
        r"""Several marginals of a dataset, larger ones with more of the budget.

        With parts in proportion to :math:`n_c^{2/3}`, where :math:`n_c` is the number of cells, Gaussian
        noise has the least expected size over all cells of all of them: that is
        :math:`\sum_c n_c \sigma_c` with :math:`\sum_c 1 / \sigma_c^2` given.

        Args:
            progress: Called before each marginal with the share that is done.
        """
        tables = count_all(dataset, cliques)
        weights = [round(_FINE * float(np.cbrt(counts.size**2))) for counts in tables]
        measurements = []
        for number, (clique, counts) in enumerate(zip(cliques, tables, strict=True)):
            progress(number / len(cliques))
            share = part * Fraction(weights[number], sum(weights))
            measurements.append(self.noisy_marginal(clique, counts, share))
        return measurements

    def choose(self, scores: IntArray, sensitivity: int, part: Fraction) -> int:
        """A position, more likely where the score is higher: the exponential mechanism.

        Args:
            sensitivity: The most that any score moves between neighbours.
        """
        self._spend(part)
        scale = self._privacy.choice_scale(Fraction(sensitivity), part)
        return self._noise.choose(np.asarray(scores, dtype=np.int64), scale)

    def _spend(self, part: Fraction) -> None:
        if not 0 < part <= self.remaining:
            raise AssertionError("a step exceeds the remaining privacy budget")
        self.remaining -= part


def misfit(counts: NDArray[Any], expected: NDArray[np.float64]) -> int:
    """L1 distance of a marginal from what a model expects, both in records; in units of 1 / ``GRID``.

    The expectation is rounded to the grid, so one record more moves the distance by ``GRID`` at most,
    without any rounding.
    """
    return int(np.abs(counts * GRID - np.rint(expected * GRID).astype(np.int64)).sum())


Parameters = Mapping[str, str]
"""Names and values, as a card holds them: decimals and words."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Inputs of a built-in box besides its parameters; all are public except the noise.

    Args:
        values: For each ordered attribute the number that each of its codes stands for, NaN for missing.
            An attribute that is not here is nominal.
        noise: The source of privacy noise; None for boxes without a privacy guarantee.
    """

    workload: tuple[Clique, ...] = ()
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    noise: Noise | None = None


@dataclass(frozen=True, slots=True)
class BoxEntry:
    """The public facts of a built-in black box, and its constructor.

    Args:
        parameters: Every parameter with its default.
        make: Makes the box from complete parameters; raises typed errors for values out of range.
        extra: The optional part of Gencard that it needs, such as "deep"; else empty.
        privacy: What one fit spends with these parameters, in the currency in which fits add up; None
            where nothing is promised. A box with a privacy is of tier private.
        within_workload: Whether a fit reads only marginals inside cliques of the workload.
        check: With parameters, workload and domain: raises TooLargeError or ModelTooLargeError where a
            fit would, for a reason that depends on no record.
        version: Of the algorithm. It rises when the same records, parameters and seed give other rows,
            or rows of another distribution, and only then.
        libraries: Distributions that it computes with, besides numpy and scipy.
    """

    description: str
    parameters: Parameters
    claim: Callable[[Parameters], Claim]
    make: Callable[[Parameters, Surroundings], BlackBox]
    extra: str = ""
    privacy: Callable[[Parameters], Privacy | None] = lambda _: None
    within_workload: bool = False
    check: Callable[[Parameters, tuple[Clique, ...], Domain], None] = lambda *_: None
    version: int = 1
    libraries: tuple[str, ...] = ("opendp",)


APPROXIMATE: Parameters = {"epsilon": "1", "delta": "0.000001", "neighbouring": Neighbouring.ADD_REMOVE}
"""Defaults of boxes with an (epsilon, delta) guarantee."""


def approximate(parameters: Parameters) -> Gaussian:
    """The rho of zCDP that satisfies the (epsilon, delta) of the parameters.

    Raises:
        InvalidInputError, InvalidNumberError: No such relation, or a number is out of range.
    """
    epsilon = decimal_of(parameters["epsilon"], "epsilon")
    delta = delta_of(parameters["delta"], "delta")
    relation = neighbouring_of(parameters["neighbouring"])
    rho = rho_of(epsilon, delta)
    if not rho:
        raise InvalidNumberError(field="epsilon", expected="larger, at this delta")
    return Gaussian(relation, rho, delta)


def approximate_privacy(parameters: Parameters) -> Privacy:
    """Return the privacy that a fit with ``approximate(parameters)`` spends: rho, which its steps share.

    Epsilon and delta follow from rho; the sum of rhos bounds several fits more closely than any sum of
    (epsilon, delta), and needs no delta in the ledger. Raises the same.
    """
    return InsideGenerator(approximate(parameters))


def approximate_claim(parameters: Parameters) -> Claim:
    """That of a fit with ``approximate(parameters)``; raises the same."""
    privacy = approximate(parameters)
    return Claim(
        f"All measurements and choices of one fit together keep {privacy.rho}-zCDP, and so epsilon and "
        f"delta, for neighbours by {privacy.neighbouring}; the number of records is "
        + ("not public." if privacy.neighbouring is Neighbouring.ADD_REMOVE else "the same for both."),
        Decimal(parameters["epsilon"]),
        privacy.delta or Decimal(0),
        privacy.neighbouring,
    )


def noise_of(surroundings: Surroundings) -> Noise:
    """The noise source; raises InvalidInputError where there is none."""
    if surroundings.noise is None:
        raise InvalidInputError(field="noise", problem="a source of noise is required")
    return surroundings.noise


def whole(parameters: Parameters, name: str, least: int, most: int) -> int:
    """A whole number; raises InvalidNumberError where it is none or out of range."""
    text = parameters[name]
    if text.isascii() and text.isdigit() and len(text) <= 18 and least <= int(text) <= most:
        return int(text)
    raise InvalidNumberError(field=name, expected=f"a whole number from {least} to {most}")


_LARGEST = 1e100
"""Bound on a number of a code, so that squares are finite."""

_MOST_LAYERS = 8
_MOST_UNITS = 10_000


def rate(parameters: Parameters, name: str) -> float:
    """A learning rate; raises InvalidNumberError where it is none."""
    try:
        number = float(parameters[name])
    except ValueError:
        number = 0.0
    if isfinite(number) and 0 < number <= 1:
        return number
    raise InvalidNumberError(field=name, expected="above 0 and at most 1")


def layers(parameters: Parameters, name: str) -> tuple[int, ...]:
    """Units of each layer; raises InvalidNumberError where a number is none or out of range."""
    parts = parameters[name].split(",")
    if len(parts) > _MOST_LAYERS:
        raise InvalidNumberError(field=name, expected=f"a list of at most {_MOST_LAYERS} layer sizes")
    return tuple(whole({name: part.strip()}, name, 1, _MOST_UNITS) for part in parts)


def numbers_of_codes(values: Mapping[str, tuple[float, ...]], name: str, size: int) -> FloatArray:
    """The number of each code of an attribute, shape ``(size,)``; NaN for missing, all NaN if nominal.

    Raises:
        InvalidInputError: The attribute has another number of codes.
        InvalidNumberError: A number is infinite, or so large that its square is.
    """
    numbers = np.array(values.get(name, (nan,) * size), dtype=np.float64)
    if numbers.shape != (size,):
        raise InvalidInputError(field=f"values of '{name}'", problem="needs one number for each code")
    if np.any(np.abs(numbers) > _LARGEST):
        raise InvalidNumberError(field=f"a value of '{name}'", expected=f"at most {_LARGEST}, or NaN")
    return numbers
