"""A grown tree as plain arrays, so that it can be kept and read without running anything."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEAF = -1
"""The predictor of a node that asks nothing more."""

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
        """Whether every walk from the root ends in a leaf and asks for what there is."""
        arrays = [np.asarray(getattr(self, part.name)) for part in fields(self)]
        shape = self.predictor.shape
        if len(shape) != 1 or not shape[0] or any(a.shape != shape for a in arrays):
            return False
        if any(array.dtype.kind != "i" for array in arrays):
            return False
        inner = np.flatnonzero(self.predictor != LEAF)
        children = np.stack([self.left[inner], self.right[inner]])
        asked = self.predictor[inner]
        return bool(
            np.all((asked >= 0) & (asked < predictors))
            and np.all((children > inner) & (children < shape[0]))
        )


def stump() -> Tree:
    """A root that asks nothing: every record is in one leaf."""
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
    """The nodes that some walk from the root comes to, numbered anew."""
    reached = np.zeros(len(tree.predictor), dtype=np.bool_)
    reached[0] = True
    for node in np.flatnonzero(tree.predictor != LEAF):
        reached[[tree.left[node], tree.right[node]]] |= reached[node]
    number = np.cumsum(reached, dtype=np.int32) - np.int32(1)
    inner = tree.predictor[reached] != LEAF
    left, right = (np.where(inner, number[child[reached]], 0) for child in (tree.left, tree.right))
    return Tree(tree.predictor[reached], tree.cut[reached], left, right)
