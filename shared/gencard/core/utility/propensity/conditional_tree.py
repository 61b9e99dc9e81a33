r"""A conditional inference tree that tells synthetic records from original ones.

A node's attribute is chosen by a test and its cut afterwards, so that many levels are no advantage. With
t = 1 for the synthetic ones of a node's n records and 0 for the others, the permutation test of Strasser
and Weber has a linear statistic T with the conditional expectation and covariance

.. math:: T = \sum_i g(x_i) t_i, \quad E = \bar t \sum_i g(x_i), \quad
   \Sigma = \frac{v}{n - 1} \Big( n \sum_i g(x_i) g(x_i)^T
   - \sum_i g(x_i) \Big( \sum_i g(x_i) \Big)^T \Big), \quad v = \bar t (1 - \bar t)

where g(x) is a number itself, or the indicators of an attribute's levels. As t has one dimension, the
quadratic form is :math:`(T - E)^T \Sigma^+ (T - E) = (n - 1) R^2` with the share R^2 of the variance of
t that least squares on g explain. Its p is that of chi-squared with 1 degree of freedom for a number and
one less than the levels in the node for others; adjusted for k attributes it is :math:`1 - (1 - p)^k`.
The attribute with the smallest p is cut where the standardised :math:`|T - E|` of one side is largest.
The levels of a nominal attribute are cut in the order of their standardised statistics, each against all
others; levels with the same one stay together.

The trees are those of ``ctree`` in the R package party, with the numbers 0 and 1 as its response, but
where two attributes or two cuts are equally good: here the first attribute and the lowest cut are taken,
there rounding and the order of the records decide.

References:
    T. Hothorn, K. Hornik, A. Zeileis, "Unbiased Recursive Partitioning: A Conditional Inference
    Framework", Journal of Computational and Graphical Statistics 15(3), 2006, sections 3 and 4.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from gencard.core.utility.propensity.propensity_cells import Array, Cells, Column

_TRIES = 2
"""Attributes a node tries to cut: the next one where the first leaves too few records, as in party."""

_LEAST_SHARE = 0.01
"""A leaf also has one record more than this share of the node above, as in party."""

_NOTHING = 1e-20
"""A statistic below this is rounding: one record counts more among a million."""

_EQUAL = 1e-9
"""Relative difference of statistics that are equal."""

_STATISTIC_DIGITS = 9
_CONFIDENCE_DIGITS = 14
_RANK_DIGITS = 12

Places = NDArray[np.intp]
Side = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ConditionalTreeSettings:
    """How a tree grows; the defaults are synthpop's, in which no test keeps a node from being split.

    Args:
        leaf: Fewest records of a leaf.
        node: Fewest records of a node that is split.
        confidence: What the largest adjusted 1 - p of a node has to exceed; 0.95 is usual for tests.
    """

    leaf: int = 5
    node: int = 20
    confidence: float = 0.0


def conditional_tree_scores(cells: Cells, synthetic: Array, settings: ConditionalTreeSettings) -> Array:
    """The synthetic share of each cell's leaf.

    Args:
        synthetic: Synthetic records in each cell.
    """
    scores = np.empty(len(synthetic))
    nodes = [np.arange(len(synthetic))]
    while nodes:
        places = nodes.pop()
        totals, theirs = cells.totals[places], synthetic[places]
        side = _side(cells.columns, places, (totals, theirs), settings)
        if side is None:
            scores[places] = theirs.sum() / totals.sum()
        else:
            nodes += [places[side], places[~side]]
    return scores


@dataclass(frozen=True, slots=True, eq=False)
class _Levels:
    """An attribute's levels in a node, those that occur.

    Args:
        held: Which these are, of all.
        totals, synthetic: Records of each.
        numbers: Their numbers, where they are.
    """

    held: Places
    totals: Array
    synthetic: Array
    numbers: Array | None

    @property
    def excess(self) -> Array:
        """T - E of the levels' indicators."""
        return np.asarray(self.synthetic - self.totals * (self.synthetic.sum() / self.totals.sum()))

    def test(self) -> tuple[float, float]:
        """1 - p, not adjusted, and the quadratic form, which decides where every p is 0.

        Both are 0 where there is one level, or all have the same share. Rounded: equals are equal.
        """
        statistic = (self.totals.sum() - 1) * self._explained()
        if statistic < _NOTHING:
            return 0.0, 0.0
        freedom = 1 if self.numbers is not None else len(self.held) - 1
        p_value = float(chdtrc(freedom, statistic))
        return round(1 - p_value, _CONFIDENCE_DIGITS), round(statistic, _STATISTIC_DIGITS)

    def _explained(self) -> float:
        """R^2 of least squares of t."""
        if len(self.held) < 2:
            return 0.0
        deviations = _deviations(self.totals, self.synthetic)
        if self.numbers is None:
            return float(np.sum(self.excess**2 / self.totals) / deviations)
        scaled = self.numbers / np.abs(self.numbers).max()
        centred = scaled - np.average(scaled, weights=self.totals)
        return float((centred @ self.excess) ** 2 / (self.totals @ centred**2) / deviations)

    def cut(self, settings: ConditionalTreeSettings) -> Places | None:
        """The levels of one side; None where no cut leaves enough records or says anything."""
        ranks = np.arange(len(self.held)) if self.numbers is not None else self._ranks()
        ours, theirs = (_sums(ranks, each) for each in (self.totals, self.synthetic))
        strengths = _strengths(ours, theirs, settings.leaf)
        if not len(strengths) or strengths.max() < _NOTHING:
            return None
        last = int(np.argmax(strengths > strengths.max() * (1 - _EQUAL)))
        return self.held[ranks <= last]

    def _ranks(self) -> Places:
        """Of the levels, by their standardised statistics but for a factor that all of them have."""
        rest = self.totals.sum() - self.totals
        standardised = self.excess / np.sqrt(self.totals * rest)
        return np.unique(np.round(standardised, _RANK_DIGITS), return_inverse=True)[1].reshape(-1)


def _side(
    columns: tuple[Column, ...],
    places: Places,
    counts: tuple[Array, Array],
    settings: ConditionalTreeSettings,
) -> Side | None:
    """Which cells of a node go to one side; None for a leaf.

    Args:
        places: The cells.
        counts: Of all and of the synthetic records in each of them.
    """
    totals, synthetic = counts
    if totals.sum() < settings.node or not 0 < synthetic.sum() < totals.sum():
        return None
    levels = [_levels(column, places, counts) for column in columns]
    tests = [each.test() for each in levels]
    for axis in sorted(range(len(columns)), key=tests.__getitem__, reverse=True)[:_TRIES]:
        if tests[axis][0] ** len(columns) <= settings.confidence:
            return None
        cut = levels[axis].cut(settings)
        if cut is not None:
            return np.isin(columns[axis].levels[places], cut)
    return None


def _levels(column: Column, places: Places, counts: tuple[Array, Array]) -> _Levels:
    levels = column.levels[places]
    totals, synthetic = (_sums(levels, each) for each in counts)
    held = np.flatnonzero(totals)
    numbers = None
    if column.numbers is not None:
        numbers = np.empty(len(totals))
        numbers[levels] = column.numbers[places]
        numbers = numbers[held]
    return _Levels(held, totals[held], synthetic[held], numbers)


def _sums(levels: Places, counts: Array) -> Array:
    return np.bincount(levels, counts).astype(np.float64)


def _deviations(totals: Array, synthetic: Array) -> float:
    """The sum of squared deviations of t from its mean, v n."""
    return float(synthetic.sum() * (1 - synthetic.sum() / totals.sum()))


def _strengths(totals: Array, synthetic: Array, leaf: int) -> Array:
    """The squared standardised statistic of each cut; 0 where a side is too small."""
    ours, theirs = np.cumsum(totals), np.cumsum(synthetic)
    (ours, every), (theirs, of_all) = (ours[:-1], ours[-1]), (theirs[:-1], theirs[-1])
    fewest = max(leaf, _LEAST_SHARE * every + 1)
    enough = np.minimum(ours, every - ours) >= fewest
    excess = theirs - ours * (of_all / every)
    scale = _deviations(totals, synthetic) / (every - 1) * ours * (every - ours) / every
    return np.asarray(np.where(enough, excess**2 / scale, 0.0))
