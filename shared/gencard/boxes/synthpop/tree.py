"""Decision trees: grown by scikit-learn, kept as plain arrays that can be read without running code."""

import warnings
from dataclasses import dataclass, fields
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.errors import InvalidInputError

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


def stump() -> Tree:
    """A tree of one leaf, which holds every record."""
    zero = np.zeros(1, dtype=np.int32)
    return Tree(np.full(1, LEAF, dtype=np.int32), zero, zero, zero)


def pruned(tree: Tree, risk: NDArray[np.float64]) -> Tree:
    """Without the splits below which the sum of ``risk`` over the leaves is no less than without them.

    Args:
        tree: What was grown.
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
    return _reachable(Tree(predictor, tree.cut, tree.left, tree.right))


def _reachable(tree: Tree) -> Tree:
    """The nodes that can be reached from the root, renumbered."""
    is_reachable = np.zeros(len(tree.predictor), dtype=np.bool_)
    is_reachable[0] = True
    for node in np.flatnonzero(tree.predictor != LEAF):
        is_reachable[[tree.left[node], tree.right[node]]] |= is_reachable[node]
    number = np.cumsum(is_reachable, dtype=np.int32) - np.int32(1)
    inner = tree.predictor[is_reachable] != LEAF
    left, right = (np.where(inner, number[child[is_reachable]], 0) for child in (tree.left, tree.right))
    return Tree(tree.predictor[is_reachable], tree.cut[is_reachable], left, right)


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
    def is_constant(self) -> bool:
        return bool(np.all(self.response == self.response[0]))

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
            target: What it predicts.
            random_state: Which of equally good splits is taken.

        Raises:
            InvalidInputError: scikit-learn is not installed.
        """
        if target.is_constant or not places.shape[1]:
            return stump()
        nodes = self._fitted(places, target, random_state).tree_
        tree = _tree_of(nodes)
        if not self.prunes or target.is_number:
            return tree
        commonest = np.asarray(nodes.value)[:, 0, :].max(axis=1)
        return pruned(tree, np.rint(nodes.n_node_samples * (1 - commonest)))

    def _fitted(self, places: NDArray[np.float32], target: Target, random_state: int) -> Any:
        kind = "DecisionTreeRegressor" if target.is_number else "DecisionTreeClassifier"
        method = getattr(_trees(), kind)(
            max_depth=_DEEPEST,
            min_samples_leaf=self.minimum_leaf,
            min_samples_split=max(2, _FEWEST_LEAVES_TO_SPLIT * self.minimum_leaf),
            min_impurity_decrease=self.complexity * target.impurity,
            random_state=random_state,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # many classes in few records
            return method.fit(places, target.response)


def _trees() -> ModuleType:
    """scikit-learn's trees, an optional dependency that only a fit needs."""
    try:
        return import_module("sklearn.tree")
    except ModuleNotFoundError:
        problem = "its trees need scikit-learn: pip install 'gencard[utility]'"
        raise InvalidInputError(field="black_box", problem=problem) from None


def _tree_of(nodes: Any) -> Tree:
    """Cuts lie between two places, which are whole numbers."""
    inner = nodes.children_left != LEAF
    predictor = np.where(inner, nodes.feature, LEAF)
    threshold = np.where(inner, np.floor(nodes.threshold), 0)
    left, right = (np.where(inner, child, 0) for child in (nodes.children_left, nodes.children_right))
    return Tree(*(array.astype(np.int32) for array in (predictor, threshold, left, right)))
