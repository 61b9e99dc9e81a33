"""The conditional distribution of one attribute: a tree whose leaves hold the codes of their records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.boxes.synthpop.scale import Scale
from gencard.boxes.synthpop.tree import LEAF, Growth, Integers, Target, Tree
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain


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
        held, leaves = np.diff(self.starts), self.tree.predictor == LEAF
        ends = (self.starts[0], self.starts[-1]) == (0, len(self.donors))
        return bool(ends and np.all(held >= leaves))


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
    scales: Mapping[str, Scale],
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
    held = np.bincount(leaf, minlength=len(tree.predictor))
    donors = codes[np.lexsort((codes, leaf))].astype(np.int32)
    return donors, np.concatenate([[0], np.cumsum(held)])
