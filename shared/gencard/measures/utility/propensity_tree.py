r"""A classification tree that tells synthetic records from original ones.

CART with the Gini index: of all splits that leave enough records on either side the one that lowers the
impurity most, numbers at a threshold, nominal attributes with their levels in the order of their
original share in the node, which finds the best of all subsets for two classes (Breiman et al. 1984,
section 4.2.2). A split stays where it lowers the number of misclassified records, less
:math:`\alpha = cp \cdot R(root)` for each further leaf.

What is not worth its price is found as the R package rpart does it: a node is not even split where what
its parent and its sibling leave to be saved is too little. The trees are those of rpart, but where two
cuts are equally good: here the first attribute and the lowest cut are taken, there rounding decides.

References:
    T. Therneau, E. Atkinson, "An Introduction to Recursive Partitioning Using the RPART Routines",
    Mayo Foundation, 1997 and later.
"""

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from gencard.core.types import FloatArray
from gencard.measures.utility.predictors import Cells

_DEEPEST = 30
_LEAST_GAIN = 1e-9

Places = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class TreeSettings:
    """How a tree grows.

    Args:
        leaf: Fewest records of a leaf; three times as many are needed for a split.
        price: cp, the share of the root's misclassified records that a split must save.
    """

    leaf: int = 5
    price: float = 1e-3


def tree_scores(cells: Cells, synthetic: FloatArray, settings: TreeSettings) -> FloatArray:
    """The synthetic share of each cell's leaf."""
    scores = np.empty(len(synthetic))
    _Tree(cells, synthetic, settings).root().fill(scores)
    return scores


@dataclass(slots=True, eq=False)
class _Node:
    """A node of the tree, in records.

    Args:
        places: Its cells.
        share: The synthetic one of its records.
        risk: Records it would misclassify as a leaf.
        worth: How many of them its splits save for each further leaf.
        left: Those that its leaves misclassify.
        splits: How many are below it.
    """

    places: Places
    share: float
    risk: float
    worth: float
    left: float
    splits: int = 0
    children: "tuple[_Node, _Node] | None" = None

    def fill(self, scores: FloatArray) -> None:
        if self.children is None:
            scores[self.places] = self.share
            return
        for child in self.children:
            child.fill(scores)


class _Tree:
    """How it grows."""

    def __init__(self, cells: Cells, synthetic: FloatArray, settings: TreeSettings) -> None:
        self.cells, self.synthetic, self.settings = cells, synthetic, settings
        fewer = min(synthetic.sum(), cells.totals.sum() - synthetic.sum())
        self.alpha = float(settings.price * fewer)

    def root(self) -> _Node:
        return self._grown(np.arange(len(self.synthetic)), inf, 0)

    def _grown(self, places: Places, bound: float, depth: int) -> _Node:
        """The node of these cells with all that is worth its price below it."""
        totals, synthetic = self.cells.totals[places].sum(), self.synthetic[places].sum()
        risk = float(min(synthetic, totals - synthetic))
        node = _Node(places, float(synthetic / totals), risk, self.alpha, risk)
        hope = min(risk, bound)
        if totals < 3 * self.settings.leaf or hope <= self.alpha or depth >= _DEEPEST:
            return node
        side = self._best_split(places)
        if side is not None:
            self._split(node, side, bound, depth)
        return node

    def _split(self, node: _Node, side: NDArray[np.bool_], bound: float, depth: int) -> None:
        hope = min(node.risk, bound)
        one = self._grown(node.places[side], hope - self.alpha, depth + 1)
        hope = max((node.risk - one.left) / (one.splits + 1), node.risk - one.risk)
        other = self._grown(node.places[~side], min(hope, bound) - self.alpha, depth + 1)
        left, splits = _cheapest(node.risk, one, other)
        worth = (node.risk - left) / (splits + 1)
        if worth > self.alpha:
            node.worth, node.left, node.splits = worth, left, splits + 1
            node.children = (one, other)

    def _best_split(self, places: Places) -> NDArray[np.bool_] | None:
        """Which cells go to one side; None where no split leaves enough records or gains anything."""
        totals, synthetic = self.cells.totals[places], self.synthetic[places]
        best, side = _LEAST_GAIN, None
        for column in self.cells.columns:
            levels = column.levels[places]
            counts = _sums(levels, totals)
            occupied = np.flatnonzero(counts)
            ours, theirs = counts[occupied], _sums(levels, synthetic)[occupied]
            order = np.arange(len(occupied))
            if column.numbers is None:
                order = np.argsort((ours - theirs) / ours, kind="stable")
            gains = _gains(ours[order], theirs[order], self.settings.leaf)
            if len(gains) and gains.max() > best + _LEAST_GAIN:
                place = int(np.argmax(gains > gains.max() - _LEAST_GAIN))
                best, side = float(gains[place]), np.isin(levels, occupied[order[: place + 1]])
        return side


def _sums(levels: Places, counts: FloatArray) -> FloatArray:
    return np.bincount(levels, counts).astype(np.float64)


def _gains(totals: FloatArray, synthetic: FloatArray, leaf: int) -> FloatArray:
    """By how much each cut lowers the Gini index, times the records; 0 where a side is too small."""
    ours, theirs = np.cumsum(totals), np.cumsum(synthetic)
    (ours, every), (theirs, of_all) = (ours[:-1], ours[-1]), (theirs[:-1], theirs[-1])
    rest, theirs_rest = every - ours, of_all - theirs
    enough = (ours >= leaf) & (rest >= leaf)
    pure = theirs * (ours - theirs) / ours + theirs_rest * (rest - theirs_rest) / rest
    return np.asarray(np.where(enough, of_all * (every - of_all) / every - pure, 0.0))


def _cheapest(risk: float, one: _Node, other: _Node) -> tuple[float, int]:
    """Misclassified records and splits below a node, once children worth less than it are leaves."""
    parts = {id(node): (node.left, node.splits) for node in (one, other)}
    for node in sorted((one, other), key=lambda child: child.worth):
        left, splits = (sum(each) for each in zip(*parts.values(), strict=True))
        if (risk - left) / (splits + 1) <= node.worth:
            break
        parts[id(node)] = (node.risk, 0)
    left, splits = (sum(each) for each in zip(*parts.values(), strict=True))
    return float(left), int(splits)
