"""Decision trees, as plain arrays that can be read without running code; distributions in leaves."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidInputError
from gencard.core.types import FloatArray

LEAF = -1
"""Predictor of a node without a split."""

Integers = NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """Nodes, the root first and children after their parents; each array has shape ``(nodes,)``.

    Args:
        predictor: Number of the predictor that a node asks for, or ``LEAF``.
        cut: Largest place of that predictor that goes left.
        left: Node for places up to the cut.
        right: Node for those above.
    """

    predictor: Integers
    cut: Integers
    left: Integers
    right: Integers

    def leaf_of(self, places: NDArray[Any]) -> NDArray[np.intp]:
        """The leaf of each record, from its predictors' places ``(n, predictors)``: shape ``(n,)``."""
        node = np.zeros(len(places), dtype=np.intp)
        moving = np.flatnonzero(self.predictor[node] != LEAF)
        while len(moving):
            at = node[moving]
            goes_left = places[moving, self.predictor[at]] <= self.cut[at]
            at = np.where(goes_left, self.left[at], self.right[at])
            node[moving] = at
            moving = moving[self.predictor[at] != LEAF]
        return node

    def is_sound(self, predictors: int) -> bool:
        """Whether every path from the root ends in a leaf and uses existing predictors only."""
        arrays = [np.asarray(getattr(self, part.name)) for part in fields(self)]
        shape = self.predictor.shape
        if len(shape) != 1 or not shape[0] or any(a.shape != shape for a in arrays):
            return False
        if any(array.dtype.kind != "i" for array in arrays):
            return False
        inner = np.flatnonzero(self.predictor != LEAF)
        children = np.stack([self.left[inner], self.right[inner]])
        predictor = self.predictor[inner]
        return bool(
            np.all((predictor >= 0) & (predictor < predictors))
            and np.all((children > inner) & (children < shape[0]))
        )


def pruned(tree: Tree, risk: NDArray[np.float64]) -> Tree:
    """Without the splits below which the sum of ``risk`` over the leaves is no less than without them.

    Args:
        risk: Of each node as a leaf, in records: those outside its commonest class.
    """
    least = risk.copy()
    predictor = tree.predictor.copy()
    for node in reversed(range(len(predictor))):
        if predictor[node] != LEAF:
            below = least[tree.left[node]] + least[tree.right[node]]
            if below < risk[node]:
                least[node] = below
            else:
                predictor[node] = LEAF
    # The nodes that can be reached from the root, renumbered.
    is_reachable = np.zeros(len(predictor), dtype=np.bool_)
    is_reachable[0] = True
    for split in np.flatnonzero(predictor != LEAF):
        is_reachable[[tree.left[split], tree.right[split]]] |= is_reachable[split]
    number = np.cumsum(is_reachable, dtype=np.int32) - np.int32(1)
    inner = predictor[is_reachable] != LEAF
    left, right = (np.where(inner, number[child[is_reachable]], 0) for child in (tree.left, tree.right))
    return Tree(predictor[is_reachable], tree.cut[is_reachable], left, right)


_MOST_CLASSES = 64
"""Most classes distinguished when a split is chosen; rarer levels form one class. Leaves keep all."""


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """One attribute of the records that a tree is grown on.

    Args:
        codes: What is drawn: shape ``(n,)``.
        response: What splits are chosen by: numbers from 0 to 1, or classes from 0.
        is_number: Which of the two.
    """

    codes: NDArray[Any]
    response: NDArray[Any]
    is_number: bool

    @property
    def impurity(self) -> float:
        """Impurity of all records: the variance of numbers, the Gini index of classes."""
        if self.is_number:
            return float(self.response.var())
        shares = np.bincount(self.response) / len(self.response)
        return float(1 - shares @ shares)

    def places(self, codes: NDArray[Any], size: int) -> NDArray[np.int64]:
        """An order of a nominal predictor's levels in which few cuts tell its records apart.

        By the mean of the target's numbers; by the first principal component of the shares of its
        classes [1]_, which for two classes is the order of their shares. Levels without a record stand
        where the mean of all records does.

        Args:
            codes: Of the predictor: shape ``(n,)``.
            size: Its number of levels.

        References:
            .. [1] D. Coppersmith, S. J. Hong, J. R. M. Hosking, "Partitioning Nominal Attributes in
               Decision Trees", Data Mining and Knowledge Discovery 3, 1999.
        """
        counts = np.bincount(codes, minlength=size)
        means = self._sums(codes, size) / np.maximum(counts, 1)[:, None]
        off = means - self._sums(np.zeros_like(codes), 1) / len(codes)
        off[counts == 0] = 0
        axis = np.linalg.eigh((off * counts[:, None]).T @ off)[1][:, -1]
        scores = off @ (axis * np.sign(axis[np.argmax(np.abs(axis))]))
        return np.argsort(np.argsort(scores, kind="stable"), kind="stable")

    def _sums(self, codes: NDArray[Any], size: int) -> NDArray[np.float64]:
        """Sum of the numbers, or records of each class, over each level: shape ``(size, columns)``."""
        if self.is_number:
            sums: NDArray[np.float64] = np.bincount(codes, self.response, size).astype(np.float64)
            return sums[:, None]
        classes = int(self.response.max()) + 1
        cells = codes.astype(np.int64) * classes + self.response
        return np.bincount(cells, minlength=size * classes).reshape(size, classes).astype(np.float64)


def nominal(codes: NDArray[Any]) -> Target:
    """Codes that are names."""
    levels, classes, counts = np.unique(codes, return_inverse=True, return_counts=True)
    rank = np.empty(len(levels), dtype=np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(levels))
    return Target(codes, np.minimum(rank, _MOST_CLASSES - 1)[classes], is_number=False)


def numeric(codes: NDArray[Any], numbers: NDArray[np.float64]) -> Target:
    """Codes that stand for numbers, which are put on a scale from 0 to 1."""
    values = numbers[codes]
    low, width = values.min(), np.ptp(values)
    return Target(codes, (values - low) / (width or 1.0), is_number=True)


_DEEPEST = 30
"""Splits from the root to a leaf, as in rpart."""

_FEWEST_LEAVES_TO_SPLIT = 3
"""A node is split if it has this many times the records of the smallest leaf, as in rpart."""


@dataclass(frozen=True, slots=True)
class Growth:
    """When splitting ends; ``options.Options`` says what each of these means."""

    minimum_leaf: int
    complexity: float
    prunes: bool

    def tree(self, places: NDArray[np.float32], target: Target, random_state: int) -> Tree:
        """The tree of a target on its predictors' places.

        Args:
            places: Shape ``(n, predictors)``.
            random_state: Which of equally good splits is taken.

        Raises:
            InvalidInputError: scikit-learn is not installed.
        """
        if np.all(target.response == target.response[0]) or not places.shape[1]:
            zero = np.zeros(1, dtype=np.int32)  # one leaf, which holds every record
            return Tree(np.full(1, LEAF, dtype=np.int32), zero, zero, zero)
        nodes = self._fitted(places, target, random_state).tree_
        inner = nodes.children_left != LEAF
        parts = (
            np.where(inner, nodes.feature, LEAF),
            np.where(inner, np.floor(nodes.threshold), 0),  # between two places: whole numbers
            np.where(inner, nodes.children_left, 0),
            np.where(inner, nodes.children_right, 0),
        )
        tree = Tree(*(part.astype(np.int32) for part in parts))
        if not self.prunes or target.is_number:
            return tree
        commonest = np.asarray(nodes.value)[:, 0, :].max(axis=1)
        return pruned(tree, np.rint(nodes.n_node_samples * (1 - commonest)))

    def _fitted(self, places: NDArray[np.float32], target: Target, random_state: int) -> Any:
        try:
            trees = import_module("sklearn.tree")  # an optional dependency that only a fit needs
        except ModuleNotFoundError:
            problem = "its trees need scikit-learn: pip install 'gencard[utility]'"
            raise InvalidInputError(field="black_box", problem=problem) from None
        kind = "DecisionTreeRegressor" if target.is_number else "DecisionTreeClassifier"
        method = getattr(trees, kind)(
            max_depth=_DEEPEST,
            min_samples_leaf=self.minimum_leaf,
            min_samples_split=max(2, _FEWEST_LEAVES_TO_SPLIT * self.minimum_leaf),
            min_impurity_decrease=self.complexity * target.impurity,
            random_state=random_state,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # many classes in few records
            return method.fit(places, target.response)


# The conditional distribution of one attribute: a tree whose leaves hold the codes of their records.


def places_of(numbers: FloatArray) -> NDArray[np.int64]:
    """Place of each code in the order of the numbers, missing ones before all others.

    So one split tells what is missing from what is not, as synthpop's additional indicator does.
    """
    missing = np.isnan(numbers)
    places = np.empty(len(numbers), dtype=np.int64)
    places[missing] = np.arange(missing.sum())
    places[~missing] = missing.sum() + np.unique(numbers[~missing], return_inverse=True)[1]
    return places


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
        if not shapes or kinds != {"i"}:
            return False
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
    numbers: Mapping[str, FloatArray],
    growth: Growth,
    *,
    random_state: int,
) -> Conditional:
    """Grow a tree on one or more records.

    Predictors that are constant, or order the records as another one does, are left out.

    Args:
        numbers: For each attribute with numbers that of each code, NaN for missing: shape ``(size,)``.
    """
    informative: dict[bytes, tuple[int, Integers]] = {}
    for name in predictors:
        codes = dataset.column(name)
        place = (
            places_of(numbers[name])
            if name in numbers
            else target.places(codes, dataset.domain.size(name))
        )
        column = place[codes]
        if np.any(column != column[0]):
            informative.setdefault(column.tobytes(), (dataset.domain.axis(name), place))
    axes = tuple(axis for axis, _ in informative.values())
    places = tuple(place for _, place in informative.values())
    matrix = placed(dataset.codes, axes, places)
    tree = growth.tree(matrix, target, random_state)
    leaf = tree.leaf_of(matrix)
    donors = target.codes[np.lexsort((target.codes, leaf))].astype(np.int32)
    donor_counts = np.bincount(leaf, minlength=len(tree.predictor))
    starts = np.concatenate([[0], np.cumsum(donor_counts)])
    return Conditional(axes, places, tree, donors, starts)
