"""Original and synthetic records put together, as models that tell them apart see them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset, check_same_domain
from gencard.core.errors import InvalidInputError
from gencard.core.utility.propensity.predictor_matrix import Values, numbers_of

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One attribute of the cells.

    Args:
        levels: Which of its levels each cell has, from 0 without gaps, numbers in ascending order.
        numbers: Of each cell, where it is a number; a missing one is 0.
    """

    levels: NDArray[np.intp]
    numbers: Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The m different records among N, original and synthetic ones.

    Args:
        columns: A number that is missing somewhere has a second column that says where.
        places: The cell of each record, shape ``(N,)``, the synthetic ones first.
        totals: Records of either kind in each cell.
        synthetic: The number of synthetic records.
    """

    columns: tuple[Column, ...]
    places: NDArray[np.intp]
    totals: Array
    synthetic: int

    @property
    def share(self) -> float:
        """Synthetic records by all, c."""
        return self.synthetic / len(self.places)

    def synthetic_counts(self) -> Array:
        """Synthetic records in each cell."""
        return self._counts(self.places[: self.synthetic])

    def permuted_counts(self, *, rng: np.random.Generator) -> Array:
        """The same, had as many of all records at random been the synthetic ones."""
        return self._counts(rng.permutation(self.places)[: self.synthetic])

    def pmse(self, scores: Array) -> float:
        """Mean squared difference of the records' scores from c, given those of the cells."""
        return float(np.sum(self.totals * (scores - self.share) ** 2) / len(self.places))

    def _counts(self, places: NDArray[np.intp]) -> Array:
        return np.bincount(places, minlength=len(self.totals)).astype(np.float64)


def cells_of(original: Dataset, synthetic: Dataset, values: Values) -> Cells:
    """Put the records together.

    Args:
        values: For each attribute that is a number, the number of each code, NaN for missing.

    Raises:
        DomainMismatchError: The domains differ.
        InvalidInputError: A dataset holds no record, there is no attribute, or values do not fit.
        UnknownAttributeError: There are values for an attribute that is not in the domain.
    """
    domain = original.domain
    check_same_domain(domain, synthetic.domain)
    if not (len(original) and len(synthetic) and len(domain)):
        raise InvalidInputError(field="dataset", problem="contains no records or no attributes")
    numbers = {name: numbers_of(name, domain.size(name), values) for name in values}
    stacked = np.vstack([synthetic.codes, original.codes])
    codes, places = np.unique(stacked, axis=0, return_inverse=True)
    columns = (
        column
        for axis, name in enumerate(domain.attributes)
        for column in _columns(codes[:, axis], numbers.get(name))
    )
    totals = np.bincount(places.reshape(-1)).astype(np.float64)
    return Cells(tuple(columns), places.reshape(-1), totals, len(synthetic))


def _columns(codes: NDArray[Any], numbers: Array | None) -> Iterator[Column]:
    if numbers is None:
        yield Column(_ranks(codes))
        return
    found = numbers[codes]
    absent = np.isnan(found)
    filled = np.where(absent, 0.0, found)
    yield Column(_ranks(filled), filled)
    if absent.any():
        yield Column(_ranks(absent), absent.astype(np.float64))


def _ranks(values: NDArray[Any]) -> NDArray[np.intp]:
    return np.unique(values, return_inverse=True)[1].reshape(-1)
