"""Trees grown by scikit-learn on the places of the predictors' levels."""

import warnings
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.boxes.synthpop.target import Target
from gencard.boxes.synthpop.tree import LEAF, Tree, pruned, stump
from gencard.core.errors import InvalidInputError

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
            warnings.simplefilter("ignore", UserWarning)  # it wonders at many classes in few records
            return method.fit(places, target.response)


def _trees() -> ModuleType:
    """The part of scikit-learn, which only they need who grow a tree."""
    try:
        return import_module("sklearn.tree")
    except ModuleNotFoundError:
        problem = "its trees need scikit-learn: pip install 'gencard[utility]'"
        raise InvalidInputError(field="black_box", problem=problem) from None


def _tree_of(nodes: Any) -> Tree:
    """Cuts lie between two places, which are whole numbers."""
    inner = nodes.children_left != LEAF
    predictor = np.where(inner, nodes.feature, LEAF)
    cut = np.where(inner, np.floor(nodes.threshold), 0)
    left, right = (np.where(inner, child, 0) for child in (nodes.children_left, nodes.children_right))
    return Tree(*(array.astype(np.int32) for array in (predictor, cut, left, right)))
