"""What the codes of one attribute mean to a tree: numbers, or names without an order."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.boxes.entry import numbers_of_codes
from gencard.core.domain import Domain
from gencard.core.types import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Scale:
    """The number of each code, NaN for missing: shape ``(size,)``."""

    numbers: FloatArray

    @property
    def places(self) -> NDArray[np.int64]:
        """Place of each code in the order of the numbers, missing ones before all others.

        So one split tells what is missing from what is not, as synthpop's additional indicator does.
        """
        missing = np.isnan(self.numbers)
        places = np.empty(len(self.numbers), dtype=np.int64)
        places[missing] = np.arange(missing.sum())
        places[~missing] = missing.sum() + np.unique(self.numbers[~missing], return_inverse=True)[1]
        return places


def scales_of(values: Mapping[str, tuple[float, ...]], domain: Domain) -> Mapping[str, Scale]:
    """The scales of those attributes of the domain that have numbers.

    Raises:
        InvalidInputError: An attribute has another number of codes.
        InvalidNumberError: A number is infinite, or as good as.
    """
    numbers = {name: numbers_of_codes(values, name, domain.size(name)) for name in domain.attributes}
    return {name: Scale(given) for name, given in numbers.items() if not np.isnan(given).all()}


@dataclass(frozen=True, slots=True, eq=False)
class Density:
    """Draws from the density of an attribute's numbers in place of the numbers themselves.

    Args:
        numbers: That of each code, NaN for missing.
        bandwidth: Standard deviation of the normal noise, in units of the attribute.
    """

    numbers: FloatArray
    bandwidth: float

    def smooth(self, codes: NDArray[Any], rng: np.random.Generator) -> NDArray[np.int64]:
        """The codes whose numbers are nearest to those of ``codes`` plus noise; missing stays."""
        known = np.flatnonzero(~np.isnan(self.numbers))
        order = known[np.argsort(self.numbers[known], kind="stable")]
        sorted_numbers = self.numbers[order]
        middles = sorted_numbers[:-1] + np.diff(sorted_numbers) / 2
        noisy = self.numbers[codes] + self.bandwidth * rng.standard_normal(len(codes))
        nearest = order[np.searchsorted(middles, np.nan_to_num(noisy))]
        return np.where(np.isnan(noisy), codes, nearest)


def density_of(numbers: FloatArray, codes: NDArray[Any]) -> Density:
    r"""The density of the records' numbers, with the bandwidth of Silverman's rule of thumb.

    :math:`0.9 \min(s, \mathrm{IQR} / 1.34) n^{-1/5}` [1]_; the standard deviation :math:`s` alone where
    half of the numbers are the same. Zero where no number is known.

    References:
        .. [1] B. W. Silverman, "Density Estimation for Statistics and Data Analysis", 1986, eq. (3.31).
    """
    known = numbers[codes][~np.isnan(numbers[codes])]
    if not len(known):
        return Density(numbers, 0.0)
    low, high = np.quantile(known, (0.25, 0.75))
    spread = float(known.std())
    robust = float(high - low) / 1.34
    return Density(numbers, 0.9 * (min(spread, robust) if robust else spread) * len(known) ** -0.2)
