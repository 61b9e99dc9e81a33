"""The conditional distribution of one attribute: a tree whose leaves hold the codes of their records.

A ``TreeScale`` says what the codes of an attribute mean to a tree: numbers, or names without an order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.boxes.entry import numbers_of_codes
from gencard.boxes.synthpop.tree import LEAF, Growth, Integers, Target, Tree
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.types import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class TreeScale:
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


def scales_of(values: Mapping[str, tuple[float, ...]], domain: Domain) -> Mapping[str, TreeScale]:
    """The scales of those attributes of the domain that have numbers.

    Raises:
        InvalidInputError: An attribute has another number of codes.
        InvalidNumberError: A number is infinite, or as good as.
    """
    numbers = {name: numbers_of_codes(values, name, domain.size(name)) for name in domain.attributes}
    return {
        name: TreeScale(level_numbers)
        for name, level_numbers in numbers.items()
        if not np.isnan(level_numbers).all()
    }


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


@dataclass(frozen=True, slots=True, eq=False)
class Conditional:
    """Codes are drawn from the records of the leaf that the predictors lead to.

    Args:
        predictors: Their axes in the domain.
        places: For each predictor, the place of each of its codes: shape ``(size,)``.
        tree: Splits on places.
        donors: Codes of the records, leaf by leaf, in ascending order within one.
        starts: Where the donors of each node begin, and at the end their number: shape ``(nodes + 1,)``.
    """

    predictors: tuple[int, ...]
    places: tuple[Integers, ...]
    tree: Tree
    donors: Integers
    starts: Integers

    def draw(self, codes: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        """One code for each record, given all ``codes`` of shape ``(n, d)``: shape ``(n,)``."""
        leaf = self.tree.leaf_of(placed(codes, self.predictors, self.places))
        return self.donors[rng.integers(self.starts[leaf], self.starts[leaf + 1])]

    def is_sound(self, domain: Domain) -> bool:
        """Whether it can draw, provided that its predictors are axes of the domain."""
        sizes = [(domain.sizes[axis],) for axis in self.predictors]
        if [places.shape for places in self.places] != sizes:
            return False
        if not self.tree.is_sound(len(self.predictors)):
            return False
        shapes = (self.starts.shape, self.donors.ndim) == ((len(self.tree.predictor) + 1,), 1)
        kinds = {array.dtype.kind for array in (self.starts, self.donors, *self.places)}
        return shapes and kinds == {"i"} and self._has_donors()

    def _has_donors(self) -> bool:
        donor_counts, leaves = np.diff(self.starts), self.tree.predictor == LEAF
        ends = (self.starts[0], self.starts[-1]) == (0, len(self.donors))
        return bool(ends and np.all(donor_counts >= leaves))


def placed(codes: NDArray[Any], axes: Sequence[int], places: Sequence[Integers]) -> NDArray[np.float32]:
    """The predictors' places, which a float of 4 bytes holds exactly: shape ``(n, predictors)``."""
    matrix = np.empty((len(codes), len(axes)), dtype=np.float32, order="F")
    for column, (axis, place) in enumerate(zip(axes, places, strict=True)):
        matrix[:, column] = place[codes[:, axis]]
    return matrix


def conditional(
    dataset: Dataset,
    target: Target,
    predictors: Clique,
    scales: Mapping[str, TreeScale],
    growth: Growth,
    *,
    random_state: int,
) -> Conditional:
    """Grow a tree on one or more records.

    Predictors that are constant, or order the records as another one does, are left out.

    Args:
        dataset: The records.
        target: Of the same records.
        predictors: Attributes that the tree may split on.
        scales: Of the attributes that have numbers.
        growth: When splitting ends.
        random_state: Which of equally good splits is taken.
    """
    informative: dict[bytes, tuple[int, Integers]] = {}
    for name in predictors:
        codes = dataset.column(name)
        place = (
            scales[name].places if name in scales else target.places(codes, dataset.domain.size(name))
        )
        column = place[codes]
        if np.any(column != column[0]):
            informative.setdefault(column.tobytes(), (dataset.domain.axis(name), place))
    axes = tuple(axis for axis, _ in informative.values())
    places = tuple(place for _, place in informative.values())
    matrix = placed(dataset.codes, axes, places)
    tree = growth.tree(matrix, target, random_state)
    return Conditional(axes, places, tree, *_donors(tree, tree.leaf_of(matrix), target.codes))


def _donors(tree: Tree, leaf: NDArray[np.intp], codes: NDArray[Any]) -> tuple[Integers, Integers]:
    donor_counts = np.bincount(leaf, minlength=len(tree.predictor))
    donors = codes[np.lexsort((codes, leaf))].astype(np.int32)
    return donors, np.concatenate([[0], np.cumsum(donor_counts)])
